/* report.c - see report.h. */
#include "report/report.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "report/doc/render.h"
#include "report/plots/pictures.h"
#include "report/sections/sections.h"

struct work {
    const struct report_options *o;
    struct record_set *set, *worst;
    struct record_set *sweep, *sweep_worst;     /* NULL: there are none */
    struct figures published;
    struct buf *written;
    struct pictures pictures;
};

static int save(struct work *w, const char *name, const char *ext,
                const struct buf *text, struct err *e)
{
    struct buf path = BUF_INIT;
    int rc;

    buf_printf(&path, "%s/%s.%s", w->o->dir, name, ext);
    rc = path.failed || text->failed ? err_nomem(e)
         : file_write(path.data, buf_text(text), text->len, e);
    if (rc == ERR_OK) {
        buf_printf(w->written, "%s.%s\n", name, ext);
        if (w->written->failed) rc = err_nomem(e);
    }
    buf_free(&path);
    return rc;
}

static int put_json(const struct doc *d, struct buf *out, struct err *e)
{
    json_t *v = render_json(d);

    if (v == NULL)
        return err_set(e, ERR_RUN, "cannot make JSON: out of host memory, or "
                       "a name is not UTF-8");
    js_put(out, v);
    json_decref(v);
    return ERR_OK;
}

static int save_doc(struct work *w, const struct doc *d, const char *name,
                    struct err *e)
{
    static const char *const ext[] = {"md", "csv", "json", "html"};
    struct buf out = BUF_INIT;
    int rc = d->failed ? err_nomem(e) : ERR_OK;

    if (rc == ERR_OK) {
        switch (w->o->format) {
        case REPORT_MD: render_md(d, &out); break;
        case REPORT_CSV: render_csv(d, &out); break;
        case REPORT_JSON: rc = put_json(d, &out, e); break;
        case REPORT_HTML: render_html(d, d->block[0].text, &out); break;
        }
    }
    if (rc == ERR_OK) rc = save(w, name, ext[w->o->format], &out, e);
    buf_free(&out);
    return rc;
}

/* The published comparison: what a reviewer reads. */
static void put_published(struct view *v, struct view *sweep)
{
    sec_result(v);
    sec_table(v);
    sec_summary(v);
    sec_measured_short(v);
    view_picture(v, PICTURE_CHANGE, "The change: packed real waves without "
                 "expert parallelism, before and after");
    if (sweep != NULL) sec_sweep_short(v, sweep);
    doc_heading(v->d, 2, "repeat", "How to repeat it");
    doc_code(v->d, "make report");
    doc_code(v->d, "build/peakproof explain out/report real-40");
}

/* And all that it rests on, section by section. */
static void put_details(struct view *v)
{
    doc_heading(v->d, 1, "details", "peakproof: details of the accuracy "
                "report");
    view_unfinished(v->d, v->set, THIS_FOLDER);
    doc_contents(v->d);
    sec_words(v);
    sec_measured(v);
    sec_measured_cells(v);
    sec_measured_estimates(v);
    sec_raw(v);
    sec_verdict(v);
    sec_ranks(v);
    sec_attention(v);
    sec_fidelity(v);
    sec_random(v);
    sec_allowance(v);
    sec_stack(v);
    sec_sensitivity(v);
    sec_one_gpu(v);
    sec_pairing(v);
    sec_adapters(v);
    sec_one_lse(v);
    sec_mirror(v);
    sec_bound(v);
    sec_fallbacks(v);
    sec_inventory(v);
    sec_checks(v);
    sec_cases(v);
}

