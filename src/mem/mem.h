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
#include "mem/category.h"

/* Where segments come from. get returns ERR_OOM when the device is full
** (the allocator then gives back cached segments and tries again). */
struct mem_source {
    void *ctx;
    int (*get)(void *ctx, uint64_t bytes, uint64_t *addr, struct err *e);
    void (*put)(void *ctx, uint64_t addr, uint64_t bytes);
};

/* Addresses only: segments from ascending made-up addresses, limit bytes in
** all (0: no limit). The state lives in the struct; keep it while in use. */
struct mem_dry_source { uint64_t next, used, limit; };
struct mem_source mem_dry_source(struct mem_dry_source *s, uint64_t limit);

enum mem_phase {
    PHASE_NONE, PHASE_FORWARD, PHASE_HEAD, PHASE_RECOMPUTE, PHASE_BACKWARD,
    PHASE_OPTIMIZER, PHASE_COUNT
};
const char *mem_phase_name(enum mem_phase p);

struct mem_tag {
    uint8_t category;       /* enum category */
    uint8_t phase;          /* enum mem_phase */
    int16_t layer;          /* -1 outside the decoder */
    const char *op;         /* static string: "moe.fc2.base" */
};

/* Allocator settings as PYTORCH_CUDA_ALLOC_CONF names them; zeros are the
** defaults. */
struct mem_config {
    uint64_t max_split_bytes;           /* 0: unlimited */
    uint64_t max_non_split_rounding;    /* 0: 20 MiB */
    uint64_t large_segment_bytes;       /* 0: 20 MiB */
    uint64_t limit_bytes;               /* 0: none; else OOM beyond */
    bool trace;                         /* keep every event */
};

struct mem;
struct mem_block;           /* a live allocation; opaque */

int mem_new(const struct mem_config *c, struct mem_source src,
            struct mem **out, struct err *e) MUST_CHECK;
/* Returns every segment to the source, live blocks included. */
void mem_free_all(struct mem *m);

/* Allocates bytes (0 gives a NULL block, no event). ERR_OOM names the tag,
** the requested bytes, what is allocated, reserved and the limit. */
int mem_alloc(struct mem *m, uint64_t bytes, struct mem_tag tag,
              struct mem_block **out, struct err *e) MUST_CHECK;
void mem_release(struct mem *m, struct mem_block *b);   /* NULL is fine */
uint64_t mem_addr(const struct mem_block *b);           /* 0 for NULL */
uint64_t mem_requested(const struct mem_block *b);

/* empty_cache(): gives back whole cached segments. */
void mem_empty_cache(struct mem *m);

struct mem_stats {
    uint64_t allocated, requested, reserved, active;    /* now */
    uint64_t allocated_peak, requested_peak, reserved_peak, active_peak;
    uint64_t events;        /* alloc and free events since the start */
    uint64_t fingerprint;   /* of the (alloc|free, bytes, category) sequence */
};
void mem_stats(const struct mem *m, struct mem_stats *out);

/* A peak since the last mem_mark_peak, with what was live at the first
** instant of the allocated maximum. by[] are requested bytes now live per
** category less those live at the mark (CAT_ROUNDING: block minus requested,
** likewise), so they sum to allocated. */
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

/* The trace, when kept: events in order, borrowed until the next call that
** allocates. A free event repeats its block's bytes and tag. */
struct mem_event {
    uint64_t addr;
    uint64_t bytes;         /* requested */
    uint64_t alloc;         /* index of the alloc event it belongs to */
    struct mem_tag tag;
    bool is_free;
};
const struct mem_event *mem_trace(const struct mem *m, uint64_t *n);

#endif
