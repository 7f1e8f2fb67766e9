/*
** walk.h - a recorded trace followed, without a model of how the allocator
** chooses: blocks lie where the record says. What a block takes follows from
** the cached block that it was cut from (allocator.md A.7), so the bytes are
** exact in expandable segments, in private pools and under settings that our
** allocator cannot predict.
*/
#ifndef SNAPSHOT_WALK_H
#define SNAPSHOT_WALK_H

#include "snapshot/rewind.h"
#include "snapshot/snapshot.h"

struct replay_bytes {
    uint64_t allocated;     /* blocks until their free is requested */
    uint64_t active;        /* blocks until their free is completed */
    uint64_t requested;     /* what was asked for in active blocks */
    uint64_t reserved;      /* segments, or what is mapped of them */
};

/* An out-of-memory that was recorded. */
struct walk_oom {
    int64_t event;
    uint64_t asked;         /* the rounded request */
    uint64_t free;          /* of the device, then; UINT64_MAX: not told */
    struct replay_bytes now;
};

struct walk {
    int64_t device, events;
    struct replay_bytes initial, peak, final;
    struct replay_bytes recorded;   /* final, as the file has it */
    int64_t peak_event;     /* the first at which allocated is highest; -1:
                               before the first */
    uint64_t *size;         /* [events] of an alloc: the block's bytes; else
                               0; owned */
    uint64_t *allocated;    /* [events] after each; owned */
    uint64_t *reserved;     /* likewise */
    struct walk_oom *oom;   /* owned */
    int64_t n_oom;
    int64_t assumed;        /* as rewind's */
    int64_t misfits;        /* blocks that lie where no cached block begins */
};

/* Sees the bytes after each event. */
typedef void walk_seen(void *ctx, int64_t event,
                       const struct replay_bytes *now);

/* Follows one device from start. ERR_INPUT names origin, device and event
** when the trace contradicts itself. seen may be NULL. The caller frees
** *out. */
int walk_device(const struct snapshot *s, int64_t device, const char *origin,
                const struct rewind *start, walk_seen *seen, void *ctx,
                struct walk *out, struct err *e) MUST_CHECK;
void walk_free(struct walk *w);

/* Why our allocator cannot predict this device; "" when it can. */
const char *walk_reason(const struct snapshot *s, int64_t device);

#endif
