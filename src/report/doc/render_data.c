/* render_data.c - CSV and JSON: figures for programs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/json.h"
#include "report/doc/render.h"

/* Programs get bytes where people get GB: the column's name says so. */
static void put_name(const struct table *t, int64_t column, struct buf *out)
{
    const char *name = t->column[column].name;
    size_t n = strlen(name);
    int64_t i;

    out->len = 0;
    for (i = column; i < t->n_cell; i += t->n_column)
        if (t->cell[i].kind == CELL_GB || t->cell[i].kind == CELL_DIFF_GB)
            break;
    if (i < t->n_cell && n > 4 && strcmp(name + n - 4, ", GB") == 0)
        buf_printf(out, "%.*s, bytes", (int)n - 4, name);
    else
        buf_puts(out, name);
}

static void put_csv_cell(const struct cell *c, struct buf *out)
{
    switch (c->kind) {
    case CELL_NONE: break;
    case CELL_TEXT:
    case CELL_CODE:
    case CELL_LINK: csv_put(out, c->text); break;
    case CELL_COUNT:
    case CELL_BYTES:
    case CELL_DIFF:
    case CELL_GB:
    case CELL_DIFF_GB: buf_printf(out, "%" PRId64, c->n); break;
    case CELL_PERCENT:
    case CELL_NUMBER: buf_printf(out, "%.10g", c->x); break;
    }
}

/* The names as programs read them, [n_column]; NULL without memory. */
static struct buf *names_of(const struct table *t)
{
    struct buf *name = calloc((size_t)t->n_column + 1, sizeof *name);
    int64_t i;

    for (i = 0; name != NULL && i < t->n_column; i++)
        put_name(t, i, &name[i]);
    return name;
}

static void names_free(const struct table *t, struct buf *name)
{
    int64_t i;

    for (i = 0; name != NULL && i < t->n_column; i++) buf_free(&name[i]);
    free(name);
}

static void put_csv_table(const struct table *t, struct buf *out)
{
    struct buf *name = names_of(t);
    int64_t i;

    if (name == NULL) out->failed = true;
    for (i = 0; name != NULL && i < t->n_cell; i++) {
        csv_put(out, t->id);
        buf_printf(out, ",%" PRId64 ",", i / t->n_column + 1);
        csv_put(out, buf_text(&name[i % t->n_column]));
        buf_putc(out, ',');
        put_csv_cell(&t->cell[i], out);
        buf_putc(out, '\n');
    }
    names_free(t, name);
}

void render_csv(const struct doc *d, struct buf *out)
{
    int64_t i;

    buf_puts(out, "table,row,column,value\n");
    for (i = 0; i < d->n_block; i++)
        if (d->block[i].kind == BLOCK_TABLE)
            put_csv_table(d->block[i].table, out);
}

static json_t *cell_json(const struct cell *c)
{
    switch (c->kind) {
    case CELL_NONE: return json_null();
    case CELL_TEXT:
    case CELL_CODE:
    case CELL_LINK: return js_text(c->text ? c->text : "");
    case CELL_COUNT:
    case CELL_BYTES:
    case CELL_DIFF:
    case CELL_GB:
    case CELL_DIFF_GB: return json_integer(c->n);
    case CELL_PERCENT:
    case CELL_NUMBER: return json_real(c->x);
    }
    return NULL;
}

/* Rows are lists, since two columns may have one name. */
static json_t *table_json(const struct table *t)
{
    json_t *o = json_object(), *columns = json_array(), *rows = json_array();
    json_t *row = NULL;
    struct buf *name = names_of(t);
    int64_t i;
    int bad = name == NULL;

    for (i = 0; name != NULL && i < t->n_column; i++)
        bad |= json_array_append_new(columns, js_text(buf_text(&name[i])));
    names_free(t, name);
    for (i = 0; i < t->n_cell; i++) {
        if (i % t->n_column == 0) {
            row = json_array();
            bad |= json_array_append_new(rows, row);
        }
        bad |= json_array_append_new(row, cell_json(&t->cell[i]));
    }
    bad |= json_object_set_new(o, "id", js_text(t->id));
    bad |= json_object_set_new(o, "columns", columns);
    bad |= json_object_set_new(o, "rows", rows);
    if (!bad) return o;
    json_decref(o);
    return NULL;
}

/* A section starts at every heading. */
static json_t *new_section(json_t *sections, const struct block *b)
{
    json_t *o = json_object();
    int bad = 0;

    bad |= json_object_set_new(o, "id", js_text(b->id ? b->id : ""));
    bad |= json_object_set_new(o, "title", js_text(b->text ? b->text
                                                               : ""));
    bad |= json_object_set_new(o, "text", json_array());
    bad |= json_object_set_new(o, "commands", json_array());
    bad |= json_object_set_new(o, "tables", json_array());
    bad |= json_object_set_new(o, "plots", json_array());
    bad |= json_array_append_new(sections, o);
    return bad ? NULL : o;
}

/* Contents and headings are structure here, not text. */
static int add_block(json_t *section, const struct block *b)
{
    const char *text = b->text ? b->text : "";

    switch (b->kind) {
    case BLOCK_HEADING:
    case BLOCK_CONTENTS: return 0;
    case BLOCK_PARA:
    case BLOCK_ITEM:
        return json_array_append_new(json_object_get(section, "text"),
                                     js_text(text));
    case BLOCK_CODE:
        return json_array_append_new(json_object_get(section, "commands"),
                                     js_text(text));
    case BLOCK_TABLE:
        return json_array_append_new(json_object_get(section, "tables"),
                                     table_json(b->table));
    case BLOCK_PLOT:
        return json_array_append_new(json_object_get(section, "plots"),
                                     js_text(b->id ? b->id : ""));
    }
    return -1;
}

json_t *render_json(const struct doc *d)
{
    json_t *o = json_object(), *sections = json_array(), *section = NULL;
    int64_t i;
    int bad = 0;

    for (i = 0; i < d->n_block; i++) {
        if (d->block[i].kind == BLOCK_HEADING)
            section = new_section(sections, &d->block[i]);
        bad |= section == NULL ? -1 : add_block(section, &d->block[i]);
    }
    bad |= json_object_set_new(o, "format", json_integer(1));
    bad |= json_object_set_new(o, "sections", sections);
    if (!bad) return o;
    json_decref(o);
    return NULL;
}
