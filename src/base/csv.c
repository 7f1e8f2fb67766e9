/*
** csv.c - see csv.h.
**
** libcsv is fed line by line, so that the callbacks know where they are. Its
** traps: it accepts ragged rows (counted here), reports a stray quote only
** by parsing less than it was given, and an unterminated one only with
** CSV_STRICT_FINI.
*/
#include "base/csv.h"

#include <assert.h>
#include <csv.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "base/file.h"
#include "base/keyset.h"
#include "base/num.h"
#include "base/suggest.h"

#define DEFAULT_LIMIT ((size_t)1 << 30)

struct csv_table {
    char *origin;
    struct buf text;        /* all cells, each NUL-terminated */
    size_t *cell;           /* offset into text + 1; 0: empty cell */
    size_t n_cell, cap_cell;
    int64_t *line;          /* [rows + 1], the header's first */
    int64_t n_line, cap_line;
    int64_t columns;        /* 0 until the header has been read */
};

struct reader {
    struct csv_table *t;
    struct err *e;
    int rc;
    int64_t now;            /* line being fed, from 1 */
    int64_t inner;          /* line ends inside this row's cells */
    int64_t cells;          /* in this row so far */
};

void csv_table_free(struct csv_table *t)
{
    if (t == NULL) return;
    free(t->origin);
    free(t->cell);
    free(t->line);
    buf_free(&t->text);
    free(t);
}

/* Room for one more element in *p; false when out of memory. */
static bool room(void **p, size_t n, size_t *cap, size_t size)
{
    size_t more = *cap ? *cap * 2 : 64;
    void *q;

    if (n < *cap) return true;
    if (more > SIZE_MAX / size) return false;
    q = realloc(*p, more * size);
    if (q == NULL) return false;
    *p = q;
    *cap = more;
    return true;
}

/* libcsv's callback: cells lie in one text, and count where they begin. */
static void on_cell(void *s, size_t len, void *ctx)
{
    struct reader *r = ctx;
    struct csv_table *t = r->t;
    void *cells = t->cell;
    const char *text = s, *p;

    if (r->rc != ERR_OK) return;
    if (!room(&cells, t->n_cell, &t->cap_cell, sizeof *t->cell)) {
        r->rc = err_nomem(r->e);
        return;
    }
    t->cell = cells;
    t->cell[t->n_cell++] = text == NULL ? 0 : t->text.len + 1;
    r->cells++;
    if (text == NULL) return;
    buf_put(&t->text, text, len);
    buf_putc(&t->text, '\0');
    if (t->text.failed) r->rc = err_nomem(r->e);
    for (p = memchr(text, '\n', len); p != NULL;
         p = memchr(p + 1, '\n', len - (size_t)(p + 1 - text)))
        r->inner++;
}

/* Ends a row: as many cells as the header has, and the line it began in. */
static void on_row(int end, void *ctx)
{
    struct reader *r = ctx;
    struct csv_table *t = r->t;
    void *lines = t->line;
    size_t cap = (size_t)t->cap_line;
    int64_t line = r->now - r->inner;

    (void)end;
    if (r->rc != ERR_OK) return;
    if (!room(&lines, (size_t)t->n_line, &cap, sizeof *t->line)) {
        r->rc = err_nomem(r->e);
        return;
    }
    t->line = lines;
    t->cap_line = (int64_t)cap;
    t->line[t->n_line++] = line;
    if (t->columns == 0)
        t->columns = r->cells;
    else if (r->cells != t->columns)
        r->rc = err_set(r->e, ERR_INPUT,
                        "%s:%" PRId64 ": %" PRId64 " cells where the header "
                        "has %" PRId64, t->origin, line, r->cells, t->columns);
    r->cells = 0;
    r->inner = 0;
}

/* Feeds one line, its end included. */
static int feed(struct reader *r, struct csv_parser *p, const char *s,
                size_t len)
{
    size_t done;

    if (text_valid(s, len) < len)
        return err_set(r->e, ERR_INPUT, "%s:%" PRId64 ": not UTF-8 (save the "
                       "file as UTF-8)", r->t->origin, r->now);
    done = csv_parse(p, s, len, on_cell, on_row, r);
    if (r->rc != ERR_OK) return r->rc;
    if (done == len) return ERR_OK;
    if (csv_error(p) == CSV_EPARSE)
        return err_set(r->e, ERR_INPUT, "%s:%" PRId64 ": a quote inside a "
                       "cell (quote the whole cell and double the quote)",
                       r->t->origin, r->now);
    return err_nomem(r->e);
}

