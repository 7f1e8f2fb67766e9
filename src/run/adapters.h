/*
** adapters.h - what a case's ranks have learned, in one place.
*/
#ifndef RUN_ADAPTERS_H
#define RUN_ADAPTERS_H

#include "run/ranks.h"

/* Entries of the case's parameters as all ranks together hold them, all
** experts in order. */
struct run_adapters {
    struct param_list list;     /* ep 1 */
    double **value;             /* [list.n]; NULL for base tensors */
};
int run_adapters_get(const struct ranks *r, enum step_adapter what,
                     struct run_adapters *out, struct err *e) MUST_CHECK;
void run_adapters_free(struct run_adapters *a);

/* Writes x->save_adapters (model/peft.h): that folder itself where the run
** has one case, else SCENARIO.CASE within it. */
int run_adapters_save(const struct ranks *r, struct err *e) MUST_CHECK;

#endif
