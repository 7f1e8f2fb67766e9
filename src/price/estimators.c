/* estimators.c - the estimators that the program has, in the order in which
** they are shown: see price.h. A new one is a row here. */
#include <assert.h>
#include <string.h>

#include "price/internal.h"

const struct price_estimator price_estimators[PRICE_ESTIMATORS] = {
    {PRICE_BUSIEST_RANK, price_busiest_rank,
     "before the change: every rank priced as the busiest one"},
    {PRICE_PER_RANK, price_per_rank,
     "after it, at CP2: each rank on its rows in each kind's layout"},
    {PRICE_PER_RANK_ANY, price_per_rank_any,
     "ours, any CP and EP: each rank on its rows and its experts'"},
    {PRICE_HEURISTIC, price_heuristic,
     "published: rows and widths alone, which others fall back to"},
    {PRICE_RETAINED_STATES, price_retained_states,
     "the same part by part, with the states of GDN segments"},
    {PRICE_RETAINED_RANK, price_retained_rank,
     "the same on the rows of a rank, for dense models"},
    {PRICE_KEPT_RANK, price_kept_rank,
     "ours for dense models: what a rank keeps, tensor by tensor"},
};

static const struct price_estimator earlier[] = {
    {"retained-flat", price_retained_flat,
     "earlier: the widest tensors in every layer, whole at any tp"},
    {"retained-split4", price_retained_split4,
     "earlier: retained-split6 with 4 MLP widths, a control"},
    {"retained-split6", price_retained_split6,
     "earlier: attention and GDN layers apart, 6 MLP widths"},
    {"retained-parts", price_retained_parts,
     "earlier: retained-parts64 without its 64 MiB, a control"},
    {"retained-parts64", price_retained_parts64,
     "earlier: retained-states without the states of segments"},
};

const struct price_estimator *price_earlier(int i)
{
    return i >= 0 && i < (int)(sizeof earlier / sizeof earlier[0])
           ? &earlier[i] : NULL;
}

bool price_shows(int i, const struct price_facts *f)
{
    assert(i >= 0 && i < PRICE_ESTIMATORS);
    return i < PRICE_RECOMPUTING || f->mode.recompute != RECOMPUTE_FULL ||
           f->mode.wave != WAVE_TRAIN;
}

const struct price_estimator *price_find(const char *name)
{
    size_t i;

    for (i = 0; i < PRICE_ESTIMATORS; i++)
        if (strcmp(price_estimators[i].name, name) == 0)
            return &price_estimators[i];
    for (i = 0; i < sizeof earlier / sizeof earlier[0]; i++)
        if (strcmp(earlier[i].name, name) == 0) return &earlier[i];
    return NULL;
}
