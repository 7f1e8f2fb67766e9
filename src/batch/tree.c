/* tree.c - forests of segments from CSV files; see tree.h */
#include "batch/tree.h"

#include <inttypes.h>
#include <stdlib.h>

static int read_segment(const struct csv_table *t, const int64_t *column,
                        int64_t i, struct tree *out, struct err *e)
{
    int64_t id = 0;
    int rc = csv_int(t, i, column[0], 0, INT64_MAX, &id, e);

    if (rc == ERR_OK && id != i)
        rc = csv_error_at(t, i, column[0], e, "%" PRId64 " where %" PRId64
                          " is next (segments are numbered 0, 1, 2 ...)", id,
                          i);
    if (rc == ERR_OK)
        rc = csv_int(t, i, column[1], -1, INT64_MAX, &out->parent[i], e);
    if (rc == ERR_OK)
        rc = csv_int(t, i, column[2], 1, BATCH_MAX_TOKENS, &out->tokens[i], e);
    return rc;
}

int tree_read(struct csv_table *table, struct tree *out, struct err *e)
{
    static const char *const name[] = {"segment", "parent", "tokens"};
    struct tree t = {.table = table};
    int64_t column[3], i;
    int rc = ERR_OK;

    for (i = 0; i < 3 && rc == ERR_OK; i++)
        rc = csv_column(t.table, name[i], &column[i], e);
    if (rc == ERR_OK) {
        t.n = csv_rows(t.table);
        t.parent = calloc((size_t)t.n + 1, sizeof *t.parent);
        t.tokens = calloc((size_t)t.n + 1, sizeof *t.tokens);
        if (t.parent == NULL || t.tokens == NULL) rc = err_nomem(e);
    }
    for (i = 0; i < t.n && rc == ERR_OK; i++)
        rc = read_segment(t.table, column, i, &t, e);
    if (rc != ERR_OK) {
        tree_free(&t);
        return rc;
    }
    *out = t;
    return ERR_OK;
}

int tree_load(const char *path, struct tree *out, struct err *e)
{
    struct csv_table *table;
    int rc = csv_load(path, 0, &table, e);

    return rc == ERR_OK ? tree_read(table, out, e) : rc;
}

void tree_free(struct tree *t)
{
    free(t->parent);
    free(t->tokens);
    csv_table_free(t->table);
    *t = (struct tree){0};
}

int tree_blame(const struct tree *t, int64_t bad, struct err *e)
{
    if (bad < 0) return err_wrap(e, "%s", csv_origin(t->table));
    return err_wrap(e, "%s:%" PRId64, csv_origin(t->table),
                    csv_line(t->table, bad));
}

int batch_load_tree(const char *path, struct batch *out, struct err *e)
{
    struct tree t;
    int64_t bad = -1;
    int rc = tree_load(path, &t, e);

    if (rc != ERR_OK) return rc;
    rc = tree_to_batch(t.parent, t.tokens, t.n, NULL, &bad, out, e);
    if (rc == ERR_INPUT) rc = tree_blame(&t, bad, e);
    tree_free(&t);
    return rc;
}
