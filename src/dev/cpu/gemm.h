/*
** gemm.h - matrix products of views. Where all three are reals the product
** runs in place; else bf16 operands are converted panel by panel.
** Inside src/dev.
*/
#ifndef DEV_CPU_GEMM_H
#define DEV_CPU_GEMM_H

#include "dev/cpu/blas.h"

/* One product c[m, n] = alpha op(a) op(b) + beta c. */
struct product {
    struct mat c, a, b;
    bool trans_a, trans_b;
    int64_t m, n, k;
    real alpha, beta;
};

/* Reals of a converted panel: 16 MiB of f32, so that the conversion (once
** a panel) vanishes beside the product and scratch stays small. */
#define PANEL (INT64_C(4) << 20)

static int64_t panel_width(int64_t k, int64_t n)
{
    return num_max(1, num_min(n, num_max(64, PANEL / num_max(k, 1))));
}

/* Rows (or, transposed, columns) [i, i + n) of op(x), whose other dimension
** is k. */
static struct factor panel(const struct mat *x, bool by_column, bool trans,
                           int64_t i, int64_t n, int64_t k, real *buf)
{
    struct factor f = {buf, by_column ? n : k, trans};

    if (x->t == REAL_TYPE)
        return (struct factor){by_column ? reals(x, 0) + i : reals(x, i),
                               x->ld, trans};
    if (by_column) block_in(x, 0, k, i, n, buf);
    else block_in(x, i, n, 0, k, buf);
    return f;
}

/* C's block at (i, j): in place, or in buf with a rounding at the end. */
static void product_block(const struct product *p, struct factor a,
                          struct factor b, int64_t i, int64_t ni, int64_t j,
                          int64_t nj, real *buf)
{
    if (p->c.t == REAL_TYPE) {
        gemm(ni, nj, p->k, p->alpha, a, b, p->beta, reals(&p->c, i) + j,
             p->c.ld);
        return;
    }
    if (p->beta != 0) block_in(&p->c, i, ni, j, nj, buf);
    gemm(ni, nj, p->k, p->alpha, a, b, p->beta, buf, nj);
    block_out(&p->c, i, ni, j, nj, buf);
}

static int product_panels(struct dev *d, const struct product *p,
                          struct err *e)
{
    int64_t wm = panel_width(p->k, p->m), wn = panel_width(p->k, p->n);
    real *buf = scratch(d, (wm + wn) * p->k + wm * wn);
    real *pa = buf, *pb, *pc;
    int64_t i, j;

    if (buf == NULL) return err_nomem(e);
    pb = pa + wm * p->k;
    pc = pb + wn * p->k;
    for (j = 0; j < p->n; j += wn) {
        int64_t nj = num_min(wn, p->n - j);
        struct factor b = panel(&p->b, !p->trans_b, p->trans_b, j, nj, p->k,
                                pb);
        for (i = 0; i < p->m; i += wm) {
            int64_t ni = num_min(wm, p->m - i);
            struct factor a = panel(&p->a, p->trans_a, p->trans_a, i, ni,
                                    p->k, pa);
            product_block(p, a, b, i, ni, j, nj, pc);
        }
    }
    return ERR_OK;
}

static int product(struct dev *d, const struct product *p, struct err *e)
{
    const int64_t most = INT32_MAX;

    if (p->m > most || p->n > most || p->k > most || p->a.ld > most
        || p->b.ld > most || p->c.ld > most)
        return err_set(e, ERR_RUN, "cpu gemm: a dimension of %lld x %lld x "
                       "%lld is over 2^31 - 1", (long long)p->m,
                       (long long)p->n, (long long)p->k);
    if (p->m == 0 || p->n == 0) return ERR_OK;
    if (p->a.t != REAL_TYPE || p->b.t != REAL_TYPE || p->c.t != REAL_TYPE)
        return product_panels(d, p, e);
    gemm(p->m, p->n, p->k, p->alpha,
         (struct factor){p->a.p, p->a.ld, p->trans_a},
         (struct factor){p->b.p, p->b.ld, p->trans_b}, p->beta, p->c.p,
         p->c.ld);
    return ERR_OK;
}

static int k_gemm(struct dev *d, const struct k_gemm *a, struct err *e)
{
    struct product p = {a->c, a->a, a->b, a->trans_a, a->trans_b, a->c.rows,
                        a->c.cols, a->trans_a ? a->a.rows : a->a.cols,
                        (real)a->alpha, (real)a->beta};

    NEED(a->c, p.m, p.n, CPU_FLOAT);
    NEED(a->a, a->trans_a ? p.k : p.m, a->trans_a ? p.m : p.k, CPU_FLOAT);
    NEED(a->b, a->trans_b ? p.n : p.k, a->trans_b ? p.k : p.n, CPU_FLOAT);
    return product(d, &p, e);
}

/* ---- groups ------------------------------------------------------------- */

static struct product group_product(const struct k_group_gemm *a, int64_t g)
{
    int64_t r0 = a->offset[g], n = a->offset[g + 1] - r0;
    struct mat c = sub_rows(a->c, r0, n), x = sub_rows(a->a, r0, n);
    struct mat w = sub_rows(a->w, g * a->w_rows, a->w_rows);
    real alpha = (real)a->alpha, beta = (real)a->beta;

    switch (a->form) {
    case GROUP_NT:
        return (struct product){c, x, w, false, true, n, a->w_rows, x.cols,
                                alpha, beta};
    case GROUP_NN:
        return (struct product){c, x, w, false, false, n, w.cols, x.cols,
                                alpha, beta};
    case GROUP_TN:
        break;
    }
    return (struct product){w, x, c, true, false, a->w_rows, w.cols, n, alpha,
                            beta};
}

static int k_group_gemm(struct dev *d, const struct k_group_gemm *a,
                        struct err *e)
{
    int64_t rows = a->offset[a->n_group], g;
    bool nt = a->form == GROUP_NT;
    int64_t inner = a->form == GROUP_NN || a->form == GROUP_TN ? a->w_rows
                                                               : a->w.cols;

    NEED(a->a, rows, inner, CPU_FLOAT);
    NEED(a->c, rows, nt ? a->w_rows : a->w.cols, CPU_FLOAT);
    NEED(a->w, a->n_group * a->w_rows, a->w.cols, CPU_FLOAT);
    NEED_INDEX("offset", 0, a->offset[0], 1);
    for (g = 0; g < a->n_group; g++)
        NEED_INDEX("offset", g, a->offset[g], a->offset[g + 1] + 1);
    for (g = 0; g < a->n_group; g++) {
        struct product p = group_product(a, g);
        int rc = product(d, &p, e);
        if (rc != ERR_OK) return rc;
    }
    return ERR_OK;
}

#endif
