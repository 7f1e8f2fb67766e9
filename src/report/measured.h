/*
** measured.h - cases that were measured on real devices: ours beside it.
**
** A cell is one measured forward and, where there is one, the case of the
** same name with ".loss" after it: with a loss and backward. What counts is
** the last wave of a case; a cell with a note is shown, and not counted.
** Inside src/report.
*/
#ifndef REPORT_MEASURED_H
#define REPORT_MEASURED_H

#include "report/view.h"

struct measured {
    const struct record_found *forward;
    const struct record_found *backward;    /* NULL: none */
};

/* What is compared. */
enum measured_what { MEASURED_FORWARD, MEASURED_RETAINED, MEASURED_BACKWARD,
                     MEASURED_WHATS };
extern const char *const measured_words[MEASURED_WHATS];

/* Measured bytes and ours; false where either is missing. */
bool measured_pair(const struct measured *m, enum measured_what what,
                   int64_t *measured, int64_t *ours);
/* Ours against the measured in percent; NaN where either is missing. */
double measured_error(const struct measured *m, enum measured_what what);
/* Whether what is compared counts: the case that it is of has no note. */
bool measured_counts(const struct measured *m, enum measured_what what);

/* Dense, one context-parallel rank, 400 rows and more (2,048 where whole
** layers run again), counted. What is left out is small enough for the
** allocator's reuse of single blocks to decide. */
bool measured_is_large(const struct measured *m);
/* Is it the first of the cells that were measured alike? */
bool measured_is_distinct(const struct view *v, int64_t i);

/* Least, median and largest of n numbers, which it sorts; NaN of none. */
struct spread { int64_t n; double min, median, max; };
struct spread spread_of(double *x, int64_t n);

/* "88 of 89 distinct cells ... within 1 %, median 0.06 %", into a sentence
** about simulated peaks; "" where nothing was measured. */
void measured_sentence(const struct view *v, struct buf *out);

#endif
