/*
** rewind.h - the state in which a recorded trace begins (internal to snapshot):
** that at its end, with the trace undone.
*/
#ifndef SNAPSHOT_REWIND_H
#define SNAPSHOT_REWIND_H

#include "snapshot/snapshot.h"

/* Segments and blocks in use by ascending address, as in snapshot_device. */
struct rewind {
    struct snapshot_segment *segment;
    struct snapshot_block *block;
    int64_t n_segment, n_block;
    int64_t assumed;        /* blocks whose size is a guess: see rewind.c */
    uint64_t open_bytes;    /* they may be larger by this much together */
};

/* How a trace tells frees; a recorder can leave either out. */
struct rewind_frees { bool requests, completes; };
struct rewind_frees rewind_frees(const struct snapshot_device *d);

/* The sizes of blocks that are gone at the end follow from the settings c
** under which the file was recorded. ERR_INPUT names origin, device and event
** when trace and end contradict each other. The caller frees *out. */
int rewind_device(const struct snapshot *s, int64_t device, const char *origin,
                  struct rewind *out, struct err *e) MUST_CHECK;
void rewind_free(struct rewind *r);

#endif
