/*
** arena.h - memory that is freed all at once.
**
** An arena hands out zeroed arrays from blocks that double in size, so a
** structure of many small arrays costs a handful of allocations and one
** free. Nothing is given back before arena_free or arena_reset.
*/
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena_block;

struct arena {
    struct arena_block *top;    /* blocks, newest first; owned */
    size_t used;                /* bytes taken from the newest */
    int64_t blocks;             /* host allocations made so far */
};

#define ARENA_INIT {NULL, 0, 0}

/* count zeroed elements of size bytes, aligned for any type. NULL when host
** memory is short or the size does not fit; never NULL for count 0. */
void *arena_take(struct arena *a, int64_t count, size_t size);
/* The same, not zeroed: for what is written before it is read. */
void *arena_take_raw(struct arena *a, int64_t count, size_t size);
/* Forgets what was taken and keeps the newest (largest) block for reuse. */
void arena_reset(struct arena *a);
void arena_free(struct arena *a);       /* back to ARENA_INIT */

/* arena_take with the type named: ARENA_TAKE(a, n, struct range). */
#define ARENA_TAKE(a, count, type) \
    ((type *)arena_take((a), (count), sizeof(type)))

#endif
