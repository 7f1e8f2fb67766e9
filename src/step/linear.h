/*
** linear.h - adapted linear layers, and the norms in front of them.
**
** Tensor parallelism: column-parallel projections have their outputs split over
** the ranks, a row-parallel one its inputs. Between them the rows are split
** instead (sequence parallelism): x and its norm are [rows / tp, H], gathered
** before column-parallel projections, summed and scattered after a
** row-parallel one. At tp 1 both are the same rows and nothing moves.
** Inside src/step.
*/
#ifndef STEP_LINEAR_H
#define STEP_LINEAR_H

#include "step/weights.h"

/* One of the projections of one input: weight, adapter site (SITE_COUNT:
** none), its columns in their common output, its bias (0: none), and the
** columns of its adapter's output where that is not split (0: the same). */
struct projection {
    enum weight w;
    enum site site;
    int64_t out;
    enum weight bias;
    int64_t whole;
};
#define PROJECTIONS 4

/* What a norm leaves for the backward: its own rows' reciprocal norms and
** output, and the output of all rows, which is what the adapters read. At tp
** 1 local stays empty. The framework's fused norm and projection frees its
** output when nothing asks for it; the adapters do. */
struct norm_saved { struct tensor rstd, local, out; };

/* N(x) of rows x [rows / tp, H]. gather false: what follows works on these
** rows, and n->out is their output. */
void norm_forward(struct step *s, enum category c, const char *op,
                  struct mat x, struct mat w, bool gather,
                  struct norm_saved *n);
/* Gradient of x from dn [rows, H] (or of x's rows alone), freed; frees what is
** left of n, out apart. */
struct tensor norm_backward(struct step *s, const char *op, struct tensor *dn,
                            struct mat x, struct mat w,
                            struct norm_saved *n);

/* sum = x W^T + scale (x A^T) B^T for n projections of one input, a norm's
** output, outputs side by side: [rows, sum of out]. h[i] receives x A^T (kept
** for the backward). Temporaries as traced. Without h the norm goes: rstd and
** the local rows after the base product, the output after the sum. */
struct tensor linear_columns(struct step *s, enum category c, const char *op,
                             struct norm_saved *in, const struct projection *p,
                             int n, struct tensor *h);
/* The same of rows x [rows / tp, H] that no norm has gathered: the base
** product gathers them for itself, the adapters into *whole, which is kept
** for the backward, or freed without h. */
struct tensor split_forward(struct step *s, enum category c, const char *op,
                            struct mat x, const struct projection *p, int n,
                            struct tensor *whole, struct tensor *h);
/* A row-parallel projection of x [rows, in / tp]: [rows / tp, out]. */
struct tensor linear_rows(struct step *s, enum category c, const char *op,
                          struct mat x, const struct projection *p,
                          struct tensor *h);
/* dx [rows, in] of n projections; adapters first (gradients appear), then the
** frozen base, sums in place. h is freed. */
struct tensor linear_backward(struct step *s, enum category c, const char *op,
                              struct mat dy, struct mat x,
                              const struct projection *p, int n,
                              struct tensor *h);
/* The same of a row-parallel projection, dy [rows / tp, out]. */
struct tensor linear_rows_bwd(struct step *s, enum category c, const char *op,
                              struct mat dy, struct mat x,
                              const struct projection *p, struct tensor *h);

#endif
