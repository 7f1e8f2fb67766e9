/* show.c - see run.h: a case as a table, as JSON, against tolerances */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "run/work.h"

/* ---- table -------------------------------------------------------------- */

void run_show_header(const struct run_context *x, struct buf *out)
{
    buf_printf(out, "%-*s  %4s %-4s %9s %9s", x->name_width, "case", "wave",
               "", "peak GB", "device GB");
    if (x->ops->computes) buf_printf(out, " %10s", "loss");
    buf_printf(out, "  %-14s %9s %8s %11s %8s\n", "estimator", "raw GB",
               "error", "admitted GB", "error");
}

/* Bytes below 0 are not known. */
static void put_gb(struct buf *b, int width, int64_t bytes)
{
    if (bytes < 0)
        buf_printf(b, " %*s", width, "-");
    else
        buf_printf(b, " %*.3f", width, (double)bytes / 1e9);
}

static void put_error(struct buf *b, int64_t estimate, int64_t peak)
{
    if (estimate < 0 || peak <= 0)
        buf_printf(b, " %8s", "-");
    else
        buf_printf(b, " %+6.1f %%", run_percent(estimate, peak));
}

/* Has an earlier wave refused the estimate already, for the same reason? */
static bool said_before(const struct run_work *w, int64_t wave,
                        const struct estimate *x)
{
    int64_t i, k;

    for (i = 0; i < wave; i++)
        for (k = 0; k < w->wave[i].n_estimate; k++) {
            const struct estimate *y = &w->wave[i].estimate[k];
            if (!y->supported && strcmp(y->name, x->name) == 0 &&
                strcmp(y->reason, x->reason) == 0) return true;
        }
    return false;
}

static void put_estimate(const struct run_work *w, int64_t wave,
                         const struct estimate *x, struct buf *b)
{
    int64_t peak = run_peak(w, wave);

    buf_printf(b, "  %-14s", x->name);
    put_gb(b, 9, x->priced ? x->raw : -1);
    put_error(b, x->priced ? x->raw : -1, peak);
    put_gb(b, 11, x->priced ? x->admitted : -1);
    put_error(b, x->priced ? x->admitted : -1, peak);
    if (!x->supported && said_before(w, wave, x))
        buf_puts(b, "  refused, as above");
    else if (!x->supported)
        buf_printf(b, "  refused: %s", x->reason);
    if (x->supported && peak > 0 && x->raw < peak)
        buf_puts(b, w->x->colour ? "  \033[31mUNDER\033[0m" : "  UNDER");
}

/* Is there no estimate of any wave, for one reason? */
static bool refuses_all(const struct run_work *w)
{
    const struct estimate *first = w->wave[0].estimate;
    int64_t i, k;

    if (w->wave[0].n_estimate < 2) return false;
    for (i = 0; i < w->c->waves; i++)
        for (k = 0; k < w->wave[i].n_estimate; k++) {
            const struct estimate *x = &w->wave[i].estimate[k];
            if (x->supported || x->priced ||
                strcmp(x->reason, first->reason) != 0) return false;
        }
    return true;
}

static void put_loss(struct buf *b, const struct run_wave *v)
{
    if (v->has_loss)
        buf_printf(b, " %10.6f", v->loss);
    else
        buf_printf(b, " %10s", "-");
}

static void put_wave(const struct run_work *w, int64_t i, struct buf *b)
{
    const struct run_wave *v = &w->wave[i];
    int64_t peak = run_peak(w, i);
    char name[512];

    snprintf(name, sizeof name, "%s/%s", w->s->name, w->c->name);
    buf_printf(b, "%-*s  %4" PRId64 " %-4s", w->x->name_width, name, i,
               v->cold ? "cold" : "warm");
    if (peak >= 0)
        put_gb(b, 9, peak);
    else
        buf_printf(b, " %9s", record_status_name(v->status));
    put_gb(b, 9, run_taken(w, i));
    if (w->x->ops->computes) put_loss(b, v);
}

/* A line an estimate; where none applies to the case, a line a wave, and the
** reason once. */
static void put_wave_lines(const struct run_work *w, int64_t i, struct buf *b)
{
    const struct run_wave *v = &w->wave[i];
    bool none = refuses_all(w);
    int64_t k;

    for (k = 0; k < (none ? 1 : v->n_estimate); k++) {
        put_wave(w, i, b);
        if (!none)
            put_estimate(w, i, &v->estimate[k], b);
        else if (i == 0)
            buf_printf(b, "  no estimates: %s", v->estimate[0].reason);
        buf_putc(b, '\n');
    }
}

/* ---- JSON --------------------------------------------------------------- */

/* Bytes below 0 are not known. */
static json_t *bytes_json(int64_t bytes)
{
    return bytes >= 0 ? json_integer(bytes) : json_null();
}

