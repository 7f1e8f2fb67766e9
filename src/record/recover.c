/* recover.c - see recover.h. */
#include "record/recover.h"

#include <stdlib.h>
#include <string.h>

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

/* Copies a cell (from 0) into out, as far as it fits. Those asked for are
** numbers and words, which are never quoted, or a text's beginning. */
static void cell_of(const struct raw *r, int64_t cell, char *out, size_t cap)
{
    bool quoted = false;
    size_t i, n = 0;
    int64_t at = 0;

    for (i = 0; i + 1 < r->len; i++) {
        if (r->s[i] == '"') quoted = !quoted;
        if (r->s[i] == ',' && !quoted) at++;
        else if (at == cell && n + 1 < cap) out[n++] = r->s[i];
    }
    out[n] = '\0';
}

struct mark { size_t end; int64_t records, peaks; };

struct tally { struct keyset rows[2]; };    /* of records.csv and peaks.csv */

/* How many complete rows each key has in one file. */
static int count_rows(const struct buf *b, struct keyset *out, struct err *e)
{
    const char *s = buf_text(b);
    size_t len = b->len;
    struct raw r;
    bool first = true;

    for (; next_row(s, len, &r); s += r.len, len -= r.len) {
        int64_t *n;
        if (first) {
            first = false;
            continue;
        }
        n = keyset_find(out, r.s, r.key);
        if (n != NULL) ++*n;
        else if (!keyset_add(out, r.s, r.key, 1)) return err_nomem(e);
    }
    return ERR_OK;
}

/* Does the file hold as many rows of this case as its mark says? */
static bool holds(const struct keyset *rows, const struct raw *r,
                  const char *name)
{
    char cell[24];
    int64_t want;
    const int64_t *have = keyset_find(rows, r->s, r->key);

    cell_of(r, column_find(RECORD_CASES, name), cell, sizeof cell);
    if (!num_parse(cell, 0, INT64_MAX, &want)) return false;
    return (have == NULL ? 0 : *have) == want;
}

static int64_t status_of(const struct raw *r)
{
    char cell[16];
    int s;

    cell_of(r, column_find(RECORD_CASES, "status"), cell, sizeof cell);
    for (s = 0; s < STATUS_COUNT; s++)
        if (strcmp(cell, record_status_name((enum record_status)s)) == 0)
            return s;
    return STATUS_ERROR;
}

static bool died(const struct raw *r)
{
    char cell[sizeof RECORD_DIED + 1];
    const char *note = cell;

    cell_of(r, column_find(RECORD_CASES, "note"), cell, sizeof cell);
    if (*note == '"') note++;
    return status_of(r) == STATUS_ERROR &&
           strncmp(note, RECORD_DIED, strlen(RECORD_DIED)) == 0;
}

/* Commit marks up to the first that does not count. */
static int take_marks(const struct buf *cases, bool dead,
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
                (!dead && died(&r))) break;
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

int recover(const struct buf text[RECORD_CASE_FILES], bool dead,
            struct recovered *out, struct err *e)
{
    struct tally t = {{{NULL, 0, 0}, {NULL, 0, 0}}};
    int rc, f;

    *out = (struct recovered){.cases = {NULL, 0, 0}};
    rc = count_rows(&text[RECORD_RECORDS], &t.rows[0], e);
    if (rc == ERR_OK) rc = count_rows(&text[RECORD_PEAKS], &t.rows[1], e);
    if (rc == ERR_OK) rc = take_marks(&text[RECORD_CASES], dead, &t, out, e);
    if (rc == ERR_OK)
        for (f = 0; f < RECORD_CASES; f++)
            out->keep[f] = keep_bytes(&text[f], &out->cases);
    keyset_free(&t.rows[0]);
    keyset_free(&t.rows[1]);
    if (rc != ERR_OK) recovered_free(out);
    return rc;
}

void recovered_free(struct recovered *r)
{
    keyset_free(&r->cases);
}

bool recover_key(const struct buf *rows, const char **key, size_t *len)
{
    struct raw r;

    if (!next_row(buf_text(rows), rows->len, &r)) return false;
    *key = r.s;
    *len = r.key;
    return true;
}
