/*
** dry.h - a shape's plan, ready to run on the dry device. Inside src/fit.
*/
#ifndef FIT_DRY_H
#define FIT_DRY_H

#include "fit/shape.h"
#include "run/ranks.h"

/* What a run borrows lies beside it, so it stays where it was filled. */
struct dry {
    struct scenario_case c;
    struct run_context x;
    struct run_work w;
    struct ranks r;             /* idle, waves and threads may be changed */
};

/* SIMULATE_WAVES waves of the plan of batch b (NULL: the shape's recorded
** layout), a rank on each core. limit: bytes of a device; 0: none. Then
** ranks_run and ranks_close. */
void dry_fill(struct dry *d, const struct shape *s, const struct batch *b,
              const struct plan *p, int64_t limit);
/* Bytes a rank has taken from its device at most, and those of them that are
** dispatch buffers. */
int64_t dry_taken(const struct ranks_one *o);
int64_t dry_dispatch(const struct ranks_one *o);

#endif
