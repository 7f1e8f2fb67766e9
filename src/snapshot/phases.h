/*
** phases.h - the peak within each annotation of the user's (internal to
** snapshot): phases, and waves where their name says so.
*/
#ifndef SNAPSHOT_PHASES_H
#define SNAPSHOT_PHASES_H

#include "snapshot/walk.h"

struct phase {
    const char *name;       /* borrowed of the snapshot */
    int64_t first, last;    /* events, by their time; last < first: none */
    uint64_t start;         /* allocated before first */
    uint64_t peak;          /* highest allocated, first to last */
    int64_t peak_event;
    bool open;              /* it did not end */
};

struct phases {
    struct phase *at;       /* by start; owned */
    int64_t n;
};

/* The annotations of w's device (all of them where they name none); those
** whose name begins with only, unless that is NULL. */
int phases_find(const struct snapshot *s, const struct walk *w,
                const char *only, struct phases *out, struct err *e)
    MUST_CHECK;
void phases_free(struct phases *p);

/* The first event of a device at or after a time; its events' number when all
** are before. */
int64_t phases_event_at(const struct snapshot_device *d, int64_t time_us);

#endif
