/*
** sec_sensitivity.c - the scenario of what only a GPU can decide: estimates
** against peaks with each choice made otherwise, the share of the last layer's
** pairs at which the peak would be the implied one, and the published batches
** as a program that asks for hidden states would run them.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/sections/sections.h"

static const char *const cells[] = {"real-40", "random-8", "random-40"};
#define N_CELLS (sizeof cells / sizeof *cells)

/* A choice's waves: those of stated lengths, or recorded sequences. */
struct pick { const char *otherwise; int64_t ep; bool recorded; };

static bool is_stack(const struct record_found *c, const struct pick *p)
{
    const char *name = c->shape.name;

    return strcmp(c->shape.scenario, SENSITIVITY) == 0 &&
           strncmp(name, "stack.", 6) == 0 &&
           strcmp(c->shape.otherwise, p->otherwise) == 0 &&
           c->shape.ep == p->ep &&
           (strstr(name, ".seq-") != NULL) == p->recorded;
}

/* Least and most raw error in percent, waves, and those under. */
struct errors { int64_t waves, under; double min, max; };

static struct errors range_of(const struct view *v, const struct pick *p)
{
    struct errors r = {0, 0, NAN, NAN};
    int64_t i;

    for (i = 0; i < v->set->n_case; i++) {
        const struct record_found *c = &v->set->kase[i];
        struct miss m;

        if (!is_stack(c, p)) continue;
        m = view_miss(c, 0, AFTER, "raw");
        if (!m.known) continue;
        if (r.waves == 0 || m.percent < r.min) r.min = m.percent;
        if (r.waves == 0 || m.percent > r.max) r.max = m.percent;
        r.under += m.under;
        r.waves++;
    }
    return r;
}

/* ---- choices ------------------------------------------------------------- */

static const struct { const char *otherwise, *what; } choices[] = {
    {"", "as built"},
    {"rounded", "blocks are requests rounded to 512 B (expandable segments)"},
    {"table-late", "no rotary table in the head"},
    {"rounded+table-late", "both"},
    {"rounded+table-late+blas-late", "and no BLAS workspace in the head"},
    {"autograd", "the differentiating thread's own 32 MiB workspace"},
    {"wide-last", "three hidden-wide tensors in the last layer's backward"},
    {"router-state", "each layer keeps its router's map and choices"},
};
#define N_CHOICES (sizeof choices / sizeof *choices)

static void put_range_cells(struct view *v, struct table *t, struct errors r)
{
    cell_count(v->d, t, r.waves);
    cell_percent(v->d, t, r.min, r.min < 0);
    cell_percent(v->d, t, r.max, r.max < 0);
    cell_count(v->d, t, r.under);
}

static void put_published(struct view *v, struct table *t, int64_t ep)
{
    doc_row(v->d, t);
    cell_text(v->d, t, "published (lengths unknown)");
    cell_count(v->d, t, ep);
    cell_none(v->d, t);
    cell_percent(v->d, t, figure(v->published, "full_stack.ep%d.min",
                                 (int)ep), false);
    cell_percent(v->d, t, figure(v->published, "full_stack.ep%d.max",
                                 (int)ep), false);
    cell_number(v->d, t, figure(v->published, "full_stack.under"), 0);
    cell_none(v->d, t);
    cell_none(v->d, t);
    cell_none(v->d, t);
    cell_none(v->d, t);
}

/* Ranges of errors with each choice, beside the published ones: which choices
** could explain that none was under. */
static void put_choices(struct view *v)
{
    struct table *t;
    int64_t ep;
    size_t i;

    doc_para(v->d, "Raw `" AFTER "` against the peak of the cold first wave, "
             "the whole model, one sequence a wave: 2,047 to 20,000 tokens in "
             "steps, and every fifth recorded sequence (all of them: `-- "
             "sequences=200`). What is inferred is what each choice would "
             "change; nothing is a default because it fits.");
    t = doc_table(v->d, "sensitivity", "choice|>EP|>waves of 2,047 to 20,000"
                  "|>min|>max|>under|>recorded waves|>min|>max|>under");
    for (ep = 1; ep <= 2; ep++) {
        put_published(v, t, ep);
        for (i = 0; i < N_CHOICES; i++) {
            struct pick p = {choices[i].otherwise, ep, false};

            doc_row(v->d, t);
            cell_text(v->d, t, choices[i].what);
            cell_count(v->d, t, ep);
            put_range_cells(v, t, range_of(v, &p));
            p.recorded = true;
            put_range_cells(v, t, range_of(v, &p));
        }
    }
}

