/*
** live.h - the blocks that are allocated as a trace goes by (internal to
** snapshot).
*/
#ifndef SNAPSHOT_LIVE_H
#define SNAPSHOT_LIVE_H

#include "snapshot/addr_map.h"
#include "snapshot/walk.h"

struct live_block {
    uint64_t addr, size, requested;
    int64_t event;          /* that allocated it; -1: before the trace */
    uint32_t stack;
    uint16_t lane;
    uint8_t category;       /* as in snapshot_event */
};

struct live {
    const struct snapshot_device *d;
    const struct walk *w;
    struct live_block *block;   /* in no order; owned */
    int64_t n, cap;
    struct addr_map at;
};

/* The state at the start. False: no host memory. live_free in any case. */
bool live_start(struct live *l, const struct snapshot *s,
                const struct rewind *start, const struct walk *w);
/* One event on. *gone receives the block whose free was requested, size 0 when
** it is no such event; an alloc's block is the last of block[]. */
bool live_step(struct live *l, int64_t event, struct live_block *gone);
void live_free(struct live *l);

#endif
