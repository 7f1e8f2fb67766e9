/*
** run_lists.h - the lists of "peakproof run --lengths": numbers and ranges as
** lua/scenarios/shapes.lua reads them, checked before it does.
*/
#ifndef BENCH_RUN_LISTS_H
#define BENCH_RUN_LISTS_H

#include "bench/command.h"

/* ERR_USAGE names the option, what of it is wrong, and what it may be. */
int run_lists_check(const struct args *a, struct err *e) MUST_CHECK;

#endif
