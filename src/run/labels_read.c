/* labels_read.c - see labels.h: the two kinds of file */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "base/file.h"
#include "base/json.h"
#include "run/labels.h"

#define MAX_FILE ((size_t)1 << 31)

/* ---- a sequence a line --------------------------------------------------- */

/* One line at work: the packed row of each of its tokens. */
struct sequence {
    int64_t *row;
    int64_t n;
    struct js tokens, mask, weights;
    double weight;
};

/* Rows from the root to the end of a segment. */
static int sequence_rows(const struct batch *b, int64_t segment,
                         struct sequence *s, struct err *e)
{
    int64_t end = b->seg[segment].position + b->seg[segment].tokens, i;
    int64_t at = segment;

    s->n = end;
    s->row = malloc((size_t)end * sizeof *s->row);
    if (s->row == NULL) return err_nomem(e);
    for (; at >= 0; at = b->seg[at].parent)
        for (i = 0; i < b->seg[at].tokens; i++)
            s->row[b->seg[at].position + i] = b->seg[at].start + i;
    return ERR_OK;
}

/* The n-th segment that nothing follows, -1 behind the last. n only grows from
** line to line, so no segment is looked at twice. */
static int64_t leaf(struct label_list *l, int64_t n)
{
    const struct batch *b = l->w->plan->batch;
    int64_t i;

    while (l->segment < b->n_seg) {
        i = l->segment++;
        if (b->seg[i].next == i + 1 && l->leaves++ == n) return i;
    }
    return -1;
}

static int find_segment(struct label_list *l, const struct js *line,
                        int64_t number, int64_t *out, struct err *e)
{
    const struct batch *b = l->w->plan->batch;
    int rc;

    *out = -1;
    rc = js_opt_int(line, "segment", 0, b->n_seg - 1, out, e);
    if (rc != ERR_OK || *out >= 0) return rc;
    *out = leaf(l, number);
    if (*out >= 0) return ERR_OK;
    return js_error(line, e, "the batch has %" PRId64 " sequences, and this "
                    "is one more (say where it ends: segment)", number);
}

/* A line of the file: its keys, and that its tokens are its segment's. */
static int open_sequence(struct label_list *l, const struct js *line,
                         int64_t number, struct sequence *s, struct err *e)
{
    static const char *const keys[] = {"tokens", "mask", "weights", "weight",
                                       "segment", NULL};
    int64_t segment = 0;
    int rc = js_object(line, keys, e);

    if (rc == ERR_OK) rc = js_need(line, "tokens", &s->tokens, e);
    if (rc == ERR_OK) rc = js_array(&s->tokens, -1, e);
    if (rc == ERR_OK) rc = find_segment(l, line, number, &segment, e);
    if (rc == ERR_OK)
        rc = sequence_rows(l->w->plan->batch, segment, s, e);
    if (rc == ERR_OK && js_size(&s->tokens) != s->n)
        rc = js_error(&s->tokens, e, "holds %" PRId64 " tokens, the sequence "
                      "that ends with segment %" PRId64 " has %" PRId64,
                      js_size(&s->tokens), segment, s->n);
    s->mask = js_get(line, "mask");
    s->weights = js_get(line, "weights");
    s->weight = 1;
    if (rc == ERR_OK && s->mask.v != NULL) rc = js_array(&s->mask, s->n, e);
    if (rc == ERR_OK && s->weights.v != NULL)
        rc = js_array(&s->weights, s->n, e);
    return rc == ERR_OK ? js_opt_double(line, "weight", &s->weight, e) : rc;
}

/* Token t: its id, which a shared prefix may have said before. */
static int put_token(struct label_list *l, const struct sequence *s,
                     int64_t t, int32_t *out, struct err *e)
{
    struct js at = js_item(&s->tokens, t);
    int32_t *id = &l->id[s->row[t]];
    int64_t v = 0;
    int rc = js_int(&at, 0, l->w->model.vocab - 1, &v, e);

    if (rc == ERR_OK && *id >= 0 && *id != v)
        rc = js_error(&at, e, "is %" PRId64 ", but an earlier line has %d in "
                      "this row, which they share", v, (int)*id);
    *id = *out = (int32_t)v;
    return rc;
}

static int put_label(struct label_list *l, const struct sequence *s,
                     int64_t t, int32_t target, struct err *e)
{
    struct js m = s->mask.v == NULL ? s->mask : js_item(&s->mask, t);
    struct js w = s->weights.v == NULL ? s->weights
                                       : js_item(&s->weights, t);
    int64_t mask = 1;
    double weight = 1;
    int rc = ERR_OK;

    if (m.v != NULL && !json_is_boolean(m.v)) rc = js_int(&m, 0, 1, &mask, e);
    if (m.v != NULL && json_is_boolean(m.v)) mask = json_is_true(m.v);
    if (rc == ERR_OK && w.v != NULL) rc = js_double(&w, &weight, e);
    if (rc != ERR_OK || mask == 0) return rc;
    return labels_add(l, (struct label){s->row[t - 1], target,
                                        s->weight * weight}, e);
}

