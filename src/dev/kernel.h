/*
** kernel.h - the kernels a computing device supplies, one function each.
**
** Conventions. Matrices are row-major views; "rows" are tokens. [T, H] in a
** comment is rows x columns. Any view may be strided (ld >= cols). Vectors
** over rows ("acc [T]") are views with one column.
**
** Types: act is the device's activation type, acc its accumulator type
** (dev.h); a view carries its own type. Where a comment names none, a view
** is act; plain kernels, GEMMs and row moves take act and acc in any mix.
** Arithmetic is in acc, one rounding at the end.
**
** Outputs are written whole, whatever was there before (NaN too), unless
** "adds" is said. An output shares no memory with an input unless said.
** No kernel allocates through the rank's allocator: scratch that a real
** framework would allocate is passed in. Host arrays (slices, ranges,
** pieces, offsets) are read before the call returns. Zero rows are fine
** everywhere: nothing is read, gradients of weights become beta times what
** they were.
**
** The order of sums is fixed, so the same call gives the same bits again on
** the same machine; a row's result does not depend on the contents of other
** sequences' rows. NaN and infinities propagate. Views that do not fit and,
** where the device can see them (cpu), indices out of range are ERR_RUN
** naming kernel and view. Formulas: section numbers are model.md's.
*/
#ifndef DEV_KERNEL_H
#define DEV_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/range.h"

struct dev;

enum dtype { DT_BF16, DT_F32, DT_F64, DT_I32, DT_I64, DT_U8 };
static inline int64_t dtype_bytes(enum dtype t)
{
    static const int8_t bytes[] = {2, 4, 8, 4, 8, 1};

    return bytes[t];
}

struct mat {
    void *p;                /* NULL: absent */
    int64_t rows, cols;
    int64_t ld;             /* elements from one row to the next */
    enum dtype t;
};

/* ---- plain -------------------------------------------------------------- */

/* Any type; an integer view takes the integer nearest to zero. */
struct k_fill { struct mat x; double value; };
/* dst = src with conversion between float types; equal types of any kind
** are copied bit by bit. */
struct k_copy { struct mat dst, src; };
/* out = a + b; out may be a or b. A b of one row is added to every row. */
struct k_add { struct mat out, a, b; };
/* out = s * a; out may be a. */
struct k_scale { struct mat out, a; double s; };
/* The counter-based generator of base/random.h: element [r, c] of x is
** random_value(seed, stream, first + r * cols + c, scale, offset), the same
** number on every device, rounded once to x.t. first is where x begins in a
** tensor of which it is a part (the local experts). */
struct k_random { struct mat x; uint64_t seed, stream, first;
                  double scale, offset; };

/* C = alpha op(A) op(B) + beta C; op is transpose when the flag is set. C is
** not read when beta is 0. With an inner dimension of 0, C = beta C. */
struct k_gemm {
    struct mat c, a, b;
    bool trans_a, trans_b;
    double alpha, beta;
};

/* The same for groups: rows [offset[g], offset[g + 1]) of the row operands
** belong to group g. w holds n_group matrices back to back (rows =
** n_group * rows of one).
**   GROUP_NT  c[rows, n] = alpha a[rows, k] w_g[n, k]^T + beta c
**   GROUP_NN  c[rows, n] = alpha a[rows, k] w_g[k, n]   + beta c
**   GROUP_TN  w_g[m, n]  = alpha a[rows, m]^T c[rows, n] + beta w_g
** w_rows is the number of rows of one w_g. Offsets ascend from 0 to the rows
** of a; an empty group's w_g becomes beta w_g (TN), 0 when beta is 0. */
enum group_form { GROUP_NT, GROUP_NN, GROUP_TN };
struct k_group_gemm {
    enum group_form form;
    struct mat c, a, w;
    int64_t w_rows;
    const int64_t *offset;      /* host, [n_group + 1] */
    int64_t n_group;
    double alpha, beta;
};

/* ---- rows --------------------------------------------------------------- */

/* out[t] = table[ids[t]]; ids are i32. */
struct k_embed { struct mat out, table; const int32_t *ids; };
/* out = the rows of x in these ranges, back to back. x may be strided. */
struct k_gather { struct mat out, x; const struct range *r; int64_t n; };
/* The inverse: rows of x go to the ranges of out, whose other rows are left
** alone; add: they add there, in the order of the ranges. */
struct k_scatter { struct mat out, x; const struct range *r; int64_t n;
                   bool add; };
