/*
** price.h - estimates of a wave's peak from frozen facts: pure functions of
** integers. Nothing here sees a trace, a device or a step (pricing.md).
*/
#ifndef PRICE_PRICE_H
#define PRICE_PRICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "mem/category.h"
#include "model/model.h"
#include "plan/plan.h"

#define PRICE_MAX_RANKS 64

/* Facts of one group of a wave, all arrays [cp]. */
struct price_group {
    bool grad;
    char slot[64];
    int64_t *attention_rows, *gdn_rows;
    int64_t routed_rows;            /* -1: the default of pricing.md 0.1 */
    struct stage **stage;           /* [cp][n_stage], sizes only, or NULL */
    int64_t *n_stage;
    int64_t *attention_retained;    /* [cp] instead of stages, or NULL */
};

struct price_facts {
    const struct model *model;      /* layers already cut; borrowed */
    int64_t cp, ep, tp, pp;
    int64_t lora_rank;
    bool cold;
    bool moe_stages, routing_state;
    bool softmax_offset, cp_attention;
    int64_t head_rows, output_bytes;
    int64_t hybridep_held_rows;     /* -1: growth left out */
    int64_t packed_length;          /* -1: absent */
    int64_t q_block, k_block;
    /* adapter gradients that are pending, [layers + 1]; NULL: none */
    int64_t *pending;
    struct price_group *group;
    int64_t n_group;
};

struct price_rank {
    int64_t boundaries, attention_stage, gdn_stage, attention_retained;
    int64_t moe_workspace[LAYER_KINDS];
    int64_t adapter_extra;
    int64_t total;
    /* the wave's raw bytes were this rank's layer of that kind the one at
    ** the peak, by category; the binding one sums to the estimate's raw */
    int64_t term[LAYER_KINDS][CAT_COUNT];
};

struct estimate {
    char name[64];
    bool supported;
    char reason[160];               /* why not, when not supported */
    int64_t raw, admitted;          /* bytes; admitted = floor(raw * 1.10) */
    int64_t term[CAT_COUNT];        /* of the binding rank and mixer */
    int64_t binding_rank;           /* -1: not per rank */
    enum layer_kind binding_mixer;
    struct price_rank rank[PRICE_MAX_RANKS];
    int64_t n_rank;                 /* 0 where not priced by rank */
};

int price_busiest_rank(const struct price_facts *f, struct estimate *out,
                       struct err *e) MUST_CHECK;
int price_per_rank(const struct price_facts *f, struct estimate *out,
                   struct err *e) MUST_CHECK;

/* The size-only mirror of the attention executor: bytes one rank holds for
** backward (pricing.md 5, retained_stage_record_bytes). own = its attention
** rows. */
int64_t price_stage_records(const struct model *m, const struct stage *s,
                            int64_t n, int64_t own, int64_t q_block,
                            int64_t k_block);

/* Facts of a plan: one gradient group, default routed rows, nothing else
** set. Borrowed arrays of p are copied; free with price_facts_free. */
int price_facts_from_plan(const struct model *m, const struct plan *p,
                          int64_t ep, int64_t lora_rank,
                          struct price_facts *out, struct err *e) MUST_CHECK;
void price_facts_free(struct price_facts *f);

#endif
