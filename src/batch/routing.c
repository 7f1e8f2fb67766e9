/* routing.c - see routing.h */
#include "batch/routing.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/num.h"
#include "base/random.h"

#define MAX_EXPERTS 65536
#define MAX_CELLS (INT64_C(1) << 24)    /* of a histogram */

__extension__ typedef unsigned __int128 wide;

/* (a * b + add) / c rounded down; the result fits where it is used. */
static int64_t mul_div(uint64_t a, uint64_t b, uint64_t add, uint64_t c)
{
    return (int64_t)(((wide)a * b + add) / c);
}

/* ---- real arithmetic, the same everywhere ------------------------------- */

/* A function of its own: no compiler may fuse it with a sum. */
static double mul(double a, double b)
{
    return a * b;
}

#define LN2 0x1.62e42fefa39efp-1

/* ln x for x > 0: x = m 2^e with m in [sqrt 1/2, sqrt 2), and
** ln m = 2 (t + t^3 / 3 + t^5 / 5 + ...) with t = (m - 1) / (m + 1). */
static double natural_log(double x)
{
    int e;
    double m = frexp(x, &e), t, power, sum = 0;

    if (m < 0x1.6a09e667f3bcdp-1) {
        m = mul(m, 2);
        e--;
    }
    t = (m - 1) / (m + 1);
    power = t;
    for (int i = 1; i <= 25; i += 2) {
        sum += power / i;
        power = mul(power, mul(t, t));
    }
    sum = mul(sum, 2);
    return sum + mul(e, LN2);
}

/* e^x for x <= 0: 2^n times the series at the rest, which is in [0, ln 2). */
static double exponential(double x)
{
    double n = floor(x / LN2), r = x - mul(n, LN2), term = 1, sum = 1;

    if (n < -1000) return 0;
    for (int i = 1; i <= 20; i++) {
        term = mul(term, r) / i;
        sum += term;
    }
    return ldexp(sum, (int)n);
}

/* ---- loads -------------------------------------------------------------- */

/* The draws of one layer, one after the other. */
struct draw { uint64_t seed, layer, i; };

/* Uniform in (0, 1]. */
static double uniform(struct draw *d)
{
    uint64_t bits = random_bits(d->seed, d->layer, d->i++);

    return mul((double)((bits >> 11) + 1), 0x1p-53);
}

/* Standard normal, by the polar method. */
static double normal(struct draw *d)
{
    double u, v, s;

    do {
        u = mul(uniform(d), 2) - 1;
        v = mul(uniform(d), 2) - 1;
        s = mul(u, u);
        s += mul(v, v);
    } while (s >= 1 || s <= 0);
    return mul(u, sqrt(mul(-2, natural_log(s)) / s));
}

/* Gamma of shape a >= 1 and scale 1 (Marsaglia and Tsang 2000). */
static double gamma_large(struct draw *d, double a)
{
    double base = a - 1.0 / 3, step = 1 / sqrt(mul(9, base));

    for (;;) {
        double x = normal(d), v = 1 + mul(step, x), bound;
        if (v <= 0) continue;
        v = mul(v, mul(v, v));
        /* accept when ln u < x^2 / 2 + base (1 - v + ln v) */
        bound = mul(mul(x, x), 0.5);
        bound += mul(base, 1 - v + natural_log(v));
        if (natural_log(uniform(d)) < bound) return mul(base, v);
    }
}

/* Gamma of mean 1 and standard deviation cv. Below shape 1 a draw of shape
** a + 1 is shrunk by u^(1 / a). */
static double load_of(struct draw *d, double cv)
{
    double scale = mul(cv, cv), a = 1 / scale, g;

    if (a >= 1) return mul(gamma_large(d, a), scale);
    g = gamma_large(d, a + 1);
    return mul(mul(g, exponential(natural_log(uniform(d)) / a)), scale);
}

/* ---- shares ------------------------------------------------------------- */

static void even(int64_t total, int64_t n, int64_t *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = total / n + (i < total % n);
}

/* A load as an integer, in steps of 2^-30: sums of MAX_EXPERTS loads fit. */
static uint64_t whole(double load)
{
    double x = mul(load, 0x1p30);

    return x < 0x1p44 ? (uint64_t)x : (uint64_t)1 << 44;
}