/* Tokens of the waves that are under, in the order of their cases. */
static void list_under(struct view *v, const struct pick *p, struct buf *b)
{
    int64_t i, n = 0;

    for (i = 0; i < v->set->n_case; i++) {
        const struct record_found *c = &v->set->kase[i];

        if (!is_stack(c, p) || !view_miss(c, 0, AFTER, "raw").under) continue;
        buf_puts(b, n++ > 0 ? ", " : "");
        buf_put_grouped(b, c->shape.tokens);
    }
}

static void put_list(struct view *v, struct table *t, const struct pick *p)
{
    struct buf b = BUF_INIT;

    list_under(v, p, &b);
    cell_text(v->d, t, buf_text(&b)[0] != '\0' ? buf_text(&b) : NULL);
    if (b.failed) v->d->failed = true;
    buf_free(&b);
}

/* Every wave under, for whoever looks for a pattern in their lengths. */
static void put_under(struct view *v)
{
    struct table *t;
    int64_t ep;
    size_t i;

    doc_para(v->d, "Waves under, by their tokens.");
    t = doc_table(v->d, "sensitivity-under",
                  "choice|>EP|of 2,047 to 20,000|recorded");
    for (ep = 1; ep <= 2; ep++)
        for (i = 0; i < N_CHOICES; i++) {
            struct pick p = {choices[i].otherwise, ep, false};
            struct pick q = {choices[i].otherwise, ep, true};

            if (range_of(v, &p).under + range_of(v, &q).under == 0) continue;
            doc_row(v->d, t);
            cell_text(v->d, t, choices[i].what);
            cell_count(v->d, t, ep);
            put_list(v, t, &p);
            put_list(v, t, &q);
        }
}

/* ---- shares of the last layer -------------------------------------------- */

static const struct record_found *find_case(const struct view *v,
                                            const char *name)
{
    int64_t i;

    for (i = 0; i < v->set->n_case; i++)
        if (strcmp(v->set->kase[i].shape.scenario, SENSITIVITY) == 0 &&
            strcmp(v->set->kase[i].shape.name, name) == 0)
            return &v->set->kase[i];
    return NULL;
}

/* Peak of a cell's wave at a share in thousandths; 0: not run. */
static double peak_at(const struct view *v, const char *cell, int share,
                      int64_t wave)
{
    const struct record_found *c;
    const struct record_peak *p;
    char name[64];

    snprintf(name, sizeof name, "share.%s.%d", cell, share);
    c = find_case(v, name);
    p = c != NULL && wave < c->waves ? record_peak_max(c, wave) : NULL;
    return p != NULL ? (double)p->allocated : 0;
}

/* The share at which the peak is bytes, between two that were run; NaN. */
static double share_of(const struct view *v, const char *cell, int64_t wave,
                       double bytes)
{
    double low = peak_at(v, cell, 1000, wave), high;
    int share;

    if (!(low > 0) || low > bytes) return NAN;
    for (share = 1020; share <= 1400; share += 20, low = high) {
        high = peak_at(v, cell, share, wave);
        if (!(high > 0)) return NAN;
        if (high >= bytes)
            return (share - 20 + 20 * (bytes - low) / (high - low)) / 1000;
    }
    return NAN;
}

/* The peak that an error of the admitted estimate implies. */
static double implied(const struct view *v, const char *cell, bool cold)
{
    const struct record_found *c;
    char name[64];
    double error = figure(v->published, "error.%s.after.%s", cell,
                          cold ? "cold" : "warm");

    snprintf(name, sizeof name, "share.%s.1000", cell);
    c = find_case(v, name);
    if (c == NULL || isnan(error)) return NAN;
    return (double)view_bytes(c, cold ? 0 : 1, RECORD_MAX, AFTER,
                              "admitted") / (1 + error / 100);
}