/* A reader's own cases: all of them first, then what they are made of. */
static void put_own(struct view *v)
{
    doc_para(v->d, "The published cases are not in this folder: `make "
             "report` runs them and makes the comparison.");
    if (view_has_sweep(v)) {
        sec_sweep(v);
        sec_knowledge(v);
        return;
    }
    sec_measured(v);
    if (v->n_case == 0) {
        sec_measured_estimates(v);
        sec_measured_cells(v);
        sec_sensitivity(v);
        sec_one_gpu(v);
        sec_words(v);
        return;
    }
    sec_verdict(v);
    sec_cases(v);
    view_picture(v, PICTURE_ERRORS, "Admitted error by case, every estimator");
    view_picture(v, PICTURE_TOKENS,
                 "Raw error against tokens, every estimator");
    if (v->n_case > 0) sec_terms(v);
    view_picture(v, PICTURE_COMPOSITION,
                 "The peak's categories against all estimates");
    sec_knowledge(v);
    sec_stack(v);
    sec_pairing(v);
    sec_adapters(v);
    sec_allowance(v);
    sec_one_lse(v);
    sec_measured_estimates(v);
    sec_measured_cells(v);
    sec_sensitivity(v);
    sec_one_gpu(v);
    sec_fallbacks(v);
    sec_inventory(v);
    if (v->set->n_check > 0) sec_checks(v);
    sec_words(v);
}

/* sweep: another folder's drawn waves; NULL: there is none. */
static void put_accuracy(struct view *v, struct view *sweep)
{
    doc_heading(v->d, 1, "accuracy", "peakproof: accuracy of the memory "
                "estimates");
    view_unfinished(v->d, v->set, THIS_FOLDER);
    if (sweep != NULL) view_unfinished(v->d, sweep->set, SWEEP_FOLDER);
    doc_para(v->d, "A peak is the highest allocated bytes of a training step "
             "less those when it began, simulated (dry device); an error is "
             "(estimate - peak) / peak, UNDER where the estimate is below. "
             "Before is `busiest-rank`, after `per-rank`; raw has no margin, "
             "admitted is raw x 1.10.%s", v->published_here ? ""
             : " Made from the records of one folder by:");
    if (!v->published_here) doc_code(v->d, "peakproof report DIR");
    if (v->published_here) put_published(v, sweep);
    else put_own(v);
}

static void put_device(struct view *v, const char *device, const char *title)
{
    doc_heading(v->d, 1, "device", title);
    view_unfinished(v->d, v->set, THIS_FOLDER);
    doc_para(v->d, "%s Error is (estimate - peak) / peak; UNDER marks an "
             "estimate below the peak.", !view_has_peak(v)
             ? "No case here has a peak."
             : strcmp(device, "import") == 0
             ? "Peaks were measured elsewhere and imported (`peakproof "
               "import`)."
             : "Peaks are measured: the step computed on this device.");
    sec_losses(v);
    sec_same_as_dry(v);
    sec_rank_peaks(v);
    sec_cases(v);
}

#define DETAILS "details"

/* The page beside accuracy; d is left for its headings. */
static int write_details(struct work *w, struct view *v, struct doc *d,
                         struct err *e)
{
    struct doc *short_page = v->d;
    int rc;

    v->d = d;
    put_details(v);
    v->d = short_page;
    rc = save_doc(w, d, DETAILS, e);
    return rc;
}

/* One document over the cases of one device. */
static int write_device(struct work *w, const char *device, const char *name,
                        const char *title, struct err *e)
{
    struct doc d = {0}, details = {0};
    struct view v = {.d = &d, .set = w->set, .published = &w->published,
                     .picture = w->pictures.state, .worst = w->worst};
    struct view sweep = {.d = &d, .set = w->sweep, .worst = w->sweep_worst,
                         .published = &w->published};
    int rc = view_open(&v, device, e);

    if (rc == ERR_OK && w->sweep != NULL) rc = view_open(&sweep, device, e);
    if (rc == ERR_OK && v.n_case + v.n_measured + v.n_otherwise > 0) {
        if (title != NULL) put_device(&v, device, title);
        else if (v.published_here) rc = write_details(w, &v, &details, e);
        d.other = &details;
        d.other_name = DETAILS;
        if (title == NULL)
            put_accuracy(&v, w->sweep != NULL ? &sweep : NULL);
        if (rc == ERR_OK) rc = save_doc(w, &d, name, e);
    }
    view_close(&v);
    if (w->sweep != NULL) view_close(&sweep);
    doc_free(&d);
    doc_free(&details);
    return rc;
}

