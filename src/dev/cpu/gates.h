/*
** gates.h - elementwise products with sigmoid and silu, SwiGLU, and the
** gates of the delta net (model.md 2.2.5, 2.3.5, 2.4, 3.7, 3.11, 3.14).
** Inside src/dev.
*/
#ifndef DEV_CPU_GATES_H
#define DEV_CPU_GATES_H

#include "dev/cpu/real.h"

static int k_sigmoid_gate(struct dev *d, const struct k_sigmoid_gate *a,
                          struct err *e)
{
    int64_t rows = a->out.rows, cols = a->out.cols, r, c;
    real *buf = scratch(d, 3 * cols);

    NEED(a->out, rows, cols, CPU_FLOAT);
    NEED(a->o, rows, cols, CPU_FLOAT);
    NEED(a->gate, rows, cols, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        const real *o = row_in(&a->o, r, buf);
        const real *gate = row_in(&a->gate, r, buf + cols);
        real *out = row_out(&a->out, r, buf + 2 * cols);
        for (c = 0; c < cols; c++) out[c] = o[c] * sigmoid(gate[c]);
        row_end(&a->out, r, out);
    }
    return ERR_OK;
}

static int k_sigmoid_gate_bwd(struct dev *d,
                              const struct k_sigmoid_gate_bwd *a,
                              struct err *e)
{
    int64_t rows = a->dout.rows, cols = a->dout.cols, r, c;
    real *buf = scratch(d, 5 * cols);

    NEED(a->dout, rows, cols, CPU_FLOAT);
    NEED(a->o, rows, cols, CPU_FLOAT);
    NEED(a->gate, rows, cols, CPU_FLOAT);
    NEED(a->d_o, rows, cols, CPU_FLOAT);
    NEED(a->dgate, rows, cols, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        const real *dout = row_in(&a->dout, r, buf);
        const real *o = row_in(&a->o, r, buf + cols);
        const real *gate = row_in(&a->gate, r, buf + 2 * cols);
        real *d_o = row_out(&a->d_o, r, buf + 3 * cols);
        real *dgate = row_out(&a->dgate, r, buf + 4 * cols);
        for (c = 0; c < cols; c++) {
            real s = sigmoid(gate[c]);
            d_o[c] = dout[c] * s;
            dgate[c] = dout[c] * o[c] * s * (1 - s);
        }
        row_end(&a->d_o, r, d_o);
        row_end(&a->dgate, r, dgate);
    }
    return ERR_OK;
}

static int k_silu_gate(struct dev *d, const struct k_silu_gate *a,
                       struct err *e)
{
    int64_t rows = a->out.rows, cols = a->out.cols, r, c;
    real *buf = scratch(d, 3 * cols);

    NEED(a->out, rows, cols, CPU_FLOAT);
    NEED(a->a, rows, cols, CPU_FLOAT);
    NEED(a->z, rows, cols, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        const real *x = row_in(&a->a, r, buf);
        const real *z = row_in(&a->z, r, buf + cols);
        real *out = row_out(&a->out, r, buf + 2 * cols);
        for (c = 0; c < cols; c++) out[c] = x[c] * z[c] * sigmoid(z[c]);
        row_end(&a->out, r, out);
    }
    return ERR_OK;
}

static int k_silu_gate_bwd(struct dev *d, const struct k_silu_gate_bwd *a,
                           struct err *e)
{
    int64_t rows = a->dout.rows, cols = a->dout.cols, r, c;
    real *buf = scratch(d, 5 * cols);

    NEED(a->dout, rows, cols, CPU_FLOAT);
    NEED(a->a, rows, cols, CPU_FLOAT);
    NEED(a->z, rows, cols, CPU_FLOAT);
    NEED(a->da, rows, cols, CPU_FLOAT);
    NEED(a->dz, rows, cols, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        const real *dout = row_in(&a->dout, r, buf);
        const real *x = row_in(&a->a, r, buf + cols);
        const real *z = row_in(&a->z, r, buf + 2 * cols);
        real *da = row_out(&a->da, r, buf + 3 * cols);
        real *dz = row_out(&a->dz, r, buf + 4 * cols);
        for (c = 0; c < cols; c++) {
            real s = sigmoid(z[c]);
            da[c] = dout[c] * z[c] * s;
            dz[c] = dout[c] * x[c] * silu_slope(z[c], s);
        }
        row_end(&a->da, r, da);
        row_end(&a->dz, r, dz);
    }
    return ERR_OK;
}