/* out[p] = x[row[p]] (MoE permutation); row is a device array, i32. */
struct k_permute { struct mat out, x; const int32_t *row; };
/* out[t] = sum over k of x[slot[t * top_k + k]], in the order of k, in acc;
** slot is a device array, i32. With add, adds to out. */
struct k_combine { struct mat out, x; const int32_t *slot; int64_t top_k;
                   bool add; };

/* Heads in and out of a wide row: packed [T, heads * d] against joined:
** packed[t, h * d + i] is joined[t, offset + h * stride + i]. join false
** fills packed, true writes those columns of joined and leaves the others. */
struct k_heads { struct mat packed, joined; int64_t heads, head_dim, stride,
                 offset; bool join; };
/* Per group y_g = x_g^T; rows of x are n_group times those of one x_g, and
** y alike. Where y_g is larger than x_g^T (padding) it is zero, where smaller
** the rest of x_g is left out. */
struct k_transpose { struct mat y, x; int64_t n_group; };

/* ---- norms (2.1, 3.2, 3.3, 3.10) ---------------------------------------- */

/* y = rstd * x * (w or 1 + w); rstd is acc [rows]. Per-head norms pass
** [T * heads, d]. */
struct k_rms_norm { struct mat y, x, w, rstd; double eps; bool zero_centred; };
/* dx from dy, x, w, rstd; add: adds to dx. */
struct k_rms_norm_bwd { struct mat dx, dy, x, w, rstd; bool zero_centred, add;
};
/* y = x * rnorm, rnorm = (sum x^2 + eps)^-1/2, acc [rows]. */
struct k_l2_norm { struct mat y, x, rnorm; double eps; };
struct k_l2_norm_bwd { struct mat dx, dy, y, rnorm; };

/* ---- attention (2.2, 3.5 to 3.8) ---------------------------------------- */

/* table[pos, i] = pos * theta^(-i / cols), the angle in radians, computed in
** f64 and brought into [-pi, pi] before it is rounded to acc (a plain f32
** angle of 1e5 is off by 4e-3). pos is the row, i the column. With a factor
** above 0, "llama3": a frequency f whose wave 2 pi / f is longer than
** positions / low becomes f / factor, one shorter than positions / high stays,
** and between them s f + (1 - s) f / factor with
** s = (positions / wave - low) / (high - low). */
struct k_rotary_table { struct mat table; double theta;
                        double factor, low, high, positions; };
/* Half-split rotation of the first 2 * table.cols dims of every head by the
** angle of pos[t] (i32, device) times sign (+1 forward, -1 backward): dims i
** and i + table.cols turn together. x, y are [T, heads * head_dim]; y may
** be x. */
struct k_rotary { struct mat y, x, table; const int32_t *pos;
                  int64_t heads, head_dim; int sign; };
/* out = o * sigmoid(gate). */
struct k_sigmoid_gate { struct mat out, o, gate; };
struct k_sigmoid_gate_bwd { struct mat d_o, dgate, dout, o, gate; };
/* One stage: out [q_rows, heads * d] act, lse [q_rows, heads] acc (natural
** log). Rows that see no key (padding too): out 0, lse -inf. k and v are
** [k_rows, kv_heads * d]; query head h uses key head h / (heads/kv_heads).
** Rows in no slice are not read. */
struct k_attention {
    struct mat out, lse, q, k, v;
    int64_t heads, kv_heads;
    double scale;
    const struct slice *slice;  /* host, sorted by q then k; queries of
                                   different slices may coincide, their keys
                                   then do not */
    int64_t n_slice;
};
/* Gradients of one stage with its own out, lse and dlse (3.6; dlse may be
** absent: zero). dq is act; dk, dv acc. Given the out and lse of the merged
** stages and no dlse it is form B of 3.8. Rows with lse -inf give nothing. */
struct k_attention_bwd {
    struct mat dq, dk, dv, q, k, v, out, lse, dout, dlse;
    int64_t heads, kv_heads;
    double scale;
    const struct slice *slice;
    int64_t n_slice;
};
/* Fold a stage result into the accumulators (3.8). o_acc [own, heads * d]
** and lse_acc [own, heads] are acc. row (i64, device) maps stage rows to own
** rows, each at most once; -1: a padding row, skipped; NULL: row i is row i.
** Before the fold the rows' accumulators are copied to tape_o [rows,
** heads * d], tape_lse [rows, heads] (acc) when present. Accumulators begin
** as o 0, lse -inf (fill). */
struct k_merge { struct mat o_acc, lse_acc, tape_o, tape_lse, o, lse;
                 const int64_t *row; int64_t heads; };
