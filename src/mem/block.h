/*
** block.h - the allocator's block records (internal to mem).
**
** A segment is a run of blocks that tile it, linked by prev and next between
** two edges, which are one record of the allocator's. A block is live (handed
** out), free (cached, in a free set) or unused (a record that describes no
** memory). Records are 64 bytes, come from chunks and go back to a list, so
** that an event never calls malloc.
*/
#ifndef MEM_BLOCK_H
#define MEM_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mem/mem.h"

/* BLOCK_UNMAPPED: addresses of an expandable segment without memory.
** BLOCK_EDGE: what stands before a segment's first block and after its last;
** links to it are read and written as any other's, and only what its state is
** means anything. */
enum block_state {
    BLOCK_UNUSED, BLOCK_FREE, BLOCK_LIVE, BLOCK_UNMAPPED, BLOCK_EDGE
};

struct mem_block {
    uint64_t addr, size;            /* bytes */
    struct mem_block *prev, *next;  /* neighbours; next links unused ones */
    union {
        struct {
            struct mem_block *right;    /* in its bin's list or treap */
            union {
                struct mem_block **link;        /* list: what points here */
                struct mem_block *left;         /* treap */
            };
            uint32_t rank;          /* pseudo-random, heap-ordered; 0: list */
            uint32_t bin;
        } set;                      /* free */
        struct {
            uint64_t requested;
            struct mem_tag tag;
        } live;
    } u;
    uint32_t event;                 /* live: index in the trace; where there is
                                       none, which record it is */
    uint8_t state;                  /* enum block_state */
    uint8_t pool;                   /* 0 small, 1 large */
    bool expandable;                /* of an expandable segment */
};

/* A free block with a neighbour belongs to a segment still in use, because
** two free neighbours never exist. Expandable segments are not counted so. */
static inline bool block_is_split(const struct mem_block *b)
{
    return !b->expandable
        && (b->prev->state != BLOCK_EDGE || b->next->state != BLOCK_EDGE);
}

/* Of a segment, or a range. */
static inline bool block_is_first(const struct mem_block *b)
{
    return b->state != BLOCK_UNUSED && b->prev->state == BLOCK_EDGE;
}

enum { BLOCK_CHUNK = 255 };

struct block_chunk {
    struct block_chunk *next;
    struct mem_block block[BLOCK_CHUNK];
};

struct block_store {
    struct block_chunk *chunks;
    struct mem_block *unused;
    size_t n_unused;
    uint32_t records;               /* in all chunks */
};

/* After true, the next n block_take calls succeed. */
bool block_reserve(struct block_store *s, size_t n);
void block_store_free(struct block_store *s);

static inline struct mem_block *block_take(struct block_store *s)
{
    struct mem_block *b = s->unused;

    s->unused = b->next;
    s->n_unused--;
    return b;
}

static inline void block_drop(struct block_store *s, struct mem_block *b)
{
    b->state = BLOCK_UNUSED;
    b->next = s->unused;
    s->unused = b;
    s->n_unused++;
}

#endif
