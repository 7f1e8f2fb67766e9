/*
** sweep.h - scenarios that have many waves, apart by expert parallelism.
** Inside src/report.
*/
#ifndef REPORT_SWEEP_H
#define REPORT_SWEEP_H

#include "report/view.h"

#define FULL_STACK "full-stack"

enum { MANY_SIZES = 5 };

/* Cases of one scenario at one EP. */
struct sweep {
    const char *scenario;
    int64_t ep;
    int64_t sizes;          /* times that tokens differ from the case before */
    int64_t tokens;         /* of its last case */
};

/* Sweeps with at least MANY_SIZES waves of different size, those of
** FULL_STACK first, else in the order of their first case; returns how
** many. *out is the caller's to free, NULL where there is none; without memory
** the document fails. */
int sweep_find(struct view *v, struct sweep **out) MUST_CHECK;
bool sweep_has(const struct record_found *c, const struct sweep *g);

#endif
