/*
** run_rank.h - one rank's part of a case: device, allocator, step, waves.
*/
#ifndef BENCH_RUN_RANK_H
#define BENCH_RUN_RANK_H

#include "bench/run.h"

/* Set the first eight; the rest is run_rank's. Writes rank rank's entries of
** the waves of w, and nothing that other ranks write. */
struct rank_run {
    struct run_work *w;
    int64_t rank;
    const struct dev_ops *ops;
    struct comm *comm;              /* NULL: one rank, or nothing computes */
    const struct step_data *data;   /* NULL on dry */
    const struct checkpoint *checkpoint;
    int64_t waves;                  /* how many to run */
    bool probe;                     /* only reserved is wanted: no records */

    struct dev *dev;
    struct mem *mem;
    struct step *step;
    int64_t done;                   /* waves that succeeded */
    uint64_t reserved;              /* highest reserved bytes */
    int64_t *ns;                    /* [waves] time of each wave; owned */
    struct record_tensor *tensor;   /* of the first wave; owned */
    int64_t n_tensor;
};

/* All waves, up to the first that fails; done and reserved are set in any
** case. run_rank_free frees what is owned. */
int run_rank(struct rank_run *r, struct err *e) MUST_CHECK;
void run_rank_free(struct rank_run *r);

#endif