/* Experts' loads into out[experts], as integers. */
static void fresh_loads(const struct routing *r, int64_t wave, int64_t layer,
                        int64_t experts, double *out)
{
    struct draw d = {r->seed ^ ((uint64_t)wave * 0x9e3779b97f4a7c15u),
                     (uint64_t)layer, 0};

    for (int64_t i = 0; i < experts; i++)
        out[i] = r->cv > 0 ? load_of(&d, r->cv) : 1;
}

/* What the waves before left, moved on to this one. */
static void drift_loads(const struct routing *r, int64_t wave, int64_t layer,
                        int64_t experts, double *load, double *fresh)
{
    fresh_loads(r, 0, layer, experts, load);
    for (int64_t w = 1; w <= wave && r->drift > 0; w++) {
        fresh_loads(r, w, layer, experts, fresh);
        for (int64_t i = 0; i < experts; i++) {
            double kept = mul(1 - r->drift, load[i]);
            load[i] = kept + mul(r->drift, fresh[i]);
        }
    }
}

/* By chance one expert's load is factor times what it was. */
static void burst_load(const struct routing *r, int64_t wave, int64_t layer,
                       int64_t experts, double *load)
{
    struct draw d = {~r->seed ^ ((uint64_t)wave * 0x9e3779b97f4a7c15u),
                     (uint64_t)layer, 0};
    int64_t x;

    if (r->burst <= 0 || uniform(&d) > r->burst) return;
    x = (int64_t)(random_bits(d.seed, d.layer, d.i) % (uint64_t)experts);
    load[x] = mul(load[x], r->factor);
}

/* Shares of total by the loads of each rank's experts. */
static void share_out(const double *load, int64_t experts, int64_t ep,
                      int64_t total, int64_t *out)
{
    uint64_t before = 0, sum = 0;
    int64_t done = 0;

    /* out holds prefix sums of the loads (below 2^60) until they are known */
    for (int64_t i = 0; i < ep; i++) {
        for (int64_t j = 0; j < experts / ep; j++)
            sum += whole(load[i * (experts / ep) + j]);
        out[i] = (int64_t)sum;
    }
    if (sum == 0) {                     /* every load below 2^-30 */
        even(total, ep, out);
        return;
    }
    for (int64_t i = 0; i < ep; i++) {
        before = (uint64_t)out[i];
        out[i] = mul_div((uint64_t)total, before, 0, sum) - done;
        done += out[i];
    }
}

/* load has room for twice the experts. */
static void loads_of(const struct routing *r, int64_t wave, int64_t layer,
                     int64_t experts, double *load)
{
    if (r->kind == ROUTING_HOT) {
        for (int64_t i = 0; i < experts; i++) load[i] = 1;
        if (r->expert < experts) load[r->expert] = r->factor;
    } else {
        drift_loads(r, wave, layer, experts, load, load + experts);
        burst_load(r, wave, layer, experts, load);
    }
}

static int received_loads(const struct routing *r, int64_t wave,
                          int64_t layer, int64_t experts, int64_t ep,
                          int64_t total, int64_t *out, struct err *e)
{
    double *load = malloc(2 * (size_t)experts * sizeof *load);

    if (load == NULL) return err_nomem(e);
    loads_of(r, wave, layer, experts, load);
    share_out(load, experts, ep, total, out);
    free(load);
    return ERR_OK;
}

/* In integers, to the nearest pair: the same on every machine. */
static int received_share(const struct routing *r, int64_t ep, int64_t total,
                          int64_t *out, struct err *e)
{
    double millionths = mul(r->share, 1e6);
    int64_t rank = r->share_rank, mine, i, k = 0;
    uint64_t whole_share = (uint64_t)ep * 1000000;

    if (!(r->share >= 1 && r->share <= (double)ep) || rank < 0 || rank >= ep)
        return err_set(e, ERR_INPUT, "routing: rank %" PRId64 " cannot have "
                       "%g times its even share at ep %" PRId64, rank,
                       r->share, ep);
    mine = mul_div((uint64_t)total, (uint64_t)(millionths + 0.5),
                   whole_share / 2, whole_share);      /* to the nearest */
    mine = num_min(mine, total);
    for (i = 0; i < ep; i++) {
        int64_t rest = total - mine, n = ep - 1;
        if (i == rank) {
            out[i] = mine;
        } else {
            out[i] = rest / n + (k < rest % n);
            k++;
        }
    }
    return ERR_OK;
}

