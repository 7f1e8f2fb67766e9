/*
** record_fixture.h - made-up cases for the tests of record and report. The
** figures are invented; they only have the shape of real ones, and their
** parts sum as they must.
*/
#ifndef TESTS_RECORD_FIXTURE_H
#define TESTS_RECORD_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/record.h"

struct fixture {
    struct record_rank rank[2][2];      /* [wave][rank] */
    struct estimate estimate[2];
    struct record_variant variant[4];
    struct record_timing timing[2];
    struct record_tensor tensor[4];
    struct record_wave wave[2];
    int64_t attention_rows[2], gdn_rows[2];
    struct record_case kase;
};

/* Shares of a peak or an estimate in 1/64ths, attention or GDN at the top. */
static inline void fixture_terms(int64_t by[CAT_COUNT], int64_t unit,
                                 bool gdn, bool peak)
{
    memset(by, 0, CAT_COUNT * sizeof *by);
    by[CAT_BOUNDARIES] = 24 * unit;
    by[gdn ? CAT_GDN : CAT_ATTENTION] = 9 * unit;
    by[CAT_ATTENTION_RECORDS] = gdn ? 0 : 8 * unit;
    by[CAT_RESIDUAL_NORM] = unit;
    by[CAT_MOE_ROUTING] = unit;
    by[CAT_MOE_DISPATCH] = 6 * unit;
    by[CAT_MOE_EXPERTS] = 12 * unit;
    by[CAT_SHARED_EXPERT] = unit;
    by[CAT_INPUT_GRADIENT] = unit;
    by[CAT_WORKSPACE] = 167777280;
    by[CAT_ROUNDING] = peak ? 4096 : 0;
}

static inline int64_t fixture_sum(const int64_t by[CAT_COUNT])
{
    int64_t sum = 0;
    int c;

    for (c = 0; c < CAT_COUNT; c++) sum += by[c];
    return sum;
}

static inline void fixture_peak(struct record_rank *k, int64_t unit,
                                int64_t layer)
{
    *k = (struct record_rank){.beside = RECORD_UNKNOWN,
                              .executor_bytes = 8 * unit,
                              .mirror_bytes = 8 * unit, .has_kept = true};
    k->beside.received_pairs = 387176;
    k->beside.hybridep_bytes = 1000;
    k->beside.retained_bytes = 24 * unit;
    k->beside.start_bytes = 1 << 20;
    fixture_terms(k->peak.by, unit, layer % 4 != 3, true);
    k->kept[LAYER_ATTENTION][CAT_ATTENTION] = 9 * unit;
    k->kept[LAYER_ATTENTION][CAT_ATTENTION_RECORDS] = 8 * unit;
    k->kept[LAYER_GDN][CAT_GDN] = 9 * unit;
    k->peak.allocated = (uint64_t)fixture_sum(k->peak.by);
    k->peak.requested = k->peak.allocated - 4096;
    k->peak.reserved = k->peak.allocated + (2u << 20);
    k->peak.event = 4711;
    k->peak.tag = (struct mem_tag){CAT_MOE_EXPERTS, PHASE_RECOMPUTE,
                                   (int16_t)layer, "moe.fc2.sum"};
}

static inline void fixture_estimate(struct estimate *x, const char *name,
                                    int64_t unit, bool by_rank)
{
    int64_t i;

    *x = (struct estimate){.supported = true, .priced = true,
                           .binding_rank = -1};
    snprintf(x->name, sizeof x->name, "%s", name);
    fixture_terms(x->term, unit, false, false);
    x->raw = fixture_sum(x->term);
    x->admitted = x->raw + x->raw / 10;
    if (!by_rank) return;
    x->n_rank = 2;
    x->binding_rank = 1;
    for (i = 0; i < 2; i++) {
        struct price_rank *p = &x->rank[i];
        *p = (struct price_rank){.boundaries = 24 * unit,
            .staged = true,
            .attention_stage = 30 * unit, .gdn_stage = 28 * unit,
            .attention_retained = 8 * unit, .moe_workspace = {19, 18},
            .total = 54 * unit};
        fixture_terms(p->term[LAYER_ATTENTION], unit - (1 - i) * 1000, false,
                      false);
        fixture_terms(p->term[LAYER_GDN], unit - 2000, true, false);
    }
}

