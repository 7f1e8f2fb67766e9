/*
** timeline.h - what a rank holds, event by event, in one wave: for a picture.
*/
#ifndef RECORD_TIMELINE_H
#define RECORD_TIMELINE_H

#include "mem/mem.h"

enum { TIMELINE_POINTS = 480 };

/* Requested bytes by category after an event, less those when the wave
** began. */
struct timeline_point { int64_t event, by[CAT_COUNT]; };

struct timeline {
    struct timeline_point point[TIMELINE_POINTS];
    int n_point;
    int64_t events;         /* of the wave */
    int64_t head, backward; /* the first event of the head and of the first
                               recompute or backward; -1: there is none */
    struct mem_peak peak;   /* as records have it: allocated bytes */
};

/* From the n events of a wave and its peak. The events are cut into
** TIMELINE_POINTS parts of one length; of each the highest point is kept, and
** where the peak is, that. */
void record_timeline(const struct mem_event *trace, int64_t n,
                     const struct mem_peak *peak, struct timeline *out);
/* All categories of a point. */
int64_t timeline_sum(const struct timeline_point *p);

#endif
