/*
** timeline.h - a wave of a case of the dry device, run once more to see what
** a rank holds event by event: the files of a run hold sums.
*/
#ifndef RUN_TIMELINE_H
#define RUN_TIMELINE_H

#include "record/timeline.h"
#include "run/run.h"

/* Case i of s, wave and rank of it. ERR_USAGE: the case has no such wave or
** rank; other errors are the step's. */
int run_timeline(const struct scenario *s, int64_t i, int64_t wave,
                 int64_t rank, struct timeline *out, struct err *e)
    MUST_CHECK;

#endif