/* ---- histograms --------------------------------------------------------- */

static int no_such_part(const struct routing *r, int64_t wave, int64_t layer,
                        int64_t experts, struct err *e)
{
    return err_set(e, ERR_INPUT, "routing: the histogram has %" PRId64
                   " waves, %" PRId64 " layers and %" PRId64 " experts; "
                   "wave %" PRId64 ", layer %" PRId64 " of %" PRId64
                   " experts was asked for", r->waves, r->layers,
                   r->experts, wave, layer, experts);
}

/* A rank's rows for all experts, added to those of the ranks that hold per of
** them each. Returns their sum. */
static int64_t add_rows(const int64_t *rows, int64_t experts, int64_t per,
                        int64_t *out)
{
    int64_t sum = 0, all = 0;

    for (int64_t i = 0, k = 0; i < experts; i++) {
        sum += rows[i];
        if (++k < per && i + 1 < experts) continue;
        *out++ += sum;
        all += sum;
        sum = k = 0;
    }
    return all;
}

/* Shares of total by the histogram's loads; prefixes are rounded down, so
** that the shares sum to it. cell: rows of the wave and layer. */
static int received_scaled(const struct routing *r, const int64_t *cell,
                           int64_t experts, int64_t ep, int64_t total,
                           int64_t *out, struct err *e)
{
    int64_t sum = 0, before = 0, done = 0, i;

    memset(out, 0, (size_t)ep * sizeof *out);
    for (i = 0; i < r->ranks; i++)
        sum += add_rows(cell + i * r->experts, r->experts, experts / ep, out);
    if (sum == 0)
        return err_set(e, ERR_INPUT, "routing: a layer whose loads are all 0 "
                       "cannot be scaled");
    for (i = 0; i < ep; i++) {
        before += out[i];
        out[i] = mul_div((uint64_t)total, (uint64_t)before, 0, (uint64_t)sum)
               - done;
        done += out[i];
    }
    return ERR_OK;
}

/* Recorded counts as they are; where another batch was recorded, its loads. */
static int received_histogram(const struct routing *r, int64_t wave,
                              int64_t layer, int64_t experts, int64_t ep,
                              int64_t first, int64_t total, int64_t *out,
                              struct err *e)
{
    int64_t cell, sum = 0, end = num_min(first + ep, r->ranks);

    if (r->waves == 1) wave = 0;
    if (wave >= r->waves || layer >= r->layers || r->experts > experts)
        return no_such_part(r, wave, layer, experts, e);
    cell = (wave * r->layers + layer) * r->ranks * r->experts;
    if (r->scaled)
        return received_scaled(r, r->rows + cell, experts, ep, total, out, e);
    memset(out, 0, (size_t)ep * sizeof *out);
    for (int64_t i = first; i < end; i++)
        sum += add_rows(r->rows + cell + i * r->experts, r->experts,
                        experts / ep, out);
    if (sum != total)
        return err_set(e, ERR_INPUT, "routing: the histogram has %" PRId64
                       " pairs in wave %" PRId64 ", layer %" PRId64 ", but "
                       "the batch routes %" PRId64 " (rows x top-k)", sum,
                       wave, layer, total);
    return ERR_OK;
}

bool routing_changes(const struct routing *r)
{
    return r != NULL && (r->kind == ROUTING_LIST || r->waves > 1 ||
                         r->drift > 0 || r->burst > 0);
}

