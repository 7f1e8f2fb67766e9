/*
** measured.h - the measured cells of reports/published/measured-memory.csv
** run on the dry device as the measuring program ran them: a wave of hidden
** outputs twice (first and repeat), and one with the loss and its backward
** twice.
*/
#ifndef MEASURED_H
#define MEASURED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/num.h"
#include "batch/batch.h"
#include "step/step.h"

#define MEASURED "reports/published/measured-memory.csv"
#define MEASURED_MAX 256

/* One row; -1 where a cell is empty. */
struct cell {
    const char *id, *model, *modules, *lengths, *series;
    enum recompute recompute;
    bool compiled, concentrated;
    int64_t tp, cp, ep, shared, packed, rank_rows;
    int64_t peak, first, repeat, retained, both, base_first, base_last;
};

/* What our step makes of it. */
struct ours {
    int64_t first, repeat;      /* forward peaks of the two waves */
    int64_t retained, both;     /* of the second wave */
    int64_t growth;             /* of what stays, over a first backward */
    int64_t rows;               /* busiest rank's */
};

struct measured {
    struct csv_table *t;
    struct cell cell[MEASURED_MAX];
    int n;
};

static inline void measured_need(int rc, const struct err *e)
{
    if (rc == ERR_OK) return;
    fprintf(stderr, "%s\n", e->text);
    abort();
}

static inline const char *measured_text(const struct csv_table *t,
                                        int64_t row, const char *name)
{
    const char *s = csv_cell(t, row, csv_find(t, name));

    return s != NULL ? s : "";
}

static inline int64_t measured_int(const struct csv_table *t, int64_t row,
                                   const char *name)
{
    int64_t column = csv_find(t, name), n;
    struct err e;

    if (csv_cell(t, row, column) == NULL) return -1;
    measured_need(csv_int(t, row, column, 0, INT64_MAX, &n, &e), &e);
    return n;
}

static inline enum recompute measured_mode(const char *s)
{
    if (strcmp(s, "full") == 0) return RECOMPUTE_FULL;
    return strcmp(s, "none") == 0 ? RECOMPUTE_NONE : RECOMPUTE_SELECTIVE;
}

static inline void measured_load(struct measured *m)
{
    struct err e;
    int64_t i;

    measured_need(csv_load(MEASURED, 0, &m->t, &e), &e);
    m->n = (int)csv_rows(m->t);
    if (m->n > MEASURED_MAX) abort();
    for (i = 0; i < m->n; i++) {
        const struct csv_table *t = m->t;

        m->cell[i] = (struct cell){
            .id = measured_text(t, i, "id"),
            .series = measured_text(t, i, "series"),
            .model = measured_text(t, i, "model"),
            .modules = measured_text(t, i, "modules"),
            .lengths = measured_text(t, i, "lengths"),
            .recompute = measured_mode(measured_text(t, i, "recompute")),
            .compiled = strcmp(measured_text(t, i, "compiled"), "yes") == 0,
            .concentrated = strcmp(measured_text(t, i, "concentrated_routing"),
                                   "yes") == 0,
            .tp = measured_int(t, i, "tp"), .cp = measured_int(t, i, "cp"),
            .ep = measured_int(t, i, "ep"),
            .shared = measured_int(t, i, "shared_prefix"),
            .packed = measured_int(t, i, "packed_rows"),
            .rank_rows = measured_int(t, i, "rank_rows"),
            .peak = measured_int(t, i, "forward_peak"),
            .first = measured_int(t, i, "forward_first"),
            .repeat = measured_int(t, i, "forward_repeat"),
            .retained = measured_int(t, i, "retained"),
            .both = measured_int(t, i, "forward_backward_peak"),
            .base_first = measured_int(t, i, "baseline_first"),
            .base_last = measured_int(t, i, "baseline_last")};
    }
}

static inline void measured_free(struct measured *m)
{
    csv_table_free(m->t);
}

static inline bool measured_is_dense(const struct cell *c)
{
    return strstr(c->model, "A3B") == NULL;
}

/* "5000+5000", "256*8", "1024". */
static inline int64_t measured_lengths(const char *s, int64_t *out)
{
    int64_t n = 0, times;
    char *end;

    out[n++] = strtoll(s, &end, 10);
    if (*end == '*') {
        for (times = strtoll(end + 1, NULL, 10); n < times; n++)
            out[n] = out[0];
    } else {
        while (*end == '+') out[n++] = strtoll(end + 1, &end, 10);
    }
    return n;
}