/* ---- SwiGLU ------------------------------------------------------------- */

static int k_swiglu(struct dev *d, const struct k_swiglu *a, struct err *e)
{
    int64_t rows = a->out.rows, cols = a->out.cols, r, c;
    real *buf = scratch(d, 3 * cols);

    NEED(a->out, rows, cols, CPU_FLOAT);
    NEED(a->gu, rows, 2 * cols, CPU_FLOAT);
    if (a->weight.p != NULL) NEED(a->weight, rows, 1, CPU_ACC);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        const real *g = row_in(&a->gu, r, buf), *up = g + cols;
        real *out = row_out(&a->out, r, buf + 2 * cols);
        real w = a->weight.p != NULL ? *reals(&a->weight, r) : 1;
        for (c = 0; c < cols; c++) out[c] = w * g[c] * sigmoid(g[c]) * up[c];
        row_end(&a->out, r, out);
    }
    return ERR_OK;
}

static int k_swiglu_bwd(struct dev *d, const struct k_swiglu_bwd *a,
                        struct err *e)
{
    int64_t rows = a->dout.rows, cols = a->dout.cols, r, c;
    bool weighted = a->weight.p != NULL;
    real *buf = scratch(d, 6 * cols), *h;

    NEED(a->dout, rows, cols, CPU_FLOAT);
    NEED(a->gu, rows, 2 * cols, CPU_FLOAT);
    NEED(a->dgu, rows, 2 * cols, CPU_FLOAT);
    if (weighted) NEED(a->weight, rows, 1, CPU_ACC);
    if (weighted) NEED(a->dweight, rows, 1, CPU_ACC);
    if (buf == NULL) return err_nomem(e);
    h = buf + 5 * cols;
    for (r = 0; r < rows; r++) {
        const real *g = row_in(&a->gu, r, buf), *up = g + cols;
        const real *dout = row_in(&a->dout, r, buf + 2 * cols);
        real *dg = row_out(&a->dgu, r, buf + 3 * cols), *dup = dg + cols;
        real w = weighted ? *reals(&a->weight, r) : 1;
        for (c = 0; c < cols; c++) {
            real s = sigmoid(g[c]);
            h[c] = g[c] * s * up[c];
            dg[c] = w * dout[c] * up[c] * silu_slope(g[c], s);
            dup[c] = w * dout[c] * g[c] * s;
        }
        row_end(&a->dgu, r, dg);
        if (weighted) *reals(&a->dweight, r) = dot(dout, h, cols);
    }
    return ERR_OK;
}

static int k_row_gate(struct dev *d, const struct k_row_gate *a,
                      struct err *e)
{
    int64_t rows = a->out.rows, cols = a->out.cols, r, c;
    real *buf = scratch(d, 2 * cols);

    NEED(a->out, rows, cols, CPU_FLOAT);
    NEED(a->x, rows, cols, CPU_FLOAT);
    NEED(a->logit, rows, 1, CPU_ACC);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        const real *x = row_in(&a->x, r, buf);
        real *out = row_out(&a->out, r, buf + cols);
        real s = sigmoid(*reals(&a->logit, r));
        for (c = 0; c < cols; c++) out[c] = s * x[c];
        row_end(&a->out, r, out);
    }
    return ERR_OK;
}

static int k_row_gate_bwd(struct dev *d, const struct k_row_gate_bwd *a,
                          struct err *e)
{
    int64_t rows = a->dout.rows, cols = a->dout.cols, r, c;
    real *buf = scratch(d, 3 * cols);

