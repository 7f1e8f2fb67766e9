/*
** range.h - runs of rows, the currency between batches, plans and kernels.
*/
#ifndef BASE_RANGE_H
#define BASE_RANGE_H

#include <stdbool.h>
#include <stdint.h>

/* Rows [start, start + len). */
struct range { int64_t start, len; };

/* Query rows [q, q + n_q) see key rows [k, k + n_k), both in one stage's own
** numbering. Causal: key j sees query i only if j - k <= i - q + diag. */
struct slice {
    int64_t q, n_q, k, n_k;
    int64_t diag;
    bool causal;
};

#endif
