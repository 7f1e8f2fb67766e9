/*
** replay.h - a recorded PyTorch trace through our allocator.
**
** The allocator starts in the state in which the trace begins and is asked
** for every allocation in turn. Where the driver put a segment cannot be
** known, so a segment that the trace also got takes the recorded address;
** everything else is our own prediction and is compared with the record.
*/
#ifndef SNAPSHOT_REPLAY_H
#define SNAPSHOT_REPLAY_H

#include "snapshot/walk.h"

struct replay {
    int64_t device;
    uint64_t events;        /* of the trace, of all kinds */
    struct replay_bytes initial;        /* before the first event */
    struct replay_bytes peak, final;
    struct replay_bytes recorded;       /* final, as the file has it */
    uint64_t address_mismatches;    /* blocks at another address */
    uint64_t segment_mismatches;    /* segments got, put back or sized
                                       otherwise */
    uint64_t block_mismatches;      /* live at the end, but elsewhere or of
                                       another size */
    uint64_t assumed_sizes;         /* blocks at the start whose unsplit slack
                                       the file does not tell: taken as 0 */
    uint64_t ooms;                  /* allocations that c's limit refused */
    int64_t first_oom;              /* the event of the first; -1 */
    int64_t peak_event;             /* the first at which allocated is highest;
                                       -1: before the first */
};

/* Replays one device from its start under settings c; s->config are those
** recorded, others answer what would have been. With a limit the requests that
** failed in the record are made again, and their blocks let go at once. seen
** (may be NULL) sees the bytes after each event. */
int replay_from(const struct snapshot *s, int64_t device,
                const struct rewind *start, const struct mem_config *c,
                walk_seen *seen, void *ctx, struct replay *out,
                struct err *e) MUST_CHECK;
/* Where the trace leaves sizes at the start open: makes them as large as the
** recorded placements demand, under the recorded settings. */
int replay_settle(const struct snapshot *s, int64_t device,
                  struct rewind *start, struct err *e) MUST_CHECK;

#endif
