/*
** rows.h - kernels that move rows and heads.
** Inside src/dev.
*/
#ifndef DEV_CPU_ROWS_H
#define DEV_CPU_ROWS_H

#include "dev/cpu/real.h"

static int k_embed(struct dev *d, const struct k_embed *a, struct err *e)
{
    int64_t rows = a->out.rows, cols = a->out.cols, r;
    real *buf = scratch(d, cols);

    NEED(a->out, rows, cols, CPU_FLOAT);
    NEED(a->table, a->table.rows, cols, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        NEED_INDEX("ids", r, a->ids[r], a->table.rows);
        cells_out(&a->out, r, 0, cols, row_in(&a->table, a->ids[r], buf));
    }
    return ERR_OK;
}

/* out[r] (+)= x[s], with conversion. buf holds two rows. */
static void move_row(const struct mat *out, int64_t r, const struct mat *x,
                     int64_t s, bool add, real *buf)
{
    const real *src = row_in(x, s, buf);
    int64_t c, cols = x->cols;

    if (add) {
        real *sum_row = buf + cols;
        cells_in(out, r, 0, cols, sum_row);
        for (c = 0; c < cols; c++) sum_row[c] += src[c];
        src = sum_row;
    }
    cells_out(out, r, 0, cols, src);
}

static int k_gather(struct dev *d, const struct k_gather *a, struct err *e)
{
    real *buf = scratch(d, 2 * a->x.cols);
    int64_t i, j, n = 0;

    for (i = 0; i < a->n; i++) n += a->r[i].len;
    NEED(a->x, a->x.rows, a->x.cols, CPU_FLOAT);
    NEED(a->out, n, a->x.cols, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    for (i = 0, n = 0; i < a->n; i++) {
        const struct range *r = &a->r[i];
        NEED_INDEX("range", i, r->start, a->x.rows - r->len + 1);
        for (j = 0; j < r->len; j++)
            move_row(&a->out, n++, &a->x, r->start + j, false, buf);
    }
    return ERR_OK;
}

static int k_scatter(struct dev *d, const struct k_scatter *a, struct err *e)
{
    real *buf = scratch(d, 2 * a->x.cols);
    int64_t i, j, n = 0;

    for (i = 0; i < a->n; i++) n += a->r[i].len;
    NEED(a->out, a->out.rows, a->x.cols, CPU_FLOAT);
    NEED(a->x, n, a->x.cols, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    for (i = 0, n = 0; i < a->n; i++) {
        const struct range *r = &a->r[i];
        NEED_INDEX("range", i, r->start, a->out.rows - r->len + 1);
        for (j = 0; j < r->len; j++)
            move_row(&a->out, r->start + j, &a->x, n++, a->add, buf);
    }
    return ERR_OK;
}

static int k_permute(struct dev *d, const struct k_permute *a, struct err *e)
{
    int64_t rows = a->out.rows, cols = a->out.cols, r;
    real *buf = scratch(d, 2 * cols);

    NEED(a->out, rows, cols, CPU_FLOAT);
    NEED(a->x, a->x.rows, cols, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        NEED_INDEX("row", r, a->row[r], a->x.rows);
        move_row(&a->out, r, &a->x, a->row[r], false, buf);
    }
    return ERR_OK;
}

static int k_combine(struct dev *d, const struct k_combine *a, struct err *e)
{
    int64_t rows = a->out.rows, cols = a->out.cols, r, k;
    real *buf = scratch(d, 2 * cols), *out;

    NEED(a->out, rows, cols, CPU_FLOAT);
    NEED(a->x, a->x.rows, cols, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    out = buf + cols;
    for (r = 0; r < rows; r++) {
        if (a->add) cells_in(&a->out, r, 0, cols, out);
        else zero(out, cols);
        for (k = 0; k < a->top_k; k++) {
            int64_t at = r * a->top_k + k;
            NEED_INDEX("slot", at, a->slot[at], a->x.rows);
            axpy(out, 1, row_in(&a->x, a->slot[at], buf), cols);
        }
        cells_out(&a->out, r, 0, cols, out);
    }
    return ERR_OK;
}

static int k_heads(struct dev *d, const struct k_heads *a, struct err *e)
{
    const struct mat *p = &a->packed, *j = &a->joined;
    int64_t n = a->head_dim, r, h;
    int64_t last = a->offset + (a->heads - 1) * a->stride + n;
    real *buf = scratch(d, n);

    NEED(a->packed, p->rows, a->heads * n, CPU_FLOAT);
    NEED(a->joined, p->rows, j->cols, CPU_FLOAT);
    NEED_INDEX("offset", 0, a->offset, j->cols);
    NEED_INDEX("last column", a->heads, last, j->cols + 1);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < p->rows; r++)
        for (h = 0; h < a->heads; h++) {
            int64_t c = a->offset + h * a->stride;
            cells_in(a->join ? p : j, r, a->join ? h * n : c, n, buf);
            cells_out(a->join ? j : p, r, a->join ? c : h * n, n, buf);
        }
    return ERR_OK;
}

static int k_transpose(struct dev *d, const struct k_transpose *a,
                       struct err *e)
{
    int64_t groups = num_max(a->n_group, 1), g, r, c;
    int64_t xr = a->x.rows / groups, yr = a->y.rows / groups;
    int64_t xc = a->x.cols, yc = a->y.cols, nr = num_min(yc, xr);
    real *buf = scratch(d, xr * xc + yc), *out;

    NEED(a->x, groups * xr, xc, CPU_FLOAT);
    NEED(a->y, groups * yr, yc, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    out = buf + xr * xc;
    for (g = 0; g < a->n_group; g++) {
        block_in(&a->x, g * xr, xr, 0, xc, buf);
        for (r = 0; r < yr; r++) {
            zero(out, yc);
            for (c = 0; r < xc && c < nr; c++) out[c] = buf[c * xc + r];
            cells_out(&a->y, g * yr + r, 0, yc, out);
        }
    }
    return ERR_OK;
}

/* ---- value heads that share a key head (GDN) ---------------------------- */

static int k_repeat_heads(struct dev *d, const struct k_repeat_heads *a,
                          struct err *e)
{
    int64_t n = a->head_dim, heads = a->x.cols / num_max(n, 1), r, h, i;
    real *buf = scratch(d, n);

    NEED(a->x, a->x.rows, heads * n, CPU_FLOAT);
    NEED(a->y, a->x.rows, heads * a->rep * n, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < a->x.rows; r++)
        for (h = 0; h < heads; h++) {
            cells_in(&a->x, r, h * n, n, buf);
            for (i = 0; i < a->rep; i++)
                cells_out(&a->y, r, (h * a->rep + i) * n, n, buf);
        }
    return ERR_OK;
}

static int k_sum_heads(struct dev *d, const struct k_sum_heads *a,
                       struct err *e)
{
    int64_t n = a->head_dim, heads = a->x.cols / num_max(n, 1), r, h, i;
    real *buf = scratch(d, 2 * n), *total;

    NEED(a->x, a->x.rows, heads * n, CPU_FLOAT);
    NEED(a->y, a->x.rows, heads * a->rep * n, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    total = buf + n;
    for (r = 0; r < a->x.rows; r++)
        for (h = 0; h < heads; h++) {
            zero(total, n);
            for (i = 0; i < a->rep; i++) {
                cells_in(&a->y, r, (h * a->rep + i) * n, n, buf);
                axpy(total, 1, buf, n);
            }
            cells_out(&a->x, r, h * n, n, total);
        }
    return ERR_OK;
}

#endif