static int read_sequence(struct label_list *l, const struct js *line,
                         int64_t number, struct err *e)
{
    struct sequence s = {.row = NULL};
    int rc = open_sequence(l, line, number, &s, e);
    int32_t id = 0;
    int64_t t;

    for (t = 0; rc == ERR_OK && t < s.n; t++) {
        rc = put_token(l, &s, t, &id, e);
        if (rc == ERR_OK && t > 0) rc = put_label(l, &s, t, id, e);
    }
    free(s.row);
    return rc;
}

/* Line number of the file; a blank one is none of a sequence's. */
static int read_line(struct label_list *l, const char *text, size_t n,
                     int64_t line, int64_t *number, struct err *e)
{
    struct buf origin = BUF_INIT;
    json_t *root = NULL;
    struct js top;
    int rc;

    if (strspn(text, " \t\r") >= n) return ERR_OK;
    buf_printf(&origin, "%s:%" PRId64, l->path, line);
    rc = js_parse(text, n, buf_text(&origin), &root, e);
    if (rc == ERR_OK) {
        top = js_top(root, buf_text(&origin));
        rc = read_sequence(l, &top, (*number)++, e);
        json_decref(root);
    }
    buf_free(&origin);
    return rc;
}

int labels_of_lines(struct label_list *l, struct err *e)
{
    struct buf text = BUF_INIT;
    int64_t line = 0, number = 0;
    int rc = file_read(l->path, MAX_FILE, &text, e);
    size_t at = text_mark(buf_text(&text), text.len);

    while (rc == ERR_OK && at < text.len) {
        const char *from = text.data + at;
        const char *end = memchr(from, '\n', text.len - at);
        size_t n = end != NULL ? (size_t)(end - from) : text.len - at;

        rc = read_line(l, from, n, ++line, &number, e);
        at += n + 1;
    }
    buf_free(&text);
    return rc;
}

/* ---- tensors of rows ----------------------------------------------------- */

/* A tensor of n numbers; *out is malloc'ed. */
static int numbers(const struct checkpoint *c, const char *name, int64_t n,
                   double **out, struct err *e)
{
    const struct checkpoint_tensor *t = NULL;
    int rc = checkpoint_find_any(c, name, &n, 1, &t, e);

    *out = rc == ERR_OK ? malloc((size_t)(n + 1) * sizeof **out) : NULL;
    if (rc != ERR_OK) return rc;
    return *out == NULL ? err_nomem(e) : checkpoint_read(c, t, 0, n, *out, e);
}

static int bad_row(const struct label_list *l, const char *name, int64_t i,
                   double v, struct err *e)
{
    return err_set(e, ERR_INPUT, "%s: %s[%" PRId64 "]: %g is none (the "
                   "vocabulary holds %" PRId64 ", the batch %" PRId64
                   " rows)", l->path, name, i, v, l->w->model.vocab,
                   l->w->plan->tokens);
}

static bool is_index(double v, int64_t n)
{
    return v >= 0 && v < (double)n && v <= (double)(int64_t)v;
}

static int put_rows(struct label_list *l, const double *id,
                    const double *target, const double *weight, struct err *e)
{
    int64_t i, vocab = l->w->model.vocab;
    int rc = ERR_OK;

    for (i = 0; i < l->w->plan->tokens && rc == ERR_OK; i++) {
        if (!is_index(id[i], vocab)) return bad_row(l, "tokens", i, id[i], e);
        l->id[i] = (int32_t)id[i];
        if (target[i] < 0) continue;
        if (!is_index(target[i], vocab))
            return bad_row(l, "targets", i, target[i], e);
        rc = labels_add(l, (struct label){i, (int32_t)target[i], weight[i]},
                        e);
    }
    return rc;
}

static int put_more(struct label_list *l, int64_t n, double *const x[3],
                    struct err *e)
{
    int64_t i;
    int rc = ERR_OK;

    for (i = 0; i < n && rc == ERR_OK; i++) {
        if (!is_index(x[0][i], l->w->plan->tokens))
            return bad_row(l, "more_rows", i, x[0][i], e);
        if (!is_index(x[1][i], l->w->model.vocab))
            return bad_row(l, "more_targets", i, x[1][i], e);
        rc = labels_add(l, (struct label){(int64_t)x[0][i],
                                          (int32_t)x[1][i], x[2][i]}, e);
    }
    return rc;
}

int labels_of_tensors(struct label_list *l, struct err *e)
{
    static const char *const name[6] = {
        "tokens", "targets", "weights",
        "more_rows", "more_targets", "more_weights",
    };
    const struct checkpoint_tensor *t;
    struct checkpoint *c = NULL;
    double *x[6] = {NULL};
    int64_t rows = l->w->plan->tokens, more = 0;
    int rc = checkpoint_open_file(l->path, &c, e), i;

    if (rc != ERR_OK) return rc;
    t = checkpoint_get(c, name[3]);
    if (t != NULL) more = t->count;
    for (i = 0; i < (t != NULL ? 6 : 3) && rc == ERR_OK; i++)
        rc = numbers(c, name[i], i < 3 ? rows : more, &x[i], e);
    if (rc == ERR_OK) rc = put_rows(l, x[0], x[1], x[2], e);
    if (rc == ERR_OK) rc = put_more(l, more, &x[3], e);
    for (i = 0; i < 6; i++) free(x[i]);
    checkpoint_close(c);
    return rc;
}
