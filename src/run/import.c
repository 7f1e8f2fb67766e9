/* import.c - see import.h */
#include "run/import.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/version.h"
#include "snapshot/phases.h"

#define DEVICE "import"
#define MOST_BYTES (INT64_MAX / 8)

int import_new(const struct record_found *found, const char *from,
               struct import *out, struct err *e)
{
    struct import m = {.found = found, .from = from};
    int64_t i, r;

    if (strcmp(found->shape.device, DEVICE) == 0)
        return err_set(e, ERR_USAGE, "import: case '%s' is an imported one "
                       "(name the run's own)", found->shape.name);
    m.wave = calloc((size_t)found->waves + 1, sizeof *m.wave);
    if (m.wave == NULL) return err_nomem(e);
    for (i = 0; i < found->waves; i++) {
        struct import_wave *w = &m.wave[i];
        w->rank = calloc((size_t)found->shape.cp, sizeof *w->rank);
        if (w->rank == NULL) {
            import_free(&m);
            return err_nomem(e);
        }
        for (r = 0; r < found->shape.cp; r++)
            w->rank[r] = (struct record_rank){
                .absent = true, .beside = RECORD_UNKNOWN,
                .executor_bytes = -1, .mirror_bytes = -1
            };
    }
    *out = m;
    return ERR_OK;
}

void import_free(struct import *m)
{
    int64_t i;

    for (i = 0; m->wave != NULL && i < m->found->waves; i++)
        free(m->wave[i].rank);
    free(m->wave);
    m->wave = NULL;
    buf_free(&m->warnings);
}

