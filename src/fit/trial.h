/*
** trial.h - a shape's batch scaled to a number of tokens: does it fit? Asked a
** few hundred times for one answer, so no more is run than decides it.
** Inside src/fit.
**
** A trial leaves out the third wave where routing stays as it is, no memory ran
** short, and what the second reserved beyond the first would fit once more: it
** mostly does what the second did. And it leaves out ranks that take a fifth
** less for their waves than another, as far as a run of all ranks (struct
** ground) and their rows there and here tell. What a trial says does not fit
** does not; what it says fits is one whole run short of certain.
*/
#ifndef FIT_TRIAL_H
#define FIT_TRIAL_H

#include "fit/shape.h"
#include "run/ranks.h"

/* One run of all ranks. */
struct ground {
    int64_t tokens;             /* of its batch; 0: there was none */
    struct ground_rank {
        int64_t took;           /* bytes, beyond what it holds between waves */
        int64_t attention_rows, gdn_rows;
    } rank[PLAN_MAX_RANKS];
    int64_t most;               /* that a rank took */
    bool full;                  /* a rank took all but a thousandth of its
                                   device, and none ran short of memory */
    int64_t events;             /* that a trial's allocators would have */
    bool whole;                 /* a trial leaves no wave out; the caller's */
};

/* All ranks and waves. Sizes that no plan can have do not fit; where it does
** not fit, *out is as it was, and whole always. */
int trial_ground(const struct shape *s, int64_t limit, int64_t tokens,
                 struct ground *out, bool *fits, struct err *e) MUST_CHECK;
struct trial {
    uint64_t ranks;         /* that run, a bit each, the caller's; 0: all */
    bool fits;
    uint64_t decisions[PLAN_MAX_RANKS];     /* of a rank's allocator (mem.h);
                               0: it was left out */
};

/* Without a ground all of it runs, on all cores; with one, in this thread, and
** on the desk where there is one: of one shape and limit. */
int trial_run(const struct shape *s, int64_t limit, int64_t tokens,
              const struct ground *g, struct ranks_desk *desk,
              struct trial *out, struct err *e) MUST_CHECK;

#endif
