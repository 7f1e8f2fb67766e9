/*
** tiles.h - how attention walks over its slices: blocks of query rows, and
** for each the slices that reach into it, cut into blocks of keys.
**
** The query heads that share a key head are stacked: query row t of a block
** becomes the rep rows [t * rep, (t + 1) * rep) of a [rows * rep, d] matrix,
** which is how they lie in memory, and one product serves them all.
** Inside src/dev.
*/
#ifndef DEV_CPU_TILES_H
#define DEV_CPU_TILES_H

#include "base/range.h"
#include "dev/cpu/blas.h"

#define KEY_BLOCK 256

struct attn_shape {
    int64_t heads, kv, rep, d;
    int64_t block;              /* query rows of a block */
};

static struct attn_shape attn_shape(int64_t heads, int64_t kv_heads,
                                    int64_t q_cols)
{
    struct attn_shape s = {heads, kv_heads, 1, 0, 0};

    if (heads > 0 && kv_heads > 0) {
        s.rep = heads / kv_heads;
        s.d = q_cols / heads;
    }
    s.block = num_max(32, num_min(128, 512 / num_max(s.rep, 1)));
    return s;
}

/* The slices that reach into the current block, in their order. */
struct sweep {
    const struct slice *slice;
    int64_t n, next;
    int64_t *active, n_active;
};

/* Moves on to query rows [q0, q1), q0 not below the last call's. */
static void sweep_to(struct sweep *w, int64_t q0, int64_t q1)
{
    int64_t i, kept = 0;

    for (i = 0; i < w->n_active; i++) {
        const struct slice *s = &w->slice[w->active[i]];
        if (s->q + s->n_q > q0) w->active[kept++] = w->active[i];
    }
    while (w->next < w->n && w->slice[w->next].q < q1) {
        const struct slice *s = &w->slice[w->next];
        if (s->q + s->n_q > q0) w->active[kept++] = w->next;
        w->next++;
    }
    w->n_active = kept;
}

/* How many keys of the slice query row i sees. */
static int64_t keys_seen(const struct slice *s, int64_t i)
{
    int64_t n = s->n_k;

    if (s->causal) n = num_min(n, i - s->q + s->diag + 1);
    return num_max(n, 0);
}

/* Rows [*r0, *r1) of block [q0, q1) that see keys of the slice; returns the
** most keys one of them sees. */
static int64_t slice_rows(const struct slice *s, int64_t q0, int64_t q1,
                          int64_t *r0, int64_t *r1)
{
    *r0 = num_max(q0, s->q);
    *r1 = num_min(q1, s->q + s->n_q);
    if (s->causal) *r0 = num_max(*r0, s->q - s->diag);
    return *r0 < *r1 ? keys_seen(s, *r1 - 1) : 0;
}

/* n rows of one key head: in place, or converted into buf. */
static struct factor key_block(const struct mat *m, int64_t r, int64_t n,
                               int64_t head, int64_t d, real *buf)
{
    if (m->t == REAL_TYPE)
        return as_is(reals(m, r) + head * d, m->ld);
    block_in(m, r, n, head * d, d, buf);
    return as_is(buf, d);
}

static struct factor flip(struct factor f)
{
    f.trans = !f.trans;
    return f;
}

/* Slices must lie inside the stage and ascend in q. */
static bool slices_fit(const struct slice *s, int64_t n, int64_t q_rows,
                       int64_t k_rows)
{
    int64_t i;

    for (i = 0; i < n; i++)
        if (s[i].q < 0 || s[i].n_q < 0 || s[i].k < 0 || s[i].n_k < 0
            || s[i].q > q_rows - s[i].n_q || s[i].k > k_rows - s[i].n_k
            || (i > 0 && s[i].q < s[i - 1].q))
            return false;
    return true;
}

static int bad_slices(struct err *e, const char *kernel)
{
    return err_set(e, ERR_RUN, "cpu %s: slices leave the stage's rows or do "
                   "not ascend in q", kernel);
}

#endif
