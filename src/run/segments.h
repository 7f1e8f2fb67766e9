/*
** segments.h - what a rank asked of its device's segments, and the same
** answers once more.
**
** The allocator takes the lowest address among free blocks of one size, and
** gives cached segments back when the device is full. Where a driver places
** segments and when it is full is no property of the step: ranks that share a
** GPU take turns as their threads happen to run. A device that computes is
** therefore held beside dry on the answers that it got: everything the step
** and the allocator made of them must be the same, to the byte.
*/
#ifndef RUN_SEGMENTS_H
#define RUN_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "mem/mem.h"

struct segment_event {
    uint64_t bytes, addr;       /* addr 0: the device was full */
    bool put;
};

/* Zeroed: empty. Keep it in place while a source made of it is in use. */
struct segment_log {
    struct segment_event *event;
    size_t n, cap;
    bool lost;                  /* no host memory for an event */
    struct mem_source from;     /* whose answers it notes */
};

/* from, with a note of all that is asked. ERR_RUN: no host memory. */
struct mem_source segment_note(struct segment_log *l, struct mem_source from);
void segment_log_free(struct segment_log *l);

/* A second reading of a log. */
struct segment_again {
    const struct segment_log *log;
    size_t next;
    bool parted;                /* at next, something else was asked */
    struct mem_dry_source made_up;
    struct mem_source alone;    /* answers from there on */
};

/* The log's answers in its order, as long as its questions are asked. */
struct mem_source segment_repeat(struct segment_again *a,
                                 const struct segment_log *l);
/* ERR_WRONG unless they were, to the log's end. */
int segment_all(const struct segment_again *a, struct err *e) MUST_CHECK;

#endif
