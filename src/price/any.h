/*
** any.h - a layer's peak on one rank, for per-rank-any (layer_peaks.c).
** Inside src/price.
*/
#ifndef PRICE_ANY_H
#define PRICE_ANY_H

#include "price/internal.h"
#include "price/slack.h"

/* An instant of the executor's backward, which frees stage after stage, the
** last first: of how many the records are there, padded rows of the one that
** runs, and rows whose gradients come back. */
struct stage_back { int64_t n_stage, records, q, k, sent; };

/* One layer of one group on one rank. */
struct layer_at {
    const struct price_wave *w;
    enum layer_kind kind;
    int64_t rows;               /* that the rank holds in the layer's layout */
    int64_t out_rows;           /* where its output leaves */
    int64_t pairs;              /* that its experts are given */
    int64_t records;            /* bytes that the executor keeps */
    const struct stage *stage;  /* of what stages, borrowed; NULL: one rank, or
                                   only the bytes are known */
    int64_t n_stage, own;
    struct stage_back back;     /* the dearest instant of their backward */
    int64_t states, chunks;     /* of the delta rule, */
    int64_t sent;               /* and states that others are handed */
    bool converted;             /* its input came in the other layout, */
    bool leaves;                /* its output goes there */
    bool first;                 /* no layer is in front of it */
    int64_t gradients;          /* bytes of its own that are not there yet */
    int64_t unit, padded;       /* bytes of a column of a converted weight, all
                                   experts', and of a pair's rank-wide row */
};

/* What is alive at an instant, requested, and its sum. The list is of its
** tensors, as many as are alike, without the executor's records, which layer_at
** has. The blocks are made when they are asked for. */
#define INSTANT_LIST 44
struct alive { int64_t n, bytes; };
struct instant {
    int64_t term[CAT_COUNT], sum;
    int64_t gradients;          /* of the layer's own, those that are there */
    int64_t tensors, large;     /* no fewer than in blocks */
    int64_t loose;              /* of more than 1 MiB, as rows make them */
    int64_t small;              /* of them, those that the list has not */
    const struct layer_at *records;     /* of so many of its stages */
    int64_t n_stage;
    bool counted;
    struct blocks blocks;
    int n;
    struct alive list[INSTANT_LIST];
};

/* The instants of layers that differ in nothing but their number: the MoE of
** the recompute, before the layer's own gradients appear; the experts'
** backward through FC2, with its gradients, and through FC1; the mixer's; and
** its first projections', with the last gradients of all: in the first layer
** alone, for the one in front of another has these too, and holds more. */
enum { AT_RECOMPUTE, AT_FC2, AT_FC1, AT_MIXER, AT_PROJECTIONS, INSTANTS };
struct layer_instants {
    bool made, first;
    int64_t pairs, gradients;   /* as layer_at has them */
    int n;                      /* how many */
    int64_t most;               /* none is dearer, whatever is added */
    bool loose;                 /* some have such tensors */
    struct instant at[INSTANTS];
};
void price_layer_instants(const struct layer_at *at,
                          struct layer_instants *out);
enum { LARGE_GRADIENTS = 4 };       /* of a layer's experts */
int64_t price_adapter_widths(const struct model *m, int64_t width[3]);
/* Rows whose logits exist at a time, where a rank has so many. */
int64_t price_head_chunk(const struct price_facts *f, int64_t rows);
/* Of one layer. */
struct blocks price_gradient_blocks(const struct price_facts *f, int64_t g,
                                    int64_t r);
/* Those that base does not divide are counted; hole as in blocks. */
const struct blocks *instant_blocks(struct instant *t, int64_t base,
                                    int64_t hole);

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
