/*
** simulate.h - a wave's three first steps on the dry device: what a rank
** really takes, weights, adapters, Adam's moments, gradients, fragmentation
** and dispatch buffers included.
*/
#ifndef FIT_SIMULATE_H
#define FIT_SIMULATE_H

#include "fit/shape.h"

struct simulated {
    bool fits;
    int64_t needed;             /* bytes a rank takes from its device, at most:
                                   segments and dispatch buffers. Where it does
                                   not fit, without a limit. */
    int64_t dispatch;           /* of these, dispatch buffers */
    int64_t rank;               /* that takes most */
    int64_t wave;               /* of its peak */
    char place[96];             /* "recompute, layer 39, moe.fc2.sum" */
};

/* The shape's batch b (NULL: its recorded layout) on devices of limit bytes.
** Running out of memory is an answer, not an error. ERR_INPUT: a plan or a
** step that cannot be. */
int simulate(const struct shape *s, const struct batch *b, int64_t limit,
             struct simulated *out, struct err *e) MUST_CHECK;
/* The bare answer, at half the cost. */
int simulate_fits(const struct shape *s, const struct batch *b, int64_t limit,
                  bool *fits, struct err *e) MUST_CHECK;

#endif
