/* read.c - see read.h. Cells to rows is columns.h. */
#include "record/read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/keyset.h"
#include "base/num.h"
#include "record/columns.h"

/* A row that a run is just writing. */
static void cut_row(struct buf *text)
{
    while (text->len > 0 && text->data[text->len - 1] != '\n') text->len--;
}

/* A file's text; of a run that is starting, where it may be missing or hold a
** part of its header, the header; of one that goes on, whole rows. */
static int load_text(const struct record_set *s, enum record_file f,
                     const char *path, struct buf *text, struct err *e)
{
    struct buf header = BUF_INIT;
    int rc = ERR_OK;

    record_put_header(&header, f);
    if (s->finished || access(path, F_OK) == 0)
        rc = file_read(path, (size_t)1 << 30, text, e);
    if (rc == ERR_OK && header.failed) rc = err_nomem(e);
    if (rc == ERR_OK && !s->finished && text->len < header.len &&
        memcmp(buf_text(text), header.data, text->len) == 0)
        buf_puts(text, header.data + text->len);
    if (rc == ERR_OK && !s->finished && text->len > header.len) cut_row(text);
    if (rc == ERR_OK && text->failed) rc = err_nomem(e);
    buf_free(&header);
    return rc;
}

static int load_table(struct record_set *s, enum record_file f,
                      struct err *e)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    int rc;

    buf_printf(&path, "%s/%s", s->dir, record_file_name(f));
    rc = path.failed ? err_nomem(e) : load_text(s, f, path.data, &text, e);
    if (rc == ERR_OK)
        rc = csv_parse_text(buf_text(&text), text.len, path.data,
                            &s->table[f], e);
    if (rc == ERR_OK)
        rc = csv_expect_header(s->table[f], record_file_columns(f), e);
    buf_free(&path);
    buf_free(&text);
    return rc;
}

/* Whether a file of the folder exists, and holds more than size bytes. */
static bool has_file(const char *dir, const char *name, off_t size)
{
    struct buf path = BUF_INIT;
    struct stat st;
    bool there;

    buf_printf(&path, "%s/%s", dir, name);
    there = !path.failed && stat(path.data, &st) == 0 && st.st_size > size;
    buf_free(&path);
    return there;
}

/* Without a run.json a folder is a finished run's that lost it, or one where
** a run is just starting, which has no mark yet. */
static int read_finished(struct record_set *s, struct err *e)
{
    struct buf path = BUF_INIT, header = BUF_INIT;
    int rc = ERR_OK;

    buf_printf(&path, "%s/run.json", s->dir);
    record_put_header(&header, RECORD_CASES);
    if (path.failed || header.failed) {
        rc = err_nomem(e);
    } else if (access(path.data, F_OK) == 0) {
        rc = js_load(path.data, 0, &s->run, e);
    } else {
        s->finished = has_file(s->dir, "cases.csv", (off_t)header.len);
        if (!s->finished && !has_file(s->dir, "records.csv", -1))
            rc = err_set(e, ERR_INPUT, "%s: no run there (peakproof run --out "
                         "%s writes one)", s->dir, s->dir);
    }
    if (rc == ERR_OK && s->run != NULL) {
        struct js top = js_top(s->run, path.data);
        rc = js_need_bool(&top, "finished", &s->finished, e);
    }
    buf_free(&path);
    buf_free(&header);
    return rc;
}

/* Whether a run writes into the folder now: it holds its first file's lock. */
static bool is_written(const char *dir)
{
    struct buf path = BUF_INIT;
    bool held = false;
    int fd = -1;

    buf_printf(&path, "%s/%s", dir, record_file_name((enum record_file)0));
    if (!path.failed) fd = open(path.data, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        close(fd);
    }
    buf_free(&path);
    return held;
}

static bool put_key(struct buf *b, const struct csv_table *t, int64_t row)
{
    int64_t i;

    b->len = 0;
    for (i = 0; i < 3; i++) {   /* device, scenario, case */
        const char *cell = csv_cell(t, row, i);
        buf_puts(b, cell ? cell : "");
        buf_putc(b, '\n');
    }
    return !b->failed;
}

/* Room for the row lists of all cases: two of each, a number a rank. */
static int take_lists(const struct csv_table *t, int64_t **out, struct err *e)
{
    int64_t at = column_find(RECORD_CASES, "cp"), n = csv_rows(t), i, cp;
    int64_t sum = 0;

    for (i = 0; i < n; i++) {
        int rc = csv_int(t, i, at, 1, PRICE_MAX_RANKS, &cp, e);
        if (rc != ERR_OK) return rc;
        sum += 2 * cp;
    }
    *out = calloc((size_t)sum + 1, sizeof **out);
    return *out == NULL ? err_nomem(e) : ERR_OK;
}

