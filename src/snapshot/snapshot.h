/*
** snapshot.h - PyTorch memory snapshots: what torch.cuda.memory._snapshot()
** pickled (allocator.md part B), read and checked, and our own written.
*/
#ifndef SNAPSHOT_SNAPSHOT_H
#define SNAPSHOT_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "mem/mem.h"

enum snapshot_action {
    SNAPSHOT_ALLOC, SNAPSHOT_FREE_REQUESTED, SNAPSHOT_FREE_COMPLETED,
    SNAPSHOT_SEGMENT_ALLOC, SNAPSHOT_SEGMENT_FREE, SNAPSHOT_OOM,
    SNAPSHOT_OTHER      /* snapshot, annotate, user_defined: no memory moves */
};

struct snapshot_event {
    uint64_t addr;          /* of a block or segment; 0 where it has none */
    uint64_t bytes;         /* requested, or a segment's */
    uint32_t stream;        /* index in the device's list */
    uint8_t action;         /* enum snapshot_action */
};

struct snapshot_block {     /* in use: what is between them is cached */
    uint64_t addr, size, requested;
    bool pending;           /* freed, but a stream may still use it */
};

struct snapshot_segment {
    uint64_t addr, size;
    uint32_t stream;
    bool small;
    int64_t block, n_block; /* its blocks in the device's list */
};

/* One device: its trace, oldest event first, and the state at its end,
** segments and blocks by ascending address. */
struct snapshot_device {
    struct snapshot_event *event;
    struct snapshot_segment *segment;
    struct snapshot_block *block;
    uint64_t *stream;       /* handles */
    int64_t n_event, n_segment, n_block, n_stream;
};

struct snapshot {
    struct snapshot_device *device;     /* by CUDA index; may be empty */
    int64_t n_device;
    struct mem_config config;           /* from allocator_settings */
};

/* Checks that blocks tile segments, that addresses and sizes are plausible,
** and that our allocator knows what the file uses: expandable segments,
** private pools and unknown actions are refused by name. ERR_INPUT names
** origin and place. The caller frees *out. */
int snapshot_read(const char *data, size_t len, const char *origin,
                  struct snapshot *out, struct err *e) MUST_CHECK;
void snapshot_free(struct snapshot *s);

/* Appends a snapshot of a traced allocator (config.trace) as its device 0:
** its state now, and the trace from event first on. Protocol 4, the same bytes
** for the same trace, a frame with operator, phase and layer for each event.
** ERR_RUN: no trace, or no host memory. */
int snapshot_write(const struct mem *m, uint64_t first, struct buf *b,
                   struct err *e) MUST_CHECK;

/* One setting as PYTORCH_CUDA_ALLOC_CONF spells it ("max_split_size_mb",
** "roundup_power2_divisions"), or "limit" in bytes. Settings that would
** change placement in ways our allocator does not know are refused unless
** they are off. ERR_USAGE names key, value and remedy. */
int mem_config_set(struct mem_config *c, const char *key, const char *value,
                   struct err *e) MUST_CHECK;
/* A whole PYTORCH_CUDA_ALLOC_CONF: "key:value,key:[64:8,>:1]". */
int mem_config_parse(struct mem_config *c, const char *text, struct err *e)
    MUST_CHECK;

#endif
