/*
** render.c - one case as rows of CSV.
**
** Every function appends whole rows to the text of one file. Appends to a
** struct buf cannot fail one by one; record_render looks once at the end.
*/
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "base/csv.h"
#include "base/hash.h"
#include "record/columns.h"

#define UNKNOWN (-1)        /* prints as an empty cell */

struct rows {               /* what a wave's rows are made from */
    const struct record_case *c;
    const struct record_wave *w;
    struct record_text *t;
    int64_t n_records, n_peaks;
};

/* ---- cells -------------------------------------------------------------- */

/* The shortest of two forms that reads back as the same number. */
static void put_double(struct buf *b, double x)
{
    char s[40];

    snprintf(s, sizeof s, "%.15g", x);
    if (strtod(s, NULL) != x) snprintf(s, sizeof s, "%.17g", x);
    buf_puts(b, s);
}

/* bytes / rows with two decimals, by integers: the same on every machine. */
static void put_ratio(struct buf *b, const struct record_item *x)
{
    int64_t cent;

    if (x->rows <= 0) return;
    cent = (x->bytes % x->rows * 100 + x->rows / 2) / x->rows;
    buf_printf(b, "%" PRId64 ".%02" PRId64, x->bytes / x->rows + cent / 100,
               cent % 100);
}

/* "52480 44314" */
static void put_row_list(struct buf *b, const int64_t *rows, int64_t n)
{
    int64_t i;

    for (i = 0; rows != NULL && i < n; i++)
        buf_printf(b, "%s%" PRId64, i ? " " : "", rows[i]);
}

static void put_int(struct buf *b, int64_t n)
{
    buf_printf(b, "%" PRId64, n);
}

/* A text that a table program would take for a formula gets a quote before
** it, and one that is no UTF-8, which the reader refuses, loses what is not. */
static void put_text(struct buf *b, const char *s)
{
    struct buf safe = BUF_INIT;
    bool formula = s != NULL && *s != '\0' && strchr("=+-@", *s) != NULL;
    bool valid = s == NULL || text_valid(s, strlen(s)) == strlen(s);

    if (valid && !formula) {
        csv_put(b, s);
        return;
    }
    buf_printf(&safe, formula ? "'%s" : "%s", s);
    if (!valid && !safe.failed) text_clean(safe.data);
    csv_put(b, buf_text(&safe));
    if (safe.failed) b->failed = true;
    buf_free(&safe);
}

/* The member at p of the struct row, at which cells look whose text another
** member decides. */
static void put_cell(struct buf *b, enum cell cell, const void *p,
                     const void *row)
{
    int64_t n = 0;
    double x = 0;

    switch (cell) {
    case CELL_TEXT: put_text(b, *(const char *const *)p); break;
    case CELL_WORD: csv_put(b, *(const char *const *)p); break;
    case CELL_KNOWN: case CELL_WHOLE: case CELL_COUNT: case CELL_ANY:
        n = *(const int64_t *)p;
        if (cell != CELL_KNOWN || n != UNKNOWN) put_int(b, n);
        break;
    case CELL_RANK:
        n = *(const int64_t *)p;
        if (n == RECORD_MAX) buf_puts(b, "max");
        else put_int(b, n);
        break;
    case CELL_HEAT: csv_put(b, *(const bool *)p ? "cold" : "warm"); break;
    case CELL_YES: csv_put(b, *(const bool *)p ? "yes" : "no"); break;
    case CELL_STATUS:
        csv_put(b, record_status_name(*(const enum record_status *)p));
        break;
    case CELL_BYTES:
        if (((const struct record_row *)row)->measured)
            put_int(b, *(const int64_t *)p);
        break;
    case CELL_SEED: buf_printf(b, "%" PRIu64, *(const uint64_t *)p); break;
    case CELL_SUM: buf_printf(b, "%016" PRIx64, *(const uint64_t *)p); break;
    case CELL_REAL: case CELL_REAL_OR_NONE:
        x = *(const double *)p;
        if (cell == CELL_REAL || !isnan(x)) put_double(b, x);
        break;
    case CELL_ROWS:
        put_row_list(b, *(const int64_t *const *)p,
                     ((const struct record_found *)row)->shape.cp);
        break;
    case CELL_RATIO: put_ratio(b, row); break;
    }
}