/* Reads cases.csv; ids gets each case's key and number. Of a case that stands
** twice nobody could say whose the rows are. */
static int read_cases(struct record_set *s, struct keyset *ids, struct err *e)
{
    const struct csv_table *t = s->table[RECORD_CASES];
    struct buf key = BUF_INIT;
    int64_t i, n = csv_rows(t), *free_list;
    int rc = ERR_OK;

    s->kase = calloc((size_t)n + 1, sizeof *s->kase);
    rc = take_lists(t, &s->lists, e);
    if (rc == ERR_OK && s->kase == NULL) rc = err_nomem(e);
    free_list = s->lists;
    for (i = 0; rc == ERR_OK && i < n; i++) {
        if (!put_key(&key, t, i))
            rc = err_nomem(e);
        else if (keyset_find(ids, key.data, key.len) != NULL)
            rc = csv_error_at(t, i, 2, e, "this case stands twice");
        else if (!keyset_add(ids, key.data, key.len, i))
            rc = err_nomem(e);
        else
            rc = column_parse(t, i, RECORD_CASES, &s->kase[i], &free_list,
                              e);
        if (rc == ERR_OK) s->n_case++;
    }
    buf_free(&key);
    return rc;
}

/* Which case each row of a table belongs to (-1: none that is committed),
** and first[c]: where case c's rows start when they are grouped. */
static int group(struct record_set *s, const struct csv_table *t,
                 const struct keyset *ids, int64_t *owner, int64_t *first,
                 struct err *e)
{
    struct buf key = BUF_INIT;
    int64_t i, c, n = csv_rows(t), sum = 0, *at;

    for (i = 0; i < n; i++) {
        if (!put_key(&key, t, i)) {
            buf_free(&key);
            return err_nomem(e);
        }
        at = keyset_find(ids, key.data, key.len);
        owner[i] = at ? *at : -1;
        if (at) first[*at]++;
        else s->uncommitted++;
    }
    for (c = 0; c <= s->n_case; c++) {
        int64_t count = first[c];
        first[c] = sum;
        sum += count;
    }
    buf_free(&key);
    return ERR_OK;
}

/* One table of many rows, and where a case says which are its own. */
struct kind {
    enum record_file file;
    size_t size;
    size_t storage;             /* offset of the pointer in the set */
    size_t list, count;         /* offsets in struct record_found */
};

#define KIND(f, type, store, l, n) \
    {f, sizeof(type), offsetof(struct record_set, store), \
     offsetof(struct record_found, l), offsetof(struct record_found, n)}

static const struct kind kinds[] = {
    KIND(RECORD_RECORDS, struct record_row, row, row, n_row),
    KIND(RECORD_PEAKS, struct record_peak, peak, peak, n_peak),
    KIND(RECORD_INVENTORY, struct record_item, item, item,
         n_item),
    KIND(RECORD_TIMINGS, struct record_time, time, time, n_time),
    KIND(RECORD_LOSSES, struct record_loss, loss, loss, n_loss),
};

/* Rows of one case may lie apart in the file; here they come together. */
static int place_rows(struct record_set *s, const struct kind *k,
                      const int64_t *owner, int64_t *next, char *base,
                      struct err *e)
{
    const struct csv_table *t = s->table[k->file];
    int64_t i, c, n = csv_rows(t);
    int rc;

    for (c = 0; c < s->n_case; c++) {
        char *found = (char *)&s->kase[c];
        const void *list = base + (size_t)next[c] * k->size;
        int64_t count = next[c + 1] - next[c];
        memcpy(found + k->list, &list, sizeof list);
        memcpy(found + k->count, &count, sizeof count);
    }
    for (i = 0; i < n; i++) {
        if (owner[i] < 0) continue;
        rc = column_parse(t, i, k->file,
                          base + (size_t)next[owner[i]]++ * k->size, NULL, e);
        if (rc != ERR_OK) return rc;
    }
    return ERR_OK;
}

