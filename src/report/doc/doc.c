/* doc.c - see doc.h. */
#include "report/doc/doc.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *copy(struct doc *d, const char *s, size_t n)
{
    char *p = malloc(n + 1);

    if (p == NULL) {
        d->failed = true;
        return NULL;
    }
    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

/* The text of a format, owned; NULL without memory. */
static char *print(struct doc *d, const char *fmt, va_list ap)
{
    char small[512], *p;
    va_list again;
    int n;

    va_copy(again, ap);
    n = vsnprintf(small, sizeof small, fmt, ap);
    if (n >= 0 && (size_t)n < sizeof small) {
        va_end(again);
        return copy(d, small, (size_t)n);
    }
    p = n < 0 ? NULL : malloc((size_t)n + 1);
    if (p == NULL) d->failed = true;
    else vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

static void free_table(struct table *t)
{
    int64_t i;

    if (t == NULL) return;
    for (i = 0; i < t->n_column; i++) free(t->column[i].name);
    for (i = 0; i < t->n_cell; i++) free(t->cell[i].text);
    free(t->column);
    free(t->cell);
    free(t->id);
    free(t);
}

void doc_free(struct doc *d)
{
    int64_t i;

    for (i = 0; i < d->n_block; i++) {
        free(d->block[i].id);
        free(d->block[i].text);
        free_table(d->block[i].table);
    }
    free(d->block);
    memset(d, 0, sizeof *d);
}

/* A new block, NULL without memory. */
static struct block *add(struct doc *d, enum block_kind kind)
{
    assert(d->lacks == 0 || d->failed);
    if (d->n_block == d->cap) {
        int64_t cap = d->cap ? d->cap * 2 : 64;
        struct block *p = realloc(d->block, (size_t)cap * sizeof *p);
        if (p == NULL) {
            d->failed = true;
            return NULL;
        }
        d->block = p;
        d->cap = cap;
    }
    d->block[d->n_block] = (struct block){.kind = kind};
    return &d->block[d->n_block++];
}

void doc_heading(struct doc *d, int level, const char *id, const char *text)
{
    struct block *b = add(d, BLOCK_HEADING);

    assert(level >= 1 && level <= 3);
    if (b == NULL) return;
    b->level = level;
    b->id = copy(d, id, strlen(id));
    b->text = copy(d, text, strlen(text));
}

static void add_text(struct doc *d, enum block_kind kind, const char *fmt,
                     va_list ap)
{
    struct block *b = add(d, kind);

    if (b != NULL) b->text = print(d, fmt, ap);
}

void doc_para(struct doc *d, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_text(d, BLOCK_PARA, fmt, ap);
    va_end(ap);
}

void doc_contents(struct doc *d)
{
    (void)add(d, BLOCK_CONTENTS);
}

void doc_item(struct doc *d, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_text(d, BLOCK_ITEM, fmt, ap);
    va_end(ap);
}

void doc_code(struct doc *d, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_text(d, BLOCK_CODE, fmt, ap);
    va_end(ap);
}

void doc_plot(struct doc *d, const char *name, const char *caption)
{
    struct block *b = add(d, BLOCK_PLOT);

    if (b == NULL) return;
    b->id = copy(d, name, strlen(name));
    b->text = copy(d, caption, strlen(caption));
}

static bool set_columns(struct doc *d, struct table *t, const char *spec)
{
    int64_t n = 1, i;
    const char *s;

    for (s = spec; *s != '\0'; s++) n += *s == '|';
    t->column = calloc((size_t)n, sizeof *t->column);
    if (t->column == NULL) return false;
    t->n_column = n;
    for (i = 0; i < n; i++) {
        size_t len = strcspn(spec, "|");
        t->column[i].right = *spec == '>';
        t->column[i].name = t->column[i].right ? copy(d, spec + 1, len - 1)
                                               : copy(d, spec, len);
        if (t->column[i].name == NULL) return false;
        spec += len + (spec[len] == '|');
    }
    return true;
}

struct table *doc_table(struct doc *d, const char *id, const char *columns)
{
    static struct table nothing;    /* has no columns and stays so */
    struct block *b = add(d, BLOCK_TABLE);

    if (b == NULL) return &nothing;
    b->table = calloc(1, sizeof *b->table);
    if (b->table != NULL) {
        b->table->id = copy(d, id, strlen(id));
        if (set_columns(d, b->table, columns) && b->table->id != NULL)
            return b->table;
        free_table(b->table);
    }
    d->failed = true;
    d->n_block--;
    return &nothing;
}

void doc_row(struct doc *d, struct table *t)
{
    assert(d->lacks == 0 || d->failed);
    d->row = t;
    d->lacks = t->n_column;
}

/* Appends a cell; its text, if any, becomes the table's. */
static void put(struct doc *d, struct table *t, struct cell c)
{
    if (t->n_column == 0 || d->failed) {    /* its columns may be cut short */
        free(c.text);
        return;
    }
    assert(t == d->row && d->lacks > 0);
    d->lacks--;
    if (t->n_cell == t->cap) {
        int64_t cap = t->cap ? t->cap * 2 : 32;
        struct cell *p = realloc(t->cell, (size_t)cap * sizeof *p);
        if (p == NULL) {
            d->failed = true;
            free(c.text);
            return;
        }
        t->cell = p;
        t->cap = cap;
    }
    t->cell[t->n_cell++] = c;
}

void cell_none(struct doc *d, struct table *t)
{
    put(d, t, (struct cell){.kind = CELL_NONE});
}

static void put_text(struct doc *d, struct table *t, enum cell_kind kind,
                     const char *s)
{
    if (s == NULL || *s == '\0')
        cell_none(d, t);
    else
        put(d, t, (struct cell){.kind = kind, .text = copy(d, s, strlen(s))});
}

void cell_text(struct doc *d, struct table *t, const char *s)
{
    put_text(d, t, CELL_TEXT, s);
}

void cell_code(struct doc *d, struct table *t, const char *s)
{
    put_text(d, t, CELL_CODE, s);
}

void cell_link(struct doc *d, struct table *t, const char *id)
{
    put_text(d, t, CELL_LINK, id);
}

/* NULL when there is none. */
static const char *find_title(const struct doc *d, const char *id)
{
    int64_t i;

    for (i = 0; d != NULL && i < d->n_block; i++) {
        const struct block *b = &d->block[i];
        if (b->kind == BLOCK_HEADING && b->id != NULL && b->text != NULL &&
            strcmp(b->id, id) == 0) return b->text;
    }
    return NULL;
}

const char *doc_title(const struct doc *d, const char *id)
{
    const char *title = find_title(d, id);

    if (title == NULL) title = find_title(d->other, id);
    return title != NULL ? title : id;
}

bool doc_leads_out(const struct doc *d, const char *id)
{
    return find_title(d, id) == NULL && find_title(d->other, id) != NULL;
}

void cell_printf(struct doc *d, struct table *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    put(d, t, (struct cell){.kind = CELL_TEXT, .text = print(d, fmt, ap)});
    va_end(ap);
}

void cell_count(struct doc *d, struct table *t, int64_t n)
{
    put(d, t, (struct cell){.kind = CELL_COUNT, .n = n});
}

void cell_bytes(struct doc *d, struct table *t, int64_t n)
{
    put(d, t, (struct cell){.kind = CELL_BYTES, .n = n});
}

void cell_diff(struct doc *d, struct table *t, int64_t n)
{
    put(d, t, (struct cell){.kind = CELL_DIFF, .n = n});
}

void cell_gb(struct doc *d, struct table *t, int64_t n)
{
    put(d, t, (struct cell){.kind = CELL_GB, .n = n});
}

void cell_diff_gb(struct doc *d, struct table *t, int64_t n)
{
    put(d, t, (struct cell){.kind = CELL_DIFF_GB, .n = n});
}

static void put_double(struct doc *d, struct table *t, struct cell c)
{
    if (isnan(c.x)) c = (struct cell){.kind = CELL_NONE};
    put(d, t, c);
}

void cell_percent(struct doc *d, struct table *t, double x, bool under)
{
    put_double(d, t, (struct cell){.kind = CELL_PERCENT, .x = x,
                                   .under = under});
}

void cell_number(struct doc *d, struct table *t, double x, int decimals)
{
    put_double(d, t, (struct cell){.kind = CELL_NUMBER, .x = x,
                                   .decimals = decimals});
}

/* "+12.4"; what rounds to zero has no sign. */
static void show_signed(struct buf *out, double x, int decimals)
{
    char s[64], *p;

    snprintf(s, sizeof s, "%+.*f", decimals, x);
    for (p = s + 1; *p == '0' || *p == '.'; p++) continue;
    buf_puts(out, *p == '\0' ? s + 1 : s);
}

void cell_show(const struct cell *c, struct buf *out)
{
    switch (c->kind) {
    case CELL_NONE: buf_puts(out, "—"); break;
    case CELL_TEXT:
    case CELL_LINK:
    case CELL_CODE: buf_puts(out, c->text ? c->text : ""); break;
    case CELL_DIFF:
        if (c->n > 0) buf_putc(out, '+');
        buf_put_grouped(out, c->n);
        break;
    case CELL_COUNT:
    case CELL_BYTES: buf_put_grouped(out, c->n); break;
    case CELL_GB: buf_printf(out, "%.3f", (double)c->n / 1e9); break;
    case CELL_DIFF_GB: show_signed(out, (double)c->n / 1e9, 3); break;
    case CELL_PERCENT:
        show_signed(out, c->x, 1);
        buf_puts(out, c->under ? " % UNDER" : " %");
        break;
    case CELL_NUMBER: buf_printf(out, "%.*f", c->decimals, c->x); break;
    }
}
