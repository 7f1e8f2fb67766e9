/*
** explain_plot.h - the timeline of a wave as a picture, with its data and its
** gnuplot script beside it.
*/
#ifndef BENCH_EXPLAIN_PLOT_H
#define BENCH_EXPLAIN_PLOT_H

#include <stdint.h>

#include "base/err.h"

/* Draws a wave of the named case of the run in dir as file, NAME.svg; writes
** NAME.png, NAME.dat and NAME.gp too. rank -1: the most-loaded one. The case
** is run once more, from the scenario that dir's run.json names; another peak
** than the records have is ERR_INPUT, as is a run.json that names none. */
int explain_plot(const char *file, const char *dir, const char *name,
                 int64_t wave, int64_t rank, struct err *e) MUST_CHECK;

#endif
