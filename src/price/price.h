/*
** price.h - estimates of a wave's peak from frozen facts: pure functions of
** integers. Nothing here sees a trace, a device or a step (pricing.md).
**
** busiest-rank prices every rank as if it held the most rows that any rank
** holds, with one mixer width. per-rank prices each context-parallel rank on
** its own rows in each layer's layout and takes the largest (CP2 alone, as it
** was published). per-rank-any does so at every CP and EP, on each rank's own
** routed rows, layer by layer. The first two add up
**
**   raw = outputs + boundaries + input gradient
**         + max(workspace + adapter gradients, head stage)
**         + cold transient + HybridEP growth
**
** of requested bytes; admitted is raw with a margin of a tenth.
*/
#ifndef PRICE_PRICE_H
#define PRICE_PRICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/category.h"
#include "model/mode.h"
#include "model/model.h"
#include "plan/plan.h"

struct routing;                 /* batch/routing.h */

/* Bounds on facts. Rows near 2^40 are more than any device holds, and sums
** of what they cost would leave 64 bits. */
#define PRICE_MAX_RANKS 64
#define PRICE_MAX_GROUPS 1024
#define PRICE_MAX_STAGES 4096       /* of one rank */
#define PRICE_MAX_ROWS ((int64_t)1 << 36)
#define PRICE_MAX_BYTES ((int64_t)1 << 53)

/* The slot whose groups run the base model: nothing trains, so no gradient
** is pending there, but its boundaries count. */
#define PRICE_BASE_SLOT "base"

/* One group of a wave: the requests of one slot with, or without, gradients.
** All arrays are [cp]. */
struct price_group {
    bool grad;
    char slot[64];
    int64_t *attention_rows, *gdn_rows;
    int64_t routed_rows;            /* -1: the default, price_routed_rows */
    /* what per-rank-any may know besides; each may be NULL */
    int64_t *routed_pairs;          /* [cp][layers] pairs received; NULL: every
                                       rank of an EP group its even share */
    int64_t *gdn_states, *gdn_chunks;   /* [cp] states of the delta rule that
                                       a rank holds, and chunks of 64 rows;
                                       NULL: one, and the rows' */
    int64_t *gdn_sent;              /* [cp] states that it hands to others at a
                                       time, at most; NULL: none */
    struct stage **stage;           /* [cp][n_stage], sizes only, or NULL */
    int64_t *n_stage;
    int64_t *sent_rows, n_sent;     /* [cp][n_sent] own rows that peers fetch in
                                       a stage, and whose gradients return;
                                       NULL: not known, at most all */
    int64_t *attention_retained;    /* bytes, instead of stages, or NULL */
    int64_t *pending;               /* of its slot, instead of the facts';
                                       NULL: those */
};

struct price_facts {
    const struct model *model;      /* layers already cut; borrowed, or: */
    struct model *own_model;        /* owned by facts that were read, */
    char *model_ref;                /* with the path as written; or NULL */
    int64_t cp, ep, tp, pp;
    int64_t lora_rank;              /* 0: no adapters, no converted weights */
    bool cold;
    bool moe_stages, routing_state; /* pricing.md 3.2, 3.4: else left out */
    bool softmax_offset, cp_attention;
    int64_t head_rows;              /* labelled rows; 0: no head stage */
    int64_t output_bytes;
    int64_t hybridep_held_rows;     /* rows a rank that the dispatch buffers
                                       hold already; -1: growth left out */
    int64_t packed_length;          /* longest packed row; -1: absent */
    int64_t q_block, k_block;       /* of the attention kernel */
    /* What the estimators of other recompute modes are told (retained.md 1);
    ** -1 (swiglu_widths 0): as the functions below say. */
    struct mode mode;               /* its tp is tp above */
    int sequence_parallel;          /* 0, 1; -1: where tp > 1 */
    int64_t packed_rows, rank_rows, segments;
    int64_t swiglu_widths;          /* widths of an MLP that are kept */
    /* Rows that a gated delta net runs: those that begin a chunk after a
    ** shared prefix once for each of its continuations. */
    int64_t gdn_executed_rows;
    int64_t *output_rows;           /* of each result; NULL: one result */
    int64_t n_output;
    /* what is known of routing where a group's routed_pairs are not: the
    ** coefficient of variation of experts' loads; 0: nothing, even shares */
    double load_cv;
    /* adapter gradient bytes that are not allocated yet, by layer, and what
    ** lies outside the decoder: [layers + 1], of every slot alike whose
    ** groups name no others; NULL: none */
    int64_t *pending;
    struct price_group *group;
    int64_t n_group;
};