void column_put(struct buf *b, enum record_file f, const struct record_case *c,
                const void *row)
{
    bool keyed;
    size_t n, k;
    const struct column *column = columns_of(f, &n, &keyed);

    if (keyed) {
        csv_put(b, c->device);
        buf_putc(b, ',');
        csv_put(b, c->scenario);
        buf_putc(b, ',');
        csv_put(b, c->name);
    }
    for (k = 0; k < n; k++) {
        if (keyed || k > 0) buf_putc(b, ',');
        put_cell(b, column[k].cell, (const char *)row + column[k].at, row);
    }
    buf_putc(b, '\n');
}

/* ---- rows --------------------------------------------------------------- */

static void put_row(struct rows *r, enum record_file f, const void *row)
{
    column_put(&r->t->file[f], f, r->c, row);
}

/* One row of records.csv; bytes NULL: not measured. */
static void put_record(struct rows *r, int64_t rank, const char *source,
                       const char *term, const int64_t *bytes,
                       enum record_status status, const char *note)
{
    struct record_row row = {
        .wave = r->w->wave, .cold = r->w->cold, .rank = rank,
        .source = source, .term = term, .measured = bytes != NULL,
        .bytes = bytes != NULL ? *bytes : 0, .status = status, .note = note
    };

    put_row(r, RECORD_RECORDS, &row);
    r->n_records++;
}

/* All categories of one source, then their sum under the name total. */
static void put_terms(struct rows *r, int64_t rank, const char *source,
                      const int64_t by[CAT_COUNT], const char *total,
                      enum record_status status, const char *note)
{
    int64_t sum = 0;
    int c;

    for (c = 0; c < CAT_COUNT; c++) {
        put_record(r, rank, source, category_name((enum category)c), &by[c],
                   status, note);
        sum += by[c];
    }
    put_record(r, rank, source, total, &sum, status, note);
}

static void put_peak_row(struct rows *r, int64_t rank,
                         const struct record_rank *k)
{
    const struct mem_peak *p = &k->peak;
    struct record_peak row = {
        .wave = r->w->wave, .cold = r->w->cold, .rank = rank,
        .allocated = (int64_t)p->allocated,
        .requested = (int64_t)p->requested,
        .reserved = (int64_t)p->reserved, .event = (int64_t)p->event,
        .phase = mem_phase_name((enum mem_phase)p->tag.phase),
        .layer = p->tag.layer, .op = p->tag.op,
        .category = category_name((enum category)p->tag.category),
        .beside = k->beside
    };

    put_row(r, RECORD_PEAKS, &row);
    r->n_peaks++;
}

/* The first of the ranks with the highest allocated peak. */
static int64_t most_loaded(const struct record_wave *w)
{
    int64_t i, best = 0;

    for (i = 1; i < w->n_rank; i++)
        if (!w->rank[i].absent && (w->rank[best].absent ||
            w->rank[i].peak.allocated > w->rank[best].peak.allocated))
            best = i;
    return best;
}

/* The most-loaded rank's peak. */
static void put_peak_total(struct rows *r)
{
    const struct record_wave *w = r->w;
    int64_t most = most_loaded(w);
    int64_t bytes = (int64_t)w->rank[most].peak.allocated;

    put_record(r, RECORD_MAX, "peak", "total", &bytes, w->status, w->note);
    put_peak_row(r, most, &w->rank[most]);
}

/* Every rank's categories, and the most-loaded rank as "max". */
static void put_peaks(struct rows *r)
{
    const struct record_wave *w = r->w;
    int64_t i;

    if (w->n_rank == 0) {
        put_record(r, RECORD_MAX, "peak", "total", NULL, w->status, w->note);
        return;
    }
    if (r->c->totals) {
        put_peak_total(r);
        return;
    }
    for (i = 0; i < w->n_rank; i++) {
        if (w->rank[i].absent) continue;
        put_terms(r, i, "peak", w->rank[i].peak.by, "total", w->status,
                  w->note);
        put_peak_row(r, i, &w->rank[i]);
    }
    put_terms(r, RECORD_MAX, "peak", w->rank[most_loaded(w)].peak.by, "total",
              w->status, w->note);
}