int routing_received(const struct routing *r, int64_t wave, int64_t layer,
                     int64_t experts, int64_t ep, int64_t first,
                     int64_t total, int64_t *out, struct err *e)
{
    assert(ep >= 1 && first >= 0);
    assert(wave >= 0 && layer >= 0 && total >= 0);
    if (r->kind == ROUTING_LIST)
        return routing_received(&r->each[num_min(wave, r->n_each - 1)], wave,
                                layer, experts, ep, first, total, out, e);
    if (ep < 1 || experts < ep || experts % ep != 0 || experts > MAX_EXPERTS)
        return err_set(e, ERR_INPUT, "routing: ep %" PRId64 " does not "
                       "divide %" PRId64 " experts (at most %d)", ep, experts,
                       MAX_EXPERTS);
    if (ep == 1 || r->kind == ROUTING_BALANCED) {
        even(total, ep, out);
        return ERR_OK;
    }
    if (r->kind == ROUTING_SHARE)
        return received_share(r, ep, total, out, e);
    if (r->kind == ROUTING_HISTOGRAM)
        return received_histogram(r, wave, layer, experts, ep, first, total,
                                  out, e);
    if (!routing_cv_fits(r->cv))
        return err_set(e, ERR_INPUT, "routing: cv must be 0 or from %g to "
                       "%d, not %g", ROUTING_MIN_CV, ROUTING_MAX_CV, r->cv);
    if (r->kind == ROUTING_HOT || r->cv > 0 || r->burst > 0)
        return received_loads(r, wave, layer, experts, ep, total, out, e);
    even(total, ep, out);
    return ERR_OK;
}

/* ---- drawing once -------------------------------------------------------- */

static bool draws(const struct routing *r, int64_t experts)
{
    return experts <= MAX_EXPERTS && routing_cv_fits(r->cv) &&
           (r->kind == ROUTING_HOT ||
            (r->kind == ROUTING_CV && (r->cv > 0 || r->burst > 0)));
}

/* A wave's layer as whole numbers; false: all are 0. */
static bool draw_layer(const struct routing *r, int64_t wave, int64_t layer,
                       int64_t experts, double *load, int64_t *rows)
{
    int64_t sum = 0;

    loads_of(r, wave, layer, experts, load);
    for (int64_t i = 0; i < experts; i++)
        sum += rows[i] = (int64_t)whole(load[i]);
    return sum > 0;
}

/* A layer of zeros is even, which no histogram says: nothing is replaced. */
int routing_draw(const struct routing *r, int64_t waves, int64_t layers,
                 int64_t experts, struct routing *out, struct err *e)
{
    struct routing h = {.kind = ROUTING_HISTOGRAM, .scaled = true, .ranks = 1,
                        .waves = routing_changes(r) ? waves : 1,
                        .layers = layers, .experts = experts};
    int64_t n = h.waves * layers, i;
    double *load;
    bool ok;

    *out = *r;
    if (!draws(r, experts) || n * experts > MAX_CELLS) return ERR_OK;
    load = malloc(2 * (size_t)experts * sizeof *load);
    h.rows = malloc((size_t)(n * experts) * sizeof *h.rows);
    ok = load != NULL && h.rows != NULL;
    for (i = 0; ok && i < n; i++)
        if (!draw_layer(r, i / layers, i % layers, experts, load,
                        h.rows + i * experts)) break;
    free(load);
    if (ok && i == n) *out = h;
    else routing_free(&h);
    return ok ? ERR_OK : err_nomem(e);
}

void routing_drawn_free(const struct routing *r, struct routing *drawn)
{
    if (drawn->rows != r->rows) routing_free(drawn);
}

/* ---- reading ------------------------------------------------------------ */

enum { WAVE, LAYER, RANK, EXPERT, ROWS, COLUMNS };

static const int64_t limit[COLUMNS] = {
    999, 9999, 63, MAX_EXPERTS - 1, INT64_C(1) << 40,
};

static int read_row(const struct csv_table *t, int64_t row,
                    const int64_t *column, int64_t *v, struct err *e)
{
    for (int i = 0; i < COLUMNS; i++) {
        int rc = csv_int(t, row, column[i], 0, limit[i], &v[i], e);
        if (rc != ERR_OK) return rc;
    }
    return ERR_OK;
}

/* How many waves, layers, ranks and experts there are, and room for them. */
static int measure(const struct csv_table *t, const int64_t *column,
                   struct routing *r, struct err *e)
{
    int64_t size[COLUMNS] = {0}, v[COLUMNS], cells;

