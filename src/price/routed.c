/*
** routed.c - what a planner can know of routing before a wave, as the pairs
** that each rank's experts are to be charged.
*/
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "price/any.h"

__extension__ typedef __int128 wide;

#define PARTS 1000000000        /* shares are counted in billionths */

static int64_t times_up(int64_t x, int64_t parts)
{
    wide y = ((wide)x * parts + PARTS - 1) / PARTS;

    return y > INT64_MAX ? INT64_MAX : (int64_t)y;
}

int64_t price_group_pairs(const struct price_facts *f, int64_t g, int64_t r,
                          enum layer_kind kind)
{
    int64_t first = r - r % f->ep, rows = 0, i;

    assert(g >= 0 && g < f->n_group && r >= 0 && r < f->cp);
    for (i = first; i < num_min(first + f->ep, f->cp); i++)
        rows = num_sadd(rows, price_rows_of(&f->group[g], i, kind));
    return num_smul(rows, f->model->top_k);
}

/* n times the divergence of Bernoulli(x) from Bernoulli(m). */
static double divergence(double m, double x, double n)
{
    return n * (m * log(m / x) + (1 - m) * log((1 - m) / (1 - x)));
}

/*
** Loads of experts are taken to be gamma distributed with this coefficient of
** variation, so that a rank's share of E experts, of which it has E / ep, is
** Beta(A / ep, A - A / ep) with A = E / cv^2 (batch/routing.h). A Beta is
** G / (G + G') of two gammas; Chernoff's bound on (1 - x) G - x G' gives
**
**   P(share >= x) <= exp(-A (m ln(m / x) + (1 - m) ln((1 - m) / (1 - x))))
**
** with m = 1 / ep. x is where that is the chance that is left to each of the
** wave's ranks and layers, all of them together 1 %.
*/
int64_t price_share_quantile(const struct price_facts *f, double cv)
{
    double m = 1 / (double)f->ep, n = (double)f->model->experts / (cv * cv);
    double left = log(PRICE_ROUTED_MISS
                      / ((double)f->cp * (double)f->model->layers));
    double lo = m, hi = 1;
    int i;

    if (f->ep == 1 || f->model->experts == 0) return PARTS;
    for (i = 0; i < 60; i++) {
        double x = (lo + hi) / 2;
        if (divergence(m, x, n) < -left)
            lo = x;
        else
            hi = x;
    }
    return num_min(PARTS, (int64_t)ceil(hi * PARTS));
}

int64_t price_pairs_of(const struct price_facts *f, int64_t g, int64_t r,
                       int64_t layer, int64_t share)
{
    const struct price_group *p = &f->group[g];
    int64_t all;

    assert(layer >= 0 && layer < f->model->layers);
    assert(share >= 0);
    if (p->routed_pairs != NULL)
        return p->routed_pairs[r * f->model->layers + layer];
    all = price_group_pairs(f, g, r, f->model->kind[layer]);
    return share > 0 ? times_up(all, share) : num_ceil_div(all, f->ep);
}
