/* gdn_bucket.c - the buckets of a rank that holds every row: gdn_flow.h */
#include <stdlib.h>

#include "base/num.h"
#include "step/gdn_flow.h"

/* A bucket in the making: columns (one sequence of rows with one initial
** state each) and what they run. */
struct column { int64_t segment, from; };   /* from: column of the parent */

struct maker {
    const struct batch *b;
    struct gdn_flow *f;
    struct column *column;      /* [n_seg] of one bucket */
    int64_t n;
    int64_t *place;             /* [n_seg] column of a segment, or -1 */
};

static bool has_children(const struct batch *b, int64_t i)
{
    return b->seg[i].next > i + 1;
}

/* Rows of a root that run in its own bucket: whole chunks where children
** follow. */
static int64_t own_rows(const struct batch *b, int64_t i)
{
    int64_t n = b->seg[i].tokens;

    if (b->seg[i].depth > 0 || !has_children(b, i)) return n;
    return n / DELTA_CHUNK * DELTA_CHUNK;
}

/* Rows of the root's end that a segment of depth 1 runs first. */
static int64_t tail_rows(const struct batch *b, int64_t i)
{
    int64_t root = b->seg[i].parent;

    if (b->seg[i].depth != 1) return 0;
    return b->seg[root].tokens - own_rows(b, root);
}

static bool first_child(const struct batch *b, int64_t i)
{
    return b->seg[i].parent == i - 1;
}

static void add_run(struct gdn_bucket *k, int64_t start, int64_t len,
                    bool writes)
{
    if (len == 0) return;
    k->run[k->n_run++] = (struct gdn_run){start, len, k->rows, writes};
    k->rows += len;
}

static void add_column(struct maker *w, struct gdn_bucket *k, int64_t i,
                       bool final)
{
    const struct batch *b = w->b;
    int64_t seg = w->column[i].segment, at = k->rows;
    int64_t root = b->seg[seg].parent, tail = tail_rows(b, seg);

    if (tail > 0)
        add_run(k, b->seg[root].start + own_rows(b, root), tail,
                first_child(b, seg));
    add_run(k, b->seg[seg].start, own_rows(b, seg), true);
    k->init[i] = w->column[i].from;
    k->chunks += num_ceil_div(k->rows - at, DELTA_CHUNK);
    k->level->piece[i] = (struct dev_piece){at, k->rows - at, i,
                                            final ? w->n + i : -1};
    w->place[seg] = i;
}

/* Room for n columns; the caller fills them. */
static struct gdn_bucket *bucket_new(struct gdn_flow *f, int64_t n)
{
    size_t size = (size_t)(f->n_bucket + 1) * sizeof *f->bucket;
    struct gdn_bucket *all = realloc(f->bucket, size), *k;

    if (all == NULL) return NULL;
    f->bucket = all;
    k = &all[f->n_bucket++];
    *k = (struct gdn_bucket){.parent = -1, .n_level = 1, .n_kept = n};
    k->run = calloc((size_t)(2 * n), sizeof *k->run);
    k->init = calloc((size_t)n, sizeof *k->init);
    k->level = calloc(1, sizeof *k->level);
    if (k->level != NULL)
        k->level->piece = calloc((size_t)n, sizeof *k->level->piece);
    if (k->run == NULL || k->init == NULL || k->level == NULL ||
        k->level->piece == NULL) return NULL;
    k->level->n_piece = n;
    return k;
}

/* The columns collected in w as a bucket that begins with the states of
** parent (-1: with zeros). */
static int bucket_add(struct maker *w, int64_t parent)
{
    struct gdn_bucket *k;
    bool final = false;
    int64_t i;

    if (w->n == 0) return ERR_OK;
    k = bucket_new(w->f, w->n);
    if (k == NULL) return ERR_RUN;
    k->parent = parent;
    for (i = 0; i < w->n; i++)
        final = final || has_children(w->b, w->column[i].segment);
    k->n_state = final ? 2 * w->n : w->n;
    for (i = 0; i < w->n; i++) add_column(w, k, i, final);
    return ERR_OK;
}

/* Row of the parent bucket's table at which a segment's parent ended. */
static int64_t start_of(const struct maker *w, int64_t i, int64_t parent)
{
    int64_t place = w->b->seg[i].parent < 0 ? -1
                                            : w->place[w->b->seg[i].parent];

    if (parent < 0 || place < 0) return -1;
    return w->f->bucket[parent].n_kept + place;
}

/* Roots with or without children, or the segments of a depth. */
static int add_kind(struct maker *w, int64_t depth, bool parents,
                    int64_t parent)
{
    const struct batch *b = w->b;
    int64_t i;

    w->n = 0;
    for (i = 0; i < b->n_seg; i++) {
        if (b->seg[i].depth != depth) continue;
        if (depth == 0 && has_children(b, i) != parents) continue;
        if (own_rows(b, i) == 0 && tail_rows(b, i) == 0) continue;
        w->column[w->n++] = (struct column){i, start_of(w, i, parent)};
    }
    return bucket_add(w, parent);
}

static int add_all(struct maker *w)
{
    int64_t depth, before, parent = -1;
    int rc = add_kind(w, 0, false, -1);

    for (depth = 0; rc == ERR_OK; depth++) {
        before = w->f->n_bucket;
        rc = add_kind(w, depth, true, parent);
        parent = w->f->n_bucket > before ? before : -1;
        if (depth > 0 && parent < 0) break;
    }
    return rc;
}

int gdn_buckets_make(struct gdn_flow *f, const struct plan *p)
{
    size_t n = (size_t)p->batch->n_seg;
    struct maker w = {.b = p->batch, .f = f};
    int64_t i;
    int rc = ERR_RUN;

    w.column = calloc(n, sizeof *w.column);
    w.place = calloc(n, sizeof *w.place);
    for (i = 0; w.place != NULL && i < p->batch->n_seg; i++)
        w.place[i] = -1;
    if (w.column != NULL && w.place != NULL) rc = add_all(&w);
    free(w.column);
    free(w.place);
    return rc;
}

int gdn_bucket_recorded(struct gdn_flow *f, int64_t rows)
{
    struct gdn_bucket *k;

    if (rows == 0) return ERR_OK;
    k = bucket_new(f, 1);
    if (k == NULL) return ERR_RUN;
    k->run[k->n_run++] = (struct gdn_run){0, rows, 0, true};
    k->rows = rows;
    k->chunks = num_ceil_div(rows, DELTA_CHUNK);
    k->n_state = 1;
    k->init[0] = -1;
    k->level->piece[0] = (struct dev_piece){0, rows, 0, -1};
    return ERR_OK;
}
