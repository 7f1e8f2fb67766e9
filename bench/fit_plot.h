/*
** fit_plot.h - the picture of "peakproof fit": what a rank takes against the
** tokens of the wave, and the device's limit.
*/
#ifndef BENCH_FIT_PLOT_H
#define BENCH_FIT_PLOT_H

#include "fit/fit.h"

/* Writes fit.dat, fit.gp and, with gnuplot, fit.svg and fit.png into dir,
** which is made. s must have a batch; f is its answer with budgets. */
int fit_plot(const char *dir, const struct shape *s, const struct fit *f,
             struct err *e) MUST_CHECK;

#endif
