/*
** delta_bwd.h - the chunked delta rule backwards (model.md 3.13).
**
** With N = X R as in delta.h some products of 3.13 fall away:
**   dBv = X^T dN, dBk = -dBv S^T, dL = -strict_tril(dBv N^T),
**   dS = gamma dS+ + Q_e^T dO - B_k^T dBv.
** dBv and dO lie above one another as K and Q do, so that one product serves
** both: [dBv; dO] S^T = [-dB_k; dQ_e], [dBv; dO] N^T = [-dL; dP], and
** with M = [beta M1; M2], [dK; dQ] = M K, dK += M^T [K; Q].
** Inside src/dev.
*/
#ifndef DEV_CPU_DELTA_BWD_H
#define DEV_CPU_DELTA_BWD_H

#include "dev/cpu/delta.h"

struct chunk_grad {
    struct chunk t;
    real *g;                    /* [kd, vd]: gradient of the state after */
    real *s;                    /* [chunks, kd, vd]: states before */
    real *dd;                   /* [2C, vd]: dBv, then dO */
    real *dn;                   /* [C, vd]: dN, later dV */
    real *m;                    /* [2C, C]: beta M1, then M2 = dP decay */
    real *dkq;                  /* [2C, kd]: dK, then dQ */
    real *ds;                   /* [2C, kd]: -dB_k, then dQ_e */
    real *ke;                   /* [C, kd]: dK_e */
    real *db, *dbeta;           /* [C] */
};

static int64_t grad_room(int64_t kd, int64_t vd)
{
    return chunk_room(kd, vd) + kd * vd
        + CHUNK * (3 * vd + 5 * kd + 2 * CHUNK + 2);
}

static void grad_share(struct chunk_grad *u, int64_t kd, int64_t vd, real **p)
{
    chunk_share(&u->t, kd, vd, p);
    u->g = take(p, kd * vd);
    u->dd = take(p, 2 * CHUNK * vd);
    u->dn = take(p, CHUNK * vd);
    u->m = take(p, 2 * CHUNK * CHUNK);
    u->dkq = take(p, 2 * CHUNK * kd);
    u->ds = take(p, 2 * CHUNK * kd);
    u->ke = take(p, CHUNK * kd);
    u->db = take(p, CHUNK);
    u->dbeta = take(p, CHUNK);
}

/* Rebuilds a chunk up to N from what forward kept. */
static void grad_load(const struct k_delta_bwd *a, struct chunk *t,
                      const real *state)
{
    column_in(&a->g_cum, t->row, t->c, t->head, t->b);
    column_in(&a->beta, t->row, t->c, t->head, t->beta);
    block_in(&a->x, t->row, t->c, t->head * CHUNK, CHUNK, t->x);
    chunk_load(t, &a->q, &a->k, &a->v, (real)a->scale);
    chunk_values(t, state, t->c);
}

/* dd = [dBv; dO]: dN = P^T dO + K_e dS+, dBv = X^T dN. */
static void grad_values(const struct k_delta_bwd *a, struct chunk_grad *u)
{
    struct chunk *t = &u->t;
    int64_t c = t->c, kd = t->kd, vd = t->vd, i, j;
    real *d_o = u->dd + c * vd, *p = u->m;

    block_in(&a->d_o, t->row, c, t->head * vd, vd, d_o);
    for (i = 0; i < c * c; i++) p[i] = t->p[i] * t->decay[i];
    gemm(c, vd, kd, 1, as_is(t->kq, kd), as_is(u->g, vd), 0, u->dn, vd);
    for (i = 0; i < c; i++)
        for (j = 0; j < vd; j++) u->dn[i * vd + j] *= t->tail[i];
    gemm(c, vd, c, 1, transposed(p, c), as_is(d_o, vd), 1, u->dn, vd);
    gemm(c, vd, c, 1, transposed(t->x, CHUNK), as_is(u->dn, vd), 0, u->dd,
         vd);
}

