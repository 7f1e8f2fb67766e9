/*
** rotary.h - the table of angles and the half-split rotation (model.md
** 2.2.3, 3.5).
** Inside src/dev.
*/
#ifndef DEV_CPU_ROTARY_H
#define DEV_CPU_ROTARY_H

#include "dev/cpu/real.h"

/* Into [-pi, pi]; 2 pi in two parts, so that turns * high is exact for the
** turns of any real position. */
static double reduce_angle(double angle)
{
    const double high = 6.28318500518798828125, low = 3.0199159819567e-7;
    double turns = nearbyint(angle / (high + low));

    return (angle - turns * high) - turns * low;
}

/* Radians a position of column i (kernel.h). */
static double rotary_frequency(const struct k_rotary_table *a, int64_t i)
{
    double f = pow(a->theta, -(double)i / (double)a->table.cols), turns, s;

    if (!(a->factor > 0)) return f;
    turns = a->positions * f / 6.283185307179586476925286766559;
    s = (turns - a->low) / (a->high - a->low);
    s = s < 0 ? 0 : s > 1 ? 1 : s;
    return s * f + (1 - s) * f / a->factor;
}

static int k_rotary_table(struct dev *d, const struct k_rotary_table *a,
                          struct err *e)
{
    int64_t cols = a->table.cols, i, pos;
    double *freq = cpu_scratch(d, (size_t)num_max(cols, 1) * sizeof *freq);

    NEED(a->table, a->table.rows, cols, CPU_ACC);
    if (freq == NULL) return err_nomem(e);
    for (i = 0; i < cols; i++) freq[i] = rotary_frequency(a, i);
    for (pos = 0; pos < a->table.rows; pos++) {
        real *row = reals(&a->table, pos);
        for (i = 0; i < cols; i++)
            row[i] = (real)reduce_angle((double)pos * freq[i]);
    }
    return ERR_OK;
}

/* One row: its heads turned by the cosines and sines of its position. */
static void rotate_heads(const struct k_rotary *a, real *x, const real *cs,
                         const real *sn)
{
    int64_t half = a->table.cols, h, i;

    for (h = 0; h < a->heads; h++) {
        real *u = x + h * a->head_dim, *v = u + half;
        for (i = 0; i < half; i++) {
            real ui = u[i], vi = v[i];
            u[i] = ui * cs[i] - vi * sn[i];
            v[i] = vi * cs[i] + ui * sn[i];
        }
    }
}

static int k_rotary(struct dev *d, const struct k_rotary *a, struct err *e)
{
    int64_t rows = a->x.rows, cols = a->heads * a->head_dim;
    int64_t half = a->table.cols, r, i;
    real *x = scratch(d, cols + 2 * half), *cs, *sn;

    NEED(a->x, rows, cols, CPU_FLOAT);
    NEED(a->y, rows, cols, CPU_FLOAT);
    NEED(a->table, a->table.rows, num_min(half, a->head_dim / 2), CPU_ACC);
    if (x == NULL) return err_nomem(e);
    cs = x + cols;
    sn = cs + half;
    for (r = 0; r < rows; r++) {
        const real *angle;
        NEED_INDEX("pos", r, a->pos[r], a->table.rows);
        angle = reals(&a->table, a->pos[r]);
        for (i = 0; i < half; i++) {
            cs[i] = REAL_FN(cos)(angle[i]);
            sn[i] = REAL_FN(sin)(angle[i]) * (real)a->sign;
        }
        cells_in(&a->x, r, 0, cols, x);
        rotate_heads(a, x, cs, sn);
        cells_out(&a->y, r, 0, cols, x);
    }
    return ERR_OK;
}

#endif
