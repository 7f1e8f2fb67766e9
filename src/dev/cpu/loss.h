/*
** loss.h - cross-entropy by rows (model.md 2.5, 3.16).
** Inside src/dev.
*/
#ifndef DEV_CPU_LOSS_H
#define DEV_CPU_LOSS_H

#include "dev/cpu/real.h"

/* out = e^(x - top); their sum in f64 over blocks, since a running f32 sum
** of a vocabulary is off by 4e-4. out may be x. */
static double exp_row(real *out, const real *x, int64_t n, real top)
{
    double total = 0;
    int64_t i, j;

    for (i = 0; i < n; i += 512) {
        int64_t m = num_min(512, n - i);
        for (j = i; j < i + m; j++) out[j] = exp_of(x[j] - top);
        total += (double)sum(out + i, m);
    }
    return total;
}

static int k_cross_entropy(struct dev *d, const struct k_cross_entropy *a,
                           struct err *e)
{
    int64_t rows = a->logits.rows, n = a->logits.cols, r, i;
    bool grad = a->dlogits.p != NULL;
    const real *weight = a->weight;
    real *buf = scratch(d, 2 * n);

    NEED(a->logits, rows, n, CPU_FLOAT);
    if (grad) NEED(a->dlogits, rows, n, CPU_FLOAT);
    if (buf == NULL) return err_nomem(e);
    for (r = 0; r < rows; r++) {
        int64_t target = a->target[r];
        const real *x = row_in(&a->logits, r, buf);
        real *out = grad ? row_out(&a->dlogits, r, buf + n) : buf + n;
        double w = (double)weight[r], total, picked;
        real top;
        if (target >= 0) {
            NEED_INDEX("target", r, target, n);
            top = largest(x, n);
            picked = (double)x[target];
            total = exp_row(out, x, n, top);
            *a->loss_sum += w * ((double)top + log(total) - picked);
            for (i = 0; i < n; i++) out[i] *= (real)(w / total);
            out[target] -= (real)w;
        } else {
            zero(out, n);
        }
        if (grad) row_end(&a->dlogits, r, out);
    }
    return ERR_OK;
}

#endif