/* The drawn waves in the folder's sweep, a page beside the others. */
static int write_shapes(struct work *w, struct err *e)
{
    struct doc d = {0};
    struct view v = {.d = &d, .set = w->sweep, .worst = w->sweep_worst,
                     .published = &w->published};
    int rc = view_open(&v, "dry", e);

    if (rc == ERR_OK && view_has_sweep(&v)) {
        doc_heading(&d, 1, "shapes", "peakproof: waves of other shapes");
        view_unfinished(&d, w->sweep, SWEEP_FOLDER);
        doc_para(&d, "Simulated peaks (dry device), errors (estimate - peak) "
                 "/ peak; every case twice, the first wave cold.");
        sec_sweep(&v);
        sec_knowledge(&v);
        rc = save_doc(w, &d, "shapes", e);
    }
    view_close(&v);
    doc_free(&d);
    return rc;
}

static int write_timing(struct work *w, struct err *e)
{
    struct doc d = {0};
    struct view v = {.d = &d, .set = w->set, .published = &w->published};
    int64_t i, n = 0;
    int rc = ERR_OK;

    v.picture = w->pictures.state;
    for (i = 0; i < w->set->n_case; i++) n += w->set->kase[i].n_time;
    if (n > 0) {
        sec_timing(&v);
        rc = save_doc(w, &d, "timing", e);
    }
    doc_free(&d);
    return rc;
}

/* The pages of devices. title NULL: the comparison of estimates. */
static const struct { const char *device, *name, *title; } pages[] = {
    {"dry", "accuracy", NULL},
    {"cpu", "cpu", "peakproof: the cpu device"},
    {"cuda", "device", "peakproof: the cuda device"},
    {"import", "imported", "peakproof: imported peaks"},
};

/* The records in a folder of the folder; NULL where there are none. */
static int read_beside(const struct report_options *o, const char *name,
                       struct record_set **out, struct err *e)
{
    struct buf path = BUF_INIT;
    int rc = ERR_OK;

    buf_printf(&path, "%s/%s/cases.csv", o->dir, name);
    if (path.failed) return err_nomem(e);
    if (access(path.data, F_OK) == 0) {
        path.data[path.len - strlen("/cases.csv")] = '\0';
        rc = record_read(path.data, out, e);
    }
    buf_free(&path);
    return rc;
}

static int read_all(struct work *w, struct err *e)
{
    int rc = figures_load(w->o->published, &w->published, e);

    if (rc == ERR_OK) rc = record_read(w->o->dir, &w->set, e);
    if (rc == ERR_OK) rc = read_beside(w->o, "worst", &w->worst, e);
    if (rc == ERR_OK) rc = read_beside(w->o, "sweep", &w->sweep, e);
    if (rc == ERR_OK)
        rc = read_beside(w->o, "sweep/worst", &w->sweep_worst, e);
    return rc;
}

int report_write(const struct report_options *o, struct report_said *said,
                 struct err *e)
{
    struct work w = {.o = o, .written = &said->written};
    struct buf drawn = BUF_INIT;    /* pages are named first */
    size_t i;
    int rc;

    rc = read_all(&w, e);
    if (rc == ERR_OK)
        rc = pictures_make(o->dir, o->pictures, w.set, &w.published,
                           &w.pictures, &drawn, e);
    for (i = 0; rc == ERR_OK && i < sizeof pages / sizeof *pages; i++)
        rc = write_device(&w, pages[i].device, pages[i].name, pages[i].title,
                          e);
    if (rc == ERR_OK && w.sweep != NULL) rc = write_shapes(&w, e);
    if (rc == ERR_OK) rc = write_timing(&w, e);
    buf_puts(w.written, buf_text(&drawn));
    if (rc == ERR_OK && w.written->failed) rc = err_nomem(e);
    buf_free(&drawn);
    said->no_gnuplot = w.pictures.no_gnuplot;
    said->warning = w.pictures.warning;
    said->unfinished = w.set != NULL && !w.set->finished;
    said->sweep = w.sweep != NULL;
    said->sweep_unfinished = w.sweep != NULL && !w.sweep->finished;
    record_set_free(w.set);
    record_set_free(w.worst);
    record_set_free(w.sweep);
    record_set_free(w.sweep_worst);
    figures_free(&w.published);
    return rc;
}

void report_said_free(struct report_said *s)
{
    buf_free(&s->written);
    buf_free(&s->warning);
}