static int read_kind(struct record_set *s, const struct kind *k,
                     const struct keyset *ids, struct err *e)
{
    const struct csv_table *t = s->table[k->file];
    size_t n = (size_t)csv_rows(t);
    int64_t *owner = malloc((n + 1) * sizeof *owner);
    int64_t *first = calloc((size_t)s->n_case + 1, sizeof *first);
    char *base = calloc(n + 1, k->size);
    int rc;

    memcpy((char *)s + k->storage, &base, sizeof base);
    rc = owner && first && base ? group(s, t, ids, owner, first, e)
                                : err_nomem(e);
    if (rc == ERR_OK) rc = place_rows(s, k, owner, first, base, e);
    free(owner);
    free(first);
    return rc;
}

/* ---- rows by wave ------------------------------------------------------- */

_Static_assert(offsetof(struct record_row, wave) == 0 &&
               offsetof(struct record_peak, wave) == 0,
               "wave_of looks for it at the beginning");

static int64_t wave_of(const void *base, size_t size, int64_t i)
{
    return *(const int64_t *)(const void *)((const char *)base
                                            + (size_t)i * size);
}

struct place { int64_t wave, at; };

static int by_wave(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->wave != y->wave) return x->wave < y->wave ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Puts n rows in the order of their waves, those of one as they stand. They
** are so already, but in a file that people have sorted. */
static int order(void *base, size_t size, int64_t n, struct err *e)
{
    struct place *p;
    char *copy;
    int64_t i = 1;

    while (i < n && wave_of(base, size, i - 1) <= wave_of(base, size, i)) i++;
    if (i >= n) return ERR_OK;
    p = malloc((size_t)n * sizeof *p);
    copy = malloc((size_t)n * size);
    for (i = 0; p != NULL && copy != NULL && i < n; i++)
        p[i] = (struct place){wave_of(base, size, i), i};
    if (i == n) {
        qsort(p, (size_t)n, sizeof *p, by_wave);
        memcpy(copy, base, (size_t)n * size);
        for (i = 0; i < n; i++)
            memcpy((char *)base + (size_t)i * size,
                   copy + (size_t)p[i].at * size, size);
    }
    free(copy);
    free(p);
    return i == n ? ERR_OK : err_nomem(e);
}

static int order_waves(struct record_set *s, struct err *e)
{
    int64_t c;
    int rc = ERR_OK;

    for (c = 0; rc == ERR_OK && c < s->n_case; c++) {
        const struct record_found *k = &s->kase[c];
        rc = order(s->row + (k->row - s->row), sizeof *s->row, k->n_row, e);
        if (rc == ERR_OK)
            rc = order(s->peak + (k->peak - s->peak), sizeof *s->peak,
                       k->n_peak, e);
    }
    return rc;
}

static int read_checks(struct record_set *s, struct err *e)
{
    const struct csv_table *t = s->table[RECORD_CHECKS];
    int64_t i, n = csv_rows(t);
    int rc = ERR_OK;

    s->check = calloc((size_t)n + 1, sizeof *s->check);
    if (s->check == NULL) return err_nomem(e);
    for (i = 0; rc == ERR_OK && i < n; i++, s->n_check++)
        rc = column_parse(t, i, RECORD_CHECKS, &s->check[i], NULL, e);
    return rc;
}

/* Of a run that is over every case is marked: rows of another one are what is
** left where cases.csv was cut. */
static int check_marks(const struct record_set *s, struct err *e)
{
    if (s->run == NULL || !s->finished || s->uncommitted == 0) return ERR_OK;
    return err_set(e, ERR_INPUT, "%s: %" PRId64 " rows of the files beside it "
                   "are of no case that stands there (cut short? run again)",
                   csv_origin(s->table[RECORD_CASES]), s->uncommitted);
}

/* The marks say how many rows there must be. */
static int check_counts(const struct record_set *s, struct err *e)
{
    const struct csv_table *t = s->table[RECORD_CASES];
    int64_t c;

    for (c = 0; c < s->n_case; c++) {
        const struct record_found *k = &s->kase[c];
        if (k->n_row == k->records && k->n_peak == k->peaks) continue;
        return err_set(e, ERR_INPUT, "%s:%" PRId64 ": case %s has %" PRId64
                       " rows in records.csv and %" PRId64 " in peaks.csv, "
                       "not %" PRId64 " and %" PRId64 " (cut short? run "
                       "again)", csv_origin(t), csv_line(t, c), k->shape.name,
                       k->n_row, k->n_peak, k->records, k->peaks);
    }
    return ERR_OK;
}

