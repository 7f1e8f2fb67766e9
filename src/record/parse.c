/* parse.c - see columns.h: cells to rows. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "record/columns.h"

/* A walk over a row's cells, left to right, that stops at the first error. */
struct cells {
    const struct csv_table *t;
    int64_t row, at;
    int64_t **lists;            /* where the next list of rows goes */
    struct err *e;
    int rc;
};

/* "" for an empty cell. */
static const char *text(struct cells *c)
{
    const char *s = csv_cell(c->t, c->row, c->at);
    return s ? s : "";
}

static bool is_empty(const struct cells *c)
{
    return csv_cell(c->t, c->row, c->at) == NULL;
}

/* A text that must be there. */
static const char *word(struct cells *c)
{
    const char *s = text(c);

    if (*s == '\0')
        c->rc = csv_error_at(c->t, c->row, c->at, c->e, "empty");
    return s;
}

/* Sums over ranks, layers and categories must fit. */
#define MOST (INT64_MAX / 512)

static int64_t whole(struct cells *c, int64_t lo)
{
    int64_t n = 0;

    c->rc = csv_int(c->t, c->row, c->at, lo, MOST, &n, c->e);
    return n;
}

/* One of n words; name(i) is the i-th. */
static int one_of(struct cells *c, int n, const char *(*name)(int),
                  const char *what)
{
    const char *s = text(c);
    int i;

    for (i = 0; i < n; i++)
        if (strcmp(s, name(i)) == 0) return i;
    c->rc = csv_error_at(c->t, c->row, c->at, c->e, "'%.40s' is not %s", s,
                         what);
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

static const char *yes_word(int i)
{
    return i ? "yes" : "no";
}

/* Seeds use all 64 bits. */
static uint64_t seed(struct cells *c)
{
    const char *s = text(c);
    char *end;
    unsigned long long n;

    errno = 0;
    n = strtoull(s, &end, 10);
    if (*s < '0' || *s > '9' || *end != '\0' || errno != 0)
        c->rc = csv_error_at(c->t, c->row, c->at, c->e,
                             "'%.40s' is not a whole number", s);
    return n;
}

/* "52480 44314": n numbers, to where lists of rows go. NULL where there are
** none. */
static const int64_t *row_list(struct cells *c, int64_t n)
{
    const char *s = text(c);
    int64_t *out = *c->lists, i;
    char *end = NULL;

    if (*s == '\0') return NULL;
    for (i = 0; i < n; i++) {
        errno = 0;
        out[i] = *s >= '0' && *s <= '9' ? strtoll(s, &end, 10) : -1;
        if (out[i] < 0 || errno != 0 || (*end != ' ' && *end != '\0')) break;
        s = *end == ' ' ? end + 1 : end;
    }
    if (i < n || *s != '\0')
        c->rc = csv_error_at(c->t, c->row, c->at, c->e,
                             "is not %" PRId64 " numbers of rows", n);
    *c->lists += n;
    return out;
}

/* NaN where the cell may be empty and is. */
static double real(struct cells *c, bool must)
{
    double x = NAN;

    if (must || !is_empty(c))
        c->rc = csv_double(c->t, c->row, c->at, &x, c->e);
    return x;
}

static uint64_t sum(struct cells *c)
{
    const char *s = text(c);

    if (c->rc == ERR_OK &&
        (strlen(s) != 16 || strspn(s, "0123456789abcdef") != 16))
        c->rc = csv_error_at(c->t, c->row, c->at, c->e,
                             "'%.40s' is not 16 hexadecimal digits", s);
    return strtoull(s, NULL, 16);
}

/* Sets the member at p; row is the struct it is of. Cells of kinds that look
** at other members come after those. */
static void take(struct cells *c, enum cell cell, void *p, void *row)
{
    switch (cell) {
    case CELL_TEXT: *(const char **)p = text(c); break;
    case CELL_WORD: *(const char **)p = word(c); break;
    case CELL_WHOLE: *(int64_t *)p = whole(c, 0); break;
    case CELL_COUNT: *(int64_t *)p = whole(c, 1); break;
    case CELL_KNOWN: *(int64_t *)p = is_empty(c) ? -1 : whole(c, 0); break;
    case CELL_ANY: *(int64_t *)p = whole(c, -MOST); break;
    case CELL_RANK:
        *(int64_t *)p = strcmp(text(c), "max") == 0 ? RECORD_MAX : whole(c, 0);
        break;
    case CELL_HEAT:
        *(bool *)p = one_of(c, 2, temperature_word, "cold or warm") == 1;
        break;
    case CELL_YES: *(bool *)p = one_of(c, 2, yes_word, "yes or no") == 1; break;
    case CELL_STATUS:
        *(enum record_status *)p = (enum record_status)one_of(
            c, STATUS_COUNT, status_word, "a status");
        break;
    case CELL_BYTES:
        ((struct record_row *)row)->measured = !is_empty(c);
        if (!is_empty(c)) *(int64_t *)p = whole(c, -MOST);
        break;
    case CELL_SEED: *(uint64_t *)p = seed(c); break;
    case CELL_SUM: *(uint64_t *)p = sum(c); break;
    case CELL_REAL: *(double *)p = real(c, true); break;
    case CELL_REAL_OR_NONE: *(double *)p = real(c, false); break;
    case CELL_ROWS:
        *(const int64_t **)p = row_list(c,
                                        ((struct record_found *)row)->shape.cp);
        break;
    case CELL_RATIO: break;     /* follows from the two */
    }
}

int column_parse(const struct csv_table *t, int64_t i, enum record_file f,
                 void *row, int64_t **lists, struct err *e)
{
    struct cells c = {t, i, 0, lists, e, ERR_OK};
    bool keyed;
    size_t n, k;
    const struct column *column = columns_of(f, &n, &keyed);

    c.at = keyed ? 3 : 0;
    for (k = 0; k < n && c.rc == ERR_OK; k++, c.at++)
        take(&c, column[k].cell, (char *)row + column[k].at, row);
    return c.rc;
}