/* Form A backwards through one fold. In: d_acc, dlse_acc = gradients of the
** merged o and lse (acc). Out: d_o (act), dlse (acc) of the stage, and d_acc,
** dlse_acc of the accumulators before the fold, in place. tape_o absent: the
** accumulators were empty before this fold. Padding rows get zeros. */
struct k_merge_bwd { struct mat d_acc, dlse_acc, d_o, dlse, tape_o, tape_lse,
                     o, lse; const int64_t *row; int64_t heads; };

/* ---- gated delta net (2.3, 3.9 to 3.13) --------------------------------- */

/* A run of rows with one state. state_in/out index rows of the state views;
** -1: starts from zero / is not kept. The pieces of one call share no rows
** and do not wait for each other: a state_in is the state_out of an earlier
** call or was received. Several pieces may start from one state (forks). */
struct dev_piece { int64_t row, len, state_in, state_out; };

/* y = silu(causal depthwise conv of x) per piece; w is [channels, kernel]
** with the last tap on the current row. halo [n * (kernel - 1), channels]
** holds the rows before a piece's first, indexed by state_in (-1: zeros); its
** rows of state_out (-1: none) become the piece's last kernel - 1, which are
** rows of its own halo where it is shorter. */
struct k_conv { struct mat y, x, w, halo; const struct dev_piece *piece;
                int64_t n_piece; };
/* dx is written for the pieces' rows; dhalo (acc) adds to the rows of
** state_in, in the order of the pieces, and what its rows of state_out hold
** goes to where those came from. halo and dhalo may be absent when no piece
** has a state. */
struct k_conv_bwd { struct mat dx, dhalo, dy, x, w, halo;
                    const struct dev_piece *piece; int64_t n_piece; };
/* beta = sigmoid(b), g = -exp(a_log) softplus(a + dt_bias); all [T, heads],
** g and beta acc, a and b act; a_log, dt_bias [1, heads] act. */
struct k_gdn_gates { struct mat g, beta, a, b, a_log, dt_bias; };
struct k_gdn_gates_bwd { struct mat da, db, dg, dbeta, a, beta, a_log,
                         dt_bias; };
/* y [T, heads * rep * d] repeats every head of x [T, heads * d] rep times,
** copies adjacent. */
struct k_repeat_heads { struct mat y, x; int64_t rep, head_dim; };
/* x = sums over the copies. */
struct k_sum_heads { struct mat x, y; int64_t rep, head_dim; };
/* Rows of a chunk of the delta rule, on every device. */
enum { DELTA_CHUNK = 64 };
/* The chunked delta rule (C = 64, chunks counted from a piece's first row)
** over pieces whose states are known. q, k, v [T, heads * dim] act (q, k l2
** normed, repeated to value heads; scale goes on q); g, beta [T, heads] acc.
** states [n, heads * k_dim * v_dim] acc. Writes o act; kept for backward:
** g_cum [T, heads] acc, the chunk matrix x [T, heads * 64] act (row i of a
** chunk holds row i of (I + L)^-1), and state_out. Scratch (contents
** meaningless after): w [T, heads * k_dim], u and v_new [T, heads * v_dim]
** act, h [chunks, heads * k_dim * v_dim] act: the state each chunk starts
** from, chunks numbered through the pieces. A state is [heads][k_dim][v_dim].
** Rows of no piece are left alone. */
struct k_delta {
    struct mat o, states, g_cum, x, q, k, v, g, beta, w, u, v_new, h;
    int64_t heads, k_dim, v_dim;
    double scale;
    const struct dev_piece *piece;
    int64_t n_piece;
};
/* Backward. dstates [n, ...] acc: in, row state_out holds the gradient of a
** piece's final state; out, its initial state's gradient adds to row
** state_in (when >= 0). dq, dk, dv act; dg, dbeta acc. Scratch as above,
** rebuilt inside, and dw like w, du like u, dh like h. */
struct k_delta_bwd {
    struct mat dq, dk, dv, dg, dbeta, dstates, d_o, states, g_cum, x, q, k, v,
        beta, w, u, v_new, h, dw, du, dh;
    int64_t heads, k_dim, v_dim;
    double scale;
    const struct dev_piece *piece;
    int64_t n_piece;
};
/* out = a * silu(z). */
struct k_silu_gate { struct mat out, a, z; };
struct k_silu_gate_bwd { struct mat da, dz, dout, a, z; };

