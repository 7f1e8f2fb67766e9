/* parse.c - see parse.h. */
#include "record/parse.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

/* A walk over a row's cells, left to right, that stops at the first error. */
struct cells {
    const struct csv_table *t;
    int64_t row, at;
    struct err *e;
    int rc;
};

static struct cells cells_of(const struct csv_table *t, int64_t row,
                             struct err *e)
{
    return (struct cells){t, row, 0, e, ERR_OK};
}

/* "" for an empty cell. */
static const char *text(struct cells *c)
{
    const char *s = csv_cell(c->t, c->row, c->at++);
    return s ? s : "";
}

/* A text that must be there. */
static const char *word(struct cells *c)
{
    const char *s = text(c);

    if (c->rc == ERR_OK && *s == '\0')
        c->rc = csv_error_at(c->t, c->row, c->at - 1, c->e, "empty");
    return s;
}

static int64_t whole(struct cells *c, int64_t lo)
{
    int64_t n = 0;

    if (c->rc == ERR_OK)
        c->rc = csv_int(c->t, c->row, c->at, lo, INT64_MAX, &n, c->e);
    c->at++;
    return n;
}

/* -1 for an empty cell. */
static int64_t whole_or_none(struct cells *c)
{
    if (csv_cell(c->t, c->row, c->at) != NULL) return whole(c, 0);
    c->at++;
    return -1;
}

/* One of n words; name(i) is the i-th. */
static int one_of(struct cells *c, int n, const char *(*name)(int),
                  const char *what)
{
    const char *s = text(c);
    int i;

    if (c->rc != ERR_OK) return 0;
    for (i = 0; i < n; i++)
        if (strcmp(s, name(i)) == 0) return i;
    c->rc = csv_error_at(c->t, c->row, c->at - 1, c->e, "'%.40s' is not %s",
                         s, what);
    return 0;
}

static const char *status_word(int i)
{
    return record_status_name((enum record_status)i);
}

static const char *temperature_word(int i)
{
    return i ? "cold" : "warm";
}

static int64_t rank_or_max(struct cells *c)
{
    const char *s = csv_cell(c->t, c->row, c->at);

    if (s == NULL || strcmp(s, "max") != 0) return whole(c, 0);
    c->at++;
    return RECORD_MAX;
}

static bool cold(struct cells *c)
{
    return one_of(c, 2, temperature_word, "cold or warm") == 1;
}

static const char *yes_word(int i)
{
    return i ? "yes" : "no";
}

static bool yes(struct cells *c)
{
    return one_of(c, 2, yes_word, "yes or no") == 1;
}

int parse_row(const struct csv_table *t, int64_t row, void *out,
              struct err *e)
{
    struct cells c = cells_of(t, row, e);
    struct record_row *r = out;

    c.at = 3;
    r->wave = whole(&c, 0);
    r->cold = cold(&c);
    r->rank = rank_or_max(&c);
    r->source = word(&c);
    r->term = word(&c);
    r->measured = csv_cell(t, row, c.at) != NULL;
    if (r->measured) r->bytes = whole(&c, INT64_MIN);
    else c.at++;
    r->status = (enum record_status)one_of(&c, STATUS_COUNT, status_word,
                                           "a status");
    r->note = text(&c);
    return c.rc;
}

int parse_peak(const struct csv_table *t, int64_t row, void *out,
               struct err *e)
{
    struct cells c = cells_of(t, row, e);
    struct record_peak *p = out;

    c.at = 3;
    p->wave = whole(&c, 0);
    p->cold = cold(&c);
    p->rank = whole(&c, 0);
    p->allocated = whole(&c, 0);
    p->requested = whole(&c, 0);
    p->reserved = whole(&c, 0);
    p->event = whole(&c, 0);
    p->phase = text(&c);
    p->layer = whole_or_none(&c);
    p->op = text(&c);
    p->category = text(&c);
    p->received_pairs = whole_or_none(&c);
    p->hybridep_bytes = whole_or_none(&c);
    p->retained_bytes = whole_or_none(&c);
    p->start_bytes = whole_or_none(&c);
    return c.rc;
}

int parse_item(const struct csv_table *t, int64_t row, void *out,
               struct err *e)
{
    struct cells c = cells_of(t, row, e);
    struct record_item *x = out;

    c.at = 3;
    x->rank = whole(&c, 0);
    x->layer = whole(&c, 0);
    x->kind = word(&c);
    x->category = word(&c);
    x->op = text(&c);
    x->count = whole(&c, 0);
    x->bytes = whole(&c, 0);
    x->rows = whole(&c, 0);
    c.at++;                 /* bytes_per_row follows from the two */
    x->allocated_in = word(&c);
    x->freed_in = text(&c);
    x->freed_after = text(&c);
    return c.rc;
}

int parse_time(const struct csv_table *t, int64_t row, void *out,
               struct err *e)
{
    struct cells c = cells_of(t, row, e);
    struct record_time *x = out;

    c.at = 3;
    x->wave = whole(&c, 0);
    x->cold = cold(&c);
    x->rank = rank_or_max(&c);
    x->what = word(&c);
    x->ns = whole(&c, 0);
    return c.rc;
}

