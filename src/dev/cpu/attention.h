/*
** attention.h - attention over slices with an online softmax: scores exist
** one tile at a time (model.md 2.2.4).
** Inside src/dev.
*/
#ifndef DEV_CPU_ATTENTION_H
#define DEV_CPU_ATTENTION_H

#include "dev/cpu/tiles.h"

/* One block of query rows and one key head. */
struct attn_block {
    const struct k_attention *a;
    struct attn_shape s;
    int64_t kv;                 /* key head */
    int64_t q0, q1;
    real *q;                    /* [rows * rep, d], scaled */
    real *o;                    /* sum of e^(s - m) v */
    real *m, *l;                /* running maximum, sum of e^(s - m) */
    real *p;                    /* scores of a tile */
    real *kbuf, *vbuf;
};

/* One row of a tile: scores become weights under the new maximum, what was
** summed before is brought to it. n of the tile's nk keys are seen. */
static void softmax_row(struct attn_block *b, int64_t row, real *p,
                        int64_t n, int64_t nk)
{
    real top, shift, fade;
    int64_t j;

    zero(p + n, nk - n);
    if (n == 0) return;
    top = largest(p, n);
    top = top > b->m[row] ? top : b->m[row];
    /* all scores -inf (or NaN): any shift will do, but inf - inf must not
    ** make NaNs where there are none */
    shift = top == -(real)INFINITY ? 0 : top;
    fade = exp_of(b->m[row] - shift);
    for (j = 0; j < n; j++) p[j] = exp_of(p[j] - shift);
    b->l[row] = b->l[row] * fade + sum(p, n);
    b->m[row] = top;
    if (fade != 1)
        for (j = 0; j < b->s.d; j++) b->o[row * b->s.d + j] *= fade;
}

/* Rows [r0, r1) of the block against keys [k0, k0 + nk) of the slice. */
static void attn_tile(struct attn_block *b, const struct slice *s,
                      int64_t r0, int64_t r1, int64_t k0, int64_t nk)
{
    int64_t rep = b->s.rep, d = b->s.d, first = (r0 - b->q0) * rep;
    int64_t n = (r1 - r0) * rep, i;
    struct factor k = key_block(&b->a->k, s->k + k0, nk, b->kv, d, b->kbuf);
    struct factor v = key_block(&b->a->v, s->k + k0, nk, b->kv, d, b->vbuf);

    gemm(n, nk, d, 1, as_is(b->q + first * d, d), flip(k), 0, b->p, nk);
    for (i = 0; i < n; i++) {
        int64_t seen = num_max(keys_seen(s, r0 + i / rep) - k0, 0);
        softmax_row(b, first + i, b->p + i * nk, num_min(seen, nk), nk);
    }
    gemm(n, d, nk, 1, as_is(b->p, nk), v, 1, b->o + first * d, d);
}

static void attn_begin(struct attn_block *b)
{
    int64_t width = b->s.rep * b->s.d, n = (b->q1 - b->q0) * b->s.rep, i;
    real scale = (real)b->a->scale;

    block_in(&b->a->q, b->q0, b->q1 - b->q0, b->kv * width, width, b->q);
    for (i = 0; i < n * b->s.d; i++) b->q[i] *= scale;
    zero(b->o, n * b->s.d);
    zero(b->l, n);
    for (i = 0; i < n; i++) b->m[i] = -(real)INFINITY;
}

/* Divides by the sums and writes out and lse; rows that saw nothing get 0
** and -inf. */
static void attn_end(struct attn_block *b)
{
    int64_t rep = b->s.rep, d = b->s.d, n = (b->q1 - b->q0) * rep, i, j;

    for (i = 0; i < n; i++) {
        bool none = b->l[i] == 0;
        real part = none ? 0 : 1 / b->l[i];
        for (j = 0; j < d; j++) b->o[i * d + j] *= part;
        reals(&b->a->lse, b->q0 + i / rep)[b->kv * rep + i % rep]
            = none ? -(real)INFINITY : b->m[i] + REAL_FN(log)(b->l[i]);
    }
    block_out(&b->a->out, b->q0, b->q1 - b->q0, b->kv * rep * d, rep * d,
              b->o);
}

static void attn_block(struct attn_block *b, const struct sweep *w)
{
    int64_t i, k0, r0, r1;

    attn_begin(b);
    for (i = 0; i < w->n_active; i++) {
        const struct slice *s = &w->slice[w->active[i]];
        int64_t keys = slice_rows(s, b->q0, b->q1, &r0, &r1);
        for (k0 = 0; k0 < keys; k0 += KEY_BLOCK)
            attn_tile(b, s, r0, r1, k0, num_min(KEY_BLOCK, keys - k0));
    }
    attn_end(b);
}

/* Shares out one scratch buffer. */
static int attn_scratch(struct dev *d, struct attn_block *b, struct sweep *w)
{
    int64_t n = b->s.block * b->s.rep, dim = b->s.d;
    size_t ints = (size_t)num_max(w->n, 1) * sizeof *w->active;
    int64_t count = n * (2 * dim + 2 + KEY_BLOCK) + 2 * KEY_BLOCK * dim;
    char *p = cpu_scratch(d, ints + (size_t)count * sizeof(real));

    if (p == NULL) return ERR_RUN;
    w->active = (int64_t *)(void *)p;
    b->q = (real *)(void *)(p + ints);
    b->o = b->q + n * dim;
    b->m = b->o + n * dim;
    b->l = b->m + n;
    b->p = b->l + n;
    b->kbuf = b->p + n * KEY_BLOCK;
    b->vbuf = b->kbuf + KEY_BLOCK * dim;
    return ERR_OK;
}

static int k_attention(struct dev *d, const struct k_attention *a,
                       struct err *e)
{
    int64_t rows = a->q.rows;
    struct attn_block b = {.a = a, .s = attn_shape(a->heads, a->kv_heads,
                                                   a->q.cols)};
    struct sweep w = {a->slice, a->n_slice, 0, NULL, 0};
    int64_t q_cols = b.s.kv * b.s.rep * b.s.d, kv_cols = b.s.kv * b.s.d;

    NEED(a->q, rows, q_cols, CPU_FLOAT);
    NEED(a->out, rows, q_cols, CPU_FLOAT);
    NEED(a->lse, rows, a->heads, CPU_ACC);
    NEED(a->k, a->k.rows, kv_cols, CPU_FLOAT);
    NEED(a->v, a->k.rows, kv_cols, CPU_FLOAT);
    if (!slices_fit(a->slice, a->n_slice, rows, a->k.rows))
        return bad_slices(e, __func__);
    if (attn_scratch(d, &b, &w) != ERR_OK) return err_nomem(e);
    for (b.q0 = 0; b.q0 < rows; b.q0 = b.q1) {
        b.q1 = num_min(rows, b.q0 + b.s.block);
        sweep_to(&w, b.q0, b.q1);
        for (b.kv = 0; b.kv < b.s.kv; b.kv++) attn_block(&b, &w);
    }
    return ERR_OK;
}

#endif
