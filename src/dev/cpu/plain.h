/*
** plain.h - fill, copy, add, scale, random, Adam.
** Inside src/dev.
*/
#ifndef DEV_CPU_PLAIN_H
#define DEV_CPU_PLAIN_H

#include "dev/cpu/real.h"
#include "base/random.h"

static void fill_integers(const struct mat *x, int64_t r, double value)
{
    int64_t c;

    for (c = 0; c < x->cols; c++) {
        void *p = cell(x, r, c);
        if (x->t == DT_I32) *(int32_t *)p = (int32_t)value;
        else if (x->t == DT_I64) *(int64_t *)p = (int64_t)value;
        else *(uint8_t *)p = (uint8_t)value;
    }
}

static int k_fill(struct dev *d, const struct k_fill *a, struct err *e)
{
    bool is_float = a->x.t == DT_BF16 || a->x.t == DT_F32 || a->x.t == DT_F64;
    real *row = scratch(d, a->x.cols);
    int64_t r, c;

    NEED(a->x, a->x.rows, a->x.cols, CPU_SAME);
    if (row == NULL) return err_nomem(e);
    for (c = 0; c < a->x.cols; c++) row[c] = (real)a->value;
    for (r = 0; r < a->x.rows; r++) {
        if (is_float) cells_out(&a->x, r, 0, a->x.cols, row);
        else fill_integers(&a->x, r, a->value);
    }
    return ERR_OK;
}

static int k_copy(struct dev *d, const struct k_copy *a, struct err *e)
{
    const struct mat *x = &a->src, *y = &a->dst;
    bool same = x->t == y->t;
    real *buf = scratch(d, x->cols);
    int64_t r;

    NEED(a->src, x->rows, x->cols, same ? CPU_SAME : CPU_FLOAT);
    NEED(a->dst, x->rows, x->cols, same ? CPU_SAME : CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < x->rows && x->cols > 0; r++) {
        if (same)
            memcpy(cell(y, r, 0), cell(x, r, 0),
                   (size_t)(x->cols * dtype_bytes(x->t)));
        else
            cells_out(y, r, 0, x->cols, row_in(x, r, buf));
    }
    return ERR_OK;
}

static int k_add(struct dev *d, const struct k_add *a, struct err *e)
{
    int64_t rows = a->out.rows, cols = a->out.cols, r, c;
    real *buf = scratch(d, 3 * cols);
    bool one = a->b.rows == 1;

    NEED(a->out, rows, cols, CPU_FLOAT);
    NEED(a->a, rows, cols, CPU_FLOAT);
    NEED(a->b, one ? 1 : rows, cols, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        const real *x = row_in(&a->a, r, buf);
        const real *y = row_in(&a->b, one ? 0 : r, buf + cols);
        real *out = row_out(&a->out, r, buf + 2 * cols);
        for (c = 0; c < cols; c++) out[c] = x[c] + y[c];
        row_end(&a->out, r, out);
    }
    return ERR_OK;
}

static int k_scale(struct dev *d, const struct k_scale *a, struct err *e)
{
    int64_t rows = a->out.rows, cols = a->out.cols, r, c;
    real *buf = scratch(d, 2 * cols), s = (real)a->s;

    NEED(a->out, rows, cols, CPU_FLOAT);
    NEED(a->a, rows, cols, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        const real *x = row_in(&a->a, r, buf);
        real *out = row_out(&a->out, r, buf + cols);
        for (c = 0; c < cols; c++) out[c] = s * x[c];
        row_end(&a->out, r, out);
    }
    return ERR_OK;
}

static int k_random(struct dev *d, const struct k_random *a, struct err *e)
{
    int64_t rows = a->x.rows, cols = a->x.cols, r, c;
    real *buf = scratch(d, cols);

    NEED(a->x, rows, cols, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        real *x = row_out(&a->x, r, buf);
        for (c = 0; c < cols; c++)
            x[c] = (real)random_value(a->seed, a->stream,
                                      a->first + (uint64_t)(r * cols + c),
                                      a->scale, a->offset);
        row_end(&a->x, r, x);
    }
    return ERR_OK;
}

static int k_adam(struct dev *d, const struct k_adam *a, struct err *e)
{
    int64_t rows = a->p.rows, cols = a->p.cols, r, c;
    real *buf = scratch(d, 3 * cols);
    real b1 = (real)a->beta1, b2 = (real)a->beta2, eps = (real)a->eps;
    /* of the exact betas: 1 - (float)0.999 is off by 1.3e-5 */
    real c1 = (real)(1 - a->beta1), c2 = (real)(1 - a->beta2);
    real lr = (real)(a->lr / (1 - pow(a->beta1, (double)a->step)));
    real fix = (real)(1 / (1 - pow(a->beta2, (double)a->step)));

    NEED(a->p, rows, cols, CPU_FLOAT);
    NEED(a->g, rows, cols, CPU_FLOAT);
    NEED(a->m, rows, cols, CPU_ACC);
    NEED(a->v, rows, cols, CPU_ACC);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        const real *was = row_in(&a->p, r, buf);
        const real *g = row_in(&a->g, r, buf + cols);
        real *p = row_out(&a->p, r, buf + 2 * cols);
        real *m = reals(&a->m, r), *v = reals(&a->v, r);
        for (c = 0; c < cols; c++) {
            m[c] = b1 * m[c] + c1 * g[c];
            v[c] = b2 * v[c] + c2 * g[c] * g[c];
            p[c] = was[c] - lr * m[c] / (REAL_FN(sqrt)(fix * v[c]) + eps);
        }
        row_end(&a->p, r, p);
    }
    return ERR_OK;
}

#endif
