/*
** attention_bwd.h - gradients of attention from the saved lse: every tile's
** weights are rebuilt (model.md 3.6).
** Inside src/dev.
*/
#ifndef DEV_CPU_ATTENTION_BWD_H
#define DEV_CPU_ATTENTION_BWD_H

#include "dev/cpu/tiles.h"

/* One block of query rows and one key head. */
struct grad_block {
    const struct k_attention_bwd *a;
    struct attn_shape s;
    int64_t kv;
    int64_t q0, q1;
    real *q, *d_o, *dq;         /* [rows * rep, d]; q scaled */
    real *lse, *delta;          /* per stacked row; delta = dout.out - dlse */
    real *p, *ds;               /* a tile's weights, gradients of scores */
    real *kbuf, *vbuf;
};

/* One row of a tile: weights from scores, and ds = p (dp - delta). */
static void grad_row(real *restrict p, real *restrict ds, real lse,
                     real delta, int64_t n, int64_t nk)
{
    int64_t j;

    if (lse == -(real)INFINITY) n = 0;
    zero(p + n, nk - n);
    zero(ds + n, nk - n);
    for (j = 0; j < n; j++) {
        p[j] = exp_of(p[j] - lse);
        ds[j] = p[j] * (ds[j] - delta);
    }
}

static void grad_tile(struct grad_block *b, const struct slice *s,
                      int64_t r0, int64_t r1, int64_t k0, int64_t nk)
{
    const struct k_attention_bwd *a = b->a;
    int64_t rep = b->s.rep, d = b->s.d, first = (r0 - b->q0) * rep;
    int64_t n = (r1 - r0) * rep, col = b->kv * d, i;
    struct factor k = key_block(&a->k, s->k + k0, nk, b->kv, d, b->kbuf);
    struct factor v = key_block(&a->v, s->k + k0, nk, b->kv, d, b->vbuf);
    struct factor q = as_is(b->q + first * d, d);
    struct factor d_o = as_is(b->d_o + first * d, d);

    gemm(n, nk, d, 1, q, flip(k), 0, b->p, nk);
    gemm(n, nk, d, 1, d_o, flip(v), 0, b->ds, nk);
    for (i = 0; i < n; i++) {
        int64_t seen = num_max(keys_seen(s, r0 + i / rep) - k0, 0);
        grad_row(b->p + i * nk, b->ds + i * nk, b->lse[first + i],
                 b->delta[first + i], num_min(seen, nk), nk);
    }
    gemm(nk, d, n, 1, transposed(b->p, nk), d_o, 1,
         reals(&a->dv, s->k + k0) + col, a->dv.ld);
    gemm(nk, d, n, 1, transposed(b->ds, nk), q, 1,
         reals(&a->dk, s->k + k0) + col, a->dk.ld);
    gemm(n, d, nk, (real)a->scale, as_is(b->ds, nk), k, 1,
         b->dq + first * d, d);
}

/* Loads the block. A row without keys may hold anything in q and dout (0
** times NaN is NaN), so it is cleared. out passes through dq. */
static void grad_begin(struct grad_block *b)
{
    const struct k_attention_bwd *a = b->a;
    int64_t rep = b->s.rep, d = b->s.d, rows = b->q1 - b->q0;
    int64_t width = rep * d, c = b->kv * width, i, j;
    real scale = (real)a->scale;

    block_in(&a->q, b->q0, rows, c, width, b->q);
    block_in(&a->dout, b->q0, rows, c, width, b->d_o);
    block_in(&a->out, b->q0, rows, c, width, b->dq);
    for (i = 0; i < rows * rep; i++) {
        int64_t r = b->q0 + i / rep, h = b->kv * rep + i % rep;
        real *q = b->q + i * d, *d_o = b->d_o + i * d;
        b->lse[i] = reals(&a->lse, r)[h];
        b->delta[i] = dot(d_o, b->dq + i * d, d);
        if (a->dlse.p != NULL) b->delta[i] -= reals(&a->dlse, r)[h];
        for (j = 0; j < d; j++) q[j] *= scale;
        if (b->lse[i] == -(real)INFINITY) {
            zero(q, d);
            zero(d_o, d);
        }
    }
    zero(b->dq, rows * width);
}

