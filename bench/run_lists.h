/*
** run_lists.h - the lists of "peakproof run --lengths": numbers and ranges,
** told as numbers to lua/scenarios/shapes.lua.
*/
#ifndef BENCH_RUN_LISTS_H
#define BENCH_RUN_LISTS_H

#include "bench/command.h"

/* Appends what the option of that name was given, which it was, to out: of a
** list its numbers, "8192,16384". ERR_USAGE names the option, what of it is
** wrong, and what it may be. */
int run_lists_put(const struct args *a, const char *name, struct buf *out,
                  struct err *e) MUST_CHECK;
/* ERR_USAGE: no number of --ep divides one of --cp, so there is no case. */
int run_lists_check(const struct args *a, struct err *e) MUST_CHECK;

#endif
