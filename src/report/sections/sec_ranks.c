/* sec_ranks.c - what each rank holds at its peak, and for its attention. */
#include <math.h>
#include <string.h>

#include "report/sections/sections.h"

static const char real[] = "real-40";

enum { MAX_TERMS = 6 };

/* One category of every rank: estimate, peak, difference. */
static void put_line(struct view *v, struct table *t,
                     const struct record_found *c, int64_t wave,
                     const char *label, const char *term,
                     const char *estimate_term)
{
    int64_t r;

    doc_row(v->d, t);
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

/* Ranks side by side, as many as the case has. */
static void put_ranks(struct view *v, const struct record_found *c)
{
    int64_t wave = view_wave(c, true), r;
    struct buf columns = BUF_INIT, id = BUF_INIT;
    const char *title = c->shape.name;
    struct table *t;
    char full[200];
    int k;

    buf_puts(&columns, "category");
    for (r = 0; r < c->shape.cp; r++)
        buf_printf(&columns, "|>rank %d: estimate, GB|>rank %d: peak, GB"
                   "|>rank %d: difference, GB", (int)r, (int)r, (int)r);
    if (!v->published_here) title = view_name(c, full, sizeof full);
    buf_printf(&id, "ranks-%s", title);
    doc_heading(v->d, 3, buf_text(&id), title);
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
        char a[32], g[32];
        if (p == NULL || c->shape.attention_rows == NULL ||
            c->shape.gdn_rows == NULL) continue;
        doc_item(v->d, "rank %d: %s attention rows, %s GDN rows; peak in "
                 "`%s` of layer %d (%s), at `%s`", (int)r,
                 buf_grouped(c->shape.attention_rows[r], a),
                 buf_grouped(c->shape.gdn_rows[r], g), p->phase,
                 (int)p->layer, view_peak_in_gdn(c, wave, r) ? "GDN"
                 : "attention", p->op);
    }
}

/* A recomputed GDN layer of each rank: what it keeps and what it is priced,
** for peaks lie in attention layers and then hold none of it. */
static void put_gdn(struct view *v, const struct record_found *c)
{
    int64_t wave = view_wave(c, true), r;
    struct table *t;

    if (c->shape.gdn_rows == NULL ||
        record_get(c, wave, 0, "kept/gdn", "gdn") == NULL) return;
    doc_para(v->d, "A recomputed GDN layer on the same ranks of `%s`; its "
             "bytes are in a peak only when that lies in such a layer. "
             "Traced: %.0f KB a row.", c->shape.name,
             figure(v->published, "trace.gdn_row.cp2"));
    t = doc_table(v->d, "ranks-gdn", ">rank|>GDN rows|>kept, GB|>priced, GB"
                  "|>difference|>kept, bytes a row|>priced, bytes a row");
    for (r = 0; r < c->shape.cp; r++) {
        int64_t rows = c->shape.gdn_rows[r];
        int64_t kept = view_bytes(c, wave, r, "kept/gdn", "gdn");
        int64_t priced = view_bytes(c, wave, r, AFTER "/gdn", "gdn");
        doc_row(v->d, t);
        cell_count(v->d, t, r);
        cell_count(v->d, t, rows);
        cell_gb(v->d, t, kept);
        cell_gb(v->d, t, priced);
        cell_diff_gb(v->d, t, priced - kept);
        cell_number(v->d, t, rows ? (double)kept / (double)rows
                                  : (double)NAN, 1);
        cell_number(v->d, t, rows ? (double)priced / (double)rows
                                  : (double)NAN, 1);
    }
}

void sec_terms(struct view *v)
{
    int64_t i, shown = 0;

    doc_heading(v->d, 2, "ranks", "Rank by rank, term by term");
    doc_para(v->d, "Each rank's own raw `per-rank` estimate, for the kind of "
             "layer its peak lies in, against its own peak, cold wave, "
             "requested bytes by category. `peakproof explain DIR CASE` has "
             "every wave and every estimator.");
    for (i = 0; i < v->n_case && shown < MAX_TERMS; i++) {
        int64_t w = view_wave(v->kase[i], true);
        if (w < 0 || record_get(v->kase[i], w, 0, AFTER, "raw") == NULL)
            continue;
        put_ranks(v, v->kase[i]);
        shown++;
    }
    if (shown < v->n_case)
        doc_para(v->d, "%d of %lld cases are shown: at most %d, and none "
                 "that has no peak or that per-rank pricing does not cover.",
                 (int)shown, (long long)v->n_case, MAX_TERMS);
}

void sec_ranks(struct view *v)
{
    const struct record_found *first = NULL;
    int64_t i;

    doc_heading(v->d, 2, "ranks", "The two ranks side by side");
    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        if (!view_is_published(c) || view_wave(c, true) < 0) continue;
        if (first == NULL)
            doc_para(v->d, "Each rank's own raw `per-rank` estimate, for the "
                     "kind of layer its peak lies in, against its own "
                     "simulated peak, cold wave, requested bytes by category. "
                     "A negative difference is a category that the estimate "
                     "has less of than the step holds.");
        if (first == NULL) first = c;
        put_ranks(v, c);
    }
    if (first != NULL) put_gdn(v, first);
    else view_absent(v, "the cases of the published table", "pr-accuracy");
}

