/* estimates.c - see estimates.h */
#include "run/estimates.h"

#include <stdlib.h>

#include "price/price_json.h"

typedef int (*estimator)(const struct price_facts *f, struct estimate *out,
                         struct err *e);

static const estimator estimators[] = {price_busiest_rank, price_per_rank};
enum { N_ESTIMATORS = sizeof estimators / sizeof estimators[0] };

int estimates_json(const struct price_facts *f, json_t **out, struct err *e)
{
    struct estimate *x = calloc(N_ESTIMATORS, sizeof *x);
    const struct estimate *list[N_ESTIMATORS];
    int rc = x == NULL ? err_nomem(e) : ERR_OK, i;

    for (i = 0; i < N_ESTIMATORS && rc == ERR_OK; i++) {
        list[i] = &x[i];
        rc = estimators[i](f, &x[i], e);
    }
    if (rc == ERR_OK)
        rc = price_estimates_to_json(list, N_ESTIMATORS, out, e);
    free(x);
    return rc;
}
