/* timeline.c - a series as a picture, see series.h */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "snapshot/series.h"

enum { WIDTH = 1180, HEIGHT = 430, LEFT = 80, TOP = 40, RIGHT = 20,
       BOTTOM = 40, ROW = 18 };

static const char *const color[SERIES_MOST + 1] = {
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377",
    "#ee8866", "#44bb99", "#99ddff", "#eedd88", "#ffaabb", "#77aadd",
    "#bbbbbb"
};

static void put_text(struct buf *b, const char *s)
{
    for (; *s != '\0'; s++)
        switch (*s) {
        case '&': buf_puts(b, "&amp;"); break;
        case '<': buf_puts(b, "&lt;"); break;
        case '>': buf_puts(b, "&gt;"); break;
        case '"': buf_puts(b, "&quot;"); break;
        default: buf_putc(b, *s);
        }
}

/* The plane: columns to x, bytes to y. */
struct plane {
    const struct series *s;
    uint64_t top;           /* bytes at the upper edge; > 0 */
};

static double x_of(const struct plane *p, double column)
{
    return LEFT + column * (WIDTH - LEFT - RIGHT)
                / (double)(p->s->n > 0 ? p->s->n : 1);
}

static double y_of(const struct plane *p, uint64_t bytes)
{
    return HEIGHT - BOTTOM - (double)bytes / (double)p->top
                             * (HEIGHT - TOP - BOTTOM);
}

/* A number of bytes in a unit that fits it. */
static void put_bytes(struct buf *b, double bytes)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    int u = 0;

    for (; bytes >= 1000 && u < 4; u++) bytes /= 1000;
    buf_printf(b, "%.*f %s", bytes < 10 && u > 0 ? 2 : bytes < 100 && u > 0,
               bytes, unit[u]);
}

/* Lines at round numbers of bytes. */
static void put_grid(const struct plane *p, struct buf *b)
{
    uint64_t step = 1;

    while (p->top / step > 8) step *= p->top / step > 40 ? 10
                                    : p->top / step > 16 ? 5 : 2;
    for (uint64_t at = 0; at <= p->top; at += step) {
        double y = y_of(p, at);

        buf_printf(b, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" "
                   "stroke=\"#ddd\"/>\n<text x=\"%d\" y=\"%.1f\" "
                   "text-anchor=\"end\">", LEFT, y, WIDTH - RIGHT, y,
                   LEFT - 6, y + 4);
        put_bytes(b, (double)at);
        buf_puts(b, "</text>\n");
    }
}

/* The edge of the k lowest groups over columns, as steps. */
static uint64_t height(const struct series *s, int64_t column, int k)
{
    uint64_t sum = 0;

    for (int i = 0; i < k; i++) sum += s->bytes[column * s->n_group + i];
    return sum;
}

static void put_edge(const struct plane *p, struct buf *b, int k, bool back)
{
    const struct series *s = p->s;

    for (int64_t i = 0; i < s->n; i++) {
        int64_t c = back ? s->n - 1 - i : i;
        double y = y_of(p, height(s, c, k));

        buf_printf(b, "%.1f,%.1f %.1f,%.1f ", x_of(p, (double)(c + back)), y,
                   x_of(p, (double)(c + !back)), y);
    }
}

static void put_areas(const struct plane *p, struct buf *b)
{
    const struct series *s = p->s;

    for (int k = 0; k < s->n_group; k++) {
        buf_printf(b, "<polygon fill=\"%s\" points=\"",
                   k == SERIES_MOST ? color[SERIES_MOST] : color[k]);
        put_edge(p, b, k, false);
        put_edge(p, b, k + 1, true);
        buf_puts(b, "\"><title>");
        put_text(b, s->key[k]);
        buf_puts(b, "</title></polygon>\n");
    }
}

static void put_reserved(const struct plane *p, struct buf *b)
{
    const struct series *s = p->s;

    buf_puts(b, "<polyline fill=\"none\" stroke=\"#000\" "
             "stroke-dasharray=\"4 3\" points=\"");
    for (int64_t c = 0; c < s->n; c++) {
        double y = y_of(p, s->reserved[c]);

        buf_printf(b, "%.1f,%.1f %.1f,%.1f ", x_of(p, (double)c), y,
                   x_of(p, (double)(c + 1)), y);
    }
    buf_puts(b, "\"><title>reserved</title></polyline>\n");
}