int parse_loss(const struct csv_table *t, int64_t row, void *out,
               struct err *e)
{
    struct cells c = cells_of(t, row, e);
    struct record_loss *x = out;

    c.at = 3;
    x->wave = whole(&c, 0);
    x->cold = cold(&c);
    if (c.rc == ERR_OK) c.rc = csv_double(t, row, c.at, &x->loss, e);
    return c.rc;
}

/* Seeds use all 64 bits. */
static uint64_t seed(struct cells *c)
{
    const char *s = text(c);
    char *end;
    unsigned long long n;

    if (c->rc != ERR_OK) return 0;
    errno = 0;
    n = strtoull(s, &end, 10);
    if (*s < '0' || *s > '9' || *end != '\0' || errno != 0)
        c->rc = csv_error_at(c->t, c->row, c->at - 1, c->e,
                             "'%.40s' is not a whole number", s);
    return n;
}

int parse_check(const struct csv_table *t, int64_t row,
                struct record_check *out, struct err *e)
{
    struct cells c = cells_of(t, row, e);

    out->check = word(&c);
    out->cases = whole(&c, 0);
    out->seed = seed(&c);
    out->failed = whole(&c, 0);
    out->worst = whole(&c, INT64_MIN);
    out->note = text(&c);
    return c.rc;
}

static int column(const char *name)
{
    const char *const *names = record_file_columns(RECORD_CASES);
    int i;

    for (i = 0; strcmp(names[i], name) != 0; i++) continue;
    return i;
}

int parse_lists(const struct csv_table *t, int64_t **out, struct err *e)
{
    int64_t i, cp, sum = 0, n = csv_rows(t);
    int rc;

    for (i = 0; i < n; i++) {
        rc = csv_int(t, i, column("cp"), 1, PRICE_MAX_RANKS, &cp, e);
        if (rc != ERR_OK) return rc;
        sum += 2 * cp;
    }
    *out = calloc((size_t)sum + 1, sizeof **out);
    return *out == NULL ? err_nomem(e) : ERR_OK;
}

/* "52480 44314": n numbers, into *list, which moves on. */
static const int64_t *row_list(struct cells *c, int64_t n, int64_t **list)
{
    const char *s = text(c);
    int64_t *out = *list, i;
    char *end = NULL;

    if (c->rc != ERR_OK || *s == '\0') return NULL;
    for (i = 0; i < n; i++) {
        errno = 0;
        out[i] = *s >= '0' && *s <= '9' ? strtoll(s, &end, 10) : -1;
        if (out[i] < 0 || errno != 0 || (*end != ' ' && *end != '\0')) break;
        s = *end == ' ' ? end + 1 : end;
    }
    if (i < n || *s != '\0')
        c->rc = csv_error_at(c->t, c->row, c->at - 1, c->e,
                             "is not %" PRId64 " numbers of rows", n);
    *list += n;
    return out;
}

/* NaN for an empty cell. */
static double number_or_none(struct cells *c)
{
    double x = NAN;

    if (c->rc == ERR_OK && csv_cell(c->t, c->row, c->at) != NULL)
        c->rc = csv_double(c->t, c->row, c->at, &x, c->e);
    c->at++;
    return x;
}

static void parse_shape(struct cells *c, struct record_case *s)
{
    s->device = word(c);
    s->scenario = word(c);
    s->name = word(c);
    s->about = text(c);
    s->model = text(c);
    s->layers = whole(c, 0);
    s->cp = whole(c, 1);
    s->ep = whole(c, 1);
    s->tp = whole(c, 1);
    s->pp = whole(c, 1);
    s->lora_rank = whole(c, 0);
    s->dtype = text(c);
    s->weights = text(c);
    s->recompute = text(c);
    s->modules = text(c);
    s->grad = yes(c);
    s->compiled = yes(c);
    s->kind = text(c);
    s->batch = text(c);
    s->tokens = whole(c, 0);
    s->sequences = whole(c, 0);
}

int parse_case(const struct csv_table *t, int64_t row,
               struct record_found *out, int64_t **list, struct err *e)
{
    struct cells c = cells_of(t, row, e);
    struct record_case *s = &out->shape;

    parse_shape(&c, s);
    s->attention_rows = row_list(&c, s->cp, list);
    s->gdn_rows = row_list(&c, s->cp, list);
    s->routed_rows = whole_or_none(&c);
    s->top_k = whole(&c, 0);
    s->head_rows = whole(&c, 0);
    s->output_bytes = whole(&c, 0);
    s->routing = text(&c);
    s->seed = seed(&c);
    out->waves = whole(&c, 0);
    s->published_before_cold = number_or_none(&c);
    s->published_before_warm = number_or_none(&c);
    s->published_after_cold = number_or_none(&c);
    s->published_after_warm = number_or_none(&c);
    c.at += 2;              /* counts: parse_counts */
    s->status = (enum record_status)one_of(&c, STATUS_COUNT, status_word,
                                           "a status");
    s->note = text(&c);
    return c.rc;
}

int parse_counts(const struct csv_table *t, int64_t row, int64_t *records,
                 int64_t *peaks, struct err *e)
{
    struct cells c = cells_of(t, row, e);

    c.at = column("records");
    *records = whole(&c, 0);
    *peaks = whole(&c, 0);
    return c.rc;
}
