/* recover.c - see recover.h. */
#include "record/recover.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/num.h"
#include "record/columns.h"

/* A row of raw text, and where its cells end. */
struct raw {
    const char *s;
    size_t len;             /* its line end included */
    size_t key;             /* bytes before the third comma */
    int64_t commas;
};

/* The next complete row; false at the end or at a row cut short. */
static bool next_row(const char *s, size_t len, struct raw *r)
{
    bool quoted = false;
    size_t i;

    *r = (struct raw){.s = s};
    for (i = 0; i < len; i++) {
        if (s[i] == '"') quoted = !quoted;
        if (quoted) continue;
        if (s[i] == ',' && ++r->commas == 3) r->key = i;
        if (s[i] != '\n') continue;
        r->len = i + 1;
        return true;
    }
    return false;
}

/* Where a cell (from 0) begins in the row; *len its bytes. */
static size_t find_cell(const struct raw *r, int64_t cell, size_t *len)
{
    bool quoted = false;
    size_t i, from = 0;
    int64_t at = 0;

    for (i = 0; i + 1 < r->len; i++) {
        if (r->s[i] == '"') quoted = !quoted;
        if (r->s[i] != ',' || quoted) continue;
        if (at++ == cell) break;
        from = i + 1;
    }
    *len = i - from;
    return from;
}

/* Copies a cell of cases.csv into out, as far as it fits. Those asked for are
** numbers and words, which are never quoted, or a text's beginning. */
static void cell_of(const struct raw *r, const char *name, char *out,
                    size_t cap)
{
    size_t len, from = find_cell(r, column_find(RECORD_CASES, name), &len);

    snprintf(out, cap, "%.*s", (int)(len < cap ? len : cap - 1), r->s + from);
}

struct mark { size_t end; int64_t records, peaks; };

struct tally {
    struct keyset rows[2];      /* how many of records.csv and peaks.csv */
    struct keyset sum;          /* of all rows that a checksum is of */
};

/* The key's value, made when it is not there; NULL without memory. */
static int64_t *value_of(struct keyset *s, const struct raw *r, int64_t first)
{
    int64_t *at = keyset_find(s, r->s, r->key);

    if (at != NULL) return at;
    return keyset_add(s, r->s, r->key, first) ? keyset_find(s, r->s, r->key)
                                              : NULL;
}

/* How many complete rows each key has in one file (count may be NULL), and
** what they sum to. */
static int tally_rows(const struct buf *b, struct keyset *count,
                      struct keyset *sum, struct err *e)
{
    const char *s = buf_text(b);
    size_t len = b->len;
    struct raw r;
    bool first = true;

    for (; next_row(s, len, &r); s += r.len, len -= r.len) {
        int64_t *n, *h;
        if (first) {
            first = false;
            continue;
        }
        h = value_of(sum, &r, (int64_t)HASH_START);
        if (h == NULL) return err_nomem(e);
        *h = (int64_t)hash_bytes((uint64_t)*h, r.s, r.len);
        n = count == NULL ? NULL : value_of(count, &r, 0);
        if (n != NULL) ++*n;
        else if (count != NULL) return err_nomem(e);
    }
    return ERR_OK;
}

/* Are the rows of this case, and its own, those that it was committed with? */
static bool sums(const struct keyset *sum, const struct raw *r)
{
    const int64_t *rows = keyset_find(sum, r->s, r->key);
    uint64_t h = rows == NULL ? HASH_START : (uint64_t)*rows;
    size_t len, from;
    char want[20];

    from = find_cell(r, column_find(RECORD_CASES, "checksum"), &len);
    h = hash_bytes(h, r->s, from);
    h = hash_bytes(h, "0000000000000000", 16);
    h = hash_bytes(h, r->s + from + len, r->len - from - len);
    snprintf(want, sizeof want, "%016" PRIx64, h);
    return len == strlen(want) && memcmp(r->s + from, want, len) == 0;
}

