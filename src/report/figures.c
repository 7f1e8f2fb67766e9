/* figures.c - see figures.h. */
#include "report/figures.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

enum { KEY, VALUE };

static int index_rows(struct figures *f, struct err *e)
{
    int64_t i;
    double x;
    int rc;

    for (i = 0; i < csv_rows(f->table); i++) {
        const char *key = csv_cell(f->table, i, KEY);
        if (key == NULL)
            return csv_error_at(f->table, i, KEY, e, "empty");
        if (keyset_find(&f->row, key, strlen(key)) != NULL)
            return csv_error_at(f->table, i, KEY, e, "'%s' stands twice",
                                key);
        rc = csv_double(f->table, i, VALUE, &x, e);
        if (rc != ERR_OK) return rc;
        if (!keyset_add(&f->row, key, strlen(key), i)) return err_nomem(e);
    }
    return ERR_OK;
}

static int load(const char *dir, const char *name, const char *const *columns,
                struct csv_table **out, struct err *e)
{
    struct buf path = BUF_INIT;
    int rc;

    buf_printf(&path, "%s/%s", dir, name);
    rc = path.failed ? err_nomem(e) : csv_load(path.data, 1 << 24, out, e);
    if (rc == ERR_OK) rc = csv_expect_header(*out, columns, e);
    buf_free(&path);
    return rc;
}

enum { KIND, OPERATOR, PER, BYTES, WHAT };

static bool is_word(const char *s, const char *a, const char *b, const char *c)
{
    return s != NULL && (strcmp(s, a) == 0 || strcmp(s, b) == 0 ||
                         strcmp(s, c) == 0);
}

static int check_inventory(const struct csv_table *t, struct err *e)
{
    int64_t i, n;
    int rc;

    for (i = 0; i < csv_rows(t); i++) {
        if (!is_word(csv_cell(t, i, KIND), "attention", "gdn", "both"))
            return csv_error_at(t, i, KIND, e, "must be attention, gdn or "
                                "both");
        if (!is_word(csv_cell(t, i, PER), "row", "pair", "pair"))
            return csv_error_at(t, i, PER, e, "must be row or pair");
        if (csv_cell(t, i, OPERATOR) == NULL)
            return csv_error_at(t, i, OPERATOR, e, "empty");
        rc = csv_int(t, i, BYTES, 0, INT64_MAX, &n, e);
        if (rc != ERR_OK) return rc;
    }
    return ERR_OK;
}

int figures_load(const char *dir, struct figures *out, struct err *e)
{
    static const char *const figures[] = {"key", "value", "unit", "source",
                                          NULL};
    static const char *const inventory[] = {"layer_kind", "operator", "per",
                                            "bytes", "what", NULL};
    int rc;

    memset(out, 0, sizeof *out);
    if (dir == NULL) return ERR_OK;
    rc = load(dir, "figures.csv", figures, &out->table, e);
    if (rc == ERR_OK) rc = index_rows(out, e);
    if (rc == ERR_OK)
        rc = load(dir, "inventory.csv", inventory, &out->inventory, e);
    if (rc == ERR_OK) rc = check_inventory(out->inventory, e);
    if (rc != ERR_OK) figures_free(out);
    return rc;
}

bool figure_keeping(const struct figures *f, const char *kind,
                    const char *op, struct keeping *out)
{
    const struct csv_table *t = f->inventory;
    int64_t i, n = t ? csv_rows(t) : 0;

    for (i = 0; i < n; i++) {
        if (!is_word(csv_cell(t, i, KIND), kind, "both", "both") ||
            strcmp(csv_cell(t, i, OPERATOR), op) != 0) continue;
        out->per_pair = strcmp(csv_cell(t, i, PER), "pair") == 0;
        out->what = csv_cell(t, i, WHAT);
        return num_parse_double(csv_cell(t, i, BYTES), &out->bytes);
    }
    return false;
}

void figures_free(struct figures *f)
{
    csv_table_free(f->table);
    csv_table_free(f->inventory);
    keyset_free(&f->row);
    memset(f, 0, sizeof *f);
}

double figure(const struct figures *f, const char *key, ...)
{
    char name[160];
    const int64_t *row;
    va_list ap;
    double x;

    va_start(ap, key);
    vsnprintf(name, sizeof name, key, ap);
    va_end(ap);
    row = keyset_find(&f->row, name, strlen(name));
    if (row == NULL) return NAN;
    return num_parse_double(csv_cell(f->table, *row, VALUE), &x) ? x
                                                             : (double)NAN;
}
