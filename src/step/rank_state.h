/*
** rank_state.h - what one rank of the step holds: its configuration, its
** device, its parameters and the place where it is. Structs and no more: what
** is done with them stands in the headers above this one.
** Inside src/step.
*/
#ifndef STEP_RANK_STATE_H
#define STEP_RANK_STATE_H

#include "step/step.h"

/* A block of the rank's allocator seen as a matrix. Empty: b NULL, m.p NULL
** (also for zero rows). */
struct tensor {
    struct mem_block *b;
    struct mat m;
};

enum weight {
    W_NORM1, W_NORM2,
    W_Q, W_K, W_V, W_O, W_Q_BIAS, W_K_BIAS, W_V_BIAS, W_Q_NORM, W_K_NORM,
    W_QKV, W_Z, W_B, W_A, W_CONV, W_A_LOG, W_DT_BIAS, W_GDN_NORM, W_GDN_OUT,
    W_ROUTER, W_EXPERT_UP, W_EXPERT_DOWN,
    W_SHARED_GATE, W_SHARED_UP, W_SHARED_DOWN, W_SHARED_SIGMA,
    W_MLP_GATE, W_MLP_UP, W_MLP_DOWN,
    W_COUNT
};

/* One adapter: A and B, their gradients (empty until a backward reaches
** them, then kept; every wave's backward writes them once) and Adam's
** moments. */
struct adapter {
    struct tensor a, b;
    struct tensor grad_a, grad_b;
    struct tensor moment[4];    /* m, v of A; m, v of B; may be empty */
    bool grad_fresh;            /* allocated in this wave */
};

struct layer_weights {
    struct tensor w[W_COUNT];
    struct adapter site[SITE_COUNT];
};

/* GEMM workspaces, taken at first use and kept: 32 MiB + 1 KiB for plain
** GEMMs, the same four times for grouped streams, 32 MiB for the general
** BLAS handle (router, adapters, head), and again for the one of the thread
** that runs the backward. */
enum workspace { WS_PLAIN, WS_GROUPED, WS_BLAS, WS_AUTOGRAD, WS_COUNT };

/* The routed part's host side (moe_route.c): of the current layer. */
struct moe_route {
    /* of every layer, back to back, NULL on dry; below are the current one's
    */
    int64_t *all_counts, *all_offset;
    struct range *all_block;
    int64_t *counts;            /* [cp][experts] pairs rank r sends to e */
    int64_t *own;               /* [experts] of this rank; apart, because the
                                   others read it while counts is written */
    int64_t *offset;            /* [local experts + 1] rows per own expert */
    struct range *block;        /* [local experts * ep] received rows, in the
                                   order (expert, source) */
    int64_t *forced;            /* host copy of replayed routes; may be NULL */
    int64_t *stated;            /* [ep] pairs that ranks receive, as the
                                   scenario states them */
    int64_t received;           /* pairs on this rank */
};

struct layer_saved;
struct hidden;

struct step {
    struct step_config c;       /* copy */
    /* the geometry of this rank's share: heads and widths of the MLP divided
    ** by tp, at least one group of keys; and the whole */
    const struct model *m, *whole;
    struct model share;
    const struct rank_plan *rp; /* of this rank */
    struct dev *dev;
    const struct kernels *k;    /* NULL on dry */
    struct mem *mem;
    struct mem_block *taken;    /* of ten_of, the last */
    struct comm *comm;          /* NULL on dry and for a single rank */
    int64_t cp, tp;
    bool converts;              /* some rank's layouts differ */
    struct tensor unsummed;     /* otherwise: of a row-parallel product, until
                                   the residual takes both */
    int64_t local_experts;
    double lora_scale;          /* alpha / r */
    int64_t lora_pad;           /* e = max(8, r): rank of expert tensors */

    struct layer_weights *lw;   /* [layers] */
    struct tensor embedding, head, final_norm;
    struct tensor rotary;       /* angles by position, kept between waves */
    struct tensor ws[WS_COUNT][4];
    struct tensor wide[3];      /* held otherwise (otherwise.c) */

    /* current place, for tags */
    enum mem_phase phase;
    int64_t layer, wave;
    int64_t adam_step;          /* taken so far */

    /* Inputs of the wave on attention rows, for as long as it runs: i32 ids
    ** and positions [rows]; of the labelled rows i32 target and acc
    ** loss_weight; f64 loss [1]. */
    struct tensor ids, positions, target, loss_weight, loss;
    struct tensor rotary_rows;  /* acc [rows, rotary dims] angles by row, in
                                   the first half of the columns */
    struct tensor rotary_row;   /* i32 [rows] 0, 1, 2 ... */
    struct tensor row_state;    /* what else a wave holds of its rows */
    const struct step_data *data;
    struct range *label;        /* labelled attention rows; computing only */
    int64_t n_label;
    struct range *label_part;   /* [n_label] those of one chunk */

    /* Boundaries of the wave [layers + 1]; the last is the head's input. */
    struct tensor *boundary;
    struct layer_saved *saved;  /* [layers] what each keeps (layers.h) */
    struct hidden *hidden;      /* outputs of hidden waves (hidden.c) */
    struct executor *exec;      /* executor.h */

    /* dispatch buffers outside the allocator, grow only (dispatch.c) */
    uint64_t hybridep_addr, hybridep_bytes;
    uint64_t hybridep_traced;   /* what the framework would hold instead */
    struct moe_route route;

    struct gdn_flow *flow;      /* how GDN states move; gdn_flow.c */
    int64_t *received;          /* [layers] pairs received this wave */
    int64_t *sent;              /* [layers][experts] pairs routed, likewise;
                                   computing devices, else NULL */
    struct step_dump *dump;     /* or NULL; dump.c */
    int64_t records_bytes;
    struct watch *watch;        /* or NULL; watch.h */
    bool watching;              /* in this wave */
    struct step_found found;
    enum err_code rc;
    struct err *e;
};

/* Rows of this rank in a layout, padded to a multiple of tp. */
static inline int64_t step_rows(const struct step *s, enum layer_kind layout)
{
    int64_t rows = layout == LAYER_GDN ? s->rp->gdn_rows
                                       : s->rp->attention_rows;

    return (rows + s->tp - 1) / s->tp * s->tp;
}
/* The first context-parallel rank of this rank's EP group. */
static inline int64_t moe_group(const struct step *s)
{
    int64_t n = (s->c.ep + s->tp - 1) / s->tp;

    return s->c.rank - s->c.rank % n;
}
/* Rows that this rank routes in the current layer. */
static inline int64_t moe_rows(const struct step *s)
{
    return step_rows(s, s->m->kind[s->layer]) / s->tp;
}
static inline struct mat weight_of(const struct step *s, enum weight w)
{
    return s->lw[s->layer].w[w].m;
}
static inline struct adapter *adapter_of(struct step *s, enum site site)
{
    return &s->lw[s->layer].site[site];
}

#endif
