/* sec_cases.c - every case in a table; what the words mean. */
#include <stdio.h>
#include <string.h>

#include "report/measured.h"
#include "report/sections/sections.h"

enum { FULL = 60, MAX_WORST = 10 };

static int64_t count(const struct view *v, const char *scenario)
{
    int64_t i, n = 0;

    for (i = 0; i < v->n_case; i++)
        n += strcmp(v->kase[i]->shape.scenario, scenario) == 0;
    return n;
}

/* Why a case has no figures. */
static void put_failed(struct view *v, struct table *t,
                       const struct record_found *c)
{
    int i;

    doc_row(v->d, t);
    cell_code(v->d, t, c->shape.name);
    cell_text(v->d, t, record_status_name(c->shape.status));
    for (i = 0; i < 5 + 2 * v->n_estimator; i++) cell_none(v->d, t);
}

/* One row: the case, where its peak lies, and every estimator's error. */
static void put_wave(struct view *v, struct table *t,
                     const struct record_found *c, int64_t w)
{
    const struct record_peak *p = record_peak_max(c, w);
    int64_t taken = 0, k, end = record_peaks_of(c, w, &k);
    int i;

    for (; k < end; k++)
        if (record_taken(&c->peak[k]) > taken)
            taken = record_taken(&c->peak[k]);

    doc_row(v->d, t);
    cell_code(v->d, t, c->shape.name);
    cell_text(v->d, t, p->cold ? "cold" : "warm");
    cell_count(v->d, t, c->shape.tokens);
    cell_gb(v->d, t, p->allocated);
    cell_gb(v->d, t, taken);
    cell_count(v->d, t, p->rank);
    if (p->layer < 0) cell_text(v->d, t, p->phase);
    else cell_printf(v->d, t, "%s, layer %d", p->phase, (int)p->layer);
    for (i = 0; i < v->n_estimator; i++) {
        struct miss raw = view_miss(c, w, v->estimator[i], "raw");
        struct miss m = view_miss(c, w, v->estimator[i], "admitted");
        cell_percent(v->d, t, raw.percent, raw.under);
        cell_percent(v->d, t, m.percent, m.under);
    }
}

static void put_case(struct view *v, struct table *t,
                     const struct record_found *c)
{
    int64_t w = view_wave(c, true), warm = view_wave(c, false);

    if (w < 0 && warm < 0) put_failed(v, t, c);
    if (w >= 0) put_wave(v, t, c, w);
    if (warm >= 0) put_wave(v, t, c, warm);
}

static struct table *new_table(struct view *v, const char *scenario)
{
    char id[200], name[64];
    struct buf columns = BUF_INIT;
    struct table *t;
    int i;

    snprintf(id, sizeof id, "cases-%s", scenario);
    buf_puts(&columns, "case|wave|>tokens|>peak, GB|>device, GB|>rank|peak in");
    for (i = 0; i < v->n_estimator; i++) {
        view_label(v->estimator[i], name, sizeof name);
        buf_printf(&columns, "|>%s, raw|>%s, admitted", name, name);
    }
    t = doc_table(v->d, id, buf_text(&columns));
    if (columns.failed) v->d->failed = true;
    buf_free(&columns);
    return t;
}

/* The cases with the lowest raw errors, lowest first. */
static void put_worst(struct view *v, const char *scenario)
{
    struct { const struct record_found *c; double x; } worst[MAX_WORST];
    struct table *t = new_table(v, scenario);
    int n = 0, k;
    int64_t i;

    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        struct miss m;
        if (strcmp(c->shape.scenario, scenario) != 0) continue;
        m = view_miss(c, view_wave(c, true), AFTER, "raw");
        if (!m.known || (n == MAX_WORST && m.percent >= worst[n - 1].x))
            continue;
        k = n < MAX_WORST ? n++ : n - 1;
        for (; k > 0 && worst[k - 1].x > m.percent; k--)
            worst[k] = worst[k - 1];
        worst[k].c = c;
        worst[k].x = m.percent;
    }
    for (k = 0; k < n; k++)
        put_wave(v, t, worst[k].c, view_wave(worst[k].c, true));
}

