/*
** layers.h - a decoder layer, the wave's inputs, the head and the hidden
** outputs.
** Inside src/step.
*/
#ifndef STEP_LAYERS_H
#define STEP_LAYERS_H

#include "step/mixers.h"
#include "step/mlp.h"

/* What a layer keeps for its backward, beside its boundary. */
struct layer_saved {
    struct tensor entry;        /* GDN rows at an island's entry, else empty */
    struct norm_saved n1;
    struct tensor x1;
    struct norm_saved n2;
    struct attention_saved attention;
    struct gdn_saved gdn;
    struct mlp_saved mlp;
    struct tensor router;       /* kept otherwise (otherwise.c) */
};

/* What a wave does otherwise, where its case says so (otherwise.c): before and
** after the head, when a layer's forward is over, and before and after its
** backward. */
struct tensor otherwise_embedding(struct step *s);
void otherwise_head(struct step *s);
void otherwise_headed(struct step *s);
void otherwise_forward(struct step *s, struct layer_saved *l);
void otherwise_backward(struct step *s);
void otherwise_done(struct step *s, struct layer_saved *l);

/* The current layer on its boundary x, keeping in l what keep says: the next
** boundary, or the head's input after the last layer. */
struct tensor layer_forward(struct step *s, struct mat x,
                            struct layer_saved *l, struct mode_keep keep);
/* What the backward needs and the forward did not keep, the core of
** attention apart, which its own backward runs again. */
void layer_restore(struct step *s, struct mat x, struct layer_saved *l);
/* Gradient of x from the gradient of the output; frees what l holds and dy
** when done with them. */
struct tensor layer_backward(struct step *s, struct mat x,
                             struct layer_saved *l, struct tensor *dy);
/* Frees what l holds without a backward. */
void layer_drop(struct step *s, struct layer_saved *l);

/* The wave's inputs (inputs.c). */
void inputs_make(struct step *s);
void inputs_free(struct step *s);

/* Final norm, logits and loss of the labelled rows in chunks, and back: the
** gradient of x, which is freed. Loss is added to s->loss. */
struct tensor head_run(struct step *s, struct tensor *x);

/* Hidden waves (hidden.c): room for the outputs; final norm and one output a
** sequence, which the wave holds to its end; the mean of their squares, added
** over sequences to *loss, and back to the gradient of x, which is freed. */
int hidden_new(struct step *s);
void hidden_free(struct step *s);
void hidden_forward(struct step *s, struct tensor *x);
struct tensor hidden_loss(struct step *s, struct tensor *x, double *loss);
void hidden_drop(struct step *s);

#endif
