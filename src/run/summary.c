/* summary.c - see run.h: a run's records in a few lines, and its worst cases */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/version.h"
#include "run/run.h"
#include "run/work.h"

/* A folder's records, and all that its estimates are off by. */
static int load(const char *dir, struct record_set **set,
                struct record_errors *x, struct err *e)
{
    int64_t i;
    int rc = record_read(dir, set, e);

    for (i = 0; rc == ERR_OK && i < (*set)->n_case; i++)
        if (!record_errors_add(x, &(*set)->kase[i])) rc = err_nomem(e);
    record_errors_sort(x);
    return rc;
}

/* An estimator that covers no wave is left out. */
static void sum_source(const struct record_errors *x, int k,
                       struct run_summary *to)
{
    struct run_source *out = &to->source[to->n_source];
    const struct record_error *v;
    int64_t n = record_errors_part(x, k, &v), i;
    double sum = 0;

    if (n == 0) return;
    to->n_source++;
    snprintf(out->name, sizeof out->name, "%s", x->source[k]);
    out->waves = n;
    for (i = 0; i < n; i++) {
        out->under += v[i].percent < 0;
        sum += v[i].percent;
    }
    out->least = v[0].percent;
    out->mean = sum / (double)n;
    out->most_of_95 = v[(n - 1) * 95 / 100].percent;
    out->most = v[n - 1].percent;
}

int run_summary(const char *dir, struct run_summary *out, struct err *e)
{
    struct record_set *set = NULL;
    struct record_errors x = {0};
    int64_t i;
    int k, rc = load(dir, &set, &x, e);

    memset(out, 0, sizeof *out);
    for (i = 0; rc == ERR_OK && i < set->n_case; i++) {
        enum record_status s = set->kase[i].shape.status;
        out->cases++;
        out->oom += s == STATUS_OOM;
        out->refused += s == STATUS_REFUSED;
        out->failed += s == STATUS_ERROR || s == STATUS_WRONG;
    }
    out->source = calloc((size_t)x.n_source + 1, sizeof *out->source);
    if (rc == ERR_OK && out->source == NULL) rc = err_nomem(e);
    for (k = 0; rc == ERR_OK && k < x.n_source; k++)
        sum_source(&x, k, out);
    record_errors_free(&x);
    record_set_free(set);
    return rc;
}

void run_summary_free(struct run_summary *s)
{
    free(s->source);
}

static void put_cases(const struct run_summary *s, struct buf *out)
{
    buf_printf(out, "%" PRId64 " case%s: %" PRId64 " out of memory, %" PRId64
               " refused, %" PRId64 " failed", s->cases,
               s->cases == 1 ? "" : "s", s->oom, s->refused, s->failed);
}

void run_summary_text(const struct run_summary *s, struct buf *out)
{
    int k;

    put_cases(s, out);
    buf_putc(out, '\n');
    for (k = 0; k < s->n_source; k++) {
        const struct run_source *x = &s->source[k];
        buf_printf(out, "  %-28s %8" PRId64 " waves, %6" PRId64 " under; raw "
                   "%+.2f / %+.2f / %+.2f / %+.2f %% (least, mean, 95 %%, "
                   "most)\n", x->name, x->waves, x->under, x->least, x->mean,
                   x->most_of_95, x->most);
    }
}

/* Variants have no waves of their own. */
static bool is_variant(const struct run_source *x)
{
    return strchr(x->name, '/') != NULL;
}

void run_summary_line(const struct run_summary *s, struct buf *out)
{
    const char *before = "; waves under: ";
    int k;

    put_cases(s, out);
    for (k = 0; k < s->n_source; k++) {
        const struct run_source *x = &s->source[k];
        if (is_variant(x)) continue;
        buf_printf(out, "%s%s %" PRId64 " of %" PRId64, before, x->name,
                   x->under, x->waves);
        before = ", ";
    }
    buf_putc(out, '\n');
}

json_t *run_summary_json(const struct run_summary *s)
{
    json_t *list = json_array();
    int k;

    for (k = 0; k < s->n_source; k++) {
        const struct run_source *x = &s->source[k];
        json_array_append_new(list, json_pack(
            "{s:o,s:I,s:I,s:f,s:f,s:f,s:f}", "name", js_text(x->name),
            "waves", (json_int_t)x->waves, "under", (json_int_t)x->under,
            "least_percent", x->least, "mean_percent", x->mean,
            "most_of_95_percent", x->most_of_95, "most_percent", x->most));
    }
    return json_pack("{s:I,s:I,s:I,s:I,s:o}", "cases", (json_int_t)s->cases,
                     "out_of_memory", (json_int_t)s->oom,
                     "refused", (json_int_t)s->refused,
                     "failed", (json_int_t)s->failed, "estimators", list);
}

/* ---- the worst ----------------------------------------------------------- */

/* Marks count cases of the set from one end of a source's errors. */
static void mark_worst(const struct record_set *set,
                       const struct record_error *v, int64_t n, int64_t count,
                       bool over, bool *marked)
{
    const struct record_found *last = NULL;
    int64_t i, at, seen = 0;

    for (i = 0; i < n && seen < count; i++) {
        at = over ? n - 1 - i : i;
        if (v[at].c == last) continue;
        last = v[at].c;
        marked[last - set->kase] = true;
        seen++;
    }
}