/* replaced: a run is at it, whatever run.json still says. */
static int read_all(struct record_set *s, bool replaced, struct err *e)
{
    struct keyset ids = {NULL, 0, 0};
    size_t k;
    int rc, f;

    rc = read_finished(s, e);
    if (replaced) s->finished = false;
    /* marks before rows: what is committed meanwhile is not yet seen */
    if (rc == ERR_OK) rc = load_table(s, RECORD_CASES, e);
    for (f = 0; rc == ERR_OK && f < RECORD_FILES; f++)
        if (f != RECORD_CASES) rc = load_table(s, (enum record_file)f, e);
    if (rc == ERR_OK) rc = read_cases(s, &ids, e);
    for (k = 0; rc == ERR_OK && k < sizeof kinds / sizeof *kinds; k++)
        rc = read_kind(s, &kinds[k], &ids, e);
    if (rc == ERR_OK) rc = order_waves(s, e);
    if (rc == ERR_OK) rc = check_counts(s, e);
    if (rc == ERR_OK) rc = check_marks(s, e);
    if (rc == ERR_OK) rc = read_checks(s, e);
    keyset_free(&ids);
    return rc;
}

static int read_once(const char *dir, bool replaced, struct record_set **out,
                     struct err *e)
{
    struct record_set *s = calloc(1, sizeof *s);

    *out = s;
    if (s == NULL) return err_nomem(e);
    s->dir = strdup(dir);
    return s->dir == NULL ? err_nomem(e) : read_all(s, replaced, e);
}

/* A finished run that does not read well may be one that a new run is just
** replacing: its marks go first, so a second look sees none of the old. */
int record_read(const char *dir, struct record_set **out, struct err *e)
{
    struct record_set *s = NULL;
    int rc = read_once(dir, false, &s, e);

    if (rc == ERR_INPUT && s->finished && is_written(dir)) {
        record_set_free(s);
        rc = read_once(dir, true, &s, e);
    }
    if (rc != ERR_OK) {
        record_set_free(s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

void record_set_free(struct record_set *s)
{
    int f;

    if (s == NULL) return;
    for (f = 0; f < RECORD_FILES; f++) csv_table_free(s->table[f]);
    json_decref(s->run);
    free(s->dir);
    free(s->kase);
    free(s->check);
    free(s->row);
    free(s->peak);
    free(s->item);
    free(s->time);
    free(s->loss);
    free(s->lists);
    free(s);
}

/* The first of n whose wave is no less. */
static int64_t first_of(const void *base, size_t size, int64_t n, int64_t wave)
{
    int64_t low = 0, high = n;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (wave_of(base, size, mid) < wave) low = mid + 1;
        else high = mid;
    }
    return low;
}

int64_t record_rows_of(const struct record_found *c, int64_t wave,
                       int64_t *first)
{
    *first = first_of(c->row, sizeof *c->row, c->n_row, wave);
    return first_of(c->row, sizeof *c->row, c->n_row, num_sadd(wave, 1));
}

int64_t record_peaks_of(const struct record_found *c, int64_t wave,
                        int64_t *first)
{
    *first = first_of(c->peak, sizeof *c->peak, c->n_peak, wave);
    return first_of(c->peak, sizeof *c->peak, c->n_peak, num_sadd(wave, 1));
}

const struct record_row *record_get(const struct record_found *c,
                                    int64_t wave, int64_t rank,
                                    const char *source, const char *term)
{
    int64_t i = first_of(c->row, sizeof *c->row, c->n_row, wave);

    for (; i < c->n_row && c->row[i].wave == wave; i++) {
        const struct record_row *r = &c->row[i];
        if (r->rank == rank && strcmp(r->source, source) == 0 &&
            strcmp(r->term, term) == 0) return r;
    }
    return NULL;
}

bool record_bytes(const struct record_found *c, int64_t wave, int64_t rank,
                  const char *source, const char *term, int64_t *out)
{
    const struct record_row *r = record_get(c, wave, rank, source, term);

    if (r == NULL || !r->measured) return false;
    *out = r->bytes;
    return true;
}

const struct record_peak *record_peak_of(const struct record_found *c,
                                         int64_t wave, int64_t rank)
{
    int64_t i, end = record_peaks_of(c, wave, &i);

    for (; i < end; i++)
        if (c->peak[i].rank == rank) return &c->peak[i];
    return NULL;
}

int64_t record_taken(const struct record_peak *p)
{
    return p->reserved + num_max(p->beside.hybridep_bytes, 0);
}

const struct record_peak *record_peak_max(const struct record_found *c,
                                          int64_t wave)
{
    const struct record_peak *best = NULL;
    int64_t i, end = record_peaks_of(c, wave, &i);

    for (; i < end; i++)
        if (best == NULL || c->peak[i].allocated > best->allocated)
            best = &c->peak[i];
    return best;
}
