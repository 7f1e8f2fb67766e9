/* series.c - see series.h */
#include "snapshot/series.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* Groups of blocks, numbered as they are met. */
struct groups {
    const struct account *a;
    const struct account_ask *ask;
    enum compose_by by;
    char **key;             /* owned */
    uint64_t *now, *most;
    int64_t n, cap;
    int64_t *slot;          /* by key: number plus 1 */
    size_t cap_slot;
    int64_t *of_stack;      /* cache: number plus 1 */
};

static uint64_t hash(const char *s)
{
    uint64_t h = hash_text(HASH_START, s);

    return h ^ h >> 29;
}

/* Each array grows for itself: what was grown stays good on failure. */
static bool more_groups(struct groups *g)
{
    int64_t cap = g->cap > 0 ? 2 * g->cap : 64;
    char **key = realloc(g->key, (size_t)cap * sizeof *key);
    uint64_t *now, *most;
    int64_t *slot;

    if (key != NULL) g->key = key;
    now = realloc(g->now, (size_t)cap * sizeof *now);
    if (now != NULL) g->now = now;
    most = realloc(g->most, (size_t)cap * sizeof *most);
    if (most != NULL) g->most = most;
    slot = calloc(2 * (size_t)cap, sizeof *slot);
    if (key == NULL || now == NULL || most == NULL || slot == NULL) {
        free(slot);
        return false;
    }
    free(g->slot);
    g->slot = slot;
    g->cap = cap;
    g->cap_slot = 2 * (size_t)cap;
    for (int64_t i = 0; i < g->n; i++) {
        size_t at = hash(g->key[i]) & (g->cap_slot - 1);

        while (slot[at] != 0) at = (at + 1) & (g->cap_slot - 1);
        slot[at] = i + 1;
    }
    return true;
}

/* The number of a key; -1: no host memory. */
static int64_t number_of(struct groups *g, const char *key)
{
    size_t at;

    if (g->n == g->cap && !more_groups(g)) return -1;
    at = hash(key) & (g->cap_slot - 1);
    for (; g->slot[at] != 0; at = (at + 1) & (g->cap_slot - 1))
        if (strcmp(g->key[g->slot[at] - 1], key) == 0)
            return g->slot[at] - 1;
    g->key[g->n] = strdup(key);
    if (g->key[g->n] == NULL) return -1;
    g->now[g->n] = g->most[g->n] = 0;
    g->slot[at] = ++g->n;
    return g->n - 1;
}

/* What a block's group is does not change; most have it from their stack. */
static int64_t group_of(struct groups *g, const struct live_block *b)
{
    bool by_stack = b->stack != 0 && g->by != BY_SIZE && g->by != BY_STREAM
                 && g->by != BY_POOL && b->category == 0;
    char key[512];
    int64_t i;

    if (by_stack && g->of_stack[b->stack] != 0)
        return g->of_stack[b->stack] - 1;
    compose_key(g->a->s, g->by, g->ask->patterns, b, b->event, key,
                sizeof key);
    i = number_of(g, key);
    if (by_stack && i >= 0) g->of_stack[b->stack] = i + 1;
    return i;
}

/* ---- over the trace ----------------------------------------------------- */

/* Adds a block, or takes it away; false: no host memory. */
static bool count(struct groups *g, const struct live_block *b, bool gone)
{
    int64_t i = group_of(g, b);

    if (i < 0) return false;
    if (gone) {
        g->now[i] -= b->size;
        return true;
    }
    g->now[i] += b->size;
    if (g->now[i] > g->most[i]) g->most[i] = g->now[i];
    return true;
}

typedef void moment_seen(void *ctx, int64_t event);

/* Goes through the trace; seen after the start (-1) and each event. */
static int pass(struct groups *g, moment_seen *seen, void *ctx,
                struct err *e)
{
    const struct account *a = g->a;
    struct live_block gone;
    struct live l;
    bool ok = live_start(&l, a->s, &a->start, &a->walk);

    if (g->n > 0) memset(g->now, 0, (size_t)g->n * sizeof *g->now);
    for (int64_t i = 0; ok && i < l.n; i++) ok = count(g, &l.block[i], false);
    if (ok && seen != NULL) seen(ctx, -1);
    for (int64_t i = 0; ok && i < a->walk.events; i++) {
        int64_t n = l.n;

        ok = live_step(&l, i, &gone);
        if (ok && gone.size > 0) ok = count(g, &gone, true);
        if (ok && l.n > n) ok = count(g, &l.block[l.n - 1], false);
        if (ok && seen != NULL) seen(ctx, i);
    }
    live_free(&l);
    return ok ? ERR_OK : err_nomem(e);
}

/* ---- columns ------------------------------------------------------------ */

struct filling {
    struct series *s;
    const struct groups *g;
    const int *place;       /* of each group in the series */
    int64_t columns, moments;
};

