/*
** mem.h - one rank's caching allocator: PyTorch's native CUDA allocator
** (allocator.md part A) over segments that a device supplies.
**
** Every allocation carries a tag: category, phase, layer and operator. The
** allocator keeps the peaks that torch.cuda.max_memory_allocated and its
** siblings keep, the bytes of each category at the first instant of the
** allocated peak, and, if asked, a compact trace of all events. It is used
** by one thread at a time (each rank owns one).
*/
#ifndef MEM_MEM_H
#define MEM_MEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/category.h"

/* Where segments come from. get returns ERR_OOM when the device is full
** (the allocator then gives back cached segments and tries again); any other
** error ends the allocation. Addresses are multiples of 512, never 0. */
struct mem_source {
    void *ctx;
    int (*get)(void *ctx, uint64_t bytes, uint64_t *addr, struct err *e);
    void (*put)(void *ctx, uint64_t addr, uint64_t bytes);
};

/* Addresses only: segments from ascending made-up addresses, limit bytes in
** all (0: no limit). The state lives in the struct; keep it while in use. */
struct mem_dry_source { uint64_t next, used, limit; };
struct mem_source mem_dry_source(struct mem_dry_source *s, uint64_t limit);

#define MEM_PHASES(X) \
    X(NONE, "none") X(FORWARD, "forward") X(HEAD, "head") \
    X(RECOMPUTE, "recompute") X(BACKWARD, "backward") \
    X(OPTIMIZER, "optimizer")

enum mem_phase {
#define MEM_PHASE(constant, name) PHASE_##constant,
    MEM_PHASES(MEM_PHASE)
#undef MEM_PHASE
    PHASE_COUNT
};
const char *mem_phase_name(enum mem_phase p);

struct mem_tag {
    uint8_t category;       /* enum category, never CAT_ROUNDING */
    uint8_t phase;          /* enum mem_phase */
    int16_t layer;          /* -1 outside the decoder */
    const char *op;         /* string that outlives the allocator:
                               "moe.fc2.base" */
};

/* Allocator settings as PYTORCH_CUDA_ALLOC_CONF names them, in bytes; zeros
** are the defaults. */
struct mem_config {
    uint64_t max_split_bytes;           /* 0: unlimited; else >= 20 MiB */
    uint64_t max_non_split_rounding;    /* 0: 20 MiB, the least allowed */
    uint64_t large_segment_bytes;       /* 0: 20 MiB; else >= 10 MiB and a
                                           multiple of 512 */
    uint64_t limit_bytes;               /* 0: none; else OOM beyond */
    /* roundup_power2_divisions for requests of 1 MiB (and less), 2 MiB, ...
    ** 32 GiB (and more): 0, or a power of two. */
    uint32_t roundup_divisions[16];
    bool expandable;                    /* expandable_segments:True; only
                                           replays have it */
    bool rounded;                       /* every block is cut to its request
                                           rounded to 512 B, as it is in
                                           expandable segments */
    bool trace;                         /* keep every event */
    bool counters;                      /* keep what mem_counter tells */
};

struct mem;
struct mem_block;           /* a live allocation; opaque */

/* ERR_USAGE names a setting out of its bounds. */
int mem_new(const struct mem_config *c, struct mem_source src,
            struct mem **out, struct err *e) MUST_CHECK;
/* Returns every segment to the source, live blocks included, and frees the
** allocator. NULL is fine. */
void mem_free_all(struct mem *m);

/* Allocates bytes (0 gives a NULL block, no event). ERR_OOM names the tag,
** the requested bytes, what is allocated, reserved and the limit; every
** block is then as before, but cached segments have been given back. After
** ERR_RUN (host memory) nothing has changed. */
int mem_alloc(struct mem *m, uint64_t bytes, struct mem_tag tag,
              struct mem_block **out, struct err *e) MUST_CHECK;
void mem_release(struct mem *m, struct mem_block *b);   /* NULL is fine */
uint64_t mem_addr(const struct mem_block *b);           /* 0 for NULL */
uint64_t mem_requested(const struct mem_block *b);      /* 0 for NULL */
/* The bytes it counts in allocated: rounded, plus unsplit slack. */
uint64_t mem_block_bytes(const struct mem_block *b);    /* 0 for NULL */

