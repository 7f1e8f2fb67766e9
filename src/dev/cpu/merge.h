/*
** merge.h - folding a stage's attention into the accumulators by their
** log-sums, and form A backwards through a fold (model.md 3.8).
** Inside src/dev.
*/
#ifndef DEV_CPU_MERGE_H
#define DEV_CPU_MERGE_H

#include "dev/cpu/real.h"

/* The merged log-sum of two and their weights. Two empty sides weigh 0. */
static real merge_weights(real l1, real l2, real *w1, real *w2)
{
    real top = l1 > l2 ? l1 : l2, low = l1 > l2 ? l2 : l1, l;

    *w1 = *w2 = 0;
    if (top == -(real)INFINITY && low == top) return top;
    l = top + REAL_FN(log1p)(REAL_FN(exp)(low - top));
    *w1 = REAL_FN(exp)(l1 - l);
    *w2 = REAL_FN(exp)(l2 - l);
    return l;
}

/* The own row of stage row r, -1 for padding. */
static int64_t own_row(const int64_t *row, int64_t r)
{
    return row != NULL ? row[r] : r;
}

static int k_merge(struct dev *d, const struct k_merge *a, struct err *e)
{
    int64_t rows = a->o.rows, cols = a->o.cols, own = a->o_acc.rows;
    int64_t n = cols / num_max(a->heads, 1), r, h, i;
    bool tape = a->tape_o.p != NULL;
    real *buf = scratch(d, cols), w1, w2;

    NEED(a->o, rows, a->heads * n, CPU_FLOAT);
    NEED(a->lse, rows, a->heads, CPU_ACC);
    NEED(a->o_acc, own, cols, CPU_ACC);
    NEED(a->lse_acc, own, a->heads, CPU_ACC);
    if (tape) NEED(a->tape_o, rows, cols, CPU_ACC);
    if (tape) NEED(a->tape_lse, rows, a->heads, CPU_ACC);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        int64_t to = own_row(a->row, r);
        const real *o = row_in(&a->o, r, buf), *lse = reals(&a->lse, r);
        real *acc, *acc_lse;
        if (to == -1) continue;
        NEED_INDEX("row", r, to, own);
        acc = reals(&a->o_acc, to);
        acc_lse = reals(&a->lse_acc, to);
        if (tape) {
            cells_out(&a->tape_o, r, 0, cols, acc);
            cells_out(&a->tape_lse, r, 0, a->heads, acc_lse);
        }
        for (h = 0; h < a->heads; h++) {
            acc_lse[h] = merge_weights(acc_lse[h], lse[h], &w1, &w2);
            for (i = h * n; i < (h + 1) * n; i++)
                acc[i] = w1 * acc[i] + w2 * o[i];
        }
    }
    return ERR_OK;
}

/* One head of one row. o1, l1: the accumulators before the fold; o2, l2: the
** stage. d_acc and *dl_acc turn from gradients of the merged values into
** those of the accumulators; d_o and *dl are the stage's. */
static void unmerge_head(int64_t n, const real *o1, real l1, const real *o2,
                         real l2, real *d_acc, real *dl_acc, real *d_o,
                         real *dl)
{
    real w1, w2, cross = 0, dlse = *dl_acc;
    int64_t i;

    merge_weights(l1, l2, &w1, &w2);
    for (i = 0; i < n; i++) cross += d_acc[i] * (o2[i] - o1[i]);
    cross *= w1 * w2;
    *dl = w2 * dlse + cross;
    *dl_acc = w1 * dlse - cross;
    for (i = 0; i < n; i++) {
        d_o[i] = w2 * d_acc[i];
        d_acc[i] = w1 * d_acc[i];
    }
}

static int k_merge_bwd(struct dev *d, const struct k_merge_bwd *a,
                       struct err *e)
{
    int64_t rows = a->o.rows, cols = a->o.cols, own = a->d_acc.rows;
    int64_t n = cols / num_max(a->heads, 1), r, h;
    bool tape = a->tape_o.p != NULL;
    real *d_o = scratch(d, 3 * cols), *o2, *empty;

    NEED(a->o, rows, a->heads * n, CPU_FLOAT);
    NEED(a->lse, rows, a->heads, CPU_ACC);
    NEED(a->d_o, rows, cols, CPU_FLOAT);
    NEED(a->dlse, rows, a->heads, CPU_ACC);
    NEED(a->d_acc, own, cols, CPU_ACC);
    NEED(a->dlse_acc, own, a->heads, CPU_ACC);
    if (tape) NEED(a->tape_o, rows, cols, CPU_ACC);
    if (tape) NEED(a->tape_lse, rows, a->heads, CPU_ACC);
    if (d_o == NULL) return err_nomem(e);
    o2 = d_o + cols;
    empty = o2 + cols;
    zero(empty, cols);
    for (r = 0; r < rows; r++) {
        int64_t to = own_row(a->row, r);
        const real *o = row_in(&a->o, r, o2), *lse = reals(&a->lse, r);
        const real *o1 = tape ? reals(&a->tape_o, r) : empty;
        real *dl = reals(&a->dlse, r);
        if (to != -1) NEED_INDEX("row", r, to, own);
        zero(d_o, cols);
        zero(dl, a->heads);
        for (h = 0; to != -1 && h < a->heads; h++)
            unmerge_head(n, o1 + h * n,
                         tape ? reals(&a->tape_lse, r)[h] : -(real)INFINITY,
                         o + h * n, lse[h], reals(&a->d_acc, to) + h * n,
                         reals(&a->dlse_acc, to) + h, d_o + h * n, dl + h);
        cells_out(&a->d_o, r, 0, cols, d_o);
    }
    return ERR_OK;
}

#endif
