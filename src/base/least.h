/*
** least.h - the least of what several threads have seen.
*/
#ifndef BASE_LEAST_H
#define BASE_LEAST_H

#include <stdatomic.h>

/* Lowers *least to x, unless it is as low already; no update is lost. */
static inline void least_put(atomic_llong *least, long long x)
{
    long long now = atomic_load(least);

    while (x < now && !atomic_compare_exchange_weak(least, &now, x)) {}
}

#endif
