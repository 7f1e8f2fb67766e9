/*
** adapters.h - what a case's ranks have learned, in one place.
** Inside src/run.
*/
#ifndef RUN_ADAPTERS_H
#define RUN_ADAPTERS_H

#include "run/ranks.h"

/* Writes x->save_adapters (model/peft.h): that folder itself where the run
** has one case, else SCENARIO.CASE within it. */
int run_adapters_save(const struct ranks *r, struct err *e) MUST_CHECK;

#endif
