/* estimators.c - the estimators that the program has, in the order in which
** they are shown: see price.h. A new one is a row here. */
#include <string.h>

#include "price/price.h"

const struct price_estimator price_estimators[PRICE_ESTIMATORS] = {
    {PRICE_BUSIEST_RANK, price_busiest_rank},
    {PRICE_PER_RANK, price_per_rank},
};

bool price_is_estimator(const char *name)
{
    int i;

    for (i = 0; i < PRICE_ESTIMATORS; i++)
        if (strcmp(price_estimators[i].name, name) == 0) return true;
    return false;
}
