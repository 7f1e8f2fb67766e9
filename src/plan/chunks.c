/* chunks.c - see chunks.h */
#include "plan/chunks.h"

#include <assert.h>
#include <string.h>

#include "base/num.h"

/* ---- cutting ------------------------------------------------------------ */

static int64_t clamp(int64_t x, int64_t lo, int64_t hi)
{
    return num_max(lo, num_min(x, hi));
}

static int64_t chunk_length(const struct attention_config *c, int64_t tokens,
                            int64_t cp)
{
    int64_t most = num_max(tokens, 1);
    int64_t budget = num_max(cp, c->budget_base + c->budget_per_rank * cp);
    int64_t len = num_round_up(num_max(c->block, c->chunk), c->block);

    len = clamp(len, 1, most);
    if (num_ceil_div(tokens, len) > budget) {
        len = num_max(len, num_ceil_div(tokens, budget));
        len = clamp(num_round_up(len, c->block), 1, most);
    }
    if (num_ceil_div(tokens, len) < cp && tokens >= cp)
        len = num_max(1, tokens / cp);
    return len;
}

bool chunks_cut(const struct attention_config *c, int64_t tokens, int64_t cp,
                struct arena *a, struct chunks *out)
{
    int64_t len = chunk_length(c, tokens, cp), i;

    assert(tokens >= 1 && cp >= 1);
    out->n = num_ceil_div(tokens, len);
    out->start = ARENA_TAKE(a, out->n + 1, int64_t);
    if (out->start == NULL) return false;
    for (i = 0; i < out->n; i++) out->start[i] = i * len;
    out->start[out->n] = tokens;
    return true;
}

int64_t chunk_of(const struct chunks *c, int64_t row)
{
    int64_t lo = 0, hi = c->n;

    assert(row >= 0 && row < c->start[c->n]);
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (c->start[mid] <= row)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* ---- pairs -------------------------------------------------------------- */

/* Something that happens to key chunk k when the sweep over query chunks
** reaches row q: once pairs are added to the cell, and from this row on
** every query sees keys more (or fewer) of the chunk's keys. */
struct event { int64_t next, k, once, keys; };

struct sweep {
    struct event *event;
    int64_t n;
    int64_t *first;         /* [chunks] list of events by query chunk, -1 */
};

static void add_event(struct sweep *s, int64_t q, int64_t k, int64_t once,
                      int64_t keys)
{
    s->event[s->n] = (struct event){s->first[q], k, once, keys};
    s->first[q] = s->n++;
}

/* Keys [u, v) of chunk j, seen by the rest of the chunk's own rows in a
** triangle and by all rows [v, end). */
static void add_part(struct sweep *s, struct chunks *c, int64_t j, int64_t u,
                     int64_t v, int64_t end)
{
    int64_t keys = v - u, last = end > v ? chunk_of(c, end - 1) : j;
    int64_t here = num_min(end, c->start[j + 1]) - v;

    c->last[j] = num_max(c->last[j], last);
    add_event(s, j, j, keys * (keys + 1) / 2 + here * keys, 0);
    if (last == j) return;
    if (last > j + 1) add_event(s, j + 1, j, 0, keys);
    add_event(s, last, j, (end - c->start[last]) * keys,
              last > j + 1 ? -keys : 0);
}

static void add_segments(struct sweep *s, struct chunks *c,
                         const struct batch *b, struct plan_work *work)
{
    int64_t i, j = 0;

    for (i = 0; i < b->n_seg; i++) {
        int64_t u = b->seg[i].start, stop = u + b->seg[i].tokens;
        int64_t end = batch_subtree_end(b, i);
        while (u < stop) {
            int64_t v;
            while (c->start[j + 1] <= u) j++;
            v = num_min(stop, c->start[j + 1]);
            add_part(s, c, j, u, v, end);
            work->parts++;
            u = v;
        }
    }
}

/* One row of the table, then its prefix sums. keys[j] is how many keys of
** chunk j every query here sees; once[j] is zero between rows. */
static void sum_row(struct chunks *c, const struct sweep *s, int64_t i,
                    int64_t *keys, int64_t *once)
{
    const int64_t *above = c->sum + i * (i + 1) / 2;
    int64_t *row = c->sum + (i + 1) * (i + 2) / 2;
    int64_t rows = chunk_rows(c, i), total = 0, j, n;

    for (n = s->first[i]; n >= 0; n = s->event[n].next) {
        keys[s->event[n].k] += s->event[n].keys;
        once[s->event[n].k] += s->event[n].once;
    }
    row[0] = 0;
    for (j = 0; j < i; j++) {
        total += keys[j] * rows + once[j];
        row[j + 1] = above[j + 1] + total;
    }
    row[i + 1] = above[i] + total + keys[i] * rows + once[i];
    memset(once, 0, (size_t)(i + 1) * sizeof *once);
}

bool chunks_count_pairs(struct chunks *c, const struct batch *b,
                        struct arena *a, struct plan_work *work)
{
    struct sweep s = {0};
    int64_t i, most = 3 * (b->n_seg + c->n);
    int64_t *keys = ARENA_TAKE(a, c->n, int64_t);
    int64_t *once = ARENA_TAKE(a, c->n, int64_t);

    s.event = ARENA_TAKE(a, most, struct event);
    s.first = ARENA_TAKE(a, c->n, int64_t);
    c->last = ARENA_TAKE(a, c->n, int64_t);
    c->sum = arena_take_raw(a, (c->n + 1) * (c->n + 2) / 2, sizeof *c->sum);
    if (keys == NULL || once == NULL || s.event == NULL || s.first == NULL ||
        c->last == NULL || c->sum == NULL)
        return false;
    c->sum[0] = 0;              /* the rest row by row, below */
    for (i = 0; i < c->n; i++) s.first[i] = -1;
    add_segments(&s, c, b, work);
    for (i = 0; i < c->n; i++) sum_row(c, &s, i, keys, once);
    work->cells += c->n * (c->n + 1) / 2;
    return true;
}
