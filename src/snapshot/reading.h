/*
** reading.h - a snapshot while it is read: events.c turns dicts
** into events, frames and stacks as the pickle goes by, and
** snapshot.c what is left of it into segments, settings and traces.
**
** A hostile file can name one list many times, so that what it spells out is
** far longer than the file. Every element costs the file's writer at least a
** byte when it is honest; more elements than bytes are refused.
** Inside src/snapshot.
*/
#ifndef SNAPSHOT_READING_H
#define SNAPSHOT_READING_H

#include "snapshot/pickle.h"
#include "snapshot/snapshot.h"

/* What hooks make of containers. */
enum held {
    HELD_NOTHING,
    HELD_EVENT,     /* made: index in the snapshot's events */
    HELD_EVENTS,    /* a trace: index in reading's traces */
    HELD_FRAME,     /* index in stacks */
    HELD_STACK,     /* index in stacks */
    HELD_PAIR       /* a tuple of two small numbers: a << 32 | b */
};

struct trace_range { int64_t first, n; };

struct reading {
    struct snapshot *s;
    int64_t cap_event;
    struct trace_range *trace;      /* owned */
    int64_t n_trace;
    int64_t bad_event;              /* the first that is not right; -1 */
    bool bad;                       /* the one being read is not */
    char bad_why[160];
    int64_t lane;                   /* the last one asked for */
    uint32_t *id;                   /* scratch; owned */
    size_t cap_id;
    const char *origin;
    int64_t device;                 /* a place, for messages */
    const char *kind;               /* "segment"; NULL: the file itself */
    int64_t index;
    uint64_t left;                  /* elements that may still come */
    struct err *e;
};

/* The hooks; ctx is a struct reading. */
struct pickle_hooks reading_hooks(struct reading *r);

/* An array of n items with room for one more: its size is the power of two
** that holds n. NULL: no host memory, and the array is as before. */
void *reading_room(void *array, int64_t n, size_t size);

/* The lane of a stream and a pool id (NULL: none) in *out. On failure *why
** says what is wrong, or is NULL: no host memory. */
bool reading_lane(struct reading *r, uint64_t stream,
                  const struct pickle *pool, uint16_t *out, const char **why);

/* Numbers of a dict; false: *why has what they must be. */
bool reading_uint(const struct pickle *v, uint64_t *out, char *why,
                  size_t n_why);
bool reading_bytes(const struct pickle *v, uint64_t *out, char *why,
                   size_t n_why);
bool reading_address(const struct pickle *v, uint64_t *out, char *why,
                     size_t n_why);
/* "must be a list, is missing". */
void reading_type(const struct pickle *v, const char *want, char *why,
                  size_t n_why);

/* Text as a string that outlives the reading, safe to print; NULL: no host
** memory. */
char *reading_keep(struct reading *r, const struct pickle *v);
/* Whether a dict has True there. */
bool reading_true(const struct pickle *d, const char *key);

/* Takes over allocator_settings, where there are such. What ours cannot follow
** is the reason that the snapshot is not predicted. */
int reading_settings(struct reading *r, const struct pickle *top) MUST_CHECK;

#endif