    NEED(a->dout, rows, cols, CPU_FLOAT);
    NEED(a->x, rows, cols, CPU_FLOAT);
    NEED(a->dx, rows, cols, CPU_FLOAT);
    NEED(a->logit, rows, 1, CPU_ACC);
    NEED(a->dlogit, rows, 1, CPU_ACC);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        const real *dout = row_in(&a->dout, r, buf);
        const real *x = row_in(&a->x, r, buf + cols);
        real *dx = row_out(&a->dx, r, buf + 2 * cols);
        real s = sigmoid(*reals(&a->logit, r));
        *reals(&a->dlogit, r) = dot(dout, x, cols) * s * (1 - s);
        for (c = 0; c < cols; c++) dx[c] = s * dout[c];
        row_end(&a->dx, r, dx);
    }
    return ERR_OK;
}

/* ---- delta net ---------------------------------------------------------- */

static real softplus(real x)
{
    return x > 20 ? x : REAL_FN(log1p)(REAL_FN(exp)(x));
}

static real softplus_slope(real x)
{
    return x > 20 ? 1 : sigmoid(x);
}

/* rate[0..n) = exp(a_log); returns dt_bias, which follows it. */
static real *decay_rates(const struct mat *a_log, const struct mat *dt_bias,
                         real *rate)
{
    int64_t n = a_log->cols, h;
    real *bias = rate + n;

    cells_in(a_log, 0, 0, n, rate);
    cells_in(dt_bias, 0, 0, n, bias);
    for (h = 0; h < n; h++) rate[h] = REAL_FN(exp)(rate[h]);
    return bias;
}

static int k_gdn_gates(struct dev *d, const struct k_gdn_gates *a,
                       struct err *e)
{
    int64_t rows = a->g.rows, n = a->g.cols, r, h;
    real *buf = scratch(d, 4 * n), *rate = buf, *bias;

    NEED(a->g, rows, n, CPU_ACC);
    NEED(a->beta, rows, n, CPU_ACC);
    NEED(a->a, rows, n, CPU_FLOAT);
    NEED(a->b, rows, n, CPU_FLOAT);
    NEED(a->a_log, 1, n, CPU_FLOAT);
    NEED(a->dt_bias, 1, n, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    bias = decay_rates(&a->a_log, &a->dt_bias, rate);
    for (r = 0; r < rows; r++) {
        const real *x = row_in(&a->a, r, buf + 2 * n);
        const real *b = row_in(&a->b, r, buf + 3 * n);
        real *g = reals(&a->g, r), *beta = reals(&a->beta, r);
        for (h = 0; h < n; h++) {
            g[h] = -rate[h] * softplus(x[h] + bias[h]);
            beta[h] = sigmoid(b[h]);
        }
    }
    return ERR_OK;
}

static int k_gdn_gates_bwd(struct dev *d, const struct k_gdn_gates_bwd *a,
                           struct err *e)
{
    int64_t rows = a->dg.rows, n = a->dg.cols, r, h;
    real *buf = scratch(d, 5 * n), *rate = buf, *bias;

    NEED(a->dg, rows, n, CPU_ACC);
    NEED(a->dbeta, rows, n, CPU_ACC);
    NEED(a->beta, rows, n, CPU_ACC);
    NEED(a->a, rows, n, CPU_FLOAT);
    NEED(a->da, rows, n, CPU_FLOAT);
    NEED(a->db, rows, n, CPU_FLOAT);
    NEED(a->a_log, 1, n, CPU_FLOAT);
    NEED(a->dt_bias, 1, n, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    bias = decay_rates(&a->a_log, &a->dt_bias, rate);
    for (r = 0; r < rows; r++) {
        const real *x = row_in(&a->a, r, buf + 2 * n);
        const real *dg = reals(&a->dg, r), *dbeta = reals(&a->dbeta, r);
        const real *beta = reals(&a->beta, r);
        real *da = row_out(&a->da, r, buf + 3 * n);
        real *db = row_out(&a->db, r, buf + 4 * n);
        for (h = 0; h < n; h++) {
            da[h] = -dg[h] * rate[h] * softplus_slope(x[h] + bias[h]);
            db[h] = dbeta[h] * beta[h] * (1 - beta[h]);
        }
        row_end(&a->da, r, da);
        row_end(&a->db, r, db);
    }
    return ERR_OK;
}

#endif
