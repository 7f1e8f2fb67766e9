/*
** executor_check.h - the attention executor alone, on sizes, so that what it
** holds for backward can be held against its size-only mirror.
*/
#ifndef STEP_EXECUTOR_CHECK_H
#define STEP_EXECUTOR_CHECK_H

#include "model/model.h"
#include "plan/plan.h"

/* Runs the forward of the n stages of one rank with own rows on the dry
** device and gives the requested bytes that its allocator then holds beside
** the output. Stages need sizes only. Nothing but host memory can fail. */
int executor_records(const struct model *m, const struct stage *stage,
                     int64_t n, int64_t own, int64_t q_block, int64_t k_block,
                     int64_t *bytes, struct err *e) MUST_CHECK;

/* A random rank: aligned, unaligned, partial, empty, tiny, or without a local
** stage. *state seeds and walks the generator; stage has room for
** EXECUTOR_STAGES, own and the number of stages are returned. */
#define EXECUTOR_STAGES 5
int64_t executor_random_stages(uint64_t *state, struct stage *stage,
                               int64_t *own);

#endif
