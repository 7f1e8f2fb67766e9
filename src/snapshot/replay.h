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

#include <jansson.h>

#include "snapshot/snapshot.h"

struct replay_bytes {
    uint64_t allocated;     /* blocks until their free is requested */
    uint64_t active;        /* blocks until their free is completed */
    uint64_t requested;     /* what was asked for in active blocks */
    uint64_t reserved;      /* segments */
};

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
};

/* Replays one device under settings c; s->config are those recorded, others
** answer what would have been. */
int replay_device(const struct snapshot *s, int64_t device, const char *origin,
                  const struct mem_config *c, struct replay *out,
                  struct err *e) MUST_CHECK;

/* {"file": .., "devices": [..]} of n replays; NULL: no host memory. */
json_t *replay_json(const char *file, const struct replay *r, int64_t n);

#endif
