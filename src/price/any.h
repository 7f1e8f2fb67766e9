/*
** any.h - a layer's peak on one rank, for per-rank-any (layer_peaks.c).
*/
#ifndef PRICE_ANY_H
#define PRICE_ANY_H

#include "price/internal.h"

/* One layer of one group on one rank. */
struct layer_at {
    const struct price_wave *w;
    enum layer_kind kind;
    int64_t rows;               /* that the rank holds in the layer's layout */
    int64_t out_rows;           /* where its output leaves */
    int64_t pairs;              /* that its experts are given */
    int64_t records;            /* bytes that the executor keeps */
    int64_t n_stage;
    int64_t sent;               /* rows whose gradients come back at once */
    int64_t stage_q, stage_k;   /* padded rows of the widest stage */
    int64_t states, chunks;     /* of the delta rule */
    bool converted;             /* its input came in the other layout */
    bool fresh;                 /* the layer's gradients are not there yet */
};

/* What is alive at an instant, requested, and its sum; in how many tensors, and
** how many of those are blocks of the allocator's large pool. */
struct instant { int64_t term[CAT_COUNT], sum, blocks, tensors; };

#define SMALL_SLACK 512         /* a block's bytes are rounded up to that */

/* A block of more than 1 MiB keeps what is left of the piece it was cut from
** when that is at most 1 MiB (mem/allocator.md A.5): on average a half. */
#define LARGE_BLOCK (INT64_C(1) << 20)
#define BLOCK_SLACK (INT64_C(1) << 19)

/* The instants of layers that differ in nothing but their number: the MoE of
** the recompute, the experts' backward, the mixer's. */
struct layer_instants {
    bool made, fresh;
    int64_t pairs;
    struct instant at[3];
};
void layer_instants(const struct layer_at *at, struct layer_instants *out);

/* The dearest one, borrowed, and the adapter gradients at it: above, those of
** the layers above, and in the backward the layer's own too. */
struct layer_peak {
    const struct instant *at;
    int64_t gradients, bytes;
};
struct layer_peak layer_peak(const struct layer_instants *x, int64_t above,
                             int64_t own);

/* Pairs of a layer of that kind that rank r's EP group routes in all. */
int64_t price_group_pairs(const struct price_facts *f, int64_t g, int64_t r,
                          enum layer_kind kind);
/* Pairs that rank r's experts are charged in a layer: as the facts state, or
** share (billionths; 0: the even one) of its EP group's, rounded up. */
int64_t price_pairs_of(const struct price_facts *f, int64_t g, int64_t r,
                       int64_t layer, int64_t share);
/* The share that no rank exceeds in any layer, but for PRICE_ROUTED_MISS of
** all waves, when experts' loads have that coefficient of variation. */
int64_t price_share_quantile(const struct price_facts *f, double cv);

#endif
