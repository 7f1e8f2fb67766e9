/*
** compose.h - what is allocated at a point of a trace, and by whom: blocks
** put into groups by one of the things that are known of them. Groups count
** the blocks' bytes, so they sum to what is allocated then.
*/
#ifndef SNAPSHOT_COMPOSE_H
#define SNAPSHOT_COMPOSE_H

#include "snapshot/live.h"

enum compose_by {
    BY_FRAME,       /* name (file:line) of the innermost frame that is the
                       user's: see compose_user_frame */
    BY_MODULE,      /* that frame's file as a Python module */
    BY_FILE,
    BY_CATEGORY,    /* as recorded, or as our own files name it */
    BY_SIZE,        /* requested bytes */
    BY_STREAM, BY_POOL,
    BY_AGE,         /* events since it was allocated */
    BY_PATTERN,     /* lines of a pattern file */
    BY_COUNT
};
extern const char *const compose_names[];   /* "frame", ...; without pattern;
                                               NULL-ended */

/* A pattern file: "GROUP: PATTERN" a line, # begins a comment. A stack belongs
** to the first line whose pattern (with * ? [..]) stands in "name (file:line)"
** of any of its frames. */
struct patterns {
    struct pattern { char *group, *glob; } *line;   /* owned */
    int64_t n;
};
int patterns_load(const char *path, struct patterns *out, struct err *e)
    MUST_CHECK;
void patterns_free(struct patterns *p);

/* The frame of a stack that names its allocation: the innermost Python frame
** outside torch and Python's own library, else the innermost Python frame,
** else the innermost frame; NULL: no frames. */
const struct stack_frame *compose_user_frame(const struct stacks *s,
                                             uint32_t stack);

/* A block's key as text that is safe to print, cut to n - 1 bytes. now is the
** event of the point, for its age. */
void compose_key(const struct snapshot *s, enum compose_by by,
                 const struct patterns *p, const struct live_block *b,
                 int64_t now, char *key, size_t n);

struct group {
    char *key;              /* owned */
    uint64_t bytes;
    int64_t blocks;
};

struct composition {
    int64_t event;          /* the state after it; -1: at the start */
    uint64_t allocated;
    uint64_t before;        /* of it from before the trace */
    struct group *group;    /* most bytes first; owned */
    int64_t n_group;
    struct live_block largest[10];
    int n_largest;
};

/* The compositions at n events, given in ascending order (-1: the start). The
** caller frees each of out[] also on failure. */
int compose(const struct snapshot *s, const struct rewind *start,
            const struct walk *w, enum compose_by by,
            const struct patterns *p, const int64_t *event, int64_t n,
            struct composition *out, struct err *e) MUST_CHECK;
void composition_free(struct composition *c);

/* What became more and less from one composition to another: groups by the
** size of the change, bytes as int64_t in change[] (owned by the caller). */
struct change { const char *key; int64_t before, after; };
int compose_change(const struct composition *from,
                   const struct composition *to, struct change **out,
                   int64_t *n, struct err *e) MUST_CHECK;

#endif
