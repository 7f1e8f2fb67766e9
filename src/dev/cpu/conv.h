/*
** conv.h - causal depthwise convolution with silu, over pieces that may
** start from a halo (model.md 2.3.2, 3.9).
**
** A window of the last "taps" rows moves down each piece; slot t mod taps
** of a ring holds row t, the halo being rows -taps + 1 .. -1.
** Inside src/dev.
*/
#ifndef DEV_CPU_CONV_H
#define DEV_CPU_CONV_H

#include "dev/cpu/real.h"

struct window {
    int64_t taps, cols;
    real *w;                    /* [taps, cols]: the weight transposed */
    real *x;                    /* ring of input rows */
    real *dx;                   /* ring of their gradients (backward) */
};

static real *ring_row(const struct window *v, real *ring, int64_t t)
{
    return ring + ((t + v->taps) % v->taps) * v->cols;
}

static void transpose_taps(const struct mat *w, struct window *v, real *row)
{
    int64_t c, j;

    for (c = 0; c < v->cols; c++) {
        cells_in(w, c, 0, v->taps, row);
        for (j = 0; j < v->taps; j++) v->w[j * v->cols + c] = row[j];
    }
}

/* Rows before the first: the halo, or zeros. */
static void window_begin(const struct window *v, const struct mat *halo,
                         const struct dev_piece *p)
{
    int64_t h = v->taps - 1, i;

    for (i = 0; i < h; i++) {
        real *row = ring_row(v, v->x, i - h);
        if (p->state_in >= 0)
            cells_in(halo, p->state_in * h + i, 0, v->cols, row);
        else
            zero(row, v->cols);
    }
}

/* out = sum over j of w_j x[t - taps + 1 + j]. */
static void convolve(const struct window *v, int64_t t, real *out)
{
    int64_t j, c;

    zero(out, v->cols);
    for (j = 0; j < v->taps; j++) {
        const real *w = v->w + j * v->cols;
        const real *x = ring_row(v, v->x, t - v->taps + 1 + j);
        for (c = 0; c < v->cols; c++) out[c] += w[c] * x[c];
    }
}

/* The piece's last rows as the halo that the next piece begins with. */
static void leave_halo(const struct k_conv *a, const struct dev_piece *p,
                       real *row)
{
    int64_t h = a->w.cols - 1, i;

    for (i = 0; p->state_out >= 0 && i < h; i++) {
        int64_t t = p->len - h + i;

        if (t >= 0)
            cells_in(&a->x, p->row + t, 0, a->x.cols, row);
        else if (p->state_in >= 0)
            cells_in(&a->halo, (p->state_in + 1) * h + t, 0, a->x.cols, row);
        else
            zero(row, a->x.cols);
        cells_out(&a->halo, p->state_out * h + i, 0, a->x.cols, row);
    }
}

static int conv_check(const char *kernel, const struct dev_piece *piece,
                      int64_t n, int64_t rows, int64_t states, struct err *e)
{
    int64_t i;

    for (i = 0; i < n; i++) {
        const struct dev_piece *p = &piece[i];
        if (p->row < 0 || p->len < 0 || p->row > rows - p->len)
            return cpu_out_of_range(e, kernel, "piece", i, p->row,
                                    rows - p->len + 1);
        if (p->state_in >= states)
            return cpu_out_of_range(e, kernel, "state_in", i, p->state_in,
                                    states);
        if (p->state_out >= states)
            return cpu_out_of_range(e, kernel, "state_out", i, p->state_out,
                                    states);
    }
    return ERR_OK;
}

static int k_conv(struct dev *d, const struct k_conv *a, struct err *e)
{
    int64_t rows = a->x.rows, cols = a->x.cols, taps = a->w.cols, i, t, c;
    int64_t halo = num_max(taps - 1, 1);
    struct window v = {taps, cols, NULL, NULL, NULL};
    real *buf = scratch(d, (2 * taps + 1) * cols + taps);

    NEED(a->x, rows, cols, CPU_FLOAT);
    NEED(a->y, rows, cols, CPU_FLOAT);
    NEED(a->w, cols, taps, CPU_FLOAT);
    if (a->halo.p != NULL) NEED(a->halo, a->halo.rows, cols, CPU_FLOAT);
    i = conv_check(__func__, a->piece, a->n_piece, rows,
                   a->halo.p != NULL ? a->halo.rows / halo : 0, e);
    if (i != ERR_OK) return (int)i;
    if (buf == NULL) return err_nomem(e);
    v.w = buf + cols + taps;
    v.x = v.w + taps * cols;
    transpose_taps(&a->w, &v, buf + cols);
    for (i = 0; i < a->n_piece; i++) {
        const struct dev_piece *p = &a->piece[i];
        window_begin(&v, &a->halo, p);
        for (t = 0; t < p->len; t++) {
            cells_in(&a->x, p->row + t, 0, cols, ring_row(&v, v.x, t));
            convolve(&v, t, buf);
            for (c = 0; c < cols; c++) buf[c] *= sigmoid(buf[c]);
            cells_out(&a->y, p->row + t, 0, cols, buf);
        }
        leave_halo(a, p, buf);
    }
    return ERR_OK;
}

