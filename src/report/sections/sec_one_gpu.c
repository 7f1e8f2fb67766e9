/*
** sec_one_gpu.c - full recompute on one GPU, from the scenario of what only a
** GPU can decide: how far the estimate before the change lies from the peak,
** with the differentiating thread's workspace and without, and which
** categories make the difference.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/sections/sections.h"

static const char *const models[] = {PUBLISHED_MODEL, "Qwen3-30B-A3B"};
#define N_MODELS (sizeof models / sizeof *models)

/* A model's waves, with one choice. */
struct pick { const char *model; bool autograd; };

static bool is_picked(const struct record_found *c, const struct pick *p)
{
    const char *name = c->shape.name;

    return strcmp(c->shape.scenario, SENSITIVITY) == 0 &&
           strncmp(name, "one.", 4) == 0 &&
           strcmp(c->shape.model, p->model) == 0 &&
           (strcmp(c->shape.otherwise, "autograd") == 0) == p->autograd;
}

/* Errors in percent over the waves, and the most tokens of one under. */
struct reach { int64_t waves, under, last_under; double min, max; };

/* Least and most of a model and a choice: what a line of the table shows. */
static struct reach reach_of(const struct view *v, const struct pick *p,
                             bool requested)
{
    struct reach r = {0, 0, 0, NAN, NAN};
    int64_t i;

    for (i = 0; i < v->set->n_case; i++) {
        const struct record_found *c = &v->set->kase[i];
        struct miss m;

        if (!is_picked(c, p)) continue;
        m = requested ? view_miss_requested(c, 0, BEFORE, "raw")
                      : view_miss(c, 0, BEFORE, "raw");
        if (!m.known) continue;
        if (r.waves == 0 || m.percent < r.min) r.min = m.percent;
        if (r.waves == 0 || m.percent > r.max) r.max = m.percent;
        if (m.under && c->shape.tokens > r.last_under)
            r.last_under = c->shape.tokens;
        r.under += m.under;
        r.waves++;
    }
    return r;
}

/* Ranges of errors: of a model and a choice a line. */
static void put_ranges(struct view *v)
{
    struct table *t = doc_table(v->d, "one-gpu", "model|workspace of the "
                                "differentiating thread|>waves|>min|>max"
                                "|>under|>the longest of them"
                                "|>min, requested|>max, requested");
    size_t i;
    int k;

    for (i = 0; i < N_MODELS; i++)
        for (k = 0; k < 2; k++) {
            struct pick p = {models[i], k == 1};
            struct reach r = reach_of(v, &p, false);
            struct reach q = reach_of(v, &p, true);

            doc_row(v->d, t);
            cell_text(v->d, t, models[i]);
            cell_text(v->d, t, k == 1 ? "32 MiB" : "none (as built)");
            cell_count(v->d, t, r.waves);
            cell_percent(v->d, t, r.min, r.min < 0);
            cell_percent(v->d, t, r.max, r.max < 0);
            cell_count(v->d, t, r.under);
            if (r.under > 0) cell_count(v->d, t, r.last_under);
            else cell_none(v->d, t);
            cell_percent(v->d, t, q.min, q.min < 0);
            cell_percent(v->d, t, q.max, q.max < 0);
        }
}

static const struct record_found *find_wave(const struct view *v,
                                            const char *model, int64_t tokens)
{
    struct pick p = {model, false};
    int64_t i;

    for (i = 0; i < v->set->n_case; i++)
        if (is_picked(&v->set->kase[i], &p) &&
            v->set->kase[i].shape.tokens == tokens)
            return &v->set->kase[i];
    return NULL;
}

static int64_t gap_of(const struct record_found *c, const char *category)
{
    return view_bytes(c, 0, RECORD_MAX, BEFORE, category)
           - view_bytes(c, 0, RECORD_MAX, "peak", category);
}

