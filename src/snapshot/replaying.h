/*
** replaying.h - a prediction while it runs: replay.c goes through the
** trace, replay_start.c sets up the state that it begins in.
** Inside src/snapshot.
*/
#ifndef SNAPSHOT_REPLAYING_H
#define SNAPSHOT_REPLAYING_H

#include "mem/state.h"
#include "snapshot/addr_map.h"
#include "snapshot/replay.h"

#define MIB (UINT64_C(1) << 20)
#define ADDRESS_MOST (UINT64_C(1) << 63)
#define RANGE (UINT64_C(1) << 42)       /* more than a device has */

/* A block of the record, found by its recorded address. */
struct lived {
    struct mem_block *b;    /* NULL: ours did not get it */
    uint16_t lane;
    bool pending;           /* its free was requested */
    int64_t start;          /* in the start's blocks; -1: of the trace */
};

struct run;

/* The allocator of a stream (and private pool). */
struct lane {
    struct run *run;
    struct mem *m;
    struct snapshot_event segment;  /* got in the record, not yet by us */
    bool expected;
    struct mem_ranges ranges;       /* expandable segments: */
    int64_t map, end_map;   /* events that may hold what was mapped in the
                               record, not yet by us */
};

struct run {
    const struct snapshot_device *d;
    const struct mem_config *c;
    const struct rewind *start;
    struct rewind *settle;  /* the same, when open sizes are looked for */
    int64_t settled;        /* how many were changed */
    struct rewind_frees frees;
    struct lane *lane;      /* [n_lane] */
    int64_t n_lane;
    struct addr_map at;     /* to lived */
    struct lived *lived;
    int64_t n_lived, cap_lived;
    uint64_t made_up;       /* next address of a segment of our own */
    bool apart;             /* we hold a segment that the record gave back:
                               its addresses may come again */
    struct replay_bytes now;
    struct replay *out;
    struct err failure;     /* of an allocation; most are results */
    struct err *e;
};

/* replay_start.c: an allocator for each lane, with what is there at the start;
** r->now and r->out->initial are set. */
int replaying_start(struct run *r) MUST_CHECK;

/* replay.c: where a lane's memory comes from. */
struct mem_source replaying_source(struct lane *l);
struct mem_ranges replaying_ranges(struct lane *l);
/* Counts a block that is allocated at an event. */
void replaying_count(struct run *r, int64_t event, const struct mem_block *b);
/* Notes a block of the record. */
int replaying_add(struct run *r, uint64_t addr, struct lived v) MUST_CHECK;

#endif