/* One quantity on every rank: ours, published (GB; key, or key.rankN), and
** the difference. */
static void put_quantity(struct view *v, struct table *t, const char *what,
                         const int64_t *bytes, int64_t n, const char *key)
{
    int64_t r;

    doc_row(v->d, t);
    cell_text(v->d, t, what);
    for (r = 0; r < n; r++) {
        double p = figure(v->published, "%s.rank%d", key, (int)r);
        if (isnan(p)) p = figure(v->published, "%s", key);
        cell_gb(v->d, t, bytes[r]);
        if (isnan(p)) cell_none(v->d, t);
        else cell_gb(v->d, t, (int64_t)llround(p * 1e9));
        cell_percent(v->d, t, 100.0 * ((double)bytes[r] / 1e9 - p) / p,
                     false);
    }
}

/* A sum or difference, and how it stands to what rank 1 is published with. */
static void put_signed(struct view *v, struct table *t, const char *what,
                       const int64_t *bytes, int64_t n, double rank1)
{
    int64_t r;

    doc_row(v->d, t);
    cell_text(v->d, t, what);
    for (r = 0; r < n; r++) {
        cell_diff_gb(v->d, t, bytes[r]);
        if (r == 1 && !isnan(rank1))
            cell_diff_gb(v->d, t, (int64_t)(rank1 * 1e9));
        else
            cell_none(v->d, t);
        cell_none(v->d, t);
    }
}

/* The normed input of one rank's listed attention layer; 0 if not listed. */
static int64_t normed_input(const struct record_found *c, int64_t r)
{
    int64_t i, most = 0;

    for (i = 0; i < c->n_item; i++) {
        const struct record_item *x = &c->item[i];
        if (x->rank == r && strcmp(x->kind, "attention") == 0 &&
            strcmp(x->op, "layer.norm1") == 0 &&
            strcmp(x->freed_in, "backward") == 0 && x->bytes > most)
            most = x->bytes;
    }
    return most;
}

enum { BOUNDARIES, RECORDS, KEPT, BARE, CHARGE, SHORT, SHORT_BARE, PRICED,
       OVER, QUANTITIES };

static void measure(const struct record_found *c, int64_t wave, int64_t r,
                    int64_t q[QUANTITIES])
{
    const char *kept = "kept/attention", *after = AFTER "/attention";

    q[BOUNDARIES] = view_bytes(c, wave, r, "peak", "boundaries");
    q[RECORDS] = view_bytes(c, wave, r, kept, "attention_records");
    q[KEPT] = q[RECORDS] + view_bytes(c, wave, r, kept, "attention");
    q[BARE] = q[KEPT] - normed_input(c, r);
    q[CHARGE] = view_bytes(c, wave, RECORD_MAX, BEFORE, "attention") +
                view_bytes(c, wave, RECORD_MAX, BEFORE, "attention_records");
    q[SHORT] = q[CHARGE] - q[KEPT];
    q[SHORT_BARE] = q[CHARGE] - q[BARE];
    q[PRICED] = view_bytes(c, wave, r, after, "attention") +
                view_bytes(c, wave, r, after, "attention_records");
    q[OVER] = q[PRICED] - q[KEPT];
}

/* The published trace names these sums; ours stand beside them. */
static void put_attention(struct view *v, const struct record_found *c,
                          int64_t wave)
{
    double under = figure(v->published,
                          "trace.attention_charge.before_under.rank1");
    int64_t q[QUANTITIES][2], one[QUANTITIES], r;
    struct table *t;
    int k;

    for (r = 0; r < 2; r++) {
        measure(c, wave, r, one);
        for (k = 0; k < QUANTITIES; k++) q[k][r] = one[k];
    }
    t = doc_table(v->d, "attention", "bytes on a rank|>rank 0: ours, GB"
                  "|>rank 0: published, GB|>rank 0: difference"
                  "|>rank 1: ours, GB|>rank 1: published, GB"
                  "|>rank 1: difference");
    put_quantity(v, t, "saved boundaries", q[BOUNDARIES], 2,
                 "trace.boundaries");
    put_quantity(v, t, "executor records", q[RECORDS], 2,
                 "trace.attention_records");
    put_quantity(v, t, "kept, records included", q[KEPT], 2,
                 "trace.attention_retained");
    put_quantity(v, t, "kept, less the normed input", q[BARE], 2,
                 "trace.attention_retained");
    put_quantity(v, t, "before charges", q[CHARGE], 2,
                 "trace.attention_charge.before");
    put_signed(v, t, "before, less kept", q[SHORT], 2, -under);
    put_signed(v, t, "before, less kept without the normed input",
               q[SHORT_BARE], 2, -under);
    put_quantity(v, t, "after charges", q[PRICED], 2, "");
    put_signed(v, t, "after, less kept", q[OVER], 2, (double)NAN);
}

void sec_attention(struct view *v)
{
    const struct record_found *c = view_published(v, real);
    int64_t wave = c ? view_wave(c, true) : -1;

    doc_heading(v->d, 2, "attention", "What attention keeps for backward");
    if (wave < 0 || c->shape.cp != 2) {
        view_absent(v, "the real batch", "pr-accuracy");
        return;
    }
    doc_para(v->d, "The real batch, one recomputed attention layer. Kept is "
             "what lives from the layer's recompute into its backward: its "
             "own rows' tensors and the executor's records. Before charges "
             "both ranks the busiest rank's rows at one width; after charges "
             "each rank its own rows and the records of its own stages.");
    put_attention(v, c, wave);
    doc_para(v->d, "Rank 1 holds fewer rows and keeps more, because its "
             "remote stage covers all of its queries. Our step keeps the "
             "layer's normed input until the projection behind it has run "
             "backward; the published figures fit a count without it, so "
             "both are shown.");
    view_command(v, "pr-accuracy");
}