static int64_t find_job(const struct run_job *job, int64_t n_job,
                        const struct record_case *c)
{
    int64_t i;

    for (i = 0; i < n_job; i++)
        if (strcmp(job[i].scenario->kase[job[i].index].name, c->name) == 0 &&
            strcmp(job[i].scenario->name, c->scenario) == 0) return i;
    return -1;
}

/* The jobs whose cases are the worst of any estimator, cold or warm: indices
** into *out [*n], in order, each once, whoever and how many name it. */
static int find_worst(const char *dir, const struct run_job *job,
                      int64_t n_job, int64_t count, int64_t **out, int64_t *n,
                      struct err *e)
{
    struct record_set *set = NULL;
    struct record_errors x = {0};
    bool *marked = NULL;
    int64_t i, part, at;
    int k, rc = load(dir, &set, &x, e);

    *n = 0;
    if (rc == ERR_OK) {
        marked = calloc((size_t)set->n_case + 1, sizeof *marked);
        *out = calloc((size_t)set->n_case + 1, sizeof **out);
        if (marked == NULL || *out == NULL) rc = err_nomem(e);
    }
    for (k = 0; rc == ERR_OK && k < x.n_source; k++) {
        const struct record_error *v;
        if (strchr(x.source[k], '/') != NULL) continue;     /* a variant */
        part = record_errors_part(&x, k, &v);
        mark_worst(set, v, part, count, false, marked);
        mark_worst(set, v, part, count, true, marked);
    }
    for (i = 0; rc == ERR_OK && i < set->n_case; i++) {
        if (!marked[i]) continue;
        at = find_job(job, n_job, &set->kase[i].shape);
        if (at >= 0) (*out)[(*n)++] = at;
    }
    free(marked);
    record_errors_free(&x);
    record_set_free(set);
    return rc;
}

/* Runs the jobs once more, with all terms, into dir. */
static int record_worst(const struct run_context *x, const char *dir,
                        const struct run_job *job, const int64_t *at,
                        int64_t n, struct err *e)
{
    struct record_info info = {.identity = "worst", .command = "peakproof "
                               "run", .commit = peakproof_version};
    struct run_context full = *x;
    struct err late = {ERR_OK, ""};
    struct record *r;
    int64_t i;
    int closed, rc = record_open(dir, RECORD_REPLACE, &info, &r, e);

    if (rc != ERR_OK) return rc;
    full.totals = full.check = false;
    full.miss_percent = -1;
    for (i = 0; i < n && rc == ERR_OK; i++) {
        struct case_result c;
        run_case(&full, job[at[i]].scenario, job[at[i]].index, &c);
        rc = c.code == ERR_RUN ? err_set(e, ERR_RUN, "%s", c.message)
                               : record_append(r, &c.rows, e);
        case_result_free(&c);
    }
    closed = record_close(r, rc == ERR_OK, &late);
    if (rc == ERR_OK && closed != ERR_OK) {
        *e = late;
        rc = closed;
    }
    return rc;
}

/* As a scenario, so that the cases can be run and looked at again. */
static int write_worst(const char *path, const char *data,
                       const struct run_job *job,
                       const int64_t *at, int64_t n, struct err *e)
{
    struct buf text = BUF_INIT;
    int64_t i;
    int rc;

    buf_puts(&text, "-- Cases that the estimates of a run were furthest off "
             "in.\nreturn {name = \"worst\", cases = {\n");
    for (i = 0; i < n; i++) {
        const struct scenario_case *c =
            &job[at[i]].scenario->kase[job[at[i]].index];
        if (c->batch_kind != BATCH_LAYOUT) run_as_lua(c, data, &text);
    }
    buf_puts(&text, "}}\n");
    rc = text.failed ? err_nomem(e)
                     : file_write(path, text.data, text.len, e);
    buf_free(&text);
    return rc;
}

#define WORST 10

int run_record_worst(const struct run_context *x, const char *dir,
               const struct run_job *job, int64_t n_job, struct buf *out,
               struct err *e)
{
    struct buf path = BUF_INIT;
    int64_t *at = NULL, n = 0;
    int rc = find_worst(dir, job, n_job, WORST, &at, &n, e);

    buf_printf(&path, "%s/worst", dir);
    if (rc == ERR_OK && path.failed) rc = err_nomem(e);
    if (rc == ERR_OK && n > 0)
        rc = record_worst(x, path.data, job, at, n, e);
    buf_puts(&path, ".lua");
    if (rc == ERR_OK && path.failed) rc = err_nomem(e);
    if (rc == ERR_OK && n > 0)
        rc = write_worst(path.data, x->data, job, at, n, e);
    if (rc == ERR_OK && n > 0)
        buf_printf(out, "the worst %" PRId64 ": %s/worst, and as scenarios "
                   "in %s\n", n, dir, path.data);
    free(at);
    buf_free(&path);
    return rc;
}
