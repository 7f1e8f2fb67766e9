/*
** slices.h - the slices of one stage, built query by query.
** Inside src/plan.
*/
#ifndef PLAN_SLICES_H
#define PLAN_SLICES_H

#include "plan/chains.h"

/* Slices of one plan: a tree whose paths branch at many depths needs about
** segments x depth of them. */
#define PLAN_MAX_SLICES (INT64_C(1) << 22)

/* Start from zeros; slices_free at the end. */
struct slices {
    struct slice *v;            /* malloc: grows, and is copied at the end */
    int64_t n, cap;
    int64_t made;               /* of the stages before this one */
    int64_t last, band;         /* first slice of the last finished band, and
                                   of the one being made */
    int64_t *path;              /* scratch, [chains->deepest] */
    int64_t allocations;
};

/* Forgets the slices; the next query begins a stage. */
void slices_reset(struct slices *s);
void slices_free(struct slices *s);

/* What the rows of q, stage query rows from row on, see of key: in a local
** stage also each other. Says in *any whether that is anything. */
int slices_add(struct slices *s, const struct chains *c, const struct query *q,
               int64_t row, const struct places *key, bool local, bool *any,
               struct err *e) MUST_CHECK;

#endif
