/*
** rank_state.h - what one rank of the step holds: its configuration, its
** device, its parameters and the place where it is.
*/
#ifndef STEP_RANK_STATE_H
#define STEP_RANK_STATE_H

#include "step/mlp.h"
#include "step/weights.h"

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
    struct comm *comm;          /* NULL on dry and for a single rank */
    int64_t cp, tp;
    bool converts;              /* some rank's layouts differ */
    int64_t local_experts;
    double lora_scale;          /* alpha / r */
    int64_t lora_pad;           /* e = max(8, r): rank of expert tensors */

    struct layer_weights *lw;   /* [layers] */
    struct tensor embedding, head, final_norm;
    struct tensor rotary;       /* angles by position, kept between waves */
    struct tensor ws[WS_COUNT][4];

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
                                   computing devices */
    struct step_dump *dump;     /* or NULL; dump.c */
    int64_t records_bytes;
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
/* Angles of the rank's attention rows, one row each. */
static inline struct mat rotary_of(const struct step *s)
{
    return mat_cols(s->rotary_rows.m, 0, s->m->rotary_dim / 2);
}
/* The first rank of this rank's EP group. */
static inline int64_t moe_group(const struct step *s)
{
    return s->c.rank - s->c.rank % s->c.ep;
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