/* The prefix is shared only where the packed rows are fewer than the sum. */
static inline void measured_batch(const struct cell *c, struct batch *out)
{
    int64_t length[64], n = measured_lengths(c->lengths, length), i, sum = 0;
    int64_t parent[65] = {-1}, part[65];
    struct err e;

    for (i = 0; i < n; i++) sum += length[i];
    if (c->packed >= sum) {
        measured_need(batch_from_lengths(length, n, out, &e), &e);
        return;
    }
    part[0] = c->shared;
    for (i = 0; i < n; i++) {
        parent[i + 1] = 0;
        part[i + 1] = length[i] - c->shared;
    }
    measured_need(batch_from_tree(parent, part, n + 1, out, &e), &e);
}

/* Qwen3.8-27B has the geometry of Qwen3.6-27B. */
static inline void measured_model(const struct cell *c, struct model *m)
{
    const char *name = c->model;
    char path[128];
    struct err e;

    if (strcmp(name, "Qwen3.8-27B") == 0) name = "Qwen3.6-27B";
    snprintf(path, sizeof path, "lua/models/%s.json", name);
    measured_need(model_load(path, 0, m, &e), &e);
}

static inline unsigned measured_modules(const char *s)
{
    return (strstr(s, "core_attn") ? MODULE_CORE_ATTN : 0) |
           (strstr(s, "mlp") ? MODULE_MLP : 0) |
           (strstr(s, "moe") ? MODULE_MOE : 0);
}

/* Two waves of one rank. */
static inline void measured_waves(const struct step_config *c,
                                  struct step_result out[2],
                                  int64_t *growth)
{
    struct dev_options o = {.act = DT_BF16};
    struct mem_config mc = {0};
    struct step *s;
    struct dev *dev;
    struct mem *mem;
    struct err e;
    int i;

    measured_need(dev_dry.open(&o, &dev, &e), &e);
    measured_need(mem_new(&mc, dev->source, &mem, &e), &e);
    measured_need(step_new(c, dev, mem, NULL, &s, &e), &e);
    for (i = 0; i < 2; i++)
        measured_need(step_wave(s, i, NULL, &out[i], &e), &e);
    *growth = (int64_t)(out[1].start_bytes - out[0].start_bytes);
    step_free(s);
    mem_free_all(mem);
    dev->ops->close(dev);
}

static inline struct step_config measured_config(const struct cell *c,
                                                 const struct model *m,
                                                 const struct plan *p,
                                                 int64_t rank)
{
    return (struct step_config){
        .model = m, .plan = p, .rank = rank, .ep = 1, .lora_rank = 1,
        .lora_alpha = 32, .q_block = 128, .k_block = 64, .seed = 1,
        .mode = {.tp = c->tp, .recompute = c->recompute,
                 .modules = measured_modules(c->modules),
                 .eager = !c->compiled}};
}

/* The maximum over ranks, as the table has it; routing of experts alone. */
static inline void measured_run_moe(const struct cell *c,
                                    const struct routing *routing,
                                    struct ours *out)
{
    int64_t ep = routing != NULL ? c->ep : 1;
    struct plan_options o = {.cp = c->cp, .tp = c->tp, .ep = ep,
                             .profile = PLAN_NEW, .owned_ms = -1};
    struct batch b;
    struct model m;
    struct plan p;
    struct err e;
    int64_t r;

    measured_model(c, &m);
    measured_batch(c, &b);
    measured_need(plan_make(&m, &b, &o, &p, &e), &e);
    *out = (struct ours){0};
    for (r = 0; r < c->cp; r++) {
        struct step_config k = measured_config(c, &m, &p, r);
        struct step_result f[2], l[2];
        int64_t warm, growth;

        k.ep = ep;
        k.routing = routing;
        k.mode.wave = WAVE_HIDDEN;
        measured_waves(&k, f, &warm);
        k.mode.wave = WAVE_HIDDEN_LOSS;
        measured_waves(&k, l, &growth);
        out->first = num_max(out->first, (int64_t)f[0].peak.allocated);
        out->repeat = num_max(out->repeat, (int64_t)f[1].peak.allocated);
        out->retained = num_max(out->retained, f[1].retained_bytes);
        out->both = num_max(out->both, (int64_t)l[1].peak.allocated);
        out->growth = num_max(out->growth, growth);
        out->rows = num_max(out->rows, p.rank[r].attention_rows);
    }
    plan_free(&p);
    batch_free(&b);
    model_free(&m);
}

static inline void measured_run(const struct cell *c, struct ours *out)
{
    measured_run_moe(c, NULL, out);
}

#endif
