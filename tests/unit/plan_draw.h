/*
** plan_draw.h - random cases of the planner's property tests: one seed a case,
** printed on failure, PEAKPROOF_SEED replays it; and the plain answer to which
** row sees which.
*/
#ifndef PLAN_DRAW_H
#define PLAN_DRAW_H

#include <stdio.h>
#include <stdlib.h>

#include "batch/batch.h"

static uint64_t seed, rng_state;

/* splitmix64 */
static inline uint64_t rng(void)
{
    uint64_t z = rng_state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline int64_t pick(int64_t lo, int64_t hi)
{
    return lo + (int64_t)(rng() % (uint64_t)(hi - lo + 1));
}

#define CHECK(x) \
    do { \
        if (!(x)) \
            fail_msg("PEAKPROOF_SEED=%llu: %s", (unsigned long long)seed, \
                     #x); \
    } while (0)

/* one_case on every seed from first on, or on PEAKPROOF_SEED alone. */
static inline void each_seed(uint64_t first, int64_t cases,
                             void (*one_case)(void))
{
    const char *replay = getenv("PEAKPROOF_SEED");
    int64_t i;

    for (i = 0; i < cases; i++) {
        seed = replay != NULL ? strtoull(replay, NULL, 10)
                              : first + (uint64_t)i;
        rng_state = seed;
        one_case();
        if (replay != NULL) break;
    }
}

static inline int64_t segment_at(const struct batch *b, int64_t row)
{
    int64_t i = 0;

    while (row >= b->seg[i].start + b->seg[i].tokens) i++;
    return i;
}

static inline bool visible(const struct batch *b, int64_t q, int64_t k)
{
    int64_t s = segment_at(b, q), t = segment_at(b, k);

    if (s == t) return k <= q;
    while (s >= 0 && s != t) s = b->seg[s].parent;
    return s >= 0;
}

#endif
