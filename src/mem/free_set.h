/*
** free_set.h - free blocks ordered by (size, address) (internal to mem).
**
** Blocks fall into bins by size: 32 bins to each power of two, so a step's
** few dozen free blocks are nearly alone in theirs, and a bitmap finds the
** next bin in use. Inside a bin the order is kept by a list over the blocks
** themselves: what is let go and taken again is mostly its first. Where a
** walk gets long, the bin becomes a treap until it is empty again, so 10^6
** free blocks of one size cost a logarithm.
**
** Which bins are empty and where in a list a block stands follows no pattern
** that a processor would foresee, and a branch that it mistakes costs as much
** as some thirty instructions. So lists end in a block, not in NULL, and what
** points to a block is known: taking it out asks nothing.
*/
#ifndef MEM_FREE_SET_H
#define MEM_FREE_SET_H

#include "mem/block.h"

/* Sizes are at most 2^60 = 2^51 units of 512, the last in bin 1504. */
enum { SET_WORDS = 26, SET_BINS = SET_WORDS * 64 };

struct free_set {
    struct mem_block end;               /* of every list: before no block */
    uint64_t words;                     /* bit w: map[w] may not be zero */
    uint64_t map[SET_WORDS];            /* bit: the bin is not empty */
    struct mem_block *first[SET_BINS];  /* of the list; the treap's root */
};

/* Sizes grow with bins; the smallest have one each. */
static inline unsigned free_set_bin(uint64_t size)
{
    uint64_t units = size / 512 + 31;
    unsigned e = (63 ^ (unsigned)__builtin_clzll(units)) - 5;

    return (e << 5) + (unsigned)(units >> e);
}

/* The first bin in use at or above bin, which is below SET_BINS; SET_BINS:
** none. Forgets words that have become zero. */
static inline unsigned free_set_bin_from(struct free_set *s, unsigned bin)
{
    unsigned word = bin / 64;
    uint64_t bits = s->map[word] >> bin % 64, words;

    if (bits != 0) return bin + (unsigned)__builtin_ctzll(bits);
    while ((words = s->words & ~UINT64_C(1) << word) != 0) {
        unsigned next = (unsigned)__builtin_ctzll(words);

        bits = s->map[next];
        if (bits != 0) return next * 64 + (unsigned)__builtin_ctzll(bits);
        s->words &= ~(UINT64_C(1) << next);
    }
    return SET_BINS;
}

/* By (size, address), both compared at once. */
static inline bool free_set_is_before(const struct mem_block *a,
                                      uint64_t size, uint64_t addr)
{
    return (a->size < size) | ((a->size == size) & (a->addr < addr));
}

/* Where what stands below does not end: not at a list's first block. */
void free_set_insert_among(struct free_set *s, struct mem_block *b);
void free_set_remove_ranked(struct free_set *s, struct mem_block *b);
struct mem_block *free_set_fit_among(struct free_set *s, unsigned bin,
                                     uint64_t size);

/* Empty, at its place: blocks point into it. */
void free_set_init(struct free_set *s);
/* Sizes are multiples of 512 >= 512. insert makes the block's state
** BLOCK_FREE; remove leaves the state to the caller. */
static inline void free_set_insert(struct free_set *s, struct mem_block *b)
{
    unsigned bin = free_set_bin(b->size);
    struct mem_block *first = s->first[bin];

    b->state = BLOCK_FREE;
    b->u.set.bin = bin;
    b->u.set.rank = 0;
    if (first->u.set.rank != 0 ||
        free_set_is_before(first, b->size, b->addr)) {
        free_set_insert_among(s, b);
        return;
    }
    b->u.set.link = &s->first[bin];
    b->u.set.right = first;
    first->u.set.link = &b->u.set.right;
    s->first[bin] = b;
    s->map[bin / 64] |= UINT64_C(1) << bin % 64;
    s->words |= UINT64_C(1) << bin / 64;
}

static inline void free_set_remove(struct free_set *s, struct mem_block *b)
{
    struct mem_block *right = b->u.set.right, **link = b->u.set.link;
    unsigned bin = b->u.set.bin;

    if (b->u.set.rank != 0) {
        free_set_remove_ranked(s, b);
        return;
    }
    *link = right;
    right->u.set.link = link;
    s->map[bin / 64] &= ~((uint64_t)(s->first[bin] == &s->end) << bin % 64);
}

/* The first block of at least size bytes, the lowest address among equals;
** NULL: none. */
static inline struct mem_block *free_set_fit(struct free_set *s, uint64_t size)
{
    unsigned bin = free_set_bin_from(s, free_set_bin(size));
    struct mem_block *b;

    if (bin == SET_BINS) return NULL;
    b = s->first[bin];
    return b->size >= size && b->u.set.rank == 0
         ? b : free_set_fit_among(s, bin, size);
}

/* The block of this size and address; NULL: not in the set. */
struct mem_block *free_set_find(struct free_set *s, uint64_t size,
                                uint64_t addr);
/* The block after b (before b), by b's size and address: b itself need not be
** in the set. NULL: none. */
struct mem_block *free_set_next(struct free_set *s, const struct mem_block *b);
struct mem_block *free_set_previous(struct free_set *s,
                                    const struct mem_block *b);
/* The block with the greatest (size, address); NULL when empty. */
struct mem_block *free_set_last(struct free_set *s);

#endif
