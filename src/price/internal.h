/*
** internal.h - what the files of price share.
**
** All byte counts are saturating int64_t (num_sadd, num_smul): INT64_MAX
** stays INT64_MAX and becomes an error once, where the sum is complete.
** Inside src/price.
*/
#ifndef PRICE_INTERNAL_H
#define PRICE_INTERNAL_H

#include "base/num.h"
#include "price/price.h"

struct blocks;

#define PRICE_ELEMENT 2     /* bytes of a bf16 number */
#define HEAD_CHUNK 512      /* rows whose logits exist at a time */
#define ROW_STATE 256       /* bytes a row, f32, beside its angles (10) */

/* Rows of group p that rank r holds in a layout. */
static inline int64_t price_rows_of(const struct price_group *p, int64_t r,
                                    enum layer_kind kind)
{
    return kind == LAYER_GDN ? p->gdn_rows[r] : p->attention_rows[r];
}

/* Rows of a stage as the kernel takes them: whole blocks, at least two. */
static inline int64_t price_padded(int64_t len, int64_t block)
{
    return len == 0 ? 0 : num_max(num_round_up(len, block), 2 * block);
}

/* ---- the MoE stage of one layer (moe.c, pricing.md 3) -------------------- */

/* A way in which the stage may reach its peak: per routed row, and fixed.
** Of per_row, dispatch are the dispatched inputs and shared the shared
** expert's part. */
struct moe_peak { int64_t per_row, dispatch, shared, fixed; };

#define MOE_PEAKS 6         /* the coefficient of 3.1, then S1..S5 of 3.2 */

struct moe {
    struct moe_peak peak[MOE_PEAKS];
    int n;
    int64_t shared;         /* a local row that no routed row stands for */
    bool covered;           /* FC1 is enclosed: one input gradient is enough */
};

struct moe_shape {
    int64_t hidden, ffn, top_k;
    int64_t local_experts;
    int64_t rank;           /* of the adapters; 0: no converted weights */
    int64_t ep;
    int64_t shared;         /* bytes a row of the shared expert's output */
    bool grad, stages, allowance;
};

void price_moe_make(const struct moe_shape *s, struct moe *out);
struct moe_shape price_moe_shape(const struct price_facts *f, bool grad,
                                 unsigned change);
/* W of 3.3; adds its terms. */
int64_t price_moe_workspace(const struct moe *m, int64_t rows, int64_t routed,
                            int64_t term[CAT_COUNT]);

/* ---- one layer at its peak (stage.c) ------------------------------------- */

struct price_wave {
    const struct price_facts *f;
    unsigned change;
    struct moe moe[2];      /* [grad] */
    int64_t row;            /* H wide */
    int64_t routing;        /* state beside the MoE stage, a local row: the */
    int64_t shared_state;   /* router's and the shared expert's */
    bool has[LAYER_KINDS];  /* kinds of layers in the model */
    bool has_grad;          /* some group trains */
    int64_t te;             /* workspaces that GEMMs have yet to allocate */
    int64_t cold;           /* transients of a cold recompute */
    int64_t input_rows;     /* busiest rows of all gradient groups */
    int64_t share;          /* of its EP group's pairs that a rank is charged,
                               in billionths; 0: the even share */
};

void price_wave_make(const struct price_facts *f, unsigned change,
                     struct price_wave *out);
/* A recomputed layer of that kind: adds its terms (records: bytes that the
** attention executor holds), returns their sum. */
int64_t price_stage(const struct price_wave *w, enum layer_kind kind,
                    int64_t width, int64_t rows, int64_t routed,
                    int64_t records, int64_t term[CAT_COUNT]);
int64_t price_sum(const int64_t term[CAT_COUNT]);

/* Bytes of group g's saved input of a layer on a rank, each rank holding at
** least one row; rank -1: busiest rows in every layer. */
int64_t price_boundary(const struct price_facts *f, int64_t g, int64_t rank,
                       int64_t layer);

