/*
** run_data.h - what a computing device trains on: token ids, targets and
** loss weights of one packed row.
*/
#ifndef BENCH_RUN_DATA_H
#define BENCH_RUN_DATA_H

#include "model/model.h"
#include "plan/plan.h"
#include "script/scenario.h"
#include "step/step.h"

struct run_data {
    int32_t *ids, *target;      /* [tokens] owned */
    float *weight;              /* [tokens] owned */
    struct step_data step;      /* the three above */
};

/* Labelled rows of a rank: all it holds, or at most the case's head_rows. */
int64_t run_labels(const struct scenario_case *c, const struct rank_plan *p);

/* Ids come from the case's tokens: a file of ids (*.ids, numbers between
** blanks) or the bytes of any other file; drawn from the case's seed when
** it names none. A row's target is the next token of its first sequence; the
** last row of a sequence is followed by token 0. The first run_labels rows of
** each rank are labelled, each with one weight, which sum to one. p must be
** exact. ERR_INPUT names the file: too few tokens, ids beyond the
** vocabulary. */
int run_data_make(const struct scenario_case *c, const struct model *m,
                  const struct plan *p, struct run_data *out, struct err *e)
    MUST_CHECK;
void run_data_free(struct run_data *d);

#endif