/* What routing alone would have to be, for a reader to judge whether it can. */
static void put_shares(struct view *v)
{
    struct table *t;
    size_t i;
    int cold;

    doc_para(v->d, "The share of its even part that rank 1 would have to "
             "receive in the last layer, all others even, for our peak to be "
             "the implied one: between shares of a fiftieth that were run. "
             "Warm cells: as if the published warm batch were the cold one, "
             "which it was not.");
    t = doc_table(v->d, "sensitivity-shares", "case|wave|>implied, GB"
                  "|>even routing, GB|>share");
    for (i = 0; i < N_CELLS; i++)
        for (cold = 1; cold >= 0; cold--) {
            double bytes = implied(v, cells[i], cold);

            doc_row(v->d, t);
            cell_code(v->d, t, cells[i]);
            cell_text(v->d, t, cold ? "cold" : "warm");
            cell_number(v->d, t, bytes / 1e9, 3);
            cell_number(v->d, t, peak_at(v, cells[i], 1000, !cold) / 1e9, 3);
            cell_number(v->d, t, share_of(v, cells[i], !cold, bytes), 3);
        }
}

/* ---- hidden states ------------------------------------------------------- */

/* Admitted bytes against a peak, in percent. */
static void put_admitted(struct view *v, struct table *t, int64_t raw,
                         double peak)
{
    double margin = 100 * figure(v->published, "margin");

    cell_percent(v->d, t, margin * (double)raw / peak - 100, false);
}

/* One cell of the four results, so that the hypothesis can fail. */
static void put_hidden_cell(struct view *v, struct table *t, const char *cell)
{
    const struct record_found *train, *hidden;
    int64_t raw, outputs;
    double even, peak;
    char name[64];

    snprintf(name, sizeof name, "share.%s.1000", cell);
    train = find_case(v, name);
    snprintf(name, sizeof name, "hidden.%s", cell);
    hidden = find_case(v, name);
    if (train == NULL || hidden == NULL ||
        record_peak_max(hidden, 0) == NULL) return;
    even = peak_at(v, cell, 1000, 0);
    peak = (double)record_peak_max(hidden, 0)->allocated;
    raw = view_bytes(train, 0, RECORD_MAX, AFTER, "raw");
    outputs = view_bytes(hidden, 0, RECORD_MAX, "peak", "outputs");
    doc_row(v->d, t);
    cell_code(v->d, t, cell);
    cell_percent(v->d, t, figure(v->published, "error.%s.after.cold", cell),
                 false);
    cell_number(v->d, t, even / 1e9, 3);
    cell_number(v->d, t, peak / 1e9, 3);
    cell_number(v->d, t, (double)outputs / 1e9, 3);
    put_admitted(v, t, raw + outputs, even);
    put_admitted(v, t, raw, even);
    put_admitted(v, t, raw + outputs, peak);
    put_admitted(v, t, raw, peak);
}

static void put_hidden(struct view *v)
{
    struct table *t;
    size_t i;

    doc_para(v->d, "A hypothesis, tested: the program that measured asks for "
             "hidden states, which the caller holds, and for a mean-square "
             "loss. The cold cells as such a program runs them, and the "
             "admitted estimate with the outputs charged and without, against "
             "the training wave's peak and against this one. A recorded "
             "layout knows its packed rows alone: a shared prefix is held "
             "once, not in every sequence.");
    t = doc_table(v->d, "sensitivity-hidden", "case|>published"
                  "|>training wave, GB|>hidden states, GB|>of it outputs"
                  "|>training, charged|>training, not"
                  "|>hidden, charged|>hidden, not");
    for (i = 0; i < N_CELLS; i++) put_hidden_cell(v, t, cells[i]);
}

void sec_sensitivity(struct view *v)
{
    if (find_case(v, "share.real-40.1000") == NULL) return;
    doc_heading(v->d, 2, "sensitivity", "What only a GPU can decide");
    put_choices(v);
    put_under(v);
    put_shares(v);
    put_hidden(v);
    view_command(v, SENSITIVITY);
}
