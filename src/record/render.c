/*
** render.c - one case as rows of CSV.
**
** Every function appends whole rows to the text of one file. Appends to a
** struct buf cannot fail one by one; record_render looks once at the end.
*/
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/csv.h"
#include "record/record.h"

#define RANK_MAX (-1)       /* prints as "max" */
#define UNKNOWN (-1)        /* prints as an empty cell */

struct rows {               /* what a wave's rows begin with */
    const struct record_case *c;
    const struct record_wave *w;
    struct record_text *t;
    int64_t n_records, n_peaks;
};

static void put_cell(struct buf *b, const char *s)
{
    buf_putc(b, ',');
    csv_put(b, s);
}

static void put_int(struct buf *b, int64_t n)
{
    buf_printf(b, ",%" PRId64, n);
}

static void put_known(struct buf *b, int64_t n)
{
    if (n == UNKNOWN) buf_putc(b, ',');
    else put_int(b, n);
}

/* The shortest of two forms that reads back as the same number. */
static void put_double(struct buf *b, double x)
{
    char s[40];

    snprintf(s, sizeof s, "%.15g", x);
    if (strtod(s, NULL) != x) snprintf(s, sizeof s, "%.17g", x);
    buf_printf(b, ",%s", s);
}

static void put_key(struct buf *b, const struct record_case *c)
{
    csv_put(b, c->device);
    put_cell(b, c->scenario);
    put_cell(b, c->name);
}

static struct buf *start(struct rows *r, enum record_file f)
{
    struct buf *b = &r->t->file[f];

    put_key(b, r->c);
    put_int(b, r->w->wave);
    put_cell(b, r->w->cold ? "cold" : "warm");
    return b;
}

static void put_rank(struct buf *b, int64_t rank)
{
    if (rank == RANK_MAX) buf_puts(b, ",max");
    else put_int(b, rank);
}

/* One row of records.csv; bytes NULL: not measured. */
static void put_record(struct rows *r, int64_t rank, const char *source,
                       const char *term, const int64_t *bytes,
                       enum record_status status, const char *note)
{
    struct buf *b = start(r, RECORD_RECORDS);

    put_rank(b, rank);
    put_cell(b, source);
    put_cell(b, term);
    if (bytes == NULL) buf_putc(b, ',');
    else put_int(b, *bytes);
    put_cell(b, record_status_name(status));
    put_cell(b, note);
    buf_putc(b, '\n');
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
    struct buf *b = start(r, RECORD_PEAKS);