static void see_moment(void *ctx, int64_t event)
{
    struct filling *f = ctx;
    struct series *s = f->s;
    const struct walk *w = &f->g->a->walk;
    uint64_t allocated = event < 0 ? w->initial.allocated
                                   : w->allocated[event];
    uint64_t reserved = event < 0 ? w->initial.reserved : w->reserved[event];
    int64_t c = (event + 1) * f->columns / f->moments;
    uint64_t *to = &s->bytes[c * s->n_group];

    if (reserved > s->reserved[c]) s->reserved[c] = reserved;
    if (s->event[c] != -2 && allocated <= s->allocated[c]) return;
    s->event[c] = event;
    s->allocated[c] = allocated;
    memset(to, 0, (size_t)s->n_group * sizeof *to);
    for (int64_t i = 0; i < f->g->n; i++) to[f->place[i]] += f->g->now[i];
}

struct rank { uint64_t most; int64_t i; };

static int by_most(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;

    if (x->most != y->most) return x->most < y->most ? 1 : -1;
    return x->i < y->i ? -1 : 1;
}

/* Gives the largest groups places of their own. */
static bool choose(struct series *s, const struct groups *g, int *place)
{
    struct rank *r = calloc((size_t)g->n + 1, sizeof *r);

    if (r == NULL) return false;
    for (int64_t i = 0; i < g->n; i++)
        r[i] = (struct rank){g->most[i], i};
    qsort(r, (size_t)g->n, sizeof *r, by_most);
    s->n_group = g->n > SERIES_MOST ? SERIES_MOST + 1 : (int)g->n;
    for (int64_t k = 0; k < g->n; k++) {
        int at = k < s->n_group ? (int)k : s->n_group - 1;
        bool other = g->n > SERIES_MOST && k >= SERIES_MOST;

        place[r[k].i] = at;
        if (other && s->key[at] != NULL) continue;
        s->key[at] = strdup(other ? "(other)" : g->key[r[k].i]);
        s->most[at] = r[k].most;
        if (s->key[at] == NULL) break;
    }
    free(r);
    return s->n_group == 0 || s->key[s->n_group - 1] != NULL;
}

static bool make_room(struct series *s, int64_t columns)
{
    size_t n = (size_t)columns;

    s->n = columns;
    s->event = malloc(n * sizeof *s->event);
    s->allocated = calloc(n, sizeof *s->allocated);
    s->reserved = calloc(n, sizeof *s->reserved);
    s->bytes = calloc(n * (size_t)(s->n_group + 1), sizeof *s->bytes);
    if (s->event == NULL || s->allocated == NULL || s->reserved == NULL
        || s->bytes == NULL)
        return false;
    for (int64_t i = 0; i < columns; i++) s->event[i] = -2;
    return true;
}

/* A second pass, when it is known which groups are large enough for a band. */
static int fill(struct series *s, struct groups *g, int64_t columns,
                struct err *e)
{
    int64_t moments = g->a->walk.events + 1;
    int *place = calloc((size_t)g->n + 1, sizeof *place);
    struct filling f = {s, g, place, columns < moments ? columns : moments,
                        moments};
    int rc = ERR_OK;

    if (place == NULL || !choose(s, g, place) || !make_room(s, f.columns))
        rc = err_nomem(e);
    if (rc == ERR_OK) rc = pass(g, see_moment, &f, e);
    for (int64_t c = 0; rc == ERR_OK && g->n > SERIES_MOST && c < s->n; c++) {
        uint64_t other = s->bytes[c * s->n_group + SERIES_MOST];

        if (c == 0 || other > s->most[SERIES_MOST])
            s->most[SERIES_MOST] = other;
    }
    free(place);
    return rc;
}

int series_make(const struct account *a, const struct account_ask *ask,
                int64_t columns, struct series *out, struct err *e)
{
    struct groups g = {.a = a, .ask = ask,
                       .by = ask->by == BY_AGE ? BY_FRAME : ask->by};
    struct series s = {0};
    int rc = ERR_OK;

    g.of_stack = calloc((size_t)a->s->stacks.n_stack + 1,
                        sizeof *g.of_stack);
    if (g.of_stack == NULL) rc = err_nomem(e);
    if (rc == ERR_OK) rc = pass(&g, NULL, NULL, e);
    if (rc == ERR_OK) rc = fill(&s, &g, columns, e);
    for (int64_t i = 0; i < g.n; i++) free(g.key[i]);
    free(g.key);
    free(g.now);
    free(g.most);
    free(g.slot);
    free(g.of_stack);
    if (rc != ERR_OK) {
        series_free(&s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

void series_free(struct series *s)
{
    for (int i = 0; i < s->n_group; i++) free(s->key[i]);
    free(s->event);
    free(s->allocated);
    free(s->reserved);
    free(s->bytes);
    *s = (struct series){0};
}