/* price_stage_records with one or both LSEs of a stage counted, and the
** tensors added to blocks unless that is NULL. */
int64_t price_records_lse(const struct model *m, const struct stage *s,
                          int64_t n, int64_t own, int64_t q_block,
                          int64_t k_block, int lses, struct blocks *blocks);

/* ---- facts of a plan (states.c) ------------------------------------------ */

/* Fills gdn_states and gdn_sent. ERR_RUN: no memory. */
int price_count_states(const struct plan *p,
                       struct price_group *g) MUST_CHECK;

/* ---- adapter gradients (adapter.c, pricing.md 8) ------------------------- */

/* What a group's slot has pending, [layers + 1]; NULL: nothing. */
const int64_t *price_pending(const struct price_facts *f, int64_t g);

/* Gradients that groups leave behind when they have run, beyond the
** boundaries that they free, on one rank (-1: busiest rows). */
struct adapter_left {
    int64_t slot[PRICE_MAX_GROUPS];     /* of each group: its slot's first */
    int64_t most[PRICE_MAX_GROUPS];     /* there: the slot's at most */
    int64_t all;
};
void price_left_make(const struct price_facts *f, int64_t rank,
                     struct adapter_left *out);
/* What those of other slots leave, at most, for group g. */
int64_t price_left_for(const struct adapter_left *l, int64_t g);

struct adapter_walks {
    int64_t extra;          /* gradients beyond the peak of the boundaries */
    int64_t at_head;        /* gradients live when a group's head runs */
};
/* All gradient groups of the wave on one rank (-1: busiest rows), in the
** worst order. */
struct adapter_walks price_walk_groups(const struct price_facts *f,
                                       int64_t rank);

/* ---- the sum (total.c) --------------------------------------------------- */

struct price_parts {
    int64_t boundaries;     /* the floor's */
    int64_t workspace;      /* the floor's, with te */
    int64_t extra;          /* adapter gradients, as charged */
    int64_t at_head;
    const int64_t *term;    /* boundaries and stage of what binds: these sum
                               to boundaries + workspace - te */
};
/* Fills raw, admitted, terms, head_binds of out and completes the terms of
** its ranks. */
int price_total(const struct price_wave *w, const struct price_parts *p,
                struct estimate *out, struct err *e) MUST_CHECK;

/* Rows of each rank's dispatch buffers (pricing.md 7.4), and the bytes by
** which they are yet to grow. */
int64_t price_hybridep_rows(int64_t capacity, int64_t ranks);
int64_t price_hybridep_growth(const struct price_facts *f);

/* ---- retained activations (retained.c, retained.md 3) -------------------- */

int price_retained_flat(const struct price_facts *f, struct estimate *out,
                        struct err *e) MUST_CHECK;
int price_retained_split4(const struct price_facts *f, struct estimate *out,
                          struct err *e) MUST_CHECK;
int price_retained_split6(const struct price_facts *f, struct estimate *out,
                          struct err *e) MUST_CHECK;
int price_retained_parts(const struct price_facts *f, struct estimate *out,
                         struct err *e) MUST_CHECK;
int price_retained_parts64(const struct price_facts *f, struct estimate *out,
                           struct err *e) MUST_CHECK;

/* ERR_INPUT naming the key if the facts cannot be priced at all. */
int price_check(const struct price_facts *f, struct err *e) MUST_CHECK;
/* What the estimators do not cover, into reason; false: covered. The second
** is about pricing by rank, the third about the published one alone. */
bool price_refuses(const struct price_facts *f, char reason[160]);
bool price_refuses_layouts(const struct price_facts *f, char reason[160]);
bool price_refuses_ranks(const struct price_facts *f, char reason[160]);
/* ERR_INPUT where attention is given neither by stages nor by bytes. */
bool price_lacks_stages(const struct price_wave *w, struct err *e);
int price_too_big(const struct price_facts *f, struct err *e) MUST_CHECK;

#endif
