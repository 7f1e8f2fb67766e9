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
#include "snapshot/stacks.h"

enum snapshot_action {
    SNAPSHOT_ALLOC, SNAPSHOT_FREE_REQUESTED, SNAPSHOT_FREE_COMPLETED,
    SNAPSHOT_SEGMENT_ALLOC, SNAPSHOT_SEGMENT_FREE,
    SNAPSHOT_SEGMENT_MAP, SNAPSHOT_SEGMENT_UNMAP,   /* expandable segments */
    SNAPSHOT_OOM,
    SNAPSHOT_OTHER,     /* snapshot, annotate, user_defined, and what is
                           unknown: no memory moves */
    SNAPSHOT_BAD        /* in no device's trace: reading refuses it there */
};

struct snapshot_event {
    uint64_t addr;          /* of a block or segment; 0 where it has none; of
                               an oom the bytes that were free, UINT64_MAX
                               when that is not told */
    uint64_t bytes;         /* requested, or a segment's; of an oom the
                               rounded request, 0 when it is not told */
    int64_t time_us;        /* 0: not recorded */
    uint32_t stack;         /* in the snapshot's stacks; 0: none */
    uint16_t lane;          /* in the snapshot's list */
    uint8_t action;         /* enum snapshot_action */
    uint8_t category;       /* in the snapshot's list, plus 1; 0: none */
};

struct snapshot_block {     /* in use: what is between them is cached */
    uint64_t addr, size, requested;
    uint64_t open;          /* it may be larger by this much: see rewind.c */
    uint32_t stack;
    bool pending;           /* freed, but a stream may still use it */
};

struct snapshot_segment {   /* or what is mapped of an expandable one */
    uint64_t addr, size;
    uint16_t lane;
    bool small, expandable;
    bool guessed;           /* small is a guess: see rewind.c */
    int64_t block, n_block; /* its blocks in the device's list */
};

/* One device: its trace, oldest event first, and the state at its end,
** segments and blocks by ascending address. */
struct snapshot_device {
    struct snapshot_event *event;       /* in the snapshot's own array */
    struct snapshot_segment *segment;
    struct snapshot_block *block;
    int64_t n_event, n_segment, n_block;
};

/* Blocks never move between streams, nor between private pools. */
struct snapshot_lane {
    uint64_t stream;        /* handle */
    uint32_t pool[2];       /* 0, 0: no private pool */
};

/* An annotation of the user's, from start to end; INT64_MAX: it is open. */
struct snapshot_note {
    const char *name;
    int64_t device, start_us, end_us;
};

struct snapshot_unknown { const char *action; int64_t events; };

struct snapshot {
    struct snapshot_device *device;     /* by CUDA index; may be empty */
    int64_t n_device;
    struct snapshot_event *event;       /* of all devices; owned */
    int64_t n_event;
    struct snapshot_lane *lane;
    int64_t n_lane;
    struct stacks stacks;
    struct snapshot_note *note;         /* by start */
    int64_t n_note;
    struct snapshot_unknown *unknown;   /* actions that were passed over */
    int64_t n_unknown;
    const char **category;              /* names that events bear */
    int64_t n_category;

    struct mem_config config;           /* from allocator_settings */
    char *settings;         /* PYTORCH_CUDA_ALLOC_CONF as recorded; owned;
                               NULL: not recorded */
    char reason[160];       /* why our allocator cannot predict this file,
                               "" when it can */
    char idle[160];         /* settings that decided nothing, "": none */
    bool segments_alone;    /* torch.cuda.memory_snapshot(): no traces */
    bool overflowed;        /* the recorder dropped the oldest events */
    int64_t max_entries;    /* of the recorder's ring; 0: not told */
    struct arena *text;     /* strings of the above; owned */
};

/* Checks that blocks tile segments and that addresses and sizes are
** plausible. What our allocator does not know (private pools, settings,
** actions) is kept as reason. ERR_INPUT names origin and place. The caller
** frees *out. */
struct pickle_input;
int snapshot_stream(const struct pickle_input *in, const char *origin,
                    struct snapshot *out, struct err *e) MUST_CHECK;
/* The same from a file ("-": standard input) of any size, as a stream. */
int snapshot_load(const char *path, struct snapshot *out, struct err *e)
    MUST_CHECK;
void snapshot_free(struct snapshot *s);

/* Appends a snapshot of a traced allocator (config.trace) as its device 0:
** its state now, and the trace from event first on. Protocol 4, the same bytes
** for the same trace, a frame with operator, phase and layer for each event and
** block, times that count events, its settings, and annotations for phases and
** layers, and for the whole where wave (may be NULL) names it. ERR_RUN: no
** trace, or no host memory. */
int snapshot_write(const struct mem *m, uint64_t first, const char *wave,
                   struct buf *b, struct err *e) MUST_CHECK;

/* What a setting means for a replay. */
enum setting_effect {
    SETTING_USED,           /* c was set */
    SETTING_IDLE,           /* known; moves no block of a replay */
    SETTING_UNKNOWN         /* ours cannot follow it */
};

/* One setting as PYTORCH_CUDA_ALLOC_CONF spells it ("max_split_size_mb",
** "roundup_power2_divisions"), or "limit" in bytes. ERR_USAGE names key, value
** and remedy; *effect may be NULL, then SETTING_UNKNOWN is an error too. */
int settings_set(struct mem_config *c, const char *key, const char *value,
                 enum setting_effect *effect, struct err *e) MUST_CHECK;
/* A whole PYTORCH_CUDA_ALLOC_CONF: "key:value,key:[64:8,>:1]". each (may be
** NULL) sees what every setting means. */
typedef void setting_seen(void *ctx, const char *key, const char *value,
                          enum setting_effect effect);
int settings_parse(struct mem_config *c, const char *text,
                   setting_seen *seen, void *ctx, struct err *e)
    MUST_CHECK;

#endif
