/*
** norm.h - RMS and L2 norms (model.md 2.1, 3.2, 3.10).
** Inside src/dev.
*/
#ifndef DEV_CPU_NORM_H
#define DEV_CPU_NORM_H

#include "dev/cpu/real.h"

/* w, or 1 + w, as one row of reals. */
static void norm_factor(const struct mat *w, bool zero_centred, real *out)
{
    int64_t c;

    cells_in(w, 0, 0, w->cols, out);
    for (c = 0; zero_centred && c < w->cols; c++) out[c] += 1;
}

static int k_rms_norm(struct dev *d, const struct k_rms_norm *a,
                      struct err *e)
{
    int64_t rows = a->x.rows, cols = a->x.cols, r, c;
    real *w = scratch(d, 3 * cols), *buf;

    NEED(a->x, rows, cols, CPU_FLOAT);
    NEED(a->y, rows, cols, CPU_FLOAT);
    NEED(a->w, 1, cols, CPU_FLOAT);
    NEED(a->rstd, rows, 1, CPU_ACC);
    if (w == NULL) return err_nomem(e);
    norm_factor(&a->w, a->zero_centred, w);
    buf = w + cols;
    for (r = 0; r < rows; r++) {
        const real *x = row_in(&a->x, r, buf);
        real *y = row_out(&a->y, r, buf + cols);
        real mean = dot(x, x, cols) / (real)cols;
        real rstd = 1 / REAL_FN(sqrt)(mean + (real)a->eps);
        for (c = 0; c < cols; c++) y[c] = rstd * x[c] * w[c];
        row_end(&a->y, r, y);
        *reals(&a->rstd, r) = rstd;
    }
    return ERR_OK;
}

static int k_rms_norm_bwd(struct dev *d, const struct k_rms_norm_bwd *a,
                          struct err *e)
{
    int64_t rows = a->x.rows, cols = a->x.cols, r, c;
    real *w = scratch(d, 5 * cols), *ey, *dx, *buf;

    NEED(a->x, rows, cols, CPU_FLOAT);
    NEED(a->dy, rows, cols, CPU_FLOAT);
    NEED(a->dx, rows, cols, CPU_FLOAT);
    NEED(a->w, 1, cols, CPU_FLOAT);
    NEED(a->rstd, rows, 1, CPU_ACC);
    if (w == NULL) return err_nomem(e);
    norm_factor(&a->w, a->zero_centred, w);
    ey = w + cols;
    dx = ey + cols;
    buf = dx + cols;
    for (r = 0; r < rows; r++) {
        const real *x = row_in(&a->x, r, buf);
        const real *dy = row_in(&a->dy, r, buf + cols);
        real rstd = *reals(&a->rstd, r), mean;
        for (c = 0; c < cols; c++) ey[c] = dy[c] * w[c];
        mean = rstd * dot(ey, x, cols) / (real)cols;
        if (a->add) cells_in(&a->dx, r, 0, cols, dx);
        else zero(dx, cols);
        for (c = 0; c < cols; c++)
            dx[c] += rstd * (ey[c] - rstd * x[c] * mean);
        cells_out(&a->dx, r, 0, cols, dx);
    }
    return ERR_OK;
}

static int k_l2_norm(struct dev *d, const struct k_l2_norm *a, struct err *e)
{
    int64_t rows = a->x.rows, cols = a->x.cols, r, c;
    real *buf = scratch(d, 2 * cols);

    NEED(a->x, rows, cols, CPU_FLOAT);
    NEED(a->y, rows, cols, CPU_FLOAT);
    NEED(a->rnorm, rows, 1, CPU_ACC);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        const real *x = row_in(&a->x, r, buf);
        real *y = row_out(&a->y, r, buf + cols);
        real rnorm = 1 / REAL_FN(sqrt)(dot(x, x, cols) + (real)a->eps);
        for (c = 0; c < cols; c++) y[c] = rnorm * x[c];
        row_end(&a->y, r, y);
        *reals(&a->rnorm, r) = rnorm;
    }
    return ERR_OK;
}

static int k_l2_norm_bwd(struct dev *d, const struct k_l2_norm_bwd *a,
                         struct err *e)
{
    int64_t rows = a->y.rows, cols = a->y.cols, r, c;
    real *buf = scratch(d, 3 * cols);

    NEED(a->y, rows, cols, CPU_FLOAT);
    NEED(a->dy, rows, cols, CPU_FLOAT);
    NEED(a->dx, rows, cols, CPU_FLOAT);
    NEED(a->rnorm, rows, 1, CPU_ACC);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        const real *y = row_in(&a->y, r, buf);
        const real *dy = row_in(&a->dy, r, buf + cols);
        real *dx = row_out(&a->dx, r, buf + 2 * cols);
        real rnorm = *reals(&a->rnorm, r), along = dot(y, dy, cols);
        for (c = 0; c < cols; c++) dx[c] = rnorm * (dy[c] - y[c] * along);
        row_end(&a->dx, r, dx);
    }
    return ERR_OK;
}

#endif