/* Row i of the two score matrices: from -dL and dP to beta M1 and M2, and
** their part of db and dbeta. A pair (i, j) raises b_i and lowers b_j. */
static void grad_score_row(struct chunk_grad *u, int64_t i)
{
    struct chunk *t = &u->t;
    int64_t c = t->c, j;
    const real *decay = t->decay + i * c;
    const real *kk = t->kk + i * c, *qk = t->p + i * c;
    real *m1 = u->m + i * c, *m2 = m1 + c * c;
    real dbeta = 0, db = 0;

    for (j = 0; j < i; j++) {
        real m = -m1[j] * decay[j], n = m2[j] * decay[j];
        real raised = m * t->beta[i] * kk[j] + n * qk[j];
        dbeta += m * kk[j];
        db += raised;
        u->db[j] -= raised;
        m1[j] = t->beta[i] * m;
        m2[j] = n;
    }
    zero(m1 + i, c - i);
    zero(m2 + i + 1, c - i - 1);    /* the diagonal decays by 1 */
    u->dbeta[i] = dbeta;
    u->db[i] += db;
}

/* The chunk's products: ds, ke, m and from them [dK; dQ]. */
static void grad_products(struct chunk_grad *u, const real *s)
{
    struct chunk *t = &u->t;
    int64_t c = t->c, kd = t->kd, vd = t->vd, i;

    gemm(2 * c, kd, vd, 1, as_is(u->dd, vd), transposed(s, vd), 0, u->ds, kd);
    gemm(c, kd, vd, 1, as_is(t->n, vd), transposed(u->g, vd), 0, u->ke, kd);
    gemm(2 * c, c, vd, 1, as_is(u->dd, vd), transposed(t->n, vd), 0, u->m, c);
    zero(u->db, c);
    for (i = 0; i < c; i++) grad_score_row(u, i);
    gemm(2 * c, kd, c, 1, as_is(u->m, c), as_is(t->kq, kd), 0, u->dkq, kd);
    gemm(c, kd, 2 * c, 1, transposed(u->m, c), as_is(t->kq, kd), 1, u->dkq,
         kd);
}

/* Adds what comes through Q_e, K_e, B_k and B_v to row i of dK, dQ, db and
** dbeta; dV goes to dn. Returns K_e . dK_e, which raises b_C. */
static real grad_row_parts(struct chunk_grad *u, int64_t i)
{
    struct chunk *t = &u->t;
    int64_t c = t->c, kd = t->kd, vd = t->vd, j;
    real eb = t->eb[i], tail = t->tail[i], beta = t->beta[i];
    const real *k = t->kq + i * kd, *q = k + c * kd;
    const real *dbk = u->ds + i * kd, *dqe = dbk + c * kd;  /* -dB_k, dQ_e */
    const real *dke = u->ke + i * kd, *dbv = u->dd + i * vd;
    real *dk = u->dkq + i * kd, *dq = dk + c * kd;
    real kept = tail * dot(k, dke, kd), read = eb * dot(k, dbk, kd);

    u->dbeta[i] += dot(t->v + i * vd, dbv, vd) - read;
    u->db[i] += eb * dot(q, dqe, kd) - kept - beta * read;
    for (j = 0; j < kd; j++) {
        dk[j] += tail * dke[j] - beta * eb * dbk[j];
        dq[j] += eb * dqe[j];
    }
    for (j = 0; j < vd; j++) u->dn[i * vd + j] = beta * dbv[j];
    return kept;
}

/* The gradient of the state before: gamma dS+ + [-B_k; Q_e]^T [dBv; dO].
** The factors of K and Q are put on dBv and dO. */
static void grad_state(struct chunk_grad *u)
{
    struct chunk *t = &u->t;
    int64_t c = t->c, kd = t->kd, vd = t->vd, i, j;

    for (i = 0; i < c; i++) {
        real *dbv = u->dd + i * vd, *d_o = dbv + c * vd;
        for (j = 0; j < vd; j++) {
            dbv[j] *= -t->beta[i] * t->eb[i];
            d_o[j] *= t->eb[i];
        }
    }
    gemm(kd, vd, 2 * c, 1, transposed(t->kq, kd), as_is(u->dd, vd),
         t->eb[c - 1], u->g, vd);
}

static void grad_store(const struct k_delta_bwd *a, struct chunk_grad *u)
{
    struct chunk *t = &u->t;
    int64_t c = t->c, kd = t->kd, vd = t->vd, i;
    real *dq = u->dkq + c * kd;

    for (i = c - 2; i >= 0; i--) u->db[i] += u->db[i + 1];
    for (i = 0; i < c * kd; i++) dq[i] *= (real)a->scale;
    block_out(&a->dk, t->row, c, t->head * kd, kd, u->dkq);
    block_out(&a->dq, t->row, c, t->head * kd, kd, dq);
    block_out(&a->dv, t->row, c, t->head * vd, vd, u->dn);
    column_out(&a->dg, t->row, c, t->head, u->db);
    column_out(&a->dbeta, t->row, c, t->head, u->dbeta);
}

