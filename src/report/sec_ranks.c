/* sec_ranks.c - what each rank holds at its peak, and for its attention. */
#include <math.h>

#include "report/sections.h"

static const char real[] = "real-40";

/* One category of every rank: estimate, peak, difference. */
static void put_line(struct view *v, struct table *t,
                     const struct record_found *c, int64_t wave,
                     const char *label, const char *term,
                     const char *estimate_term)
{
    int64_t r;

    cell_code(v->d, t, label);
    for (r = 0; r < c->shape.cp; r++) {
        int64_t e = view_bytes(c, wave, r, view_rank_source(c, wave, r),
                               estimate_term);
        int64_t p = view_bytes(c, wave, r, "peak", term);
        cell_gb(v->d, t, e);
        cell_gb(v->d, t, p);
        cell_diff_gb(v->d, t, e - p);
    }
}

static bool any_bytes(const struct record_found *c, int64_t wave,
                      const char *term)
{
    int64_t r;

    for (r = 0; r < c->shape.cp; r++)
        if (view_bytes(c, wave, r, "peak", term) != 0 ||
            view_bytes(c, wave, r, view_rank_source(c, wave, r), term) != 0)
            return true;
    return false;
}

static void put_ranks(struct view *v, const struct record_found *c)
{
    int64_t wave = view_wave(c, true), r;
    struct buf columns = BUF_INIT, id = BUF_INIT;
    struct table *t;
    int k;

    buf_puts(&columns, "category, GB");
    for (r = 0; r < c->shape.cp; r++)
        buf_printf(&columns, "|>rank %d: estimate|>peak|>difference", (int)r);
    buf_printf(&id, "ranks-%s", c->shape.name);
    doc_heading(v->d, 3, buf_text(&id), c->shape.name);
    t = doc_table(v->d, buf_text(&id), buf_text(&columns));
    if (columns.failed || id.failed) v->d->failed = true;
    buf_free(&columns);
    buf_free(&id);
    for (k = 0; k < CAT_COUNT; k++) {
        const char *name = category_name((enum category)k);
        if (any_bytes(c, wave, name)) put_line(v, t, c, wave, name, name, name);
    }
    put_line(v, t, c, wave, "total", "total", "raw");
    for (r = 0; r < c->shape.cp; r++) {
        const struct record_peak *p = record_peak_of(c, wave, r);
        if (p == NULL) continue;
        doc_item(v->d, "rank %d peaks in `%s` of layer %d (%s), at `%s`; "
                 "%d attention rows, %d GDN rows", (int)r, p->phase,
                 (int)p->layer, view_peak_in_gdn(c, wave, r) ? "GDN"
                 : "attention", p->op,
                 c->shape.attention_rows ? (int)c->shape.attention_rows[r] : 0,
                 c->shape.gdn_rows ? (int)c->shape.gdn_rows[r] : 0);
    }
}

void sec_ranks(struct view *v)
{
    bool any = false;
    int64_t i;

    doc_heading(v->d, 2, "ranks", "The two ranks side by side");
    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        if (!view_is_published(c) || view_wave(c, true) < 0) continue;
        if (!any)
            doc_para(v->d, "Each rank's own raw `per-rank` estimate, for the "
                     "kind of layer its peak lies in, against its own "
                     "simulated peak, cold wave, requested bytes by category. "
                     "A negative difference is a category that the estimate "
                     "has less of than the step holds.");
        any = true;
        put_ranks(v, c);
    }
    if (!any) view_absent(v, "the cases of the published table",
                          "pr-accuracy");
}

static void put_figure(struct view *v, struct table *t, double x)
{
    cell_number(v->d, t, x, 3);
}

/* What attention keeps on one rank, beside the traces. */
static void put_attention(struct view *v, struct table *t,
                          const struct record_found *c, int64_t wave,
                          int64_t r)
{
    int64_t own = view_bytes(c, wave, r, "kept/attention", "attention");
    int64_t records = view_bytes(c, wave, r, "kept/attention",
                                 "attention_records");
    int64_t charge =
        view_bytes(c, wave, RECORD_MAX, BEFORE, "attention") +
        view_bytes(c, wave, RECORD_MAX, BEFORE, "attention_records");
    int64_t priced =
        view_bytes(c, wave, r, AFTER "/attention", "attention") +
        view_bytes(c, wave, r, AFTER "/attention", "attention_records");

    cell_count(v->d, t, r);
    cell_gb(v->d, t, view_bytes(c, wave, r, AFTER "/stages", "boundaries"));
    put_figure(v, t, figure(v->published, "trace.boundaries.rank%d", (int)r));
    cell_gb(v->d, t, records);
    put_figure(v, t, figure(v->published, "trace.attention_records.rank%d",
                            (int)r));
    cell_gb(v->d, t, own + records);
    put_figure(v, t, figure(v->published, "trace.attention_retained.rank%d",
                            (int)r));
    cell_gb(v->d, t, charge);
    cell_diff_gb(v->d, t, charge - own - records);
    cell_gb(v->d, t, priced);
    cell_diff_gb(v->d, t, priced - own - records);
}

void sec_attention(struct view *v)
{
    const struct record_found *c = view_published(v, real);
    int64_t wave = c ? view_wave(c, true) : -1, r;
    struct table *t;

    doc_heading(v->d, 2, "attention", "What attention keeps for backward");
    if (wave < 0) {
        view_absent(v, "the real batch", "pr-accuracy");
        return;
    }
    doc_para(v->d, "The real batch, one recomputed attention layer, GB. Kept "
             "is what lives from the layer's recompute into its backward: "
             "its own rows' tensors and the executor's records. Published "
             "traces: %.2f and %.2f GB kept, of which records %.3f and %.2f; "
             "the old charge of %.2f on both ranks was %.2f under for rank "
             "1.",
             figure(v->published, "trace.attention_retained.rank0"),
             figure(v->published, "trace.attention_retained.rank1"),
             figure(v->published, "trace.attention_records.rank0"),
             figure(v->published, "trace.attention_records.rank1"),
             figure(v->published, "trace.attention_charge.before"),
             figure(v->published, "trace.attention_charge.before_under.rank1"));
    t = doc_table(v->d, "attention", ">rank|>boundaries|>traced|>records"
                  "|>traced|>kept|>traced|>before charges|>- kept"
                  "|>after charges|>- kept");
    for (r = 0; r < c->shape.cp; r++) put_attention(v, t, c, wave, r);
    doc_para(v->d, "Before charges every rank the busiest rank's rows at one "
             "width; after charges each rank its own rows and the records of "
             "its own stages.");
    view_command(v, "pr-accuracy");
}