/* ---- MLP and MoE (2.4, 3.14, 3.15) -------------------------------------- */

/* gu [T, 2F] is gate | up; out [T, F] = silu(gate) * up * weight[t], weight
** acc [T] or absent. */
struct k_swiglu { struct mat out, gu, weight; };
/* dgu; dweight acc [T] when weight is present. */
struct k_swiglu_bwd { struct mat dgu, dweight, dout, gu, weight; };
/* out = sigmoid(logit[t]) * x; logit acc [T]. */
struct k_row_gate { struct mat out, x, logit; };
struct k_row_gate_bwd { struct mat dx, dlogit, dout, x, logit; };
/* softmax over logits [T, E] acc into scores [T, E] acc; top-k (lower index
** first on ties) into idx i64 [T, K] in descending order of logit, weight
** acc [T, K] the scores of the chosen, map u8 [T, E] 1 where chosen. forced
** (i64 [T, K], device, distinct in a row) replaces choice and order when not
** NULL. norm: weights are divided by their sum. */
struct k_router { struct mat logits, scores, map, idx, weight;
                  const int64_t *forced; bool norm; };
/* dlogits acc [T, E] from dweight [T, K]. */
struct k_router_bwd { struct mat dlogits, dweight, scores, idx, weight;
                      bool norm; };
/* Stable order of the T * K pairs by (expert, row). counts[e] to the HOST
** array (the call waits); row[p] the token of sorted pair p and slot[t*K+k]
** the sorted position of a pair (device arrays, i32); pair_weight acc
** [T * K] the weights in sorted order. */
struct k_route_sort { struct mat idx, weight, pair_weight; int64_t experts;
                      int64_t *counts; int32_t *row, *slot; };
/* dweight[t, k] = dpair[slot[t * K + k]] */
struct k_route_unsort { struct mat dweight, dpair; const int32_t *slot; };

/* ---- head and optimizer (2.5, 3.16) ------------------------------------- */

/* loss_sum (f64, device, one number) adds sum_t weight[t] * (lse - logit of
** target[t]); dlogits = weight[t] * (softmax - onehot), may be logits and
** may be absent. target i32, weight acc: device arrays. target < 0: the row
** counts nothing and its gradient is zero. */
struct k_cross_entropy { struct mat dlogits, logits; const int32_t *target;
                         const void *weight; double *loss_sum; };
/* One Adam step: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2,
** p -= lr * (m / (1 - b1^step)) / (sqrt(v / (1 - b2^step)) + eps). m, v acc;
** step counts from 1. */
struct k_adam { struct mat p, g, m, v; double lr, beta1, beta2, eps;
                int64_t step; };

/* Every kernel once. The table below, those of the devices and the prototypes
** of cuda/ are made of this list, so that none can be left out of one. */
#define KERNELS(X) \
    X(fill) X(copy) X(add) X(scale) X(random) X(gemm) X(group_gemm) \
    X(embed) X(gather) X(scatter) X(permute) X(combine) X(heads) \
    X(transpose) X(rms_norm) X(rms_norm_bwd) X(l2_norm) X(l2_norm_bwd) \
    X(rotary_table) X(rotary) X(sigmoid_gate) X(sigmoid_gate_bwd) \
    X(attention) X(attention_bwd) X(merge) X(merge_bwd) \
    X(conv) X(conv_bwd) X(gdn_gates) X(gdn_gates_bwd) X(repeat_heads) \
    X(sum_heads) X(delta) X(delta_bwd) X(silu_gate) X(silu_gate_bwd) \
    X(swiglu) X(swiglu_bwd) X(row_gate) X(row_gate_bwd) X(router) \
    X(router_bwd) X(route_sort) X(route_unsort) X(cross_entropy) X(adam)

struct kernels {
#define KERNEL(name) \
    int (*name)(struct dev *d, const struct k_##name *a, struct err *e);
    KERNELS(KERNEL)
#undef KERNEL
};

#endif