static inline void fixture_tensors(struct fixture *f)
{
    f->tensor[0] = (struct record_tensor){0, 39, LAYER_ATTENTION,
        CAT_ATTENTION, "attn.norm", 1, 52480 * 4096, 52480, PHASE_RECOMPUTE,
        PHASE_BACKWARD, "attn.qkv.dgrad"};
    f->tensor[1] = (struct record_tensor){0, 39, LAYER_ATTENTION,
        CAT_MOE_EXPERTS, "moe.fc2.sum", 1, 387176 * 4096ull, 52480,
        PHASE_RECOMPUTE, PHASE_RECOMPUTE, "moe.combine"};
    f->tensor[2] = (struct record_tensor){0, 39, LAYER_ATTENTION,
        CAT_ADAPTER_GRADIENTS, "attn.q.lora", 2, 344064, 52480,
        PHASE_BACKWARD, PHASE_NONE, NULL};
    f->tensor[3] = (struct record_tensor){0, 38, LAYER_GDN, CAT_GDN,
        "gdn.qkv", 1, 48194 * 16384ull, 48194, PHASE_RECOMPUTE,
        PHASE_BACKWARD, "gdn.conv.dgrad"};
}

/* One case of two waves; unit scales its bytes. */
static inline void fixture_case(struct fixture *f, const char *scenario,
                                const char *name, int64_t unit)
{
    int w, i;

    memset(f, 0, sizeof *f);
    fixture_estimate(&f->estimate[0], "busiest-rank", unit + unit / 10, false);
    fixture_estimate(&f->estimate[1], "per-rank", unit + unit / 12, true);
    f->variant[0] = (struct record_variant){"per-rank/unpaired",
        f->estimate[1].raw + 632000000};
    f->variant[1] = (struct record_variant){"per-rank/no-allowance",
        f->estimate[1].raw - 8 * unit};
    f->variant[2] = (struct record_variant){"per-rank/one-lse",
        f->estimate[1].raw - 6758400};
    f->timing[0] = (struct record_timing){-1, "plan.first", 400000};
    f->timing[1] = (struct record_timing){-1, "plan.cached", 900};
    fixture_tensors(f);
    for (w = 0; w < 2; w++) {
        for (i = 0; i < 2; i++)
            fixture_peak(&f->rank[w][i], unit - (1 - i) * unit / 20,
                         i ? 39 : 38);
        f->wave[w] = (struct record_wave){.wave = w, .cold = w == 0,
            .rank = f->rank[w], .n_rank = 2, .estimate = f->estimate,
            .n_estimate = 2, .variant = f->variant, .n_variant = 3,
            .timing = f->timing, .n_timing = 2};
    }
    f->attention_rows[0] = 52480, f->attention_rows[1] = 44314;
    f->gdn_rows[0] = 48194, f->gdn_rows[1] = 48600;
    f->kase = (struct record_case){.device = "dry", .scenario = scenario,
        .name = name, .model = "Qwen3.6-35B-A3B", .layers = 40, .cp = 2,
        .ep = 2, .tp = 1, .pp = 1, .lora_rank = 8, .dtype = "bf16",
        .weights = "random", .recompute = "full", .modules = "",
        .grad = true, .compiled = true, .kind = "train",
        .batch = "layout", .tokens = 96794,
        .attention_rows = f->attention_rows, .gdn_rows = f->gdn_rows,
        .routed_rows = 48397, .top_k = 8, .routing = "balanced", .seed = 1,
        .published_before_cold = NAN, .published_before_warm = NAN,
        .published_after_cold = NAN, .published_after_warm = NAN,
        .measured_peak = -1, .measured_first = -1, .measured_retained = -1,
        .printed_estimate = -1,
        .wave = f->wave, .n_wave = 2, .tensor = f->tensor, .n_tensor = 4};
}

/* A fresh folder, in memory where there is such a place (the files are synced
** many times); fixture_remove deletes it and its files. */
static inline char *fixture_dir(void)
{
    char *dir = strdup(access("/dev/shm", W_OK) == 0 ?
                       "/dev/shm/peakproof-test-XXXXXX" :
                       "/tmp/peakproof-test-XXXXXX");

    if (dir == NULL || mkdtemp(dir) == NULL) abort();
    return dir;
}

static inline void fixture_remove(char *dir)
{
    char command[512];

    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command) != 0) abort();
    free(dir);
}

static inline char *fixture_path(const char *dir, const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static const struct record_info fixture_info = {
    .identity = "fixture", .command = "peakproof run x.lua", .commit = "c0de"
};

#endif
