/*
** ranks.h - the ranks of one case at work on one device.
**
** Devices that compute run every rank in a thread of its own, or this
** process's rank alone where a launcher started one for each (crew.h); a
** rank that fails ends the others. On dry a rank needs no peer, so they run
** one after another, or a few at once.
*/
#ifndef RUN_RANKS_H
#define RUN_RANKS_H

#include <pthread.h>
#include <stdatomic.h>

#include "comm/alarm.h"
#include "run/segments.h"
#include "run/work.h"

/* How long a rank waits in one exchange. */
#define RANKS_DEADLINE_MS 300000

/* One wave of one rank. got's arrays are the step's and overwritten by its
** next wave. */
struct ranks_wave {
    uint64_t first, end;        /* its events in the rank's trace */
    int64_t ns;
    struct buf snapshot;        /* of the wave, also one that failed */
    struct step_result got;
    struct rank_dump *dump;     /* dump.h; or NULL */
};

struct ranks;

/* Used bytes of the rank's GPU as its driver counts. */
struct ranks_driver { bool known; uint64_t before, highest, after; };

struct ranks_one {
    struct ranks *all;
    int64_t rank;
    struct dev *dev;
    struct mem *mem;
    struct segment_log segments;    /* on devices that compute */
    struct segment_again again;     /* dry, held beside one of them */
    struct step *step;
    struct comm *comm;          /* NULL where none is needed */
    int gpu;                    /* cuda: the one it takes */
    struct ranks_driver driver;
    struct ranks_wave *wave;    /* [waves] */
    int64_t *sent;              /* [waves][layers][experts] pairs routed, on
                                   devices that compute, with experts */
    int64_t good;               /* waves that ran to their end */
    struct mem_stats stats;     /* brief: when it was closed */
    pthread_t thread;
    bool started;
    int rc;
    struct err e;
};

/* How NCCL's ranks find each other (crew.h). */
struct ranks_crew {
    bool nccl;
    unsigned char id[NCCL_ID_BYTES];
    struct alarm *alarm;        /* borrowed; owned is ours, or NULL */
    struct alarm *owned;
};

/* One device on dry and its allocator, with weights, adapters and moments in
** it, on which runs follow each other: those of one model, mode, LoRA rank, ep
** and device_bytes. Zeros to begin with; then ranks_desk_close. */
struct ranks_desk {
    struct dev *dev;            /* NULL: no run has come so far yet */
    struct mem *mem;
    struct mem_kept *kept;
    struct step_base *base;
};
void ranks_desk_close(struct ranks_desk *d);

struct ranks {
    /* set by the caller, borrowed */
    const struct run_work *w;
    const struct dev_ops *ops;
    const struct routing *routing;      /* what dry is told */
    const struct step_data *data;       /* what others are given */
    const struct ranks *like;   /* dry: those whose segments it gets, or NULL */
    const struct checkpoint *checkpoint;    /* base weights, or NULL */
    const struct peft *adapters;            /* or NULL */
    int64_t waves;              /* at most the case's */
    bool trace;                 /* keep events */
    bool stream;                /* one layer's weights at a time: step.h */
    int64_t watch_from;         /* > 0: one more than step.h's; 0: no watch */
    bool snapshots;             /* write one after each wave; needs trace */
    bool brief;                 /* dry: nobody asks for more than whether it
                                   fits, and the peaks: no wave is run that
                                   repeats the last, no rank after a failure,
                                   and none stays open */
    struct ranks_desk *desk;    /* brief, at one thread: where to run; or
                                   NULL */
    int threads;                /* dry: run at once; 0 is one */
    uint64_t idle;              /* dry: ranks, a bit each, that do not run */
    int64_t enough;             /* brief: after so many waves no other runs, of
                                   a rank that never ran short and has room
                                   for what the last took; 0: all run */
    struct ranks_crew crew;
    /* results */
    struct ranks_one *one;      /* [cp] open until ranks_close */
    int64_t good;               /* waves that every rank finished */
    /* while they run */
    atomic_llong limit;         /* no wave from this on is wanted */
    atomic_int turn;            /* dry: the next rank */
};

/* Runs the waves. On an error, which names its rank, the waves before it
** can be read. ranks_close must follow in any case. */
int ranks_run(struct ranks *r, struct err *e) MUST_CHECK;
void ranks_close(struct ranks *r);

/* ---- tokens (tokens.c) ------------------------------------------------ */

/* What a case trains on: the ids of its packed row, from the case's file or
** drawn from its seed, and for every labelled row its target. All rows are
** labelled, or the first head_rows of each rank. A row's target is the next
** token of its sequence; where there is none (a sequence's last row) or more
** than one (a row at which a prefix forks) the row keeps its label, so that
** sizes do not depend on the tree, with a weight of 0. The other labelled
** rows weigh 1 / their number over all ranks. Free with run_data_free. */
int run_data_make(const struct run_work *w, struct step_data *out,
                  struct err *e) MUST_CHECK;
void run_data_free(struct step_data *d);

/* ---- beside the dry device (beside_dry.c) ------------------------------- */

/* Runs the case on dry first. ERR_OOM, naming bytes, when a rank needs more
** than device_bytes or all ranks more memory than the device has free. */
int run_fits(struct run_work *w, struct err *e) MUST_CHECK;
/* Runs the case on dry with the routing that r saw and the segments that it
** got; ERR_WRONG when a rank's events, peaks or reserved bytes differ. */
int run_same_as_dry(struct run_work *w, const struct ranks *r, struct err *e)
    MUST_CHECK;
/* The routing that r saw as a histogram; free with routing_free. */
int run_routing_of(const struct ranks *r, struct routing *out, struct err *e)
    MUST_CHECK;

#endif
