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

int figures_load(const char *path, struct figures *out, struct err *e)
{
    static const char *const names[] = {"key", "value", "unit", "source",
                                        NULL};
    int rc;

    memset(out, 0, sizeof *out);
    if (path == NULL) return ERR_OK;
    rc = csv_load(path, 1 << 24, &out->table, e);
    if (rc == ERR_OK) rc = csv_expect_header(out->table, names, e);
    if (rc == ERR_OK) rc = index_rows(out, e);
    if (rc != ERR_OK) figures_free(out);
    return rc;
}

void figures_free(struct figures *f)
{
    csv_table_free(f->table);
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
