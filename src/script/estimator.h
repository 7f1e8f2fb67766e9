/*
** estimator.h - estimators written in Lua, inside the module; what the
** program calls is in scenario.h.
** Inside src/script.
*/
#ifndef SCRIPT_ESTIMATOR_H
#define SCRIPT_ESTIMATOR_H

#include "script/state.h"

/* The estimators that the script declared; *out is NULL when there are none,
** else it owns s from now on. On an error s stays the caller's. */
int estimators_take(struct script *s, struct scenario_estimators **out,
                    struct err *e) MUST_CHECK;

#endif