static void delta_bwd_chunk(const struct k_delta_bwd *a, struct chunk_grad *u,
                            const real *s)
{
    struct chunk *t = &u->t;
    int64_t i;
    real last;

    grad_load(a, t, s);
    grad_values(a, u);
    grad_products(u, s);
    last = t->eb[t->c - 1] * dot(u->g, s, t->kd * t->vd);
    for (i = 0; i < t->c; i++) last += grad_row_parts(u, i);
    u->db[t->c - 1] += last;
    grad_state(u);
    grad_store(a, u);
}

static void chunk_at(struct chunk *t, const struct dev_piece *p, int64_t i)
{
    t->row = p->row + i * CHUNK;
    t->c = num_min(CHUNK, p->len - i * CHUNK);
}

/* Forward over the chunks for the states, then backwards. */
static void delta_bwd_piece(const struct k_delta_bwd *a,
                            const struct dev_piece *p, struct chunk_grad *u)
{
    struct chunk *t = &u->t;
    int64_t size = t->kd * t->vd, chunks = num_ceil_div(p->len, CHUNK), i;

    state_begin(&a->states, p->state_in, t->head, size, u->s);
    t->keys_only = true;
    for (i = 0; i + 1 < chunks; i++) {
        real *s = u->s + i * size;
        chunk_at(t, p, i);
        grad_load(a, t, s);
        memcpy(s + size, s, (size_t)size * sizeof *s);
        chunk_advance(t, s + size, t->st);
    }
    t->keys_only = false;
    state_begin(&a->dstates, p->state_out, t->head, size, u->g);
    for (i = chunks - 1; i >= 0; i--) {
        chunk_at(t, p, i);
        delta_bwd_chunk(a, u, u->s + i * size);
    }
    if (p->state_in >= 0)
        axpy(reals(&a->dstates, p->state_in) + t->head * size, 1, u->g, size);
}

static int64_t most_chunks(const struct dev_piece *piece, int64_t n)
{
    int64_t i, most = 1;

    for (i = 0; i < n; i++)
        most = num_max(most, num_ceil_div(piece[i].len, CHUNK));
    return most;
}

static int delta_bwd_views(const struct k_delta_bwd *a, struct err *e)
{
    int64_t rows = a->q.rows, n = a->heads, k = n * a->k_dim;
    int64_t v = n * a->v_dim, size = k * a->v_dim;

    NEED(a->q, rows, k, CPU_FLOAT);
    NEED(a->k, rows, k, CPU_FLOAT);
    NEED(a->v, rows, v, CPU_FLOAT);
    NEED(a->d_o, rows, v, CPU_FLOAT);
    NEED(a->dq, rows, k, CPU_FLOAT);
    NEED(a->dk, rows, k, CPU_FLOAT);
    NEED(a->dv, rows, v, CPU_FLOAT);
    NEED(a->beta, rows, n, CPU_ACC);
    NEED(a->g_cum, rows, n, CPU_ACC);
    NEED(a->dg, rows, n, CPU_ACC);
    NEED(a->dbeta, rows, n, CPU_ACC);
    NEED(a->x, rows, n * CHUNK, CPU_FLOAT);
    if (a->states.p != NULL) NEED(a->states, a->states.rows, size, CPU_ACC);
    if (a->states.p != NULL) NEED(a->dstates, a->states.rows, size, CPU_ACC);
    return ERR_OK;
}

static int k_delta_bwd(struct dev *d, const struct k_delta_bwd *a,
                       struct err *e)
{
    int64_t size = a->k_dim * a->v_dim, states, i;
    struct chunk_grad u = {0};
    real *room;
    int rc = delta_bwd_views(a, e);

    if (rc == ERR_OK)
        rc = delta_check(__func__, a->piece, a->n_piece, a->q.rows,
                         a->states.p ? a->states.rows : 0, e);
    if (rc != ERR_OK) return rc;
    states = most_chunks(a->piece, a->n_piece) * size;
    room = scratch(d, grad_room(a->k_dim, a->v_dim) + states);
    if (room == NULL) return err_nomem(e);
    u.s = take(&room, states);
    grad_share(&u, a->k_dim, a->v_dim, &room);
    for (i = 0; i < a->n_piece; i++)
        for (u.t.head = 0; u.t.head < a->heads; u.t.head++)
            delta_bwd_piece(a, &a->piece[i], &u);
    return ERR_OK;
}

#endif
