/*
** tried.h - numbers of tokens that were tried and fit, and more of them where
** something may lie between two.
**
** Two neighbours whose allocators decided alike all along differ in sizes
** alone, and what lies between them is all but surely met the same way: the
** sizes grow with the tokens, and so do their differences. Where neighbours
** decided otherwise the middle is tried, until they are next to each other. So
** a hole is looked for where there can be one, to the token, in few trials.
** Ranks need none of each other on the dry device, so each has numbers of its
** own: a rank does not run where another one's neighbours differ.
** Inside src/fit.
*/
#ifndef FIT_TRIED_H
#define FIT_TRIED_H

#include "fit/trial.h"

struct tried {
    /* set by the caller, borrowed */
    const struct shape *s;
    const struct ground *ground;
    int64_t limit;
    int64_t most;               /* trials of all ranks between two numbers,
                                   about; or as many of single ranks */
    int64_t stretch;            /* tokens, of which one is tried at least */
    int64_t finest;             /* neighbours no further apart are let be */
    struct ranks_desk desk[PLAN_MAX_RANKS];     /* of threads; zeros at first */
    /* numbers that fit, of each rank, ascending */
    struct tried_rank {
        struct tried_one { int64_t tokens; uint64_t decisions; } *one;
        int64_t n, cap;
    } rank[PLAN_MAX_RANKS];
};

void tried_free(struct tried *all);
/* What a trial from elsewhere found to fit. A number is noted once. */
int tried_note(struct tried *all, int64_t tokens, const struct trial *t,
               struct err *e) MUST_CHECK;
/* Forgets what is not below tokens. */
void tried_drop(struct tried *all, int64_t tokens);
/* Numbers from from to before to that were tried, of some ranks, and fit. */
int64_t tried_count(const struct tried *all, int64_t from, int64_t to);

/* Tries numbers from from to to, both too, on all cores. *hole is one that does
** not fit, -1 when all do: the same by however many threads. Nothing is tried
** that is known. */
int tried_check(struct tried *all, int64_t from, int64_t to, int64_t *hole,
                struct err *e) MUST_CHECK;

#endif
