/*
** weights.h - base weights, adapters, GEMM workspaces: what a rank holds
** between waves.
** Inside src/step.
*/
#ifndef STEP_WEIGHTS_H
#define STEP_WEIGHTS_H

#include "step/tensor.h"

int weights_new(struct step *s);        /* baseline: base, LoRA, moments */
/* Of a step that streams: the current layer's, and their end. */
void weights_layer(struct step *s);
void weights_layer_drop(struct step *s);
/* The first contents of a parameter, on devices that compute: numbers of the
** generator (weights_fill.c), or a checkpoint's (weights_load.c; base only). */
void weights_fill(struct step *s, const struct param *p, struct mat x);
void weights_load(struct step *s, const struct param *p, struct mat x);
/* An adapter tensor or a moment of one, from s->c.adapters (adapters.c). */
void adapters_load(struct step *s, const struct param *p,
                   enum peft_part part, struct mat x);
void workspace_use(struct step *s, enum workspace w);
/* The gradient tensors of an adapter, which its backward is about to write,
** once a wave; allocated at the first call. */
void adapter_gradients(struct step *s, struct adapter *a);
void adapters_drop(struct step *s);     /* between waves: lets go of them */
void adapters_reduce(struct step *s);   /* sums over ranks, end of a wave */
void adapters_update(struct step *s, int64_t adam_step);

#endif
