/*
** series.h - allocated bytes by group over a whole trace, in a fixed number of
** columns. A column shows the moment of its events at which most is allocated,
** so every maximum stays, whatever the number of events.
*/
#ifndef SNAPSHOT_SERIES_H
#define SNAPSHOT_SERIES_H

#include "snapshot/account.h"

enum { SERIES_MOST = 12 };      /* groups of their own; the rest is one */

struct series {
    int64_t n;              /* columns, at most those asked for */
    int64_t *event;         /* [n] the moment; -1: at the start */
    uint64_t *allocated;    /* [n] then */
    uint64_t *reserved;     /* [n] the most in the column */
    uint64_t *bytes;        /* [n * n_group] */
    char *key[SERIES_MOST + 1];
    uint64_t most[SERIES_MOST + 1];     /* highest of each */
    int n_group;            /* the last is "(other)" when there are more */
};

/* Groups by ask->by (BY_AGE as BY_FRAME: an age changes with time). ERR_RUN:
** no host memory. The caller frees *out. */
int series_make(const struct account *a, const struct account_ask *ask,
                int64_t columns, struct series *out, struct err *e)
    MUST_CHECK;
void series_free(struct series *s);

/* The series as a picture: stacked areas over events, reserved as a line, the
** peak and each out-of-memory marked. html wraps it with a table. */
void series_svg(const struct series *s, const struct account *a,
                const char *title, bool html, struct buf *b);
/* As a Perfetto (Chrome) trace: a counter for each group and for reserved,
** annotations as slices. Times are those recorded, else the event's number. */
void series_perfetto(const struct series *s, const struct account *a,
                     struct buf *b);
/* A composition's stacks as "outer;inner bytes" lines, for flame graphs: what
** is allocated after event. ERR_RUN: no host memory. */
int series_folded(const struct account *a, int64_t event, struct buf *b,
                  struct err *e) MUST_CHECK;

#endif