    put_int(b, rank);
    buf_printf(b, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64,
               p->allocated, p->requested, p->reserved, p->event);
    put_cell(b, mem_phase_name((enum mem_phase)p->tag.phase));
    put_known(b, p->tag.layer);
    put_cell(b, p->tag.op);
    put_cell(b, category_name((enum category)p->tag.category));
    put_known(b, k->received_max);
    put_known(b, k->hybridep_bytes);
    put_known(b, k->retained_bytes);
    put_known(b, k->start_bytes);
    buf_putc(b, '\n');
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

static void put_peaks(struct rows *r)
{
    const struct record_wave *w = r->w;
    int64_t i;

    if (w->n_rank == 0) {
        put_record(r, RANK_MAX, "peak", "total", NULL, w->status, w->note);
        return;
    }
    for (i = 0; i < w->n_rank; i++) {
        if (w->rank[i].absent) continue;
        put_terms(r, i, "peak", w->rank[i].peak.by, "total", w->status,
                  w->note);
        put_peak_row(r, i, &w->rank[i]);
    }
    put_terms(r, RANK_MAX, "peak", w->rank[most_loaded(w)].peak.by, "total",
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
    const struct { const char *name; int64_t bytes; } part[] = {
        {"boundaries", p->boundaries},
        {"attention_stage", p->attention_stage},
        {"gdn_stage", p->gdn_stage},
        {"attention_retained", p->attention_retained},
        {"moe_workspace.attention", p->moe_workspace[LAYER_ATTENTION]},
        {"moe_workspace.gdn", p->moe_workspace[LAYER_GDN]},
        {"adapter_extra", p->adapter_extra},
        {"total", p->total},
    };
    size_t i;

    for (i = 0; i < sizeof part / sizeof *part; i++)
        put_record(r, rank, source, part[i].name, &part[i].bytes, STATUS_OK,
                   NULL);
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

static void put_estimates(struct rows *r)
{
    int64_t i;
    int c;

    for (i = 0; i < r->w->n_estimate; i++) {
        const struct estimate *e = &r->w->estimate[i];
        enum record_status s = e->supported ? STATUS_OK : STATUS_REFUSED;
        const char *note = e->supported ? NULL : e->reason;
        bool priced = e->supported || e->priced;
        for (c = 0; c < CAT_COUNT && priced; c++)
            put_record(r, RANK_MAX, e->name, category_name((enum category)c),
                       &e->term[c], s, note);
        put_record(r, RANK_MAX, e->name, "raw", priced ? &e->raw : NULL,
                   s, note);
        put_record(r, RANK_MAX, e->name, "admitted",
                   priced ? &e->admitted : NULL, s, note);
        if (e->supported) put_estimate_ranks(r, e);
    }
    for (i = 0; i < r->w->n_variant; i++)
        put_record(r, RANK_MAX, r->w->variant[i].source, "raw",
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
    struct buf *b;
    int64_t i;

    if (w->has_loss) {
        b = start(r, RECORD_LOSSES);
        put_double(b, w->loss);
        buf_putc(b, '\n');
    }
    for (i = 0; i < w->n_timing; i++) {
        b = start(r, RECORD_TIMINGS);
        put_rank(b, w->timing[i].rank);
        put_cell(b, w->timing[i].what);
        put_int(b, w->timing[i].ns);
        buf_putc(b, '\n');
    }
    for (i = 0; i < w->n_driver; i++) {
        b = start(r, RECORD_DEVICE);
        put_rank(b, w->driver[i].rank);
        put_cell(b, w->driver[i].what);
        put_int(b, w->driver[i].bytes);
        buf_putc(b, '\n');
    }
}

static void put_wave(struct rows *r)
{
    int64_t i;

    put_peaks(r);
    for (i = 0; i < r->w->n_rank; i++)
        if (!r->w->rank[i].absent) put_kept(r, i, &r->w->rank[i]);
    put_estimates(r);
    put_varying(r);
}

/* bytes / rows with two decimals, by integers: the same on every machine. */
static void put_ratio(struct buf *b, uint64_t bytes, int64_t rows)
{
    uint64_t n = (uint64_t)rows;
    uint64_t whole, cent;

    if (rows <= 0) {
        buf_putc(b, ',');
        return;
    }
    whole = bytes / n;
    cent = (bytes % n * 100 + n / 2) / n;
    buf_printf(b, ",%" PRIu64 ".%02" PRIu64, whole + cent / 100, cent % 100);
}

static void put_tensor(struct rows *r, const struct record_tensor *x)
{
    struct buf *b = &r->t->file[RECORD_INVENTORY];

    put_key(b, r->c);
    put_int(b, x->rank);
    put_int(b, x->layer);
    put_cell(b, x->kind == LAYER_GDN ? "gdn" : "attention");
    put_cell(b, category_name(x->category));
    put_cell(b, x->op);
    put_int(b, x->count);
    buf_printf(b, ",%" PRIu64, x->bytes);
    put_int(b, x->rows);
    put_ratio(b, x->bytes, x->rows);
    put_cell(b, mem_phase_name(x->allocated_in));
    put_cell(b, x->freed_in == PHASE_NONE ? NULL : mem_phase_name(x->freed_in));
    put_cell(b, x->freed_after);
    buf_putc(b, '\n');
}

/* "52480 44314" */
static void put_row_list(struct buf *b, const int64_t *rows, int64_t n)
{
    int64_t i;

    buf_putc(b, ',');
    for (i = 0; rows != NULL && i < n; i++)
        buf_printf(b, "%s%" PRId64, i ? " " : "", rows[i]);
}

static void put_published(struct buf *b, double x)
{
    if (isnan(x)) buf_putc(b, ',');
    else put_double(b, x);
}

static void put_shape(struct buf *b, const struct record_case *c)
{
    put_key(b, c);
    put_cell(b, c->about);
    put_cell(b, c->model);
    put_int(b, c->layers);
    put_int(b, c->cp);
    put_int(b, c->ep);
    put_int(b, c->tp);
    put_int(b, c->pp);
    put_int(b, c->lora_rank);
    put_cell(b, c->dtype);
    put_cell(b, c->weights);
    put_cell(b, c->recompute);
    put_cell(b, *c->modules != '\0' ? c->modules : NULL);
    put_cell(b, c->grad ? "yes" : "no");
    put_cell(b, c->compiled ? "yes" : "no");
    put_cell(b, c->kind);
}

static void put_case(struct rows *r)
{
    const struct record_case *c = r->c;
    struct buf *b = &r->t->file[RECORD_CASES];

    put_shape(b, c);
    put_cell(b, c->batch);
    put_int(b, c->tokens);
    put_int(b, c->sequences);
    put_row_list(b, c->attention_rows, c->cp);
    put_row_list(b, c->gdn_rows, c->cp);
    put_known(b, c->routed_rows);
    put_int(b, c->top_k);
    put_int(b, c->head_rows);
    put_int(b, c->output_bytes);
    put_cell(b, c->routing);
    buf_printf(b, ",%" PRIu64, c->seed);
    put_int(b, c->n_wave);
    put_published(b, c->published_before_cold);
    put_published(b, c->published_before_warm);
    put_published(b, c->published_after_cold);
    put_published(b, c->published_after_warm);
    put_int(b, r->n_records);
    put_int(b, r->n_peaks);
    put_cell(b, record_status_name(c->status));
    put_cell(b, c->note);
    buf_putc(b, '\n');
}

int record_render(const struct record_case *c, struct record_text *out,
                  struct err *e)
{
    struct rows r = {.c = c, .t = out};
    int64_t i;
    int f, rc;

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