/* What a rank holds at its peak, apart from what all ranks share. Of several
** groups the one with the largest stage. */
struct price_rank {
    int64_t boundaries;             /* saved layer inputs */
    /* per-rank prices a layer as one stage; per-rank-any, which walks through
    ** it, has none: then what is marked * is 0 and says nothing */
    bool staged;
    int64_t attention_stage;        /* * a recomputed layer of either kind, */
    int64_t gdn_stage;              /* * its records and MoE workspace inside;
                                       0 where the model has none */
    int64_t attention_retained;     /* 0 where the model has none */
    int64_t moe_workspace[LAYER_KINDS];     /* * */
    int64_t adapter_extra;          /* * its own walk, not paired */
    int64_t total;                  /* boundaries + the larger stage; without
                                       stages the rank's raw bytes */
    /* the wave's raw bytes were this rank's layer of that kind the one at
    ** the peak, by category, with the wave's adapter gradients; the binding
    ** one sums to the estimate's raw unless the head binds */
    int64_t term[LAYER_KINDS][CAT_COUNT];
};

struct estimate {
    char name[64];
    bool supported;
    bool priced;                    /* false: there are no bytes at all; else
                                       not supported means busiest-rank's */
    char reason[160];               /* why not, when not supported */
    int64_t raw, admitted;          /* bytes; admitted = floor(raw * 1.10) */
    int64_t term[CAT_COUNT];        /* of the binding rank and mixer (or the
                                       head); they sum to raw */
    int64_t binding_rank;           /* -1: not per rank */
    enum layer_kind binding_mixer;  /* meaningless if the head binds */
    bool head_binds;                /* the head stage is the peak */
    /* adapter gradients beyond the peak: as charged, and what charging the
    ** largest of any rank's to the largest floor would have been (per-rank
    ** pairs each with its own floor; pricing.md 8) */
    int64_t adapter_paired, adapter_unpaired;
    struct price_rank rank[PRICE_MAX_RANKS];
    int64_t n_rank;                 /* 0 where not priced by rank */
};

/* Blocks of the traced attention kernel on H200. */
enum { PRICE_Q_BLOCK = 128, PRICE_K_BLOCK = 64 };

#define PRICE_BUSIEST_RANK "busiest-rank"
#define PRICE_PER_RANK "per-rank"
#define PRICE_PER_RANK_ANY "per-rank-any"
#define PRICE_HEURISTIC "heuristic"
#define PRICE_RETAINED_STATES "retained-states"
#define PRICE_RETAINED_RANK "retained-rank"
#define PRICE_KEPT_RANK "kept-rank"

/* Wrong facts (rows out of bounds, ep that does not divide the experts,
** missing stages, bytes beyond 64 bits) are ERR_INPUT naming the key. What
** the published estimators do not cover is no error: supported is false. */
int price_busiest_rank(const struct price_facts *f, struct estimate *out,
                       struct err *e) MUST_CHECK;
int price_per_rank(const struct price_facts *f, struct estimate *out,
                   struct err *e) MUST_CHECK;

/* Each rank on its own rows and its experts' pairs at any CP and EP, layer by
** layer, with head and allocator (per_rank_any.c). */
int price_per_rank_any(const struct price_facts *f, struct estimate *out,
                       struct err *e) MUST_CHECK;

/* The published estimators of waves that keep activations, and the older
** heuristic (retained.md 2, 3): MoE and dense models, any tp. Without
** gradients or with full recompute they are the heuristic. Not covered: pp. */
int price_heuristic(const struct price_facts *f, struct estimate *out,
                    struct err *e) MUST_CHECK;
int price_retained_states(const struct price_facts *f, struct estimate *out,
                          struct err *e) MUST_CHECK;
int price_retained_rank(const struct price_facts *f, struct estimate *out,
                        struct err *e) MUST_CHECK;

/* An estimator of our own in their spirit: what each rank keeps, tensor by
** tensor, in every recompute mode, the executor's records and the wave's
** backward included (evidence.md 2, 3). Not covered: experts, pp. */
int price_kept_rank(const struct price_facts *f, struct estimate *out,
                    struct err *e) MUST_CHECK;

/* Every estimator, in the order in which they are shown. All price any facts;
** what one does not cover is part of its estimate (supported). The first are
** those of training waves that recompute whole layers. */
enum { PRICE_RECOMPUTING = 3, PRICE_ESTIMATORS = 7 };
struct price_estimator {
    const char *name;
    int (*price)(const struct price_facts *f, struct estimate *out,
                 struct err *e);
    const char *about;      /* for people */
};
extern const struct price_estimator price_estimators[PRICE_ESTIMATORS];
/* Does a run show estimator i beside a wave whose case names none? Those of
** recomputing training waves always, the others beside other modes and
** waves. */
bool price_shows(int i, const struct price_facts *f);
/* Those, and versions that were published earlier: retained-flat,
** retained-split4, retained-split6, retained-parts, retained-parts64
** (retained.md 3), which nothing shows unless a case names them. NULL: none
** is called so. */
const struct price_estimator *price_find(const char *name);
/* The earlier versions one by one, from 0; NULL behind the last. */
const struct price_estimator *price_earlier(int i);

