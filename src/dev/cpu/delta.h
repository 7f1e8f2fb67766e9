/*
** delta.h - the gated delta rule in chunks of 64 rows (model.md 2.3.6), one
** piece and head at a time.
**
** With R = diag(beta) V - diag(beta e^b) K S the new values of a chunk are
** N = X R, which is U - W S with one product less: neither U nor W is
** formed. K and Q lie above one another in kq, so that one product serves
** both (K K^T and Q K^T; K S and Q S).
** Inside src/dev.
*/
#ifndef DEV_CPU_DELTA_H
#define DEV_CPU_DELTA_H

#include "dev/cpu/blas.h"

#define CHUNK DELTA_CHUNK

/* One chunk of one head, C rows. */
struct chunk {
    int64_t c, row, head;       /* rows; first row; head */
    int64_t kd, vd;
    bool keys_only;             /* no need of what Q gives */
    real *kq;                   /* [2C, kd]: K, then scale * Q */
    real *v;                    /* [C, vd] */
    real *beta, *b;             /* [C]: b = sum of g in the chunk so far */
    real *eb, *tail;            /* e^b, e^(b_C - b) */
    real *kk, *p;               /* [2C, C]: K K^T, then Q K^T; p = kk + C C */
    real *decay;                /* [C, C]: e^(b_i - b_j), 0 above */
    real *x;                    /* [C, CHUNK]: (I + L)^-1 */
    real *n;                    /* [C, vd] */
    real *st;                   /* [2C, vd]: K S, then Q S */
};

/* Reals that chunk_share hands out. */
static int64_t chunk_room(int64_t kd, int64_t vd)
{
    return CHUNK * (2 * kd + 4 * vd + 4 * CHUNK + 4);
}

static real *take(real **p, int64_t n)
{
    real *mine = *p;

    *p += n;
    return mine;
}

static void chunk_share(struct chunk *t, int64_t kd, int64_t vd, real **p)
{
    t->kd = kd;
    t->vd = vd;
    t->kq = take(p, 2 * CHUNK * kd);
    t->v = take(p, CHUNK * vd);
    t->n = take(p, CHUNK * vd);
    t->st = take(p, 2 * CHUNK * vd);
    t->kk = take(p, 2 * CHUNK * CHUNK);
    t->decay = take(p, CHUNK * CHUNK);
    t->x = take(p, CHUNK * CHUNK);
    t->beta = take(p, CHUNK);
    t->b = take(p, CHUNK);
    t->eb = take(p, CHUNK);
    t->tail = take(p, CHUNK);
}

/* One column of a [T, heads] view. */
static void column_in(const struct mat *m, int64_t row, int64_t n,
                      int64_t col, real *out)
{
    int64_t i;

    for (i = 0; i < n; i++) out[i] = reals(m, row + i)[col];
}

static void column_out(const struct mat *m, int64_t row, int64_t n,
                       int64_t col, const real *x)
{
    int64_t i;

    for (i = 0; i < n; i++) reals(m, row + i)[col] = x[i];
}

/* Rows of the chunk, the products that need no state, and the decays. b must
** be there. Differences before exponentials: e^-b alone would overflow. */
static void chunk_load(struct chunk *t, const struct mat *q,
                       const struct mat *k, const struct mat *v, real scale)
{
    int64_t c = t->c, kd = t->kd, i, j;
    real *queries = t->kq + c * kd;

    block_in(k, t->row, c, t->head * kd, kd, t->kq);
    block_in(v, t->row, c, t->head * t->vd, t->vd, t->v);
    if (!t->keys_only) {
        block_in(q, t->row, c, t->head * kd, kd, queries);
        for (i = 0; i < c * kd; i++) queries[i] *= scale;
    }
    t->p = t->kk + c * c;
    gemm(t->keys_only ? c : 2 * c, c, kd, 1, as_is(t->kq, kd),
         transposed(t->kq, kd), 0, t->kk, c);
    for (i = 0; i < c; i++) {
        real *row = t->decay + i * c;
        t->eb[i] = exp_of(t->b[i]);
        t->tail[i] = exp_of(t->b[c - 1] - t->b[i]);
        for (j = 0; j <= i; j++) row[j] = exp_of(t->b[i] - t->b[j]);
        zero(row + i + 1, c - i - 1);
    }
}

/* X = (I + L)^-1 by rows: X_i = e_i - sum over j < i of L_ij X_j. */
static void chunk_inverse(struct chunk *t)
{
    int64_t c = t->c, i, j;

    for (i = 0; i < c; i++) {
        real *x = t->x + i * CHUNK;
        zero(x, CHUNK);
        for (j = 0; j < i; j++)
            axpy(x, -t->beta[i] * t->kk[i * c + j] * t->decay[i * c + j],
                 t->x + j * CHUNK, j + 1);
        x[i] = 1;
    }
}

/* N from the state: st = [K; Q] S, or its first rows only; then
** N = X (beta V - beta e^b K S). */
static void chunk_values(struct chunk *t, const real *state, int64_t rows)
{
    int64_t c = t->c, kd = t->kd, vd = t->vd, i, j;

    gemm(rows, vd, kd, 1, as_is(t->kq, kd), as_is(state, vd), 0, t->st, vd);
    for (i = 0; i < c; i++) {
        real *r = t->st + i * vd, *v = t->v + i * vd;
        for (j = 0; j < vd; j++)
            r[j] = t->beta[i] * (v[j] - t->eb[i] * r[j]);
    }
    gemm(c, vd, c, 1, as_is(t->x, CHUNK), as_is(t->st, vd), 0, t->n, vd);
}