/* Columns of the second table: categories that belong together, and what is
** left. Boundaries that backward has released are not charged beside the
** gradients of the layers above. */
static const struct { const char *of[3]; } columns[] = {
    {{"boundaries", "adapter_gradients", "input_gradient"}},
    {{"attention", "gdn", NULL}}, {{"workspace", NULL, NULL}},
    {{"other", NULL, NULL}}, {{"rounding", NULL, NULL}},
};
#define N_COLUMNS (sizeof columns / sizeof *columns)

/* A wave's line: what each column's categories add to the difference, so that
** they sum to it. */
static void put_gaps(struct view *v, struct table *t,
                     const struct record_found *c)
{
    struct miss m = view_miss(c, 0, BEFORE, "raw");
    int64_t rest = m.estimate - m.peak;
    size_t i, k;

    doc_row(v->d, t);
    cell_text(v->d, t, c->shape.model);
    cell_count(v->d, t, c->shape.tokens);
    cell_percent(v->d, t, m.percent, m.under);
    cell_diff(v->d, t, m.estimate - m.peak);
    for (i = 0; i < N_COLUMNS; i++) {
        int64_t gap = 0;

        for (k = 0; k < 3 && columns[i].of[k] != NULL; k++)
            gap += gap_of(c, columns[i].of[k]);
        cell_diff(v->d, t, gap);
        rest -= gap;
    }
    cell_diff(v->d, t, rest);
}

/* What errors are made of, from short waves to long ones; false where one is
** not there. */
static bool put_causes(struct view *v)
{
    static const int64_t tokens[] = {2000, 4000, 5000, 6000, 16000, 50000};
    struct table *t;
    size_t i, k;
    bool all = true;

    doc_para(v->d, "Estimate less peak, bytes, by category, as built. "
             "Boundaries stand with gradients, because an estimate charges "
             "gradients less the boundaries that backward has released.");
    t = doc_table(v->d, "one-gpu-causes", "model|>tokens|>error|>difference"
                  "|>boundaries, gradients|>kept by attention or delta net"
                  "|>workspace|>rows' state|>rounding|>the rest");
    for (i = 0; i < N_MODELS; i++)
        for (k = 0; k < sizeof tokens / sizeof *tokens; k++) {
            const struct record_found *c = find_wave(v, models[i], tokens[k]);

            if (c != NULL && view_miss(c, 0, BEFORE, "raw").known)
                put_gaps(v, t, c);
            else
                all = false;
        }
    return all;
}

/* Why it is so, in words that hold for any figures. */
static void put_reasons(struct view *v)
{
    doc_para(v->d, "Long waves: the estimate charges a boundary for each "
             "layer and the peak holds one less. Where layers are delta nets "
             "the peak holds, of each row, what no term has: gates and norms, "
             "the row's state, small parts of router and adapters. What is "
             "left is the error, of which a workspace more takes 32 MiB. Where "
             "all layers are attention without a gate, the estimate charges "
             "more for what a row keeps than the step keeps.");
    doc_para(v->d, "Short waves: blocks are larger than requests, up to a "
             "mebibyte each where the rest of one is not worth splitting, "
             "for which this estimate has no term: the columns in requested "
             "bytes are without. Most of that stands with adapter gradients, "
             "which appear in this wave one after the other in holes that its "
             "tensors left; how much larger those are changes from length to "
             "length, and where gradients no longer make the peak it is "
             "little. And the cold transient is a constant, 64 MiB, that "
             "suits the rotary table of 262,144 positions; Qwen3-30B-A3B has "
             "40,960, and what that saves weighs the more the shorter the "
             "wave is.");
}

void sec_one_gpu(struct view *v)
{
    if (find_wave(v, PUBLISHED_MODEL, 2000) == NULL) return;
    doc_heading(v->d, 2, "one-gpu", "One GPU, full recompute");
    doc_para(v->d, "Raw `" BEFORE "` against the peak of the cold first wave "
             "at CP1, the whole model, 2,000 to 50,000 tokens, as built and "
             "with the 32 MiB that a thread which differentiates would take "
             "for a BLAS workspace of its own.");
    put_ranges(v);
    if (put_causes(v)) put_reasons(v);
    view_command(v, SENSITIVITY);
}
