/*
** errors.h - raw errors of estimates against peaks, by estimator: what a run's
** summary and the report's sections count and sort alike.
*/
#ifndef RECORD_ERRORS_H
#define RECORD_ERRORS_H

#include "record/read.h"

struct record_error {
    const char *source;
    const struct record_found *c;
    int64_t wave, raw, admitted, peak;  /* admitted: raw x 1.10 where a variant
                                           has raw alone */
    double percent;
};

struct record_errors {
    struct record_error *v;             /* by source, least error first */
    int64_t n, cap;
    int64_t waves;                      /* waves that have a peak */
    const char **source;                /* [n_source] in the order in which the
                                           cases name them; the names theirs */
    int n_source, cap_source;
};

/* One of them; false where it does not cover the wave, or there is no peak. */
bool record_error_at(const struct record_found *c, int64_t wave,
                     const char *source, struct record_error *out);
/* Adds a case's: every estimate that covers its wave and has a peak; false:
** out of memory. *x is all zero before the first, and sorted after the last. */
bool record_errors_add(struct record_errors *x, const struct record_found *c);
void record_errors_sort(struct record_errors *x);
void record_errors_free(struct record_errors *x);
/* How many are of source k, and where they begin, once they are sorted. */
int64_t record_errors_part(const struct record_errors *x, int k,
                           const struct record_error **first);

#endif