/* ---- backward ----------------------------------------------------------- */

/* The gradient of row t is complete but for what the next piece's halo gives:
** a row of the piece, of its halo, or of the zeros before a start (then it is
** nobody's). */
static void window_leave(const struct k_conv_bwd *a, const struct window *v,
                         const struct dev_piece *p, int64_t t)
{
    real *dx = ring_row(v, v->dx, t);
    int64_t tail = t - (p->len - v->taps + 1);

    if (p->state_out >= 0 && tail >= 0)
        axpy(dx, 1, reals(&a->dhalo, p->state_out * (v->taps - 1) + tail),
             v->cols);
    if (t >= 0) {
        cells_out(&a->dx, p->row + t, 0, v->cols, dx);
    } else if (p->state_in >= 0) {
        int64_t row = (p->state_in + 1) * (v->taps - 1) + t;
        axpy(reals(&a->dhalo, row), 1, dx, v->cols);
    }
    zero(dx, v->cols);
}

static void conv_bwd_piece(const struct k_conv_bwd *a, const struct window *v,
                           const struct dev_piece *p, real *buf)
{
    int64_t cols = v->cols, t, j, c;
    real *grad = buf, *pre = buf + cols;

    window_begin(v, &a->halo, p);
    zero(v->dx, v->taps * cols);
    for (t = 0; t < p->len; t++) {
        cells_in(&a->x, p->row + t, 0, cols, ring_row(v, v->x, t));
        cells_in(&a->dy, p->row + t, 0, cols, grad);
        convolve(v, t, pre);
        for (c = 0; c < cols; c++)
            grad[c] *= silu_slope(pre[c], sigmoid(pre[c]));
        for (j = 0; j < v->taps; j++) {
            const real *w = v->w + j * cols;
            real *dx = ring_row(v, v->dx, t - v->taps + 1 + j);
            for (c = 0; c < cols; c++) dx[c] += w[c] * grad[c];
        }
        window_leave(a, v, p, t - v->taps + 1);
    }
    for (j = 1; j < v->taps; j++)
        window_leave(a, v, p, p->len - v->taps + j);
}

static int k_conv_bwd(struct dev *d, const struct k_conv_bwd *a,
                      struct err *e)
{
    int64_t rows = a->x.rows, cols = a->x.cols, taps = a->w.cols, i;
    int64_t halo = num_max(taps - 1, 1);
    bool has_halo = a->halo.p != NULL && a->dhalo.p != NULL;
    struct window v = {taps, cols, NULL, NULL, NULL};
    real *buf = scratch(d, (3 * taps + 2) * cols + taps);

    NEED(a->x, rows, cols, CPU_FLOAT);
    NEED(a->dx, rows, cols, CPU_FLOAT);
    NEED(a->dy, rows, cols, CPU_FLOAT);
    NEED(a->w, cols, taps, CPU_FLOAT);
    if (has_halo) NEED(a->halo, a->halo.rows, cols, CPU_FLOAT);
    if (has_halo) NEED(a->dhalo, a->halo.rows, cols, CPU_ACC);
    i = conv_check(__func__, a->piece, a->n_piece, rows,
                   has_halo ? a->halo.rows / halo : 0, e);
    if (i != ERR_OK) return (int)i;
    if (buf == NULL) return err_nomem(e);
    v.w = buf + 2 * cols + taps;
    v.x = v.w + taps * cols;
    v.dx = v.x + taps * cols;
    transpose_taps(&a->w, &v, buf + 2 * cols);
    for (i = 0; i < a->n_piece; i++)
        conv_bwd_piece(a, &v, &a->piece[i], buf);
    return ERR_OK;
}

#endif
