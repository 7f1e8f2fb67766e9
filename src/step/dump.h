/*
** dump.h - what a wave leaves on the host for comparison with others (step.h,
** struct step_dump). Does nothing where step_config asks for none.
** Inside src/step.
*/
#ifndef STEP_DUMP_H
#define STEP_DUMP_H

#include "step/tensor.h"

int dump_new(struct step *s);
void dump_free(struct step *s);
/* A wave begins: its labels are known (inputs.c). target and weight are those
** of s->label's rows, in order. */
void dump_begin(struct step *s, const int32_t *target, const double *weight);
/* Logits of labels [first, first + logits.rows). */
void dump_logits(struct step *s, struct mat logits, int64_t first);
/* What the router of the current layer chose, i64 [rows, top_k]. */
void dump_routes(struct step *s, struct mat idx);

#endif