static json_t *error_json(int64_t estimate, int64_t peak)
{
    return estimate >= 0 && peak > 0
         ? json_real(run_percent(estimate, peak)) : json_null();
}

static json_t *estimate_json(const struct estimate *x, int64_t peak)
{
    int64_t raw = x->priced ? x->raw : -1;
    int64_t admitted = x->priced ? x->admitted : -1;
    json_t *v = json_object();

    json_object_set_new(v, "name", json_string(x->name));
    json_object_set_new(v, "supported", json_boolean(x->supported));
    json_object_set_new(v, "reason", x->supported ? json_null()
                                                  : js_text(x->reason));
    json_object_set_new(v, "raw_bytes", bytes_json(raw));
    json_object_set_new(v, "admitted_bytes", bytes_json(admitted));
    json_object_set_new(v, "raw_error_percent", error_json(raw, peak));
    json_object_set_new(v, "admitted_error_percent",
                        error_json(admitted, peak));
    return v;
}

/* A wave with every rank and estimator, for --json. */
static json_t *wave_json(const struct run_work *w, int64_t i)
{
    const struct run_wave *v = &w->wave[i];
    json_t *o = json_object(), *ranks = json_array(), *list = json_array();
    int64_t peak = run_peak(w, i), k;

    for (k = 0; v->measured && k < w->c->cp; k++)
        json_array_append_new(ranks, json_integer(
            (json_int_t)v->rank[k].peak.allocated));
    for (k = 0; k < v->n_estimate; k++)
        json_array_append_new(list, estimate_json(&v->estimate[k], peak));
    json_object_set_new(o, "wave", json_integer(i));
    json_object_set_new(o, "temperature",
                        json_string(v->cold ? "cold" : "warm"));
    json_object_set_new(o, "status",
                        json_string(record_status_name(v->status)));
    json_object_set_new(o, "note", v->note[0] ? js_text(v->note)
                                              : json_null());
    json_object_set_new(o, "peak_bytes",
                        bytes_json(peak));
    json_object_set_new(o, "device_bytes", bytes_json(run_taken(w, i)));
    json_object_set_new(o, "rank_peak_bytes", ranks);
    if (v->has_loss) json_object_set_new(o, "loss", json_real(v->loss));
    json_object_set_new(o, "estimates", list);
    return o;
}

/* A case that failed has the same keys as one that ran. */
static int put_json(const struct run_work *w, struct case_result *out,
                    struct err *e)
{
    json_t *o = json_object(), *waves = json_array();
    char *text;
    int64_t i;

    for (i = 0; w->wave != NULL && i < w->c->waves; i++)
        json_array_append_new(waves, wave_json(w, i));
    json_object_set_new(o, "scenario", json_string(w->s->name));
    json_object_set_new(o, "case", json_string(w->c->name));
    json_object_set_new(o, "status",
                        json_string(record_status_name(out->status)));
    json_object_set_new(o, "note", out->message[0]
                        ? js_text(out->message) : json_null());
    json_object_set_new(o, "outside_tolerance", json_integer(out->outside));
    json_object_set_new(o, "waves", waves);
    text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    if (text == NULL) return err_nomem(e);
    buf_puts(&out->json, text);
    free(text);
    return ERR_OK;
}

/* ---- tolerances --------------------------------------------------------- */

bool run_outside(const struct scenario *s, const struct scenario_case *c,
                 int64_t wave, const char *estimator, int64_t raw,
                 int64_t peak, struct buf *complaint)
{
    double error;

    if (!c->has_tolerance || peak <= 0) return false;
    error = run_percent(raw, peak);
    if (error >= -c->tolerance_under && error <= c->tolerance_over)
        return false;
    buf_printf(complaint, "%s/%s: wave %" PRId64 ": %s is %+.2f %% of the "
               "peak off (allowed %+g to %+g %%)\n", s->name, c->name, wave,
               estimator, error, -c->tolerance_under, c->tolerance_over);
    return true;
}

static void check_wave(const struct run_work *w, int64_t i,
                       struct case_result *out)
{
    const struct run_wave *v = &w->wave[i];
    int64_t peak = run_peak(w, i), k;

    for (k = 0; k < v->n_estimate; k++) {
        const struct estimate *x = &v->estimate[k];
        if (x->supported && run_outside(w->s, w->c, i, x->name, x->raw, peak,
                                        &out->complaint)) out->outside++;
    }
}

int run_show(const struct run_work *w, struct case_result *out,
             struct err *e)
{
    int64_t i, n = w->wave != NULL ? w->c->waves : 0;

    for (i = 0; i < n; i++) {
        put_wave_lines(w, i, &out->table);
        if (w->x->check) check_wave(w, i, out);
    }
    if (out->table.failed || out->complaint.failed) return err_nomem(e);
    return put_json(w, out, e);
}
