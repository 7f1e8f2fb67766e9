/*
** comm.h - how ranks of one run talk. A communicator knows bytes and ranks,
** no layers. local: threads of one process, any device; nccl: one GPU a
** rank. Every call is collective over all ranks of the group and in the same
** order on each; a rank that fails calls abort, and the others' pending and
** later calls return an error that names it. Every wait has a deadline that
** ends it with the name of the rank that is late.
*/
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stdint.h>

#include "base/err.h"
#include "dev/kernel.h"

struct comm;

/* What goes to (or comes from) one peer. bytes may be 0. */
struct comm_part { void *p; int64_t bytes; };

struct comm_ops {
    const char *name;
    /* send[r] goes to rank r, recv[r] comes from it; the own parts are
    ** copied. Sizes agree pairwise (checked where both sides are seen). what
    ** names the exchange in errors: "kv fetch". */
    int (*all_to_all)(struct comm *c, struct dev *d, const char *what,
                      const struct comm_part *send,
                      const struct comm_part *recv, struct err *e);
    /* In-place sum in rank order, so the result is the same on all ranks. */
    int (*all_reduce)(struct comm *c, struct dev *d, const char *what,
                      struct mat x, struct err *e);
    /* n host integers from each rank into all[size * n]. */
    int (*gather_counts)(struct comm *c, const char *what, const int64_t *mine,
                         int64_t n, int64_t *all, struct err *e);
    /* Ends every other rank's waits with this text. */
    void (*abort)(struct comm *c, const char *why);
    void (*close)(struct comm *c);
};

struct comm {
    const struct comm_ops *ops;
    int rank, size;
};

/* size communicators that share one group of threads; out[size].
** deadline_ms bounds every wait. */
int comm_local(int size, int64_t deadline_ms, struct comm **out,
               struct err *e) MUST_CHECK;

#endif
