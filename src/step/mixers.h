/*
** mixers.h - attention and gated delta net of one layer, and what each keeps
** for its backward.
** Inside src/step.
*/
#ifndef STEP_MIXERS_H
#define STEP_MIXERS_H

#include "step/linear.h"

struct attention_saved {
    struct tensor joined;       /* q|gate interleaved, k, v; v is used here */
    struct tensor q, k;         /* inputs of the head norms */
    struct tensor q_rstd, k_rstd;
    struct tensor gate;         /* empty where it is a view of joined */
    struct tensor q_rot, k_rot;
    struct tensor v, lse;       /* of the core at cp 1 (core.c) */
    struct tensor out, gated;
    struct tensor h[PROJECTIONS], h_out;
};  /* and the executor's stage records of the layer, in s->exec */

struct gdn_saved {
    struct tensor z, a, beta;   /* gates: output, decay, writing strength */
    struct tensor rate;         /* of the decay, a head: its factor */
    struct tensor o, o_rstd, normed, gated;
    struct tensor mask;         /* of padded rows */
    struct tensor h[PROJECTIONS], h_out;
};  /* and the buckets' tensors of the layer, in s->flow */

/* Mixer of the current layer on the normed rows n: [rows / tp, H]. saved
** NULL: nothing is kept, n included. core false: the core of attention (log
** sums, the executor's records) is not kept and runs again in the backward.
** The backward takes the gradient of the output, frees what was saved and
** n's output when it is done with them, and returns the gradient of that,
** [rows, H]. */
struct tensor attention_forward(struct step *s, struct norm_saved *n,
                                struct attention_saved *saved, bool core);
struct tensor attention_backward(struct step *s, struct attention_saved *saved,
                                 struct norm_saved *n, struct mat dout,
                                 bool core);
struct tensor gdn_forward(struct step *s, struct norm_saved *n,
                          struct gdn_saved *saved);
struct tensor gdn_backward(struct step *s, struct gdn_saved *saved,
                           struct norm_saved *n, struct mat dout);

/* Core of attention (core.c): softmax of the rotated q and k on v, in
** a->joined. At cp 1 one flash call, which leaves the log sums; else the
** executor. [rows, q]. The backward reads a->out and what save kept, or runs
** the forward again, and frees both. */
struct tensor core_forward(struct step *s, struct attention_saved *a,
                           bool save);
void core_backward(struct step *s, struct attention_saved *a, struct mat dout,
                   bool saved, struct tensor *dq, struct tensor *dk,
                   struct tensor *dv);
/* v of the current layer within the joined rows. */
struct mat attention_v(const struct step *s, struct mat joined);

#endif