/* empty_cache(): gives back whole cached segments. */
void mem_empty_cache(struct mem *m);

/* A number that is the same, all but surely, for the same blocks in the same
** places, live ones of the same tags: what comes after it comes out alike. */
uint64_t mem_layout(const struct mem *m);

/* An allocator over a dry source as it is now, with that source, for whoever
** has others begin there: no trace may be kept. mem_rewind makes it so again,
** in its place, whatever came after: blocks that were live then are, at the
** same pointers. */
struct mem_kept;
int mem_keep(const struct mem *m, struct mem_kept **out, struct err *e)
    MUST_CHECK;
void mem_rewind(struct mem *m, const struct mem_kept *k);
void mem_kept_free(struct mem_kept *k);     /* NULL is fine */

/* ---- statistics --------------------------------------------------------- */

/* Peaks are of the time since mem_new. active equals allocated, because one
** stream never waits for another to let go of a block. */
struct mem_stats {
    uint64_t allocated, requested, reserved, active;    /* now */
    uint64_t allocated_peak, requested_peak, reserved_peak, active_peak;
    uint64_t events;        /* alloc and free events since the start */
    uint64_t fingerprint;   /* of the (alloc|free, bytes, category) sequence */
    uint64_t decisions;     /* of which block was handed out each time, whether
                               it was split, and what segments were got; not
                               where a trace is kept */
    uint64_t retries;       /* segments asked for again after giving back */
    uint64_t ooms;
    uint64_t segment_gets, segment_puts;    /* calls that succeeded */
};
void mem_stats(const struct mem *m, struct mem_stats *out);

/* PyTorch's statistics (allocator.md A.10) for both pools and for each; where
** the config asked for counters. */
enum mem_stat {
    MEM_ALLOCATION, MEM_ALLOCATED_BYTES, MEM_REQUESTED_BYTES,
    MEM_SEGMENT, MEM_RESERVED_BYTES,
    MEM_INACTIVE_SPLIT, MEM_INACTIVE_SPLIT_BYTES,   /* free, of a segment in
                                                       use */
    MEM_OVERSIZE_ALLOCATION, MEM_OVERSIZE_SEGMENT,  /* >= max_split_bytes */
    MEM_STAT_COUNT
};
enum mem_scope { MEM_ALL, MEM_SMALL, MEM_LARGE, MEM_SCOPE_COUNT };
struct mem_counter {
    uint64_t current, peak;
    uint64_t added, removed;    /* sums of the changes since the start */
};
struct mem_counter mem_counter(const struct mem *m, enum mem_stat s,
                               enum mem_scope scope);

/* A peak since the last mem_mark_peak (or mem_new), with what was live at
** the first instant of the allocated maximum. by[] are requested bytes then
** live per category less those live at the mark (CAT_ROUNDING: block minus
** requested, likewise), so they sum to allocated. When nothing rose above
** the mark, allocated, by[] and event are 0 and tag.op is NULL. */
struct mem_peak {
    uint64_t allocated;     /* highest allocated bytes minus those at mark */
    uint64_t requested;     /* highest requested minus those at mark */
    uint64_t reserved;      /* highest reserved bytes (absolute) */
    int64_t by[CAT_COUNT];
    uint64_t event;         /* events since the mark, 0-based */
    struct mem_tag tag;     /* the allocation that reached it */
};
void mem_mark_peak(struct mem *m);
void mem_peak(const struct mem *m, struct mem_peak *out);

/* ---- trace -------------------------------------------------------------- */

/* The trace, when kept: events in order, borrowed until the next call that
** allocates. A free event repeats its block's address, bytes and tag. */
struct mem_event {
    uint64_t addr;
    uint64_t bytes;         /* requested */
    const char *op;         /* these four: the tag */
    uint8_t category, phase;
    int16_t layer;
    uint32_t is_free : 1;
    uint32_t alloc : 31;    /* index of the alloc event it belongs to; an
                               alloc event's is its own */
};
const struct mem_event *mem_trace(const struct mem *m, uint64_t *n);

/* Segments got from and put back to the source, in order, likewise. */
struct mem_segment_event {
    uint64_t addr, bytes;
    uint64_t event;         /* events that came before */
    bool is_free;
};
const struct mem_segment_event *mem_segment_trace(const struct mem *m,
                                                  uint64_t *n);

#endif