static void grad_block(struct grad_block *b, const struct sweep *w)
{
    int64_t width = b->s.rep * b->s.d, i, k0, r0, r1;

    grad_begin(b);
    for (i = 0; i < w->n_active; i++) {
        const struct slice *s = &w->slice[w->active[i]];
        int64_t keys = slice_rows(s, b->q0, b->q1, &r0, &r1);
        for (k0 = 0; k0 < keys; k0 += KEY_BLOCK)
            grad_tile(b, s, r0, r1, k0, num_min(KEY_BLOCK, keys - k0));
    }
    block_out(&b->a->dq, b->q0, b->q1 - b->q0, b->kv * width, width, b->dq);
}

static int grad_scratch(struct dev *d, struct grad_block *b, struct sweep *w)
{
    int64_t n = b->s.block * b->s.rep, dim = b->s.d;
    size_t ints = (size_t)num_max(w->n, 1) * sizeof *w->active;
    int64_t count = n * (3 * dim + 2 + 2 * KEY_BLOCK) + 2 * KEY_BLOCK * dim;
    char *p = cpu_scratch(d, ints + (size_t)count * sizeof(real));

    if (p == NULL) return ERR_RUN;
    w->active = (int64_t *)(void *)p;
    b->q = (real *)(void *)(p + ints);
    b->d_o = b->q + n * dim;
    b->dq = b->d_o + n * dim;
    b->lse = b->dq + n * dim;
    b->delta = b->lse + n;
    b->p = b->delta + n;
    b->ds = b->p + n * KEY_BLOCK;
    b->kbuf = b->ds + n * KEY_BLOCK;
    b->vbuf = b->kbuf + KEY_BLOCK * dim;
    return ERR_OK;
}

static void zero_view(const struct mat *m)
{
    int64_t r;

    for (r = 0; r < m->rows; r++) zero(reals(m, r), m->cols);
}

static int k_attention_bwd(struct dev *d, const struct k_attention_bwd *a,
                           struct err *e)
{
    int64_t rows = a->q.rows;
    struct grad_block b = {.a = a, .s = attn_shape(a->heads, a->kv_heads,
                                                   a->q.cols)};
    struct sweep w = {a->slice, a->n_slice, 0, NULL, 0};
    int64_t q_cols = b.s.kv * b.s.rep * b.s.d, kv_cols = b.s.kv * b.s.d;

    NEED(a->q, rows, q_cols, CPU_FLOAT);
    NEED(a->out, rows, q_cols, CPU_FLOAT);
    NEED(a->dout, rows, q_cols, CPU_FLOAT);
    NEED(a->dq, rows, q_cols, CPU_FLOAT);
    NEED(a->lse, rows, a->heads, CPU_ACC);
    if (a->dlse.p != NULL) NEED(a->dlse, rows, a->heads, CPU_ACC);
    NEED(a->k, a->k.rows, kv_cols, CPU_FLOAT);
    NEED(a->v, a->k.rows, kv_cols, CPU_FLOAT);
    NEED(a->dk, a->k.rows, kv_cols, CPU_ACC);
    NEED(a->dv, a->k.rows, kv_cols, CPU_ACC);
    if (!slices_fit(a->slice, a->n_slice, rows, a->k.rows))
        return bad_slices(e, __func__);
    if (grad_scratch(d, &b, &w) != ERR_OK) return err_nomem(e);
    zero_view(&a->dk);
    zero_view(&a->dv);
    for (b.q0 = 0; b.q0 < rows; b.q0 = b.q1) {
        b.q1 = num_min(rows, b.q0 + b.s.block);
        sweep_to(&w, b.q0, b.q1);
        for (b.kv = 0; b.kv < b.s.kv; b.kv++) grad_block(&b, &w);
    }
    return ERR_OK;
}

#endif