/* S = e^(b_C) S + K_e^T N. tmp [C, vd] takes N with the tails. */
static void chunk_advance(struct chunk *t, real *state, real *tmp)
{
    int64_t c = t->c, kd = t->kd, vd = t->vd, i, j;

    for (i = 0; i < c; i++)
        for (j = 0; j < vd; j++)
            tmp[i * vd + j] = t->tail[i] * t->n[i * vd + j];
    gemm(kd, vd, c, 1, transposed(t->kq, kd), as_is(tmp, vd), t->eb[c - 1],
         state, vd);
}

/* O = e^b Q S + P N, written over the Q S part of st. */
static void chunk_output(struct chunk *t)
{
    int64_t c = t->c, vd = t->vd, i, j;
    real *o = t->st + c * vd;

    for (i = 0; i < c * c; i++) t->p[i] *= t->decay[i];
    for (i = 0; i < c; i++)
        for (j = 0; j < vd; j++) o[i * vd + j] *= t->eb[i];
    gemm(c, vd, c, 1, as_is(t->p, c), as_is(t->n, vd), 1, o, vd);
}

static void delta_chunk(const struct k_delta *a, struct chunk *t, real *state)
{
    int64_t i;

    column_in(&a->g, t->row, t->c, t->head, t->b);
    for (i = 1; i < t->c; i++) t->b[i] += t->b[i - 1];
    column_out(&a->g_cum, t->row, t->c, t->head, t->b);
    column_in(&a->beta, t->row, t->c, t->head, t->beta);
    chunk_load(t, &a->q, &a->k, &a->v, (real)a->scale);
    chunk_inverse(t);
    for (i = 0; i < t->c; i++)
        cells_out(&a->x, t->row + i, t->head * CHUNK, CHUNK,
                  t->x + i * CHUNK);
    /* as the backward will see it: rounded to the view's type */
    block_in(&a->x, t->row, t->c, t->head * CHUNK, CHUNK, t->x);
    chunk_values(t, state, 2 * t->c);
    chunk_output(t);
    block_out(&a->o, t->row, t->c, t->head * t->vd, t->vd,
              t->st + t->c * t->vd);
    chunk_advance(t, state, t->st);
}

/* The state a piece starts from. */
static void state_begin(const struct mat *states, int64_t at, int64_t head,
                        int64_t size, real *out)
{
    if (at >= 0) cells_in(states, at, head * size, size, out);
    else zero(out, size);
}

static void delta_piece(const struct k_delta *a, const struct dev_piece *p,
                        struct chunk *t, real *state)
{
    int64_t size = t->kd * t->vd, done;

    state_begin(&a->states, p->state_in, t->head, size, state);
    for (done = 0; done < p->len; done += CHUNK) {
        t->row = p->row + done;
        t->c = num_min(CHUNK, p->len - done);
        delta_chunk(a, t, state);
    }
    if (p->state_out >= 0)
        cells_out(&a->states, p->state_out, t->head * size, size, state);
}

static int delta_check(const char *kernel, const struct dev_piece *piece,
                       int64_t n, int64_t rows, int64_t states, struct err *e)
{
    int64_t i;

    for (i = 0; i < n; i++) {
        const struct dev_piece *p = &piece[i];
        if (p->row < 0 || p->len < 0 || p->row > rows - p->len)
            return cpu_out_of_range(e, kernel, "piece", i, p->row,
                                    rows - p->len + 1);
        if (p->state_in >= states || p->state_out >= states)
            return cpu_out_of_range(e, kernel, "state of piece", i,
                                    num_max(p->state_in, p->state_out),
                                    states);
    }
    return ERR_OK;
}

static int k_delta(struct dev *d, const struct k_delta *a, struct err *e)
{
    int64_t rows = a->q.rows, n = a->heads, i;
    int64_t size = a->k_dim * a->v_dim;
    struct chunk t = {0};
    real *room = scratch(d, chunk_room(a->k_dim, a->v_dim) + size), *state;

    NEED(a->q, rows, n * a->k_dim, CPU_FLOAT);
    NEED(a->k, rows, n * a->k_dim, CPU_FLOAT);
    NEED(a->v, rows, n * a->v_dim, CPU_FLOAT);
    NEED(a->o, rows, n * a->v_dim, CPU_FLOAT);
    NEED(a->g, rows, n, CPU_ACC);
    NEED(a->beta, rows, n, CPU_ACC);
    NEED(a->g_cum, rows, n, CPU_ACC);
    NEED(a->x, rows, n * CHUNK, CPU_FLOAT);
    if (a->states.p != NULL)
        NEED(a->states, a->states.rows, n * size, CPU_ACC);
    i = delta_check(__func__, a->piece, a->n_piece, rows,
                    a->states.p ? a->states.rows : 0, e);
    if (i != ERR_OK) return (int)i;
    if (room == NULL) return err_nomem(e);
    state = take(&room, size);
    chunk_share(&t, a->k_dim, a->v_dim, &room);
    for (i = 0; i < a->n_piece; i++)
        for (t.head = 0; t.head < n; t.head++)
            delta_piece(a, &a->piece[i], &t, state);
    return ERR_OK;
}

#endif
