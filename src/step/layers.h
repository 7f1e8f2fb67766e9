/*
** layers.h - a decoder layer, the wave's inputs and the head.
*/
#ifndef STEP_LAYERS_H
#define STEP_LAYERS_H

#include "step/mixers.h"
#include "step/rank_state.h"

/* What a recomputed layer keeps, beside its boundary. */
struct layer_saved {
    struct tensor entry;        /* GDN rows at an island's entry, else empty */
    struct tensor n1, n1_rstd, x1, n2, n2_rstd;
    struct attention_saved attention;
    struct gdn_saved gdn;
    struct mlp_saved mlp;
    struct tensor y;            /* the recomputed output */
};

/* The current layer on its boundary x: the next boundary, or the head's
** input after the last layer. Nothing is kept. */
struct tensor layer_forward(struct step *s, struct mat x);
/* The same, keeping what the backward needs. */
void layer_recompute(struct step *s, struct mat x, struct layer_saved *l);
/* Gradient of x from the gradient of the output; frees what l holds and dy
** when done with them. */
struct tensor layer_backward(struct step *s, struct mat x,
                             struct layer_saved *l, struct tensor *dy);

/* The wave's inputs (inputs.c). */
void inputs_make(struct step *s);
void inputs_free(struct step *s);

/* Final norm, logits and loss of the labelled rows in chunks, and back: the
** gradient of x, which is freed. Loss is added to s->loss. */
struct tensor head_run(struct step *s, struct tensor *x);

#endif