void import_warn(struct import *m, const char *fmt, ...)
{
    char line[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    buf_printf(&m->warnings, "%s\n", line);
}

/* Nothing is known of categories: all that was asked for is "other". */
static void set_peak(struct import *m, int64_t wave, int64_t rank,
                     int64_t allocated, int64_t requested, int64_t reserved)
{
    struct record_rank *k = &m->wave[wave].rank[rank];

    m->wave[wave].given = true;
    k->absent = false;
    k->peak = (struct mem_peak){
        .allocated = (uint64_t)allocated, .requested = (uint64_t)requested,
        .reserved = (uint64_t)reserved,
        .tag = {CAT_OTHER, PHASE_NONE, -1, NULL}
    };
    k->peak.by[CAT_OTHER] = requested;
    k->peak.by[CAT_ROUNDING] = allocated - requested;
}

/* ---- from CSV ----------------------------------------------------------- */

struct columns {
    int64_t wave, rank, allocated, requested, reserved;
    int64_t tokens;         /* -1: there is none */
};

static int find_columns(const struct csv_table *t, struct columns *c,
                        struct err *e)
{
    static const char *const names[] = {
        "wave", "rank", "tokens", "allocated_bytes", "requested_bytes",
        "reserved_bytes", NULL
    };
    int rc = csv_known(t, names, e);

    if (rc == ERR_OK) rc = csv_column(t, "rank", &c->rank, e);

    c->wave = csv_find(t, "wave");
    c->tokens = csv_find(t, "tokens");
    if (rc == ERR_OK) rc = csv_column(t, "allocated_bytes", &c->allocated, e);
    if (rc == ERR_OK) rc = csv_column(t, "requested_bytes", &c->requested, e);
    if (rc == ERR_OK) rc = csv_column(t, "reserved_bytes", &c->reserved, e);
    return rc;
}

/* A row of a user's table, each number held to what the case can have. */
static int take_row(struct import *m, const struct csv_table *t,
                    const struct columns *c, int64_t row, struct err *e)
{
    int64_t wave = 0, rank, allocated, requested, reserved;
    int64_t ranks = m->found->shape.cp, tokens = m->found->shape.tokens;
    int rc = csv_int(t, row, c->rank, 0, ranks - 1, &rank, e);

    if (rc == ERR_OK && c->wave >= 0)
        rc = csv_int(t, row, c->wave, 0, m->found->waves - 1, &wave, e);
    if (rc == ERR_OK)
        rc = csv_int(t, row, c->allocated, 0, MOST_BYTES, &allocated, e);
    if (rc == ERR_OK)
        rc = csv_int(t, row, c->requested, 0, allocated, &requested, e);
    if (rc == ERR_OK)
        rc = csv_int(t, row, c->reserved, 0, MOST_BYTES, &reserved, e);
    if (rc == ERR_OK && c->tokens >= 0)
        rc = csv_int(t, row, c->tokens, 0, INT64_MAX, &tokens, e);
    if (rc != ERR_OK) return rc;
    if (tokens != m->found->shape.tokens)
        return csv_error_at(t, row, c->tokens, e, "%" PRId64 " tokens, the "
                            "case has %" PRId64, tokens,
                            m->found->shape.tokens);
    if (!m->wave[wave].rank[rank].absent)
        return csv_error_at(t, row, c->rank, e, "rank %" PRId64 " of wave %"
                            PRId64 " stands twice", rank, wave);
    set_peak(m, wave, rank, allocated, requested, reserved);
    return ERR_OK;
}

int import_csv(struct import *m, const char *path, struct err *e)
{
    struct csv_table *t = NULL;
    struct columns c;
    int64_t i;
    int rc = csv_load(path, 0, &t, e);

    if (rc == ERR_OK) rc = find_columns(t, &c, e);
    if (rc == ERR_OK && csv_rows(t) == 0)
        rc = err_set(e, ERR_INPUT, "%s: no rows", path);
    for (i = 0; rc == ERR_OK && i < csv_rows(t); i++)
        rc = take_row(m, t, &c, i, e);
    csv_table_free(t);
    return rc;
}

/* ---- from a snapshot ---------------------------------------------------- */

/* The one device of the snapshot that has a trace. */
static int find_device(const struct snapshot *s, const char *path,
                       int64_t *out, struct err *e)
{
    int64_t i, found = -1;

    for (i = 0; i < s->n_device; i++) {
        if (s->device[i].n_event == 0) continue;
        if (found >= 0)
            return err_set(e, ERR_INPUT, "%s: devices %" PRId64 " and %"
                           PRId64 " both have a trace (one rank a file)",
                           path, found, i);
        found = i;
    }
    if (found < 0)
        return err_set(e, ERR_INPUT, "%s: no device has a trace (call "
                       "torch.cuda.memory._record_memory_history before the "
                       "wave)", path);
    *out = found;
    return ERR_OK;
}

/* A trace that was followed, with what was requested after each event. */
struct followed {
    struct walk w;
    uint64_t *requested;    /* owned */
};

static void see(void *ctx, int64_t event, const struct replay_bytes *now)
{
    struct followed *f = ctx;

    f->requested[event] = now->requested;
}

static int follow(const struct snapshot *s, const char *path,
                  struct followed *f, struct err *e)
{
    struct rewind from = {0};
    int64_t device = 0;
    int rc = find_device(s, path, &device, e);

    if (rc != ERR_OK) return rc;
    f->requested = calloc((size_t)s->device[device].n_event + 1,
                          sizeof *f->requested);
    if (f->requested == NULL) return err_nomem(e);
    rc = rewind_device(s, device, path, &from, e);
    if (rc == ERR_OK)
        rc = walk_device(s, device, path, &from, see, f, &f->w, e);
    rewind_free(&from);
    return rc;
}

/* The rise from before event first to its highest until last. */
static uint64_t rise(const uint64_t *after, uint64_t start, int64_t first,
                     int64_t last)
{
    uint64_t from = first > 0 ? after[first - 1] : start, most = from;

    for (int64_t i = first; i <= last; i++)
        if (after[i] > most) most = after[i];
    return most - from;
}

static void take_wave(struct import *m, const struct followed *f,
                      int64_t wave, int64_t rank, int64_t first,
                      int64_t last)
{
    const struct walk *w = &f->w;
    uint64_t reserved = first > 0 ? w->reserved[first - 1]
                                  : w->initial.reserved;

    for (int64_t i = first; i <= last; i++)
        if (w->reserved[i] > reserved) reserved = w->reserved[i];
    set_peak(m, wave, rank,
             (int64_t)rise(w->allocated, w->initial.allocated, first, last),
             (int64_t)rise(f->requested, w->initial.requested, first, last),
             (int64_t)reserved);
    m->wave[wave].rank[rank].beside.start_bytes =
        (int64_t)(first > 0 ? w->allocated[first - 1] : w->initial.allocated);
}

/* Every annotation that is a wave, from the given one on. */
static int take_waves(struct import *m, const struct snapshot *s,
                      const struct followed *f, const char *path,
                      const char *waves, int64_t wave, int64_t rank,
                      struct err *e)
{
    struct phases p;
    int64_t i;
    int rc = phases_find(s, &f->w, waves, &p, e);

    if (rc == ERR_OK && p.n == 0)
        rc = err_set(e, ERR_INPUT, "%s: no annotation begins with '%s'", path,
                     waves);
    for (i = 0; rc == ERR_OK && i < p.n && wave + i < m->found->waves; i++)
        take_wave(m, f, wave + i, rank, p.at[i].first, p.at[i].last);
    if (rc == ERR_OK && i < p.n)
        import_warn(m, "%s: %" PRId64 " waves are annotated, the case has %"
                    PRId64 ": the later ones are left out", path, p.n,
                    m->found->waves);
    phases_free(&p);
    return rc;
}

int import_snapshot(struct import *m, const char *path, const char *waves,
                    int64_t wave, int64_t rank, struct err *e)
{
    struct snapshot s = {0};
    struct followed f = {0};
    int rc;

    if (rank >= m->found->shape.cp)
        return err_set(e, ERR_USAGE, "import: %s: rank %" PRId64 ", the case "
                       "has %" PRId64 " ranks", path, rank,
                       m->found->shape.cp);
    if (wave >= m->found->waves)
        return err_set(e, ERR_USAGE, "import: --wave %" PRId64 ": the case "
                       "has %" PRId64 " waves", wave, m->found->waves);
    rc = snapshot_load(path, &s, e);
    if (rc == ERR_OK) rc = follow(&s, path, &f, e);
    if (rc == ERR_OK && s.overflowed)
        import_warn(m, "%s: the ring buffer overflowed, the wave's beginning "
                    "may be missing", path);
    if (rc == ERR_OK && waves != NULL)
        rc = take_waves(m, &s, &f, path, waves, wave, rank, e);
    else if (rc == ERR_OK)
        take_wave(m, &f, wave, rank, 0, f.w.events - 1);
    walk_free(&f.w);
    free(f.requested);
    snapshot_free(&s);
    return rc;
}

/* ---- into the run ------------------------------------------------------- */

static bool is_estimate(const struct record_row *r, int64_t wave)
{
    return r->wave == wave && r->rank == RECORD_MAX &&
           strcmp(r->term, "raw") == 0 && strcmp(r->source, "peak") != 0 &&
           strchr(r->source, '/') == NULL;
}

/* An estimate as far as its rows for the whole wave tell. */
static void read_estimate(const struct record_found *f,
                          const struct record_row *raw, struct estimate *x)
{
    int i;

    memset(x, 0, sizeof *x);
    x->supported = raw->status == STATUS_OK;
    x->priced = raw->measured;
    x->binding_rank = -1;
    snprintf(x->name, sizeof x->name, "%s", raw->source);
    snprintf(x->reason, sizeof x->reason, "%s", raw->note);
    if (!x->priced) return;
    x->raw = raw->bytes;
    record_bytes(f, raw->wave, RECORD_MAX, raw->source, "admitted",
                 &x->admitted);
    for (i = 0; i < CAT_COUNT; i++)
        record_bytes(f, raw->wave, RECORD_MAX, raw->source,
                     category_name((enum category)i), &x->term[i]);
}

static int read_estimates(const struct record_found *f, int64_t wave,
                          struct record_wave *out, struct err *e)
{
    struct estimate *x;
    int64_t i, n = 0;

    for (i = 0; i < f->n_row; i++) n += is_estimate(&f->row[i], wave);
    x = calloc((size_t)n + 1, sizeof *x);
    if (x == NULL) return err_nomem(e);
    out->estimate = x;
    for (i = 0; i < f->n_row; i++)
        if (is_estimate(&f->row[i], wave))
            read_estimate(f, &f->row[i], &x[out->n_estimate++]);
    return ERR_OK;
}

/* The given waves; *n of them, each with its estimates (to be freed). */
static int make_waves(const struct import *m, struct record_wave *out,
                      int64_t *n, struct err *e)
{
    int64_t i;
    int rc = ERR_OK;

    for (i = 0; i < m->found->waves && rc == ERR_OK; i++) {
        if (!m->wave[i].given) continue;
        out[*n] = (struct record_wave){
            .wave = i, .cold = i == 0, .rank = m->wave[i].rank,
            .n_rank = m->found->shape.cp
        };
        rc = read_estimates(m->found, i, &out[(*n)++], e);
    }
    return rc;
}

/* As a case of device "import" beside the one it is of. */
static int append(const struct import *m, const char *dir,
                  const struct record_wave *wave, int64_t n, struct err *e)
{
    struct record_info info = {.identity = "", .command = "peakproof import",
                               .commit = peakproof_version};
    struct record_case c = m->found->shape;
    struct record *r = NULL;
    enum record_status status;
    struct err late;
    int rc = record_open(dir, RECORD_APPEND, &info, &r, e);

    if (rc != ERR_OK) return rc;
    c.device = DEVICE;
    c.status = STATUS_OK;
    c.note = m->from;
    c.wave = wave;
    c.n_wave = n;
    if (record_has(r, DEVICE, c.scenario, c.name, &status))
        rc = err_set(e, ERR_USAGE, "import: %s: peaks of case '%s' are there "
                     "already", dir, c.name);
    if (rc == ERR_OK) rc = record_case(r, &c, e);
    if (record_close(r, true, &late) != ERR_OK && rc == ERR_OK) {
        *e = late;
        rc = (int)late.code;
    }
    return rc;
}

int import_write(const struct import *m, const char *dir, struct err *e)
{
    size_t waves = (size_t)m->found->waves + 1;
    struct record_wave *wave = calloc(waves, sizeof *wave);
    int64_t n = 0, i;
    int rc = wave == NULL ? err_nomem(e) : make_waves(m, wave, &n, e);

    if (rc == ERR_OK) rc = append(m, dir, wave, n, e);
    for (i = 0; i < n; i++)
        free((struct estimate *)(uintptr_t)wave[i].estimate);
    free(wave);
    return rc;
}
