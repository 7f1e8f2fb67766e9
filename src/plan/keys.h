/*
** keys.h - which rows' keys each rank fetches, from whom and when.
** Inside src/plan.
*/
#ifndef PLAN_KEYS_H
#define PLAN_KEYS_H

#include "plan/chains.h"

/* What one rank fetches in one round. */
struct fetch {
    struct places at;           /* ascending packed rows; row: where received */
    struct range *received;     /* [at.n] packed rows, by source, ascending */
    int64_t *first;             /* [cp + 1] index into received by source */
    int64_t *rows;              /* [cp] rows from each source */
};

/* The fetches of all ranks, [cp][rounds], in scratch. What plans hold of them
** (received, rows) comes from keep. NULL: out of memory. */
struct fetch *fetches_make(const struct ownership *o, const struct chains *c,
                           struct arena *keep, struct arena *scratch);

#endif
