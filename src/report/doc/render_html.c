/* render_html.c - one HTML page. */
#include <string.h>

#include "base/clean.h"
#include "report/doc/render.h"

static const char style[] =
    ":root{color-scheme:light dark;--line:#ccc;--back:#f3f3f3;"
    "--under:#fde0d0}\n"
    "@media (prefers-color-scheme:dark){:root{--line:#555;--back:#2a2a2a;"
    "--under:#6b2d12}img{background:#fff}}\n"
    "body{font:15px/1.5 sans-serif;max-width:76em;margin:2em auto;"
    "padding:0 1em}\n"
    ".box{overflow-x:auto}\n"
    "table{border-collapse:collapse;margin:1em 0;font-size:90%}\n"
    "th,td{border:1px solid var(--line);padding:.2em .6em;text-align:left;"
    "vertical-align:top}\n"
    "th{background:var(--back)}\n"
    "p,li{max-width:52em}\n"
    "td:last-child{min-width:9em}\n"
    "td code,td.n{white-space:nowrap}\n"
    ".n{text-align:right;"
    "font-variant-numeric:tabular-nums}\n"
    ".under{background:var(--under);font-weight:bold}\n"
    "pre{background:var(--back);padding:.6em;overflow-x:auto}\n"
    "img{max-width:min(100%,52em);min-width:40em}\n";

static void html_escape(const char *s, struct buf *out)
{
    for (; *s != '\0'; s++) {
        switch (*s) {
        case '&': buf_puts(out, "&amp;"); break;
        case '<': buf_puts(out, "&lt;"); break;
        case '>': buf_puts(out, "&gt;"); break;
        case '"': buf_puts(out, "&quot;"); break;
        default: buf_putc(out, *s);
        }
    }
}

/* Prose: `x` becomes <code>x</code>. */
static void put_prose(const char *s, struct buf *out)
{
    struct buf escaped = BUF_INIT;
    const char *p;
    bool code = false;

    html_escape(s, &escaped);
    for (p = buf_text(&escaped); *p != '\0'; p++) {
        if (*p != '`') {
            buf_putc(out, *p);
            continue;
        }
        buf_puts(out, code ? "</code>" : "<code>");
        code = !code;
    }
    if (code) buf_puts(out, "</code>");
    if (escaped.failed) out->failed = true;
    buf_free(&escaped);
}

static void put_link(const struct doc *d, const char *id, struct buf *out)
{
    buf_puts(out, "<a href=\"");
    if (doc_leads_out(d, id)) buf_printf(out, "%s.html", d->other_name);
    buf_putc(out, '#');
    html_escape(id, out);
    buf_puts(out, "\">");
    html_escape(doc_title(d, id), out);
    buf_puts(out, "</a>");
}

static void put_cell(const struct doc *d, const struct cell *c, bool right,
                     struct buf *out)
{
    struct buf text = BUF_INIT;

    buf_puts(out, "<td");
    if (right || c->under)
        buf_printf(out, " class=\"%s%s%s\"", right ? "n" : "",
                   right && c->under ? " " : "", c->under ? "under" : "");
    buf_putc(out, '>');
    cell_show(c, &text);
    if (c->kind == CELL_CODE) buf_puts(out, "<code>");
    if (c->kind == CELL_LINK) put_link(d, buf_text(&text), out);
    else html_escape(buf_text(&text), out);
    if (c->kind == CELL_CODE) buf_puts(out, "</code>");
    buf_puts(out, "</td>");
    if (text.failed) out->failed = true;
    buf_free(&text);
}

static void put_table(const struct doc *d, const struct table *t,
                      struct buf *out)
{
    int64_t i;

    buf_printf(out, "<div class=\"box\"><table id=\"%s\">\n<tr>", t->id);
    for (i = 0; i < t->n_column; i++) {
        buf_puts(out, t->column[i].right ? "<th class=\"n\">" : "<th>");
        html_escape(t->column[i].name, out);
        buf_puts(out, "</th>");
    }
    buf_puts(out, "</tr>\n");
    for (i = 0; i < t->n_cell; i++) {
        int64_t c = i % t->n_column;
        if (c == 0) buf_puts(out, "<tr>");
        put_cell(d, &t->cell[i], t->column[c].right, out);
        if (c + 1 == t->n_column) buf_puts(out, "</tr>\n");
    }
    buf_puts(out, "</table></div>\n");
}

static void put_tagged(const char *tag, const char *text, struct buf *out)
{
    buf_printf(out, "<%s>", tag);
    put_prose(text, out);
    buf_printf(out, "</%s>\n", tag);
}

static void put_plot(const struct block *b, const char *text,
                     struct buf *out)
{
    buf_printf(out, "<div class=\"box\"><img src=\"%s.svg\" alt=\"",
               b->id ? b->id : "");
    html_escape(text, out);
    buf_puts(out, "\"></div>\n");
}

static void put_contents(const struct doc *d, struct buf *out)
{
    int64_t i;

    buf_puts(out, "<ul>\n");
    for (i = 0; i < d->n_block; i++) {
        if (d->block[i].kind != BLOCK_HEADING || d->block[i].level != 2)
            continue;
        buf_puts(out, "<li>");
        put_link(d, d->block[i].id ? d->block[i].id : "", out);
        buf_puts(out, "</li>\n");
    }
    buf_puts(out, "</ul>\n");
}

/* Every kind of block, the whole vocabulary of the page. */
static void put_block(const struct doc *d, const struct block *b,
                      struct buf *out)
{
    const char *text = b->text ? b->text : "";

    switch (b->kind) {
    case BLOCK_HEADING:
        buf_printf(out, "<h%d id=\"%s\">", b->level, b->id ? b->id : "");
        put_prose(text, out);
        buf_printf(out, "</h%d>\n", b->level);
        break;
    case BLOCK_PARA: put_tagged("p", text, out); break;
    case BLOCK_ITEM: put_tagged("li", text, out); break;
    case BLOCK_CODE:
        buf_puts(out, "<pre>");
        html_escape(text, out);
        buf_puts(out, "</pre>\n");
        break;
    case BLOCK_TABLE: put_table(d, b->table, out); break;
    case BLOCK_PLOT: put_plot(b, text, out); break;
    case BLOCK_CONTENTS: put_contents(d, out); break;
    }
}

void render_html(const struct doc *d, const char *title, struct buf *out)
{
    size_t before = out->len;
    bool list = false;
    int64_t i;

    buf_puts(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
             "<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
             "content=\"width=device-width, initial-scale=1\">\n<title>");
    html_escape(title, out);
    buf_printf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n",
               style);
    for (i = 0; i < d->n_block; i++) {
        bool item = d->block[i].kind == BLOCK_ITEM;
        if (item != list) buf_puts(out, item ? "<ul>\n" : "</ul>\n");
        list = item;
        put_block(d, &d->block[i], out);
    }
    if (list) buf_puts(out, "</ul>\n");
    buf_puts(out, "</body>\n</html>\n");
    if (!out->failed)
        text_clean_lines(out->data + before, out->len - before);
}
