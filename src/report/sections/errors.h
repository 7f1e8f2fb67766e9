/*
** errors.h - raw errors of a scenario's waves, by estimator.
** Inside src/report.
*/
#ifndef REPORT_ERRORS_H
#define REPORT_ERRORS_H

#include "report/view.h"

enum { MAX_SOURCES = 32 };

/* The estimator that is priced with what is known of routing. */
#define EVERYWHERE "per-rank-any"

struct error_at {
    const char *source;
    const struct record_found *c;
    int64_t wave, raw, admitted, peak;  /* admitted: raw x 1.10 where a variant
                                           has raw alone */
    double percent;
};

struct errors {
    struct error_at *v;                 /* by source, least error first */
    int64_t n, waves;                   /* waves that have a peak */
    const char *source[MAX_SOURCES];    /* as the cases name them */
    int n_source;
};

/* One of them; false where it does not cover the wave, or there is no peak. */
bool errors_at(const struct record_found *c, int64_t wave, const char *source,
               struct error_at *out);
/* Every estimate that covers its wave and has a peak; scenario NULL: of all.
** Without memory there are none, and the document has failed. */
void errors_of(struct view *v, const char *scenario, struct errors *out);
void errors_free(struct errors *x);
/* How many are of source k, and where they begin. */
int64_t errors_part(const struct errors *x, int k,
                    const struct error_at **first);

#endif
