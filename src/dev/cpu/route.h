/*
** route.h - the router and the sort of (row, expert) pairs (model.md 2.4,
** 3.15, 5).
** Inside src/dev.
*/
#ifndef DEV_CPU_ROUTE_H
#define DEV_CPU_ROUTE_H

#include "dev/cpu/real.h"

static void softmax(real *out, const real *x, int64_t n)
{
    real top = largest(x, n), part;
    int64_t i;

    for (i = 0; i < n; i++) out[i] = exp_of(x[i] - top);
    part = 1 / sum(out, n);
    for (i = 0; i < n; i++) out[i] *= part;
}

/* The largest logit not yet taken, the first of equals; always a valid one,
** among NaNs too. */
static int64_t next_best(const real *logit, const uint8_t *taken, int64_t n)
{
    int64_t best = -1, i;

    for (i = 0; i < n; i++)
        if (!taken[i] && (best < 0 || logit[i] > logit[best])) best = i;
    return best;
}

static int k_router(struct dev *d, const struct k_router *a, struct err *e)
{
    int64_t rows = a->logits.rows, n = a->logits.cols, k = a->idx.cols, r, i;

    (void)d;
    NEED(a->logits, rows, n, CPU_ACC);
    NEED(a->scores, rows, n, CPU_ACC);
    NEED(a->map, rows, n, CPU_U8);
    NEED(a->idx, rows, num_min(k, n), CPU_I64);
    NEED(a->weight, rows, k, CPU_ACC);
    for (r = 0; r < rows; r++) {
        const real *logit = reals(&a->logits, r);
        real *score = reals(&a->scores, r), *w = reals(&a->weight, r), part;
        uint8_t *map = cell(&a->map, r, 0);
        int64_t *idx = cell(&a->idx, r, 0);
        softmax(score, logit, n);
        memset(map, 0, (size_t)n);
        for (i = 0; i < k; i++) {
            idx[i] = a->forced != NULL ? a->forced[r * k + i]
                                       : next_best(logit, map, n);
            NEED_INDEX("forced", r * k + i, idx[i], n);
            if (map[idx[i]])
                return err_set(e, ERR_RUN, "cpu k_router: forced route of "
                               "row %lld names expert %lld twice",
                               (long long)r, (long long)idx[i]);
            map[idx[i]] = 1;
            w[i] = score[idx[i]];
        }
        part = a->norm ? 1 / sum(w, k) : 1;
        for (i = 0; i < k; i++) w[i] *= part;
    }
    return ERR_OK;
}

/* Normalised: the scores' common factor drops out and only the chosen get a
** gradient; else all do. */
static int k_router_bwd(struct dev *d, const struct k_router_bwd *a,
                        struct err *e)
{
    int64_t rows = a->scores.rows, n = a->scores.cols, k = a->idx.cols, r, i;

    (void)d;
    NEED(a->dlogits, rows, n, CPU_ACC);
    NEED(a->scores, rows, n, CPU_ACC);
    NEED(a->idx, rows, k, CPU_I64);
    NEED(a->weight, rows, k, CPU_ACC);
    NEED(a->dweight, rows, k, CPU_ACC);
    for (r = 0; r < rows; r++) {
        const real *score = reals(&a->scores, r), *w = reals(&a->weight, r);
        const real *dw = reals(&a->dweight, r);
        const int64_t *idx = cell(&a->idx, r, 0);
        real *dl = reals(&a->dlogits, r), mean = dot(w, dw, k);
        for (i = 0; i < n; i++) dl[i] = a->norm ? 0 : -score[i] * mean;
        for (i = 0; i < k; i++) {
            NEED_INDEX("idx", r * k + i, idx[i], n);
            dl[idx[i]] += w[i] * (dw[i] - (a->norm ? mean : 0));
        }
    }
    return ERR_OK;
}

/* Counting sort: counts, then every pair to the next place of its expert. */
static int k_route_sort(struct dev *d, const struct k_route_sort *a,
                        struct err *e)
{
    int64_t rows = a->idx.rows, k = a->idx.cols, n = a->experts, r, i;
    int64_t *next = cpu_scratch(d, (size_t)num_max(n, 1) * sizeof *next);

    NEED(a->idx, rows, k, CPU_I64);
    NEED(a->weight, rows, k, CPU_ACC);
    NEED(a->pair_weight, rows * k, 1, CPU_ACC);
    if (next == NULL) return err_nomem(e);
    memset(a->counts, 0, (size_t)n * sizeof *a->counts);
    for (r = 0; r < rows; r++) {
        const int64_t *idx = cell(&a->idx, r, 0);
        for (i = 0; i < k; i++) {
            NEED_INDEX("idx", r * k + i, idx[i], n);
            a->counts[idx[i]]++;
        }
    }
    next[0] = 0;
    for (i = 1; i < n; i++) next[i] = next[i - 1] + a->counts[i - 1];
    for (r = 0; r < rows; r++) {
        const int64_t *idx = cell(&a->idx, r, 0);
        for (i = 0; i < k; i++) {
            int64_t p = next[idx[i]]++;
            NEED_INDEX("pair", r * k + i, p, INT32_MAX);
            a->row[p] = (int32_t)r;
            a->slot[r * k + i] = (int32_t)p;
            *reals(&a->pair_weight, p) = reals(&a->weight, r)[i];
        }
    }
    return ERR_OK;
}

static int k_route_unsort(struct dev *d, const struct k_route_unsort *a,
                          struct err *e)
{
    int64_t rows = a->dweight.rows, k = a->dweight.cols, i;

    (void)d;
    NEED(a->dweight, rows, k, CPU_ACC);
    NEED(a->dpair, rows * k, 1, CPU_ACC);
    for (i = 0; i < rows * k; i++) {
        NEED_INDEX("slot", i, a->slot[i], rows * k);
        reals(&a->dweight, i / k)[i % k] = *reals(&a->dpair, a->slot[i]);
    }
    return ERR_OK;
}

#endif
