/*
** price_help.h - facts for the price tests, built without a file: models
** that are read once, groups on the stack.
*/
#ifndef PRICE_HELP_H
#define PRICE_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "price/price.h"

#define QWEN36 "lua/models/Qwen3.6-35B-A3B.json"

/* A group of two ranks and the memory behind it. */
struct two_ranks {
    int64_t attention[2], gdn[2], n_stage[2], retained[2];
    struct stage at[2][3];
    struct stage *stage[2];
};

static inline struct model help_model(const char *path, int64_t layers)
{
    struct model m;
    struct err e;
    if (model_load(path, layers, &m, &e) != ERR_OK) fail_msg("%s", e.text);
    return m;
}

static inline struct price_group help_group(struct two_ranks *t, bool grad)
{
    int r;
    for (r = 0; r < 2; r++) t->stage[r] = t->at[r];
    return (struct price_group){
        .grad = grad, .slot = "policy", .attention_rows = t->attention,
        .gdn_rows = t->gdn, .routed_rows = -1, .stage = t->stage,
        .n_stage = t->n_stage,
    };
}

static inline struct price_facts help_facts(const struct model *m,
                                            struct price_group *g, int64_t n,
                                            int64_t cp, int64_t ep)
{
    struct price_facts f;
    price_facts_init(&f);
    f.model = m;
    f.group = g;
    f.n_group = n;
    f.cp = cp;
    f.ep = ep;
    f.lora_rank = 8;
    return f;
}

static inline void help_pending(struct price_facts *f)
{
    struct err e;
    if (price_facts_all_pending(f, &e) != ERR_OK) fail_msg("%s", e.text);
}

static inline struct estimate *help_price(const struct price_facts *f,
                                          bool per_rank, unsigned change)
{
    struct estimate *out = malloc(sizeof *out);
    struct err e;
    int rc = per_rank ? price_per_rank_as(f, change, out, &e)
                      : price_busiest_rank_as(f, change, out, &e);
    if (rc != ERR_OK) fail_msg("%s", e.text);
    return out;
}

/* Seeds come from PEAKPROOF_SEED, so that a failure can be replayed. */
static inline uint64_t help_seed(void)
{
    const char *set = getenv("PEAKPROOF_SEED");
    return set != NULL ? strtoull(set, NULL, 10) : 20260917;
}

/* A random number in [0, n); *s is not 0. */
static inline int64_t help_below(uint64_t *s, int64_t n)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return (int64_t)(*s % (uint64_t)n);
}

/* Stages of rank r, of which its rows are known. */
static inline void help_random_stages(struct two_ranks *t, int r, uint64_t *s)
{
    int64_t own = t->attention[r], i;

    t->n_stage[r] = help_below(s, 4);
    for (i = 0; i < t->n_stage[r]; i++) {
        bool local = i == 0 && help_below(s, 4) > 0;
        bool full = local || help_below(s, 2) == 0;
        int64_t q = full ? own : help_below(s, own + 1);
        int64_t k = local ? own : help_below(s, 60000);

        t->at[r][i] = (struct stage){
            .local = local, .q_full = full, .k_full = local, .q = q, .k = k,
            .q_len = (q + 127) / 128 * 128, .k_len = (k + 127) / 128 * 128,
        };
    }
}

/* The recorded real batch (published.md 2). */
static const struct two_ranks help_real = {
    .attention = {52480, 44314}, .gdn = {48194, 48600}, .n_stage = {1, 2},
    .at = {{{.local = true, .q_full = true, .k_full = true, .q = 52480,
             .k = 52480, .q_len = 52480, .k_len = 52480}},
           {{.local = true, .q_full = true, .k_full = true, .q = 44314,
             .k = 44314, .q_len = 44352, .k_len = 44352},
            {.q_full = true, .q = 44314, .k = 16504, .q_len = 44352,
             .k_len = 16512}}},
};

/* The reconstructed random batch (published.md 2). */
static const struct two_ranks help_random = {
    .attention = {105600, 105153}, .gdn = {105626, 105127}, .n_stage = {1, 2},
    .at = {{{.local = true, .q_full = true, .k_full = true, .q = 105600,
             .k = 105600, .q_len = 105600, .k_len = 105600}},
           {{.local = true, .q_full = true, .k_full = true, .q = 105153,
             .k = 105153, .q_len = 105216, .k_len = 105216},
            {.q = 768, .k = 20608, .q_len = 768, .k_len = 20608}}},
};

#endif
