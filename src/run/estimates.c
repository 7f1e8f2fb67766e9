/* estimates.c - see estimates.h */
#include "run/estimates.h"

#include <stdlib.h>

#include "price/price_json.h"

int estimates_json(const struct price_facts *f, json_t **out, struct err *e)
{
    struct estimate *x = calloc(PRICE_ESTIMATORS, sizeof *x);
    const struct estimate *list[PRICE_ESTIMATORS];
    int rc = x == NULL ? err_nomem(e) : ERR_OK, i;

    for (i = 0; i < PRICE_ESTIMATORS && rc == ERR_OK; i++) {
        list[i] = &x[i];
        rc = price_estimators[i].price(f, &x[i], e);
    }
    if (rc == ERR_OK)
        rc = price_estimates_to_json(list, PRICE_ESTIMATORS, out, e);
    free(x);
    return rc;
}