static void put_kept(struct rows *r, int64_t rank, const struct record_rank *k)
{
    if (k->mirror_bytes != UNKNOWN)
        put_record(r, rank, "mirror", "attention_records", &k->mirror_bytes,
                   STATUS_OK, NULL);
    if (k->executor_bytes != UNKNOWN)
        put_record(r, rank, "executor", "attention_records",
                   &k->executor_bytes, STATUS_OK, NULL);
    if (!k->has_kept) return;
    put_terms(r, rank, "kept/attention", k->kept[LAYER_ATTENTION], "total",
              STATUS_OK, NULL);
    put_terms(r, rank, "kept/gdn", k->kept[LAYER_GDN], "total", STATUS_OK,
              NULL);
}

/* The parts of one rank, as "peakproof price" names them. */
static void put_stages(struct rows *r, int64_t rank, const char *source,
                       const struct price_rank *p)
{
    const struct { const char *name; int64_t bytes; bool there; } part[] = {
        {"boundaries", p->boundaries, true},
        {"attention_stage", p->attention_stage, p->staged},
        {"gdn_stage", p->gdn_stage, p->staged},
        {"attention_retained", p->attention_retained, true},
        {"moe_workspace.attention", p->moe_workspace[LAYER_ATTENTION],
         p->staged},
        {"moe_workspace.gdn", p->moe_workspace[LAYER_GDN], p->staged},
        {"adapter_extra", p->adapter_extra, p->staged},
        {"total", p->total, true},
    };
    size_t i;

    for (i = 0; i < sizeof part / sizeof *part; i++)
        if (part[i].there)
            put_record(r, rank, source, part[i].name, &part[i].bytes,
                       STATUS_OK, NULL);
}

static int64_t sum_terms(const int64_t by[CAT_COUNT])
{
    int64_t sum = 0;
    int c;

    for (c = 0; c < CAT_COUNT; c++) sum += by[c];
    return sum;
}

static void put_estimate_ranks(struct rows *r, const struct estimate *e)
{
    char name[sizeof e->name + 16];
    int64_t i;

    for (i = 0; i < e->n_rank; i++) {
        const int64_t *attention = e->rank[i].term[LAYER_ATTENTION];
        const int64_t *gdn = e->rank[i].term[LAYER_GDN];
        bool more = sum_terms(gdn) > sum_terms(attention);
        put_terms(r, i, e->name, more ? gdn : attention, "raw", STATUS_OK,
                  NULL);
        snprintf(name, sizeof name, "%s/attention", e->name);
        put_terms(r, i, name, attention, "raw", STATUS_OK, NULL);
        snprintf(name, sizeof name, "%s/gdn", e->name);
        put_terms(r, i, name, gdn, "raw", STATUS_OK, NULL);
        snprintf(name, sizeof name, "%s/stages", e->name);
        put_stages(r, i, name, &e->rank[i]);
    }
}

/* What an estimator does not cover keeps its row, with the reason. */
static void put_estimates(struct rows *r)
{
    int64_t i;
    int c;

    for (i = 0; i < r->w->n_estimate; i++) {
        const struct estimate *e = &r->w->estimate[i];
        enum record_status s = e->supported ? STATUS_OK : STATUS_REFUSED;
        const char *note = e->supported ? NULL : e->reason;
        bool priced = e->supported || e->priced;
        for (c = 0; c < CAT_COUNT && priced && !r->c->totals; c++)
            put_record(r, RECORD_MAX, e->name, category_name((enum category)c),
                       &e->term[c], s, note);
        put_record(r, RECORD_MAX, e->name, "raw", priced ? &e->raw : NULL,
                   s, note);
        put_record(r, RECORD_MAX, e->name, "admitted",
                   priced ? &e->admitted : NULL, s, note);
        if (e->supported && r->c->totals && e->n_rank > 0)
            put_record(r, e->binding_rank, e->name, "raw", &e->raw,
                       STATUS_OK, NULL);
        else if (e->supported)
            put_estimate_ranks(r, e);
    }
    for (i = 0; i < r->w->n_variant; i++)
        put_record(r, RECORD_MAX, r->w->variant[i].source, "raw",
                   &r->w->variant[i].raw, STATUS_OK, NULL);
}