/* The chance that is left to a wave of which only load_cv is known: some rank
** is given more in some layer than per-rank-any was charged. */
#define PRICE_ROUTED_MISS 0.01
#define PRICE_MAX_LOAD_CV 16

/* The same with one thing changed, for what the report compares. */
enum price_change {
    PRICE_AS_IS = 0,
    PRICE_NO_ALLOWANCE = 1,     /* routed rows exactly balanced at any ep */
    PRICE_UNPAIRED = 2,         /* adapter_unpaired is charged (per-rank) */
    PRICE_ONE_LSE = 4           /* records count one LSE a stage, not two */
};
int price_busiest_rank_as(const struct price_facts *f, unsigned change,
                          struct estimate *out, struct err *e) MUST_CHECK;
int price_per_rank_as(const struct price_facts *f, unsigned change,
                      struct estimate *out, struct err *e) MUST_CHECK;

/* A lower bound on the per-rank raw bytes of every way to lay the groups'
** rows out over the ranks: even shares (rows / cp, rounded down) in both
** layouts at the least attention state per row (pricing.md 5,
** _minimum_layouts). Only where per-rank pricing applies; else ERR_INPUT
** with the reason. */
int price_lower_bound(const struct price_facts *f, int64_t *raw,
                      struct err *e) MUST_CHECK;

/* The largest of all ranks' attention and GDN rows, at least 1. */
int64_t price_busiest_rows(const struct price_facts *f, int64_t group);
/* Rows of the whole wave: as given, or the sum over groups of all ranks'
** attention rows, each rounded up to a multiple of tp. Rank rows likewise
** from the busiest rank of each group (retained.md 1). */
int64_t price_packed_rows(const struct price_facts *f);
int64_t price_rank_rows(const struct price_facts *f);
/* Segments of the prefix trees of groups with gradients: as given, or one a
** group. */
int64_t price_segments(const struct price_facts *f);
/* As given, or 5 for qwen3 (its SwiGLU is not fused), else 3. */
int64_t price_swiglu_widths(const struct price_facts *f);
bool price_sequence_parallel(const struct price_facts *f);
bool price_has_grad(const struct price_facts *f);
/* Rows whose experts' work every rank is charged: as given, or by default
** the even share where the EP group is the CP group (at most the busiest
** rows), else the busiest rows (pricing.md 0.1). */
int64_t price_routed_rows(const struct price_facts *f, int64_t group);

/* Bytes a row of a recomputed mixer (pricing.md 2). With stage_buffers
** attention under cp > 1 includes the executor's stage buffers: 95,232 B
** for Qwen3.6-35B-A3B, the busiest-rank charge. */
int64_t price_mixer_width(const struct model *m, enum layer_kind kind,
                          int64_t cp, bool stage_buffers);

/* The size-only mirror of the attention executor: bytes one rank holds for
** backward (pricing.md 5, retained_stage_record_bytes). own = its attention
** rows. INT64_MAX: more than fits. */
int64_t price_stage_records(const struct model *m, const struct stage *s,
                            int64_t n, int64_t own, int64_t q_block,
                            int64_t k_block);
/* The least such bytes a row: 18,560 for Qwen3.6-35B-A3B. */
int64_t price_least_record_row(const struct model *m);

/*
** Facts.
*/

/* Zero facts with the neutral settings: cp ep tp pp 1, MoE stages and
** routing state on, the project's attention, 128 x 64 blocks, growth out. */
void price_facts_init(struct price_facts *f);

/* Facts of a plan: one gradient group of slot "policy" with the plan's rows
** and stages, default routed rows, the rest as price_facts_init (warm, no
** pending gradients). Arrays are copied, the model is borrowed; free with
** price_facts_free. */
int price_facts_from_plan(const struct model *m, const struct plan *p,
                          int64_t ep, int64_t lora_rank,
                          struct price_facts *out, struct err *e) MUST_CHECK;
/* Do facts that come from outside hold together: both layouts the same rows,
** a local stage over all of a rank's rows, no more keys fetched than there
** are? ERR_INPUT names the key, also for what an estimator would refuse. */
int price_check_whole(const struct price_facts *f, struct err *e) MUST_CHECK;
/* Every adapter's gradient is pending, as in a first wave. */
int price_facts_all_pending(struct price_facts *f, struct err *e) MUST_CHECK;
/* The same list on its own, [layers + 1]; the caller's. */
int price_all_pending(const struct price_facts *f, int64_t **out,
                      struct err *e) MUST_CHECK;
/* Pairs that each rank receives in a wave's layers, as a case states them, for
** facts of one group. Even shares, which need no list, EP1 and TP are left as
** they are, and so is routing that these rows cannot have: a step would say
** so. */
int price_facts_route(struct price_facts *f, const struct routing *r,
                      int64_t wave, struct err *e) MUST_CHECK;
void price_facts_free(struct price_facts *f);

#endif
