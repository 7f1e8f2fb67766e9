/*
** comm.h - how ranks of one run talk. A communicator knows bytes and ranks,
** no layers. local: threads of one process, any device; nccl: one GPU a
** rank. Every call is collective over all ranks of the crew and in the same
** order on each; a rank that fails calls abort, and the others' pending and
** later calls return an error that names it. Every wait has a deadline that
** ends it with the name of the rank that is late. Where the device computes
** nothing, sizes are exchanged and checked and no memory is touched.
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
    /* In-place sum of x [rows, cols] (bf16, f32 or f64, ld == cols, the same
    ** on every rank) in rank order, rounded once, bf16 summed in f32: the
    ** same bits on all ranks of a sum. every is 1, a sum over all ranks, or
    ** divides their number: then it is over the ranks whose number leaves
    ** the same rest as this one's, such as hold the same experts where EP
    ** groups of that size follow one another. */
    int (*all_reduce)(struct comm *c, struct dev *d, const char *what,
                      struct mat x, int every, struct err *e);
    /* n host integers from each rank into all[size * n]. */
    int (*gather_counts)(struct comm *c, const char *what, const int64_t *mine,
                         int64_t n, int64_t *all, struct err *e);
    /* Ends every other rank's waits, now and later, with this rank and this
    ** text. The first abort of a crew counts. */
    void (*abort)(struct comm *c, const char *why);
    /* Frees it. A rank that still waits for this one is told. */
    void (*close)(struct comm *c);
};

struct comm {
    const struct comm_ops *ops;
    int rank, size;
};

/* size communicators (1 to 64) that are one crew of threads; out[size],
** each for one thread, each to be closed. deadline_ms bounds every wait.
**
** Errors are ERR_RUN, or the device's own. When sizes, shapes or the calls
** themselves do not fit, all ranks return the same error, which names both
** sides, and may go on. A device that orders copies by marks may be at an
** exchange still when it returns; what it is asked next comes after. An
** exchange that waits past the deadline, an abort and an early close fail the
** crew for good. No rank leaves an exchange while another may read its
** buffers, except one that waited past the deadline for a rank that hangs in
** its copy: end the process then. */
int comm_local(int size, int64_t deadline_ms, struct comm **out,
               struct err *e) MUST_CHECK;

#endif