    for (int64_t row = 0; row < csv_rows(t); row++) {
        int rc = read_row(t, row, column, v, e);
        if (rc != ERR_OK) return rc;
        for (int i = 0; i < ROWS; i++) size[i] = num_max(size[i], v[i] + 1);
    }
    cells = size[WAVE] * size[LAYER] * size[RANK] * size[EXPERT];
    if (cells == 0 || cells > MAX_CELLS)
        return err_set(e, ERR_INPUT, "%s: %s", csv_origin(t), cells == 0
                       ? "no rows" : "too many waves, layers, ranks and "
                       "experts");
    r->waves = size[WAVE];
    r->layers = size[LAYER];
    r->ranks = size[RANK];
    r->experts = size[EXPERT];
    r->rows = malloc((size_t)cells * sizeof *r->rows);
    if (r->rows == NULL) return err_nomem(e);
    for (int64_t i = 0; i < cells; i++) r->rows[i] = -1;
    return ERR_OK;
}

/* -1 marks what no row has set, so that a cell given twice is found. */
static int fill(const struct csv_table *t, const int64_t *column,
                struct routing *r, struct err *e)
{
    int64_t v[COLUMNS], cells = r->waves * r->layers * r->ranks * r->experts;

    for (int64_t row = 0; row < csv_rows(t); row++) {
        int rc = read_row(t, row, column, v, e);
        int64_t *cell;
        if (rc != ERR_OK) return rc;
        cell = &r->rows[((v[WAVE] * r->layers + v[LAYER]) * r->ranks +
                         v[RANK]) * r->experts + v[EXPERT]];
        if (*cell >= 0)
            return csv_error_at(t, row, column[ROWS], e, "wave %" PRId64
                                ", layer %" PRId64 ", rank %" PRId64
                                ", expert %" PRId64 " is there twice",
                                v[WAVE], v[LAYER], v[RANK], v[EXPERT]);
        *cell = v[ROWS];
    }
    for (int64_t i = 0; i < cells; i++)
        if (r->rows[i] < 0) r->rows[i] = 0;
    return ERR_OK;
}

int routing_load(const char *path, struct routing *out, struct err *e)
{
    static const char *const name[COLUMNS] = {
        "wave", "layer", "rank", "expert", "rows",
    };
    struct routing r = {.kind = ROUTING_HISTOGRAM};
    struct csv_table *t;
    int64_t column[COLUMNS];
    int rc = csv_load(path, 0, &t, e);

    if (rc != ERR_OK) return rc;
    for (int i = 0; i < COLUMNS && rc == ERR_OK; i++)
        rc = csv_column(t, name[i], &column[i], e);
    if (rc == ERR_OK) rc = measure(t, column, &r, e);
    if (rc == ERR_OK) rc = fill(t, column, &r, e);
    csv_table_free(t);
    if (rc == ERR_OK)
        *out = r;
    else
        routing_free(&r);
    return rc;
}

void routing_words(const struct routing *r, char out[ROUTING_WORDS])
{
    const size_t cap = ROUTING_WORDS;
    int n;

    switch (r->kind) {
    case ROUTING_BALANCED:
        snprintf(out, cap, "balanced");
        break;
    case ROUTING_CV:
        n = snprintf(out, cap, "cv %g seed %" PRIu64, r->cv, r->seed);
        if (r->drift > 0)
            n += snprintf(out + n, cap - (size_t)n, " drift %g", r->drift);
        if (r->burst > 0)
            snprintf(out + n, cap - (size_t)n, " burst %g x %g", r->burst,
                     r->factor);
        break;
    case ROUTING_SHARE:
        snprintf(out, cap, "share %g rank %" PRId64, r->share, r->share_rank);
        break;
    case ROUTING_HISTOGRAM:
        snprintf(out, cap, r->scaled ? "loads" : "histogram");
        break;
    case ROUTING_HOT:
        snprintf(out, cap, "expert %" PRId64 " x %g", r->expert, r->factor);
        break;
    case ROUTING_LIST:
        snprintf(out, cap, "by wave, %" PRId64, r->n_each);
        break;
    }
}

void routing_free(struct routing *r)
{
    for (int64_t i = 0; i < r->n_each; i++) routing_free(&r->each[i]);
    free(r->each);
    free(r->rows);
    memset(r, 0, sizeof *r);
}
