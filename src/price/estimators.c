/* estimators.c - the estimators that the program has, in the order in which
** they are shown: see price.h. A new one is a row here. */
#include <string.h>

#include "price/internal.h"

const struct price_estimator price_estimators[PRICE_ESTIMATORS] = {
    {PRICE_BUSIEST_RANK, price_busiest_rank},
    {PRICE_PER_RANK, price_per_rank},
    {PRICE_PER_RANK_ANY, price_per_rank_any},
    {PRICE_HEURISTIC, price_heuristic},
    {PRICE_RETAINED_STATES, price_retained_states},
    {PRICE_RETAINED_RANK, price_retained_rank},
    {PRICE_KEPT_RANK, price_kept_rank},
};

static const struct price_estimator earlier[] = {
    {"retained-flat", price_retained_flat},
    {"retained-split4", price_retained_split4},
    {"retained-split6", price_retained_split6},
    {"retained-parts", price_retained_parts},
    {"retained-parts64", price_retained_parts64},
};

bool price_shows(int i, const struct price_facts *f)
{
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