/*
** The parts of a sum must give it: a difference is a defect upstream, and is
** said rather than written down.
*/
static int check_sums(const struct record_case *c,
                      const struct record_wave *w, struct err *e)
{
    int64_t i, sum;

    for (i = 0; i < w->n_rank; i++) {
        sum = sum_terms(w->rank[i].peak.by);
        if ((uint64_t)sum != w->rank[i].peak.allocated)
            return err_set(e, ERR_WRONG, "%s/%s: wave %" PRId64 " rank %"
                           PRId64 ": the categories sum to %" PRId64 " bytes "
                           "at a peak of %" PRIu64, c->scenario, c->name,
                           w->wave, i, sum, w->rank[i].peak.allocated);
    }
    for (i = 0; i < w->n_estimate; i++) {
        const struct estimate *x = &w->estimate[i];
        sum = sum_terms(x->term);
        if (x->supported && sum != 0 && sum != x->raw)
            return err_set(e, ERR_WRONG, "%s/%s: wave %" PRId64 ": the terms "
                           "of %s sum to %" PRId64 " bytes, its raw estimate "
                           "is %" PRId64, c->scenario, c->name, w->wave,
                           x->name, sum, x->raw);
    }
    return ERR_OK;
}

/* What differs from run to run. */
static void put_varying(struct rows *r)
{
    const struct record_wave *w = r->w;
    int64_t i;

    if (w->has_loss)
        put_row(r, RECORD_LOSSES, &(struct record_loss){
            .wave = w->wave, .cold = w->cold, .loss = w->loss});
    for (i = 0; i < w->n_timing && !r->c->totals; i++)
        put_row(r, RECORD_TIMINGS, &(struct record_time){
            .wave = w->wave, .cold = w->cold, .rank = w->timing[i].rank,
            .what = w->timing[i].what, .ns = w->timing[i].ns});
    for (i = 0; i < w->n_driver; i++)
        put_row(r, RECORD_DEVICE, &(struct column_driver){
            .wave = w->wave, .cold = w->cold, .rank = w->driver[i].rank,
            .what = w->driver[i].what, .bytes = w->driver[i].bytes});
}

static void put_wave(struct rows *r)
{
    int64_t i;

    put_peaks(r);
    for (i = 0; i < r->w->n_rank && !r->c->totals; i++)
        if (!r->w->rank[i].absent) put_kept(r, i, &r->w->rank[i]);
    put_estimates(r);
    put_varying(r);
}

static void put_tensor(struct rows *r, const struct record_tensor *x)
{
    put_row(r, RECORD_INVENTORY, &(struct record_item){
        .rank = x->rank, .layer = x->layer,
        .kind = x->kind == LAYER_GDN ? "gdn" : "attention",
        .category = category_name(x->category), .op = x->op,
        .count = x->count, .bytes = (int64_t)x->bytes, .rows = x->rows,
        .allocated_in = mem_phase_name(x->allocated_in),
        .freed_in = x->freed_in == PHASE_NONE ? NULL
                                              : mem_phase_name(x->freed_in),
        .freed_after = x->freed_after});
}

/* The row twice: first as recover.h says that it is summed. */
static void put_case(struct rows *r)
{
    struct record_found row = {
        .shape = *r->c, .waves = r->c->n_wave, .records = r->n_records,
        .peaks = r->n_peaks};
    struct buf *b = &r->t->file[RECORD_CASES];
    uint64_t h = HASH_START;
    int f;

    for (f = 0; f < RECORD_SUMMED; f++)
        h = hash_bytes(h, buf_text(&r->t->file[f]), r->t->file[f].len);
    put_row(r, RECORD_CASES, &row);
    row.checksum = hash_bytes(h, buf_text(b), b->len);
    b->len = 0;
    put_row(r, RECORD_CASES, &row);
}

int record_render(const struct record_case *c, struct record_text *out,
                  struct err *e)
{
    struct rows r = {.c = c, .t = out};
    int64_t i;
    int f, rc;

    assert(c->name != NULL && c->device != NULL);
    for (i = 0; i < c->n_wave; i++) {
        rc = check_sums(c, &c->wave[i], e);
        if (rc != ERR_OK) {
            record_text_free(out);
            return rc;
        }
        r.w = &c->wave[i];
        put_wave(&r);
    }
    for (i = 0; i < c->n_tensor; i++) put_tensor(&r, &c->tensor[i]);
    put_case(&r);
    for (f = 0; f < RECORD_CASE_FILES; f++) {
        if (!out->file[f].failed) continue;
        record_text_free(out);
        return err_nomem(e);
    }
    return ERR_OK;
}