/* A vertical line at an event with a word above it. */
static void put_mark(struct buf *b, int64_t event,
                     int64_t events, const char *word, const char *stroke,
                     int y)
{
    double x = LEFT + ((double)event + 1.5) * (WIDTH - LEFT - RIGHT)
                    / (double)(events + 1);

    buf_printf(b, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" "
               "stroke=\"%s\"/>\n<text x=\"%.1f\" y=\"%d\" fill=\"%s\" "
               "text-anchor=\"%s\">%s, event %" PRId64 "</text>\n", x, TOP, x,
               HEIGHT - BOTTOM, stroke, x, y, stroke,
               x > WIDTH - 200 ? "end" : "start", word, event);
}

static void put_marks(const struct account *a, struct buf *b)
{
    const struct walk *w = &a->walk;

    put_mark(b, w->peak_event, w->events, "peak", "#000", TOP - 5);
    for (int64_t i = 0; i < w->n_oom && i < 20; i++)
        put_mark(b, w->oom[i].event, w->events, "out of memory", "#c00000",
                 TOP + 14);
}

static void put_axis(const struct account *a, struct buf *b)
{
    for (int i = 0; i <= 5; i++) {
        double x = LEFT + i * (WIDTH - LEFT - RIGHT) / 5.0;

        buf_printf(b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                   x, HEIGHT - BOTTOM + 18);
        buf_put_grouped(b, a->walk.events * i / 5);
        buf_puts(b, "</text>\n");
    }
    buf_printf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">events"
               "</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6);
}

/* Colors, keys and the most that each group ever held. */
static void put_legend(const struct series *s, struct buf *b)
{
    for (int k = 0; k < s->n_group; k++) {
        int y = HEIGHT + 12 + k * ROW;

        buf_printf(b, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" "
                   "fill=\"%s\"/>\n<text x=\"%d\" y=\"%d\">", LEFT, y,
                   color[k], LEFT + 18, y + 11);
        put_text(b, s->key[k]);
        buf_puts(b, ", at most ");
        put_bytes(b, (double)s->most[k]);
        buf_puts(b, "</text>\n");
    }
    buf_printf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">dashed: "
               "reserved</text>\n", WIDTH - RIGHT, HEIGHT + 23);
}

/* No library: an SVG that a browser shows, bands and their names. */
static void put_svg(const struct series *s, const struct account *a,
                    const char *title, struct buf *b)
{
    struct plane p = {s, 1};
    int tall = HEIGHT + 24 + s->n_group * ROW;

    for (int64_t i = 0; i < s->n; i++)
        if (s->reserved[i] > p.top) p.top = s->reserved[i];
    buf_printf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 "
               "%d %d\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\""
               " font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
               "fill=\"#fff\"/>\n<text x=\"%d\" y=\"16\" font-size=\"14\">",
               WIDTH, tall, WIDTH, tall, LEFT);
    put_text(b, title);
    buf_puts(b, "</text>\n");
    put_grid(&p, b);
    put_areas(&p, b);
    put_reserved(&p, b);
    put_marks(a, b);
    put_axis(a, b);
    put_legend(s, b);
    buf_puts(b, "</svg>\n");
}

/* ---- a page ------------------------------------------------------------- */

static void put_table(const struct account *a, struct buf *b)
{
    const struct composition *c = &a->point[a->i_peak].is;
    int64_t n = c->n_group < 100 ? c->n_group : 100;

    buf_puts(b, "<table><tr><th>at the peak, bytes</th><th>blocks</th>"
             "<th></th></tr>\n");
    for (int64_t i = 0; i < n; i++) {
        buf_puts(b, "<tr><td>");
        buf_put_grouped(b, (int64_t)c->group[i].bytes);
        buf_printf(b, "</td><td>%" PRId64 "</td><td class=\"l\">",
                   c->group[i].blocks);
        put_text(b, c->group[i].key);
        buf_puts(b, "</td></tr>\n");
    }
    buf_puts(b, "</table>\n");
}

void series_svg(const struct series *s, const struct account *a,
                const char *title, bool html, struct buf *b)
{
    if (!html) {
        buf_puts(b, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        put_svg(s, a, title, b);
        return;
    }
    buf_puts(b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset="
             "\"utf-8\">\n<meta name=\"viewport\" content=\"width="
             "device-width\">\n<title>");
    put_text(b, title);
    buf_puts(b, "</title>\n<style>body{font-family:sans-serif;margin:1em}"
             "svg{max-width:100%;height:auto}td,th{text-align:right;padding:"
             "0 .6em}.l{text-align:left}</style></head><body>\n");
    put_svg(s, a, title, b);
    put_table(a, b);
    buf_puts(b, "</body></html>\n");
}