/* Does the file hold as many rows of this case as its mark says? */
static bool holds(const struct keyset *rows, const struct raw *r,
                  const char *name)
{
    char cell[24];
    int64_t want;
    const int64_t *have = keyset_find(rows, r->s, r->key);

    cell_of(r, name, cell, sizeof cell);
    if (!num_parse(cell, 0, INT64_MAX, &want)) return false;
    return (have == NULL ? 0 : *have) == want;
}

static int64_t status_of(const struct raw *r)
{
    char cell[16];
    int s;

    cell_of(r, "status", cell, sizeof cell);
    for (s = 0; s < STATUS_COUNT; s++)
        if (strcmp(cell, record_status_name((enum record_status)s)) == 0)
            return s;
    return STATUS_ERROR;
}

/* Was it the machine that failed, and not the case? */
static bool passing(const struct raw *r)
{
    char cell[sizeof RECORD_EXIT + 1];
    const char *note = cell;

    cell_of(r, "note", cell, sizeof cell);
    if (*note == '"') note++;
    return status_of(r) == STATUS_ERROR &&
           strncmp(note, RECORD_EXIT, strlen(RECORD_EXIT)) != 0;
}

/* Commit marks up to the first that does not count. */
static int take_marks(const struct buf *cases, bool failed,
                      const struct tally *t, struct recovered *out,
                      struct err *e)
{
    const char *s = buf_text(cases);
    size_t len = cases->len;
    struct raw r;
    bool first = true;

    for (; next_row(s, len, &r); s += r.len, len -= r.len) {
        if (!first) {
            if (!holds(&t->rows[0], &r, "records") ||
                !holds(&t->rows[1], &r, "peaks") ||
                (!failed && passing(&r))) break;
            if (!sums(&t->sum, &r)) {
                out->altered = strndup(r.s, r.key);
                return out->altered != NULL ? ERR_OK : err_nomem(e);
            }
            if (!keyset_add(&out->cases, r.s, r.key, status_of(&r)))
                return err_nomem(e);
        }
        first = false;
        out->keep[RECORD_CASES] += r.len;
    }
    return ERR_OK;
}

/* The bytes up to the last row of a committed case. Cases are appended one
** after another, so what follows belongs to cases without a mark. */
static size_t keep_bytes(const struct buf *b, const struct keyset *cases)
{
    const char *s = buf_text(b);
    size_t len = b->len, keep = 0;
    struct raw r;
    bool first = true;

    for (; next_row(s, len, &r); s += r.len, len -= r.len) {
        if (!first && keyset_find(cases, r.s, r.key) == NULL) break;
        first = false;
        keep += r.len;
    }
    return keep;
}

int recover(const struct buf text[RECORD_CASE_FILES], bool failed,
            struct recovered *out, struct err *e)
{
    struct tally t = {.sum = {NULL, 0, 0}};
    int rc = ERR_OK, f;

    *out = (struct recovered){.cases = {NULL, 0, 0}};
    for (f = 0; rc == ERR_OK && f < RECORD_SUMMED; f++)
        rc = tally_rows(&text[f], f == RECORD_RECORDS ? &t.rows[0]
                        : f == RECORD_PEAKS ? &t.rows[1] : NULL, &t.sum, e);
    if (rc == ERR_OK) rc = take_marks(&text[RECORD_CASES], failed, &t, out, e);
    if (rc == ERR_OK)
        for (f = 0; f < RECORD_CASES; f++)
            out->keep[f] = keep_bytes(&text[f], &out->cases);
    keyset_free(&t.rows[0]);
    keyset_free(&t.rows[1]);
    keyset_free(&t.sum);
    if (rc != ERR_OK) recovered_free(out);
    return rc;
}

void recovered_free(struct recovered *r)
{
    keyset_free(&r->cases);
    free(r->altered);
    r->altered = NULL;
}

bool recover_key(const struct buf *rows, const char **key, size_t *len)
{
    struct raw r;

    if (!next_row(buf_text(rows), rows->len, &r)) return false;
    *key = r.s;
    *len = r.key;
    return true;
}
