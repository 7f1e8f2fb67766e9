/*
** linear.h - adapted linear layers.
*/
#ifndef STEP_LINEAR_H
#define STEP_LINEAR_H

#include "step/weights.h"

/* One projection of a joined group: weight, adapter site (SITE_COUNT: none),
** its columns in the joined output, and its bias (0: none). */
struct projection {
    enum weight w;
    enum site site;
    int64_t out;
    enum weight bias;
};
#define PROJECTIONS 4

/* sum = x W^T + scale (x A^T) B^T for n projections of one input, outputs
** side by side. Returns [rows, sum of out]. h[i] receives x A^T (kept for
** backward) or is freed when h is NULL. Temporaries as traced: base, adapter
** outputs, scaled, their join. */
struct tensor linear_forward(struct step *s, enum category c, const char *op,
                             struct mat x, const struct projection *p, int n,
                             struct tensor *h);
/* dx [rows, in] of such a group; adapters first (gradients appear), then
** the frozen base, sums in place. h is freed. */
struct tensor linear_backward(struct step *s, enum category c, const char *op,
                              struct mat dy, struct mat x,
                              const struct projection *p, int n,
                              struct tensor *h);

#endif
