/*
** grant.h - how many tokens a shape's batch may have, every segment scaled
** alike, planned anew and simulated.
**
** Whether a batch fits is not monotone in its tokens: segments of the caching
** allocator break differently, so a larger batch may fit where a smaller one
** does not. Such a hole is where what is left of a block comes to less than the
** mebibyte that is worth splitting, or where another block fits best: a few
** rows of each rank wide. What is granted is therefore a number of tokens that
** fits together with numbers spread over the hundredth below it, GRANT_TRIALS
** at least where there are so many, and with more of them where the allocators
** of two neighbours decided otherwise (tried.h): until nothing is left between
** them, or the trials are used up. A hole between those is missed.
**
** Where a rank takes all but a thousandth of its device and none ran short, the
** device's size ends the tokens, and half the trials do: holes are rare there.
** Where the search has met two holes there are more of them, and it has twice
** the trials.
*/
#ifndef FIT_GRANT_H
#define FIT_GRANT_H

#include "fit/simulate.h"

/* Trials at least, and events of the allocators in all of them together, for
** each rank, of two at least and of GRANT_RANKS at most: more trials where each
** has fewer. */
enum { GRANT_TRIALS = 64, GRANT_EVENTS = 6000000, GRANT_RANKS = 4 };
#define GRANT_MOST (INT64_C(1) << 26)   /* tokens; more are not tried */

struct grant {
    int64_t tokens;         /* granted; 0: not even one token a segment */
    int64_t failure;        /* the first number of tokens above that was tried
                               and does not fit; -1: none, all there can be
                               fit */
    int64_t trials;         /* in the hundredth below that fit too */
};

/* limit: bytes of a device. start: tokens to begin the search with, a guess.
** The shape must have a batch. */
int grant_tokens(const struct shape *s, int64_t limit, int64_t start,
                 struct grant *out, struct err *e) MUST_CHECK;

#endif
