/*
** state.h - what an allocator holds (internal to mem and
** snapshot).
*/
#ifndef MEM_STATE_H
#define MEM_STATE_H

#include "mem/block.h"
#include "mem/free_set.h"
#include "mem/mem.h"

struct level {
    uint64_t now, peak;         /* peak since the last mark */
    uint64_t peak_before;       /* highest peak of earlier marks */
};

struct tally {
    struct level level;
    uint64_t added;
};

/* Where the allocated bytes were highest since the mark. */
struct highest {
    bool open;                  /* the state now is that maximum: by[] is
                                   taken when a release leaves it */
    uint64_t by[CAT_COUNT];     /* requested bytes live then */
    uint64_t event;             /* since the start */
    struct mem_tag tag;
};

struct baseline {               /* the state at the mark */
    uint64_t allocated, requested, event;
    uint64_t by[CAT_COUNT];
};

/* Where the addresses of expandable segments come from, and their memory.
** reserve gives *bytes of new addresses, map memory for whole pages of them:
** ERR_OOM when the device is full. */
struct mem_ranges {
    void *ctx;
    int (*reserve)(void *ctx, bool small, uint64_t *addr, uint64_t *bytes,
                   struct err *e);
    int (*map)(void *ctx, uint64_t addr, uint64_t bytes, struct err *e);
    void (*unmap)(void *ctx, uint64_t addr, uint64_t bytes);
};

struct mem {
    struct mem_config config;   /* defaults filled in */
    bool divides;               /* some of its roundup_divisions are set */
    const struct mem_ranges *ranges;    /* NULL: no expandable segments */
    struct block_store store;
    struct level allocated, requested, reserved;
    uint64_t by[CAT_COUNT];     /* requested bytes live now */
    uint64_t live;              /* allocations */
    uint64_t events, fingerprint;
    uint64_t decisions;
    struct highest highest;
    struct baseline baseline;
    uint64_t retries, ooms, segment_gets, segment_puts;
    struct mem_block *unmapped[2];      /* by address, linked by set.right */
    struct mem_block edge;      /* of every segment */
    struct free_set pool[2];    /* small, large */
    struct tally tally[MEM_STAT_COUNT][MEM_SCOPE_COUNT];

    struct mem_event *trace;    /* [events], room for trace_cap */
    uint64_t trace_cap;
    struct mem_segment_event *segment_trace;
    uint64_t n_segment_trace, segment_trace_cap;

    struct mem_source source;
};

/* alloc.c: a request's rounded bytes; n < 1 EiB. */
uint64_t mem_round(const struct mem_config *c, uint64_t n);

/* stat.c: count a segment, and mapped memory, which is reserved and is no
** segment. */
void mem_count_segment(struct mem *m, int pool, uint64_t addr, uint64_t bytes,
                       bool is_free);
void mem_count_mapped(struct mem *m, int pool, uint64_t bytes, bool is_free);

/* counters.c: what mem_counter tells, where config.counters asks for it. A
** block that is handed out (sign 1) or let go (-1). */
void mem_counters_live(struct mem *m, const struct mem_block *b, int sign);
void mem_counters_segment(struct mem *m, int pool, uint64_t bytes,
                          bool is_free);
void mem_counters_reserved(struct mem *m, int pool, int64_t bytes);
/* The free blocks beside others: n more of them, bytes more in them. */
void mem_counters_split(struct mem *m, int pool, int64_t n, int64_t bytes);
/* b is let go and will be one with its free neighbours. */
void mem_counters_merge(struct mem *m, const struct mem_block *b);
void mem_counters_mark(struct mem *m);

/* expand.c, for replays: once ranges is set, what no cached block satisfies is
** mapped. As get_segment for a block of size bytes or more; on failure what was
** mapped stays cached. Two block records must be reserved. */
int mem_expand(struct mem *m, uint64_t size, int pool, struct mem_block **out,
               struct err *e);
/* The best fit instead of b, where b could grow. */
struct mem_block *mem_expand_fit(struct mem *m, struct mem_block *b);
/* Unmaps the whole pages of a cached block. False: no host memory. */
bool mem_unmap_block(struct mem *m, struct mem_block *b);
/* The same for the one whose whole pages lie there; false: there is none. */
bool mem_unmap_at(struct mem *m, uint64_t addr, uint64_t bytes);
void mem_unmapped_insert(struct mem *m, struct mem_block *b);

/* adopt.c, for replays of recorded traces. Takes over a segment that the
** source did not give, tiled by n blocks in use (by ascending
** address) and what is free between them; blocks receives the n. A mark
** must follow before peaks are read. False: no host memory, and nothing has
** changed. */
struct adopted { uint64_t addr, size, requested; };
bool mem_adopt(struct mem *m, uint64_t addr, uint64_t bytes, bool small,
               const struct adopted *use, int64_t n,
               struct mem_block **blocks);
/* The same for an expandable segment from base to end: pieces of it that are
** mapped, by address; blocks receives those of all pieces. */
struct adopted_piece { uint64_t addr, size; int64_t n; };
bool mem_adopt_range(struct mem *m, bool small, uint64_t base, uint64_t end,
                     const struct adopted_piece *piece, int64_t n_piece,
                     const struct adopted *use,
                     struct mem_block **blocks);
/* Gives back the cached segment at addr; false when it is not one. */
bool mem_put_segment(struct mem *m, uint64_t addr, uint64_t bytes);

/* trace.c: after true, one more allocation (with its segment) and the
** release of everything that is live can be noted. */
bool mem_trace_reserve(struct mem *m);
void mem_trace_alloc(struct mem *m, struct mem_block *b);
void mem_trace_free(struct mem *m, const struct mem_block *b);
void mem_trace_segment(struct mem *m, uint64_t addr, uint64_t bytes,
                       bool is_free);

#endif
