/* render_md.c - Markdown. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "report/doc/render.h"

#define WIDTH 79

/* Code points: what a text takes on the screen. */
static size_t width(const char *s, size_t len)
{
    size_t i, n = 0;

    for (i = 0; i < len; i++) n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

/* Appends a text with what Markdown would take for markup escaped. */
static void md_escape(const char *s, struct buf *out)
{
    for (; *s != '\0'; s++) {
        if (strchr("\\`*_|<>[]", *s) != NULL) buf_putc(out, '\\');
        buf_putc(out, *s == '\n' || *s == '\r' ? ' ' : *s);
    }
}

/* A name in a code span, where bars of a table must be escaped. A span cannot
** hold a backtick, nor a backslash before a bar: then it is plain text. */
static void put_code(const char *s, struct buf *out)
{
    if (strchr(s, '`') != NULL || strstr(s, "\\|") != NULL) {
        md_escape(s, out);
        return;
    }
    buf_putc(out, '`');
    for (; *s != '\0'; s++) {
        if (*s == '|') buf_putc(out, '\\');
        buf_putc(out, *s == '\n' || *s == '\r' ? ' ' : *s);
    }
    buf_putc(out, '`');
}

/* What GitHub calls a heading: lower case, dashes for blanks, no other
** punctuation. */
static void put_anchor(const char *title, struct buf *out)
{
    for (; *title != '\0'; title++) {
        unsigned char c = (unsigned char)*title;
        if (c == ' ') buf_putc(out, '-');
        else if (isalnum(c)) buf_putc(out, (char)tolower(c));
        else if (c == '-' || c == '_' || c >= 0x80) buf_putc(out, (char)c);
    }
}

static void put_link(const struct doc *d, const char *id, struct buf *out)
{
    const char *title = doc_title(d, id);

    buf_putc(out, '[');
    md_escape(title, out);
    buf_puts(out, "](");
    if (doc_leads_out(d, id)) buf_printf(out, "%s.md", d->other_name);
    buf_putc(out, '#');
    put_anchor(title, out);
    buf_putc(out, ')');
}

static void put_cell(const struct doc *d, const struct cell *c,
                     struct buf *out)
{
    if (c->kind == CELL_LINK && c->text != NULL) put_link(d, c->text, out);
    else if (c->kind == CELL_CODE && c->text != NULL) put_code(c->text, out);
    else if (c->kind == CELL_TEXT && c->text != NULL) md_escape(c->text, out);
    else cell_show(c, out);
}

static void pad(struct buf *out, size_t n, char c)
{
    while (n-- > 0) buf_putc(out, c);
}

/* All cells as text, back to back; end[i] is where cell i stops, the column
** names first. NULL without memory. */
static size_t *show_cells(const struct doc *d, const struct table *t,
                          struct buf *text)
{
    int64_t i, n = t->n_column + t->n_cell;
    size_t *end = malloc((size_t)(n + 1) * sizeof *end);

    if (end == NULL) return NULL;
    for (i = 0; i < n; i++) {
        if (i < t->n_column) md_escape(t->column[i].name, text);
        else put_cell(d, &t->cell[i - t->n_column], text);
        end[i] = text->len;
    }
    return end;
}

static void put_rule(const struct table *t, const size_t *wide,
                     struct buf *out)
{
    int64_t i;

    for (i = 0; i < t->n_column; i++) {
        buf_puts(out, i ? "|" : "|");
        pad(out, wide[i] + 1 + !t->column[i].right, '-');
        if (t->column[i].right) buf_putc(out, ':');
    }
    buf_puts(out, "|\n");
}

static void put_grid(const struct table *t, const struct buf *text,
                     const size_t *end, const size_t *wide, struct buf *out)
{
    int64_t i, n = t->n_column + t->n_cell;
    size_t from = 0;

    for (i = 0; i < n; from = end[i++]) {
        int64_t c = i % t->n_column;
        const char *s = buf_text(text) + from;
        size_t gap = wide[c] - width(s, end[i] - from);
        buf_puts(out, c ? " | " : "| ");
        if (t->column[c].right) pad(out, gap, ' ');
        buf_put(out, s, end[i] - from);
        if (!t->column[c].right) pad(out, gap, ' ');
        if (c + 1 < t->n_column) continue;
        buf_puts(out, " |\n");
        if (i + 1 == t->n_column) put_rule(t, wide, out);
    }
}

/* Two passes: columns are padded to their widest cell. */
static void put_table(const struct doc *d, const struct table *t,
                      struct buf *out)
{
    struct buf text = BUF_INIT;
    size_t *end = show_cells(d, t, &text);
    size_t *wide = calloc((size_t)t->n_column + 1, sizeof *wide);
    int64_t i, n = t->n_column + t->n_cell;
    size_t from = 0;

    if (end == NULL || wide == NULL || text.failed) {
        out->failed = true;
    } else {
        for (i = 0; i < n; from = end[i++]) {
            size_t w = width(buf_text(&text) + from, end[i] - from);
            int64_t c = i % t->n_column;
            if (w > wide[c]) wide[c] = w;
        }
        put_grid(t, &text, end, wide, out);
    }
    free(end);
    free(wide);
    buf_free(&text);
}

/* Words on lines of at most WIDTH columns; first and rest begin the lines. */
static void put_wrapped(const char *s, const char *first, const char *rest,
                        struct buf *out)
{
    size_t at = strlen(first);
    bool fresh = true;

    buf_puts(out, first);
    while (*(s += strspn(s, " ")) != '\0') {
        size_t len = strcspn(s, " "), w = width(s, len);
        if (!fresh && at + 1 + w > WIDTH) {
            buf_putc(out, '\n');
            buf_puts(out, rest);
            at = strlen(rest);
            fresh = true;
        }
        if (!fresh) buf_putc(out, ' ');
        buf_put(out, s, len);
        at += w + !fresh;
        fresh = false;
        s += len;
    }
    buf_putc(out, '\n');
}

static void put_contents(const struct doc *d, struct buf *out)
{
    int64_t i;

    for (i = 0; i < d->n_block; i++) {
        if (d->block[i].kind != BLOCK_HEADING || d->block[i].level != 2)
            continue;
        buf_puts(out, "* ");
        put_link(d, d->block[i].id ? d->block[i].id : "", out);
        buf_putc(out, '\n');
    }
}

/* Every kind of block; what Markdown would read as markup is escaped. */
static void put_block(const struct doc *d, const struct block *b,
                      struct buf *out)
{
    const char *text = b->text ? b->text : "";

    switch (b->kind) {
    case BLOCK_HEADING:
        pad(out, (size_t)b->level, '#');
        buf_putc(out, ' ');
        md_escape(text, out);
        buf_putc(out, '\n');
        break;
    case BLOCK_PARA: put_wrapped(text, "", "", out); break;
    case BLOCK_ITEM: put_wrapped(text, "* ", "  ", out); break;
    case BLOCK_CODE: buf_printf(out, "    %s\n", text); break;
    case BLOCK_TABLE: put_table(d, b->table, out); break;
    case BLOCK_PLOT:
        buf_printf(out, "![%s](%s.svg)\n", text, b->id ? b->id : "");
        break;
    case BLOCK_CONTENTS: put_contents(d, out); break;
    }
}

void render_md(const struct doc *d, struct buf *out)
{
    size_t before = out->len;
    int64_t i;

    for (i = 0; i < d->n_block; i++) {
        const struct block *b = &d->block[i];
        bool joined = i > 0 && b->kind == d->block[i - 1].kind &&
                      (b->kind == BLOCK_ITEM || b->kind == BLOCK_CODE);
        if (i > 0 && !joined) buf_putc(out, '\n');
        put_block(d, b, out);
    }
    if (!out->failed && out->len > before)
        text_clean_lines(out->data + before, out->len - before);
}