/* Why cases of the scenario have no figures, or fewer waves than they should;
** the first few. */
static void put_reasons(struct view *v, const char *scenario)
{
    char name[256];
    int64_t i, n = 0;

    for (i = 0; i < v->n_case; i++) {
        const struct record_case *s = &v->kase[i]->shape;
        if (strcmp(s->scenario, scenario) != 0 || s->status == STATUS_OK)
            continue;
        if (++n <= MAX_WORST)
            doc_item(v->d, "`%s`: %s%s%s", view_name(v->kase[i], name,
                                                     sizeof name),
                     record_status_name(s->status), *s->note ? ": " : "",
                     s->note);
    }
    if (n > MAX_WORST)
        doc_para(v->d, "%d more are not ok; `cases.csv` says why.",
                 (int)n - MAX_WORST);
}

static bool is_last(const struct view *v, int64_t i)
{
    return i + 1 == v->n_case || strcmp(v->kase[i]->shape.scenario,
                                        v->kase[i + 1]->shape.scenario) != 0;
}

static bool is_first(const struct view *v, int64_t i)
{
    return i == 0 || strcmp(v->kase[i]->shape.scenario,
                            v->kase[i - 1]->shape.scenario) != 0;
}

void sec_cases(struct view *v)
{
    struct table *t = NULL;
    int64_t i, n = 0;

    doc_heading(v->d, 2, "cases", "Every case");
    for (i = 0; i < v->n_case; i++) {
        const char *scenario = v->kase[i]->shape.scenario;
        if (is_first(v, i)) {
            n = count(v, scenario);
            doc_heading(v->d, 3, scenario, scenario);
            if (n > FULL) {
                doc_para(v->d, "%d cases: the %d with the lowest raw "
                         "`per-rank` error; `records.csv` has all.", (int)n,
                         MAX_WORST);
                put_worst(v, scenario);
            } else {
                t = new_table(v, scenario);
            }
        }
        if (n <= FULL) put_case(v, t, v->kase[i]);
        if (is_last(v, i)) put_reasons(v, scenario);
    }
}

void sec_words(struct view *v)
{
    struct buf b = BUF_INIT;

    measured_sentence(v, &b);
    doc_heading(v->d, 2, "words", "What each number is");
    doc_item(v->d, "Peak: the highest allocated bytes in a wave minus those "
             "allocated when it began, in block sizes, as "
             "`torch.cuda.max_memory_allocated` counts; of the most-loaded "
             "rank unless a rank is named. On the dry device it is "
             "simulated: the step allocates every tensor through a model of "
             "PyTorch's caching allocator and computes nothing.%s%s",
             b.len > 0 ? " " : "", buf_text(&b));
    if (b.failed) v->d->failed = true;
    buf_free(&b);
    doc_item(v->d, "Device: what a rank takes of it at most, reserved by the "
             "allocator (weights, adapters and earlier waves included) and "
             "dispatch buffers; `fit` needs the same.");
    doc_item(v->d, "Before: `busiest-rank`, every rank priced on the busiest "
             "rank's rows at one mixer width. After: `per-rank`, each rank "
             "on its own rows in each layer kind's layout.");
    doc_item(v->d, "Raw: the estimate without a margin. Admitted: raw x "
             "1.10, as admission uses it.");
    doc_item(v->d, "Error: (estimate - peak) / peak, signed. UNDER marks an "
             "estimate below the peak, by bytes.");
    doc_item(v->d, "Wave: one training step over one packed batch. The first "
             "of a process is cold: workspaces, the rotary table and adapter "
             "gradients are allocated in it and stay.");
    doc_item(v->d, "Categories count requested bytes at the first instant of "
             "the peak; `rounding` is block size minus requested. They sum "
             "to the peak, and an estimate's terms to its raw bytes.");
    doc_item(v->d, "GB = 1e9 bytes, MB = 1e6, KB = 1e3.");
}
