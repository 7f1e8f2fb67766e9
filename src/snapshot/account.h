/*
** account.h - all that is told of one device of a snapshot: its bytes, whether
** our allocator predicts them, what could be wrong with them, and what held
** the memory. As text for people (tell.c) and as JSON (account_json.c).
*/
#ifndef SNAPSHOT_ACCOUNT_H
#define SNAPSHOT_ACCOUNT_H

#include <jansson.h>

#include "snapshot/compose.h"
#include "snapshot/phases.h"
#include "snapshot/replay.h"

struct account_ask {
    enum compose_by by;
    const struct patterns *patterns;    /* BY_PATTERN */
    const char *const *at;      /* points: an event, "time=US", "peak",
                                   "end", "oom"; [n_at] */
    int n_at;
    const char *since;          /* growth from this point to the first of at,
                                   or to the end; NULL */
    const char *waves;          /* annotations that are waves; NULL */
    const struct mem_config *set;   /* other settings to replay under; NULL */
    const char *set_text;       /* them, as they were given */
    const char *idle;           /* those of them that a replay ignores */
    bool least_limit;           /* find the least limit that suffices */
    int rows;                   /* groups in text; 0: all */
};

/* A point that was asked for, and the composition there. */
struct account_point {
    char name[48];              /* "peak", "end", "oom", "event 7" */
    struct composition is;
};

struct account {
    const struct snapshot *s;
    int64_t device;
    bool history;               /* the trace has events */
    bool predicted;             /* ours was run under the recorded settings */
    char reason[200];           /* why it was not; "" */
    struct rewind start;
    struct walk walk;
    struct replay replay;       /* when predicted */
    bool is_set;                /* other settings were asked for: */
    struct replay set;
    uint64_t least_limit;       /* 0: not asked for */
    struct replay below;        /* under a limit 2 MiB below it */
    struct account_point *point;    /* owned: peak, ooms, at..., end */
    int n_point, i_peak, i_end, i_since;    /* -1: none */
    int i_at, n_at;         /* those asked for */
    int i_to;               /* where growth from i_since ends */
    struct phases phases;
};

/* ERR_INPUT: the trace contradicts itself. ERR_USAGE: a point that it does not
** have. The caller frees *out, after success alone. */
int account_device(const struct snapshot *s, int64_t device,
                   const char *origin, const struct account_ask *ask,
                   struct account *out, struct err *e) MUST_CHECK;
void account_free(struct account *a);

/* What must be known before the numbers are believed, one line each, as an
** array of strings; NULL: no host memory. */
json_t *account_notes(const struct account *a, const struct account_ask *ask);
/* The device as JSON; NULL: no host memory. */
json_t *account_json(const struct account *a, const struct account_ask *ask);
/* The device as text. ERR_RUN: no host memory. */
int account_tell(const struct account *a, const struct account_ask *ask,
                 const char *origin, struct buf *b, struct err *e)
    MUST_CHECK;

#endif
