/*
** step_cases.h - the published cases on the dry device, for tests and
** benches of the step: models, recorded layouts, one rank's run.
*/
#ifndef STEP_CASES_H
#define STEP_CASES_H

#include <stdio.h>
#include <stdlib.h>

#include "step/step.h"

#define CASE_MODEL "lua/models/Qwen3.6-35B-A3B.json"

struct layout_case {
    const char *name;
    int64_t layers;
    int64_t attention[2], gdn[2];
    struct stage stage[2][2];
};

#define CASE_LOCAL(rows, len) {.local = true, .q = rows, .k = rows, \
                               .q_len = len, .k_len = len, .q_full = true}

/* published.md section 2 */
static const struct layout_case layout_cases[] = {
    {"real, 40 layers", 40, {52480, 44314}, {48194, 48600},
     {{CASE_LOCAL(52480, 52480), {.q = 0}},
      {CASE_LOCAL(44314, 44352),
       {.q = 44314, .k = 16504, .q_len = 44352, .k_len = 16512,
        .q_full = true}}}},
    {"random, 8 layers", 8, {105600, 105153}, {105626, 105127},
     {{CASE_LOCAL(105600, 105600), {.q = 0}},
      {CASE_LOCAL(105153, 105216),
       {.q = 768, .k = 20608, .q_len = 768, .k_len = 20608}}}},
    {"random, 40 layers", 40, {105600, 105153}, {105626, 105127},
     {{CASE_LOCAL(105600, 105600), {.q = 0}},
      {CASE_LOCAL(105153, 105216),
       {.q = 768, .k = 20608, .q_len = 768, .k_len = 20608}}}},
};

static void case_need(int rc, const struct err *e)
{
    if (rc == ERR_OK) return;
    fprintf(stderr, "%s\n", e->text);
    abort();
}

static inline void case_plan(const struct layout_case *c, struct plan *out)
{
    struct stage st[2][2];
    struct rank_plan ranks[2] = {{0}, {0}};
    struct err e;
    int r;

    for (r = 0; r < 2; r++) {
        st[r][0] = c->stage[r][0];
        st[r][1] = c->stage[r][1];
        ranks[r].attention_rows = c->attention[r];
        ranks[r].gdn_rows = c->gdn[r];
        ranks[r].stage = st[r];
        ranks[r].n_stage = c->stage[r][1].q > 0 ? 2 : 1;
    }
    case_need(plan_from_layout(2, ranks, out, &e), &e);
}

static inline void case_model(const char *path, int64_t layers,
                              struct model *out)
{
    struct err e;

    case_need(model_load(path, layers, out, &e), &e);
}

/* One rank on the dry device with an allocator of its own. */
struct dry_rank {
    struct dev *dev;
    struct mem *mem;
    struct step *step;
    struct step_config config;
};

static const struct routing case_balanced = {.kind = ROUTING_BALANCED};

static inline struct step_config case_config(const struct model *m,
                                             const struct plan *p,
                                             int64_t rank, int64_t ep)
{
    return (struct step_config){
        .model = m, .plan = p, .rank = rank, .ep = ep, .lora_rank = 8,
        .lora_alpha = 32, .q_block = 128, .k_block = 64,
        .routing = &case_balanced, .seed = 1,
    };
}

static inline int dry_rank_open(struct dry_rank *r,
                                const struct step_config *c, bool trace,
                                struct err *e)
{
    struct dev_options o = {.act = DT_BF16};
    struct mem_config mc = {.trace = trace};

    r->config = *c;
    r->step = NULL;
    case_need(dev_dry.open(&o, &r->dev, e), e);
    case_need(mem_new(&mc, r->dev->source, &r->mem, e), e);
    return step_new(c, r->dev, r->mem, NULL, &r->step, e);
}

static inline void dry_rank_close(struct dry_rank *r)
{
    step_free(r->step);
    mem_free_all(r->mem);
    r->dev->ops->close(r->dev);
}

#endif
