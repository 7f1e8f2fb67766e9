/*
** measured_help.h - cells of measured-memory.csv as facts.
*/
#ifndef MEASURED_HELP_H
#define MEASURED_HELP_H

#include <stdio.h>

#include "base/csv.h"
#include "price_help.h"

#define MEASURED "reports/published/measured-memory.csv"
#define COLD_BYTES INT64_C(67109888)

struct cell {
    const char *id, *series, *model;    /* borrowed from the table */
    struct model geometry;
    int64_t tp, cp, packed, rank_rows, logical, sequences;
    int64_t rows[2], output_rows[16];
    bool shared, compiled, first_shape;
    enum recompute recompute;
    unsigned modules;
    int64_t forward, retained, backward, estimate;  /* as printed */
    int64_t warm;           /* forward less what only a first shape holds */
    int64_t warm_backward;  /* likewise; of first shapes only reported */
    struct price_group group;
};

static inline const char *cell_text(const struct csv_table *t, int64_t row,
                                    const char *column)
{
    const char *text = csv_cell(t, row, csv_find(t, column));
    return text != NULL ? text : "";
}

/* -1 where the cell is empty. */
static inline int64_t cell_int(const struct csv_table *t, int64_t row,
                               const char *column)
{
    const char *text = cell_text(t, row, column);
    return *text != '\0' ? strtoll(text, NULL, 10) : -1;
}

/* "a+b" or "n*k": k sequences of n. */
static inline void cell_lengths(const char *text, struct cell *c)
{
    char *at;
    int64_t n = strtoll(text, &at, 10), k = 1, i;

    if (*at == '*') k = strtoll(at + 1, &at, 10);
    for (i = 0; i < k; i++) c->output_rows[c->sequences++] = n;
    while (*at == '+')
        c->output_rows[c->sequences++] = strtoll(at + 1, &at, 10);
    for (i = 0; i < c->sequences; i++) c->logical += c->output_rows[i];
}

/* What only the first forward at a shape holds (evidence.md 1). */
static inline void cell_warm(const struct csv_table *t, int64_t row,
                             struct cell *c)
{
    static const char *const inferred[] = {"M145", "M147", "M150", "M153",
                                           "M156"};
    int64_t first = cell_int(t, row, "forward_first");
    int64_t repeat = cell_int(t, row, "forward_repeat"), off = 0;
    size_t i;

    c->first_shape = first - repeat > 50000000 ||
                     (strcmp(c->series, "A") == 0 && c->packed == 1024);
    for (i = 0; i < sizeof inferred / sizeof inferred[0]; i++)
        c->first_shape |= strcmp(c->id, inferred[i]) == 0;
    if (repeat >= 0) {
        off = first - repeat;
    } else {
        if (c->first_shape) off += COLD_BYTES;
        if (strcmp(c->model, "Qwen3-1.7B") == 0) off += 512 * c->packed;
    }
    c->warm = repeat >= 0 ? repeat : c->forward - off;
    c->warm_backward = c->backward - off;
}

static inline struct model cell_model(const char *name)
{
    char path[128];

    if (strcmp(name, "Qwen3.8-27B") == 0) name = "Qwen3.6-27B";
    snprintf(path, sizeof path, "lua/models/%s.json", name);
    return help_model(path, 0);
}

static inline void cell_read(const struct csv_table *t, int64_t row,
                             struct cell *c)
{
    const char *recompute = cell_text(t, row, "recompute");
    const char *modules = cell_text(t, row, "modules");

    *c = (struct cell){
        .id = cell_text(t, row, "id"), .series = cell_text(t, row, "series"),
        .model = cell_text(t, row, "model"), .tp = cell_int(t, row, "tp"),
        .cp = cell_int(t, row, "cp"),
        .packed = cell_int(t, row, "packed_rows"),
        .rank_rows = cell_int(t, row, "rank_rows"),
        .compiled = strcmp(cell_text(t, row, "compiled"), "yes") == 0,
        .forward = cell_int(t, row, "forward_peak"),
        .retained = cell_int(t, row, "retained"),
        .backward = cell_int(t, row, "forward_backward_peak"),
        .estimate = cell_int(t, row, "published_estimate"),
    };
    while (strcmp(mode_recompute_words[c->recompute], recompute) != 0)
        c->recompute++;
    if (strstr(modules, "core_attn") != NULL) c->modules |= MODULE_CORE_ATTN;
    if (strstr(modules, "mlp") != NULL) c->modules |= MODULE_MLP;
    if (strstr(modules, "moe") != NULL) c->modules |= MODULE_MOE;
    cell_lengths(cell_text(t, row, "lengths"), c);
    c->shared = c->packed < c->logical;
    c->geometry = cell_model(c->model);
    cell_warm(t, row, c);
}

/* Rank 0 holds the busiest rank's rows. Borrows from c. */
static inline struct price_facts cell_facts(struct cell *c)
{
    struct price_facts f;

    c->rows[0] = c->rank_rows;
    c->rows[1] = c->packed - c->rank_rows;
    c->group = (struct price_group){
        .grad = true, .slot = "policy", .attention_rows = c->rows,
        .gdn_rows = c->rows, .routed_rows = -1,
    };
    f = help_facts(&c->geometry, &c->group, 1, c->cp, 1);
    f.tp = c->tp;
    f.lora_rank = 1;
    f.mode.recompute = c->recompute;
    f.mode.modules = c->modules;
    f.mode.eager = !c->compiled;
    f.mode.wave = WAVE_HIDDEN;
    f.segments = c->sequences + c->shared;
    f.output_bytes = c->logical * c->geometry.hidden * 2;
    f.output_rows = c->output_rows;
    f.n_output = c->sequences;
    return f;
}

#endif