static int feed_all(struct reader *r, struct csv_parser *p, const char *text,
                    size_t len)
{
    const char *end = text + len;
    int rc = ERR_OK;

    while (rc == ERR_OK && text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop == NULL ? end : stop + 1;
        r->now++;
        rc = feed(r, p, text, (size_t)(stop - text));
        text = stop;
    }
    if (rc != ERR_OK) return rc;
    if (csv_fini(p, on_cell, on_row, r) != 0)
        return err_set(r->e, ERR_INPUT, "%s:%" PRId64 ": a quote is never "
                       "closed", r->t->origin, r->now);
    return r->rc;
}

static int check_name(const struct csv_table *t, int64_t i,
                      struct keyset *seen, struct err *e)
{
    const char *name = csv_name(t, i);

    if (name == NULL || *name == '\0')
        return err_set(e, ERR_INPUT, "%s:%" PRId64 ": column %" PRId64
                       " has no name", t->origin, t->line[0], i + 1);
    if (keyset_find(seen, name, strlen(name)) != NULL)
        return err_set(e, ERR_INPUT, "%s:%" PRId64 ": column '%s' stands "
                       "twice", t->origin, t->line[0], name);
    return keyset_add(seen, name, strlen(name), i) ? ERR_OK : err_nomem(e);
}

static int check_names(const struct csv_table *t, struct err *e)
{
    struct keyset seen = {NULL, 0, 0};
    int64_t i;
    int rc = ERR_OK;

    if (t->n_line == 0)
        return err_set(e, ERR_INPUT, "%s: empty (a header row is needed)",
                       t->origin);
    for (i = 0; i < t->columns && rc == ERR_OK; i++)
        rc = check_name(t, i, &seen, e);
    keyset_free(&seen);
    return rc;
}

/* A mark of byte order is skipped; a NUL would end texts early, so it is
** refused. */
static int parse_into(struct csv_table *t, const char *text, size_t len,
                      struct err *e)
{
    static const unsigned char options = CSV_STRICT | CSV_STRICT_FINI |
                                         CSV_EMPTY_IS_NULL;
    struct reader r = {.t = t, .e = e, .rc = ERR_OK};
    struct csv_parser p;
    size_t mark = text_mark(text, len);
    int rc;

    text += mark;
    len -= mark;
    if (len > 0 && memchr(text, '\0', len) != NULL)
        return err_set(e, ERR_INPUT, "%s: holds a NUL byte, so it is not CSV",
                       t->origin);
    if (csv_init(&p, options) != 0) return err_nomem(e);
    rc = feed_all(&r, &p, text, len);
    csv_free(&p);
    return rc != ERR_OK ? rc : check_names(t, e);
}

int csv_parse_text(const char *text, size_t len, const char *origin,
                   struct csv_table **out, struct err *e)
{
    struct csv_table *t = calloc(1, sizeof *t);
    int rc;

    if (t != NULL) t->origin = strdup(origin);
    if (t == NULL || t->origin == NULL) {
        csv_table_free(t);
        return err_nomem(e);
    }
    rc = parse_into(t, text, len, e);
    if (rc != ERR_OK) {
        csv_table_free(t);
        return rc;
    }
    *out = t;
    return ERR_OK;
}

int csv_load(const char *path, size_t limit, struct csv_table **out,
             struct err *e)
{
    struct buf text = BUF_INIT;
    int rc = file_read(path, limit ? limit : DEFAULT_LIMIT, &text, e);

    if (rc == ERR_OK)
        rc = csv_parse_text(buf_text(&text), text.len,
                            strcmp(path, "-") == 0 ? "standard input" : path,
                            out, e);
    buf_free(&text);
    return rc;
}

int64_t csv_rows(const struct csv_table *t)
{
    return t->n_line - 1;
}

int64_t csv_columns(const struct csv_table *t)
{
    return t->columns;
}

const char *csv_origin(const struct csv_table *t)
{
    return t->origin;
}

static const char *cell_at(const struct csv_table *t, int64_t i)
{
    size_t at = t->cell[i];
    return at == 0 ? NULL : t->text.data + at - 1;
}

const char *csv_name(const struct csv_table *t, int64_t column)
{
    assert(column >= 0 && column < t->columns);
    return cell_at(t, column);
}

int64_t csv_line(const struct csv_table *t, int64_t row)
{
    assert(row >= 0 && row < csv_rows(t));
    return t->line[row + 1];
}

const char *csv_cell(const struct csv_table *t, int64_t row, int64_t column)
{
    assert(row >= 0 && row < csv_rows(t));
    assert(column >= 0 && column < t->columns);
    return cell_at(t, (row + 1) * t->columns + column);
}

int64_t csv_find(const struct csv_table *t, const char *name)
{
    int64_t i;

    for (i = 0; i < t->columns; i++)
        if (strcmp(csv_name(t, i), name) == 0) return i;
    return -1;
}

