/*
** free_set.h - free blocks ordered by (size, address) (internal to mem).
**
** Blocks fall into bins by size: 16 bins to each power of two, so a step's
** few dozen free blocks are nearly alone in theirs, and a bitmap finds the
** next bin in use. Inside a bin the order is kept by a treap over the blocks
** themselves, so 10^6 free blocks of one size cost a logarithm.
*/
#ifndef MEM_FREE_SET_H
#define MEM_FREE_SET_H

#include "mem/block.h"

/* Sizes are at most 2^60 = 2^51 units of 512, the last in bin 768. */
enum { SET_WORDS = 13, SET_BINS = SET_WORDS * 64 };

struct free_set {
    uint64_t words;                     /* bit w: map[w] is not zero */
    uint64_t map[SET_WORDS];            /* bit: the bin is not empty */
    struct mem_block *root[SET_BINS];
};

/* A zeroed set is empty. Sizes are multiples of 512 >= 512. insert makes the
** block's state BLOCK_FREE; remove leaves the state to the caller. */
void free_set_insert(struct free_set *s, struct mem_block *b);
void free_set_remove(struct free_set *s, struct mem_block *b);
/* The first block of at least size bytes, the lowest address among equals;
** NULL: none. */
struct mem_block *free_set_fit(const struct free_set *s, uint64_t size);
/* The block of this size and address; NULL: not in the set. */
struct mem_block *free_set_find(const struct free_set *s, uint64_t size,
                                uint64_t addr);
/* The block after b (before b), by b's size and address: b itself need not be
** in the set. NULL: none. */
struct mem_block *free_set_next(const struct free_set *s,
                                const struct mem_block *b);
struct mem_block *free_set_previous(const struct free_set *s,
                                    const struct mem_block *b);
/* The block with the greatest (size, address); NULL when empty. */
struct mem_block *free_set_last(const struct free_set *s);

#endif
