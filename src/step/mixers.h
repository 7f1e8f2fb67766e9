/*
** mixers.h - attention and gated delta net of one layer, and what each keeps
** when it is recomputed.
*/
#ifndef STEP_MIXERS_H
#define STEP_MIXERS_H

#include "step/linear.h"

struct attention_saved {
    struct tensor joined;       /* q|gate interleaved, k, v; v is used here */
    struct tensor q, k;         /* inputs of the head norms */
    struct tensor q_rstd, k_rstd;
    struct tensor gate;
    struct tensor q_rot, k_rot;
    struct tensor out, gated;
    struct tensor h[PROJECTIONS], h_out;
};  /* and the executor's stage records, one layer's at a time, in s->exec */

struct gdn_saved {
    struct tensor m;            /* q|k|v before the convolution */
    struct tensor z, a;
    struct tensor qn, kn, v;    /* normed and repeated q, k; v */
    struct tensor q_rnorm, k_rnorm;
    struct tensor g, beta, g_cum, x;
    struct tensor o, o_rstd, normed, gated;
    struct tensor states, halo;
    struct tensor h[PROJECTIONS], h_out;
};

/* Mixer of the current layer on normed rows n [T, H]: returns [T, H].
** saved NULL: nothing is kept. The backward takes the gradient of the
** output, frees what was saved and *n when it is done with them, and returns
** the gradient of n. */
struct tensor attention_forward(struct step *s, struct mat n,
                                struct attention_saved *saved);
struct tensor attention_backward(struct step *s, struct attention_saved *saved,
                                 struct tensor *n, struct mat dout);
struct tensor gdn_forward(struct step *s, struct mat n,
                          struct gdn_saved *saved);
struct tensor gdn_backward(struct step *s, struct gdn_saved *saved,
                           struct tensor *n, struct mat dout);

#endif