/* "a,b,c", cut when long. */
static void list_names(const struct csv_table *t, char *out, size_t cap)
{
    size_t used = 0;
    int64_t i;

    out[0] = '\0';
    for (i = 0; i < t->columns && used < cap; i++) {
        int n = snprintf(out + used, cap - used, "%s%s", i ? "," : "",
                         csv_name(t, i));
        if (n < 0) break;
        used += (size_t)n;
    }
}

int csv_column(const struct csv_table *t, const char *name, int64_t *out,
               struct err *e)
{
    char names[256];
    int64_t i = csv_find(t, name);

    if (i >= 0) {
        *out = i;
        return ERR_OK;
    }
    list_names(t, names, sizeof names);
    return err_set(e, ERR_INPUT, "%s:%" PRId64 ": no column '%s' (it has %s)",
                   t->origin, t->line[0], name, names);
}

static bool is_among(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(*names, name) != 0) names++;
    return *names != NULL;
}

int csv_known(const struct csv_table *t, const char *const *names,
              struct err *e)
{
    struct buf all = BUF_INIT;
    const char *near;
    int64_t i = 0;

    while (i < t->columns && is_among(csv_name(t, i), names)) i++;
    if (i == t->columns) return ERR_OK;
    near = suggest(csv_name(t, i), names);
    if (near != NULL)
        return err_set(e, ERR_INPUT, "%s:%" PRId64 ": unknown column '%s' (did "
                       "you mean '%s'?)", t->origin, t->line[0],
                       csv_name(t, i), near);
    for (; *names != NULL; names++)
        buf_printf(&all, "%s%s", all.len > 0 ? "," : "", *names);
    err_set(e, ERR_INPUT, "%s:%" PRId64 ": unknown column '%s' (known: %s)",
            t->origin, t->line[0], csv_name(t, i), buf_text(&all));
    buf_free(&all);
    return ERR_INPUT;
}

int csv_expect_header(const struct csv_table *t, const char *const *names,
                      struct err *e)
{
    char have[256];
    int64_t i = 0;

    assert(names != NULL);
    while (names[i] != NULL && i < t->columns &&
           strcmp(names[i], csv_name(t, i)) == 0) i++;
    if (names[i] == NULL && i == t->columns) return ERR_OK;
    list_names(t, have, sizeof have);
    if (names[i] == NULL)
        return err_set(e, ERR_INPUT, "%s:%" PRId64 ": unknown column '%s'",
                       t->origin, t->line[0], csv_name(t, i));
    return err_set(e, ERR_INPUT, "%s:%" PRId64 ": column %" PRId64 " must be "
                   "'%s' (it has %s)", t->origin, t->line[0], i + 1, names[i],
                   have);
}

int csv_error_at(const struct csv_table *t, int64_t row, int64_t column,
                 struct err *e, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(e, ERR_INPUT, "%s:%" PRId64 ": %s: %s", t->origin,
                   csv_line(t, row), csv_name(t, column), text);
}

int csv_int(const struct csv_table *t, int64_t row, int64_t column, int64_t lo,
            int64_t hi, int64_t *out, struct err *e)
{
    const char *s = csv_cell(t, row, column);

    assert(lo <= hi);
    if (s == NULL)
        return csv_error_at(t, row, column, e, "empty (a whole number is "
                            "needed)");
    if (num_parse(s, lo, hi, out)) return ERR_OK;
    return csv_error_at(t, row, column, e, "'%.40s' is not a whole number "
                        "from %" PRId64 " to %" PRId64, s, lo, hi);
}

int csv_double(const struct csv_table *t, int64_t row, int64_t column,
               double *out, struct err *e)
{
    const char *s = csv_cell(t, row, column);

    if (s == NULL)
        return csv_error_at(t, row, column, e, "empty (a number is needed)");
    if (num_parse_double(s, out)) return ERR_OK;
    return csv_error_at(t, row, column, e, "'%.40s' is not a number", s);
}

static bool must_quote(const char *s)
{
    size_t n = strlen(s);

    if (n == 0 || s[0] == ' ' || s[0] == '\t') return true;
    if (text_mark(s, n) > 0) return true;
    if (s[n - 1] == ' ' || s[n - 1] == '\t') return true;
    return s[strcspn(s, ",\"\r\n")] != '\0';
}

void csv_put(struct buf *b, const char *text)
{
    if (text == NULL) return;
    if (!must_quote(text)) {
        buf_puts(b, text);
        return;
    }
    buf_putc(b, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"') buf_putc(b, '"');
        buf_putc(b, *text);
    }
    buf_putc(b, '"');
}
