/*
** plot_timeline.c - what a rank holds from event to event of one wave: its
** categories one on another, the peak, and the raw estimates as lines.
*/
#include <stdio.h>
#include <string.h>

#include "report/plots/plot.h"

enum { MAX_LINES = 4 };

/* BEFORE and AFTER where they price the wave; else the first that do. */
static int choose(const struct record_found *c, int64_t wave,
                  const char *out[MAX_LINES])
{
    int n = 0, pass;
    int64_t i;

    for (pass = 0; pass < 2 && n == 0; pass++)
        for (i = 0; i < c->n_row && n < MAX_LINES; i++) {
            const struct record_row *r = &c->row[i];
            if (r->wave != wave || r->rank != RECORD_MAX ||
                strcmp(r->term, "admitted") != 0 ||
                r->status == STATUS_REFUSED ||
                (pass == 0 && strcmp(r->source, BEFORE) != 0 &&
                 strcmp(r->source, AFTER) != 0)) continue;
            out[n++] = r->source;
        }
    return n;
}

static void put_data(const struct timeline *t, struct buf *dat)
{
    int i, k;

    buf_puts(dat, "# event, GB of");
    for (k = 0; k < BAR_COUNT; k++)
        buf_printf(dat, "%s %s", k ? ";" : "",
                   category_bar_name((enum category_bar)k));
    buf_putc(dat, '\n');
    for (i = 0; i < t->n_point; i++) {
        const struct timeline_point *p = &t->point[i];
        int64_t by[BAR_COUNT] = {0};
        for (k = 0; k < CAT_COUNT; k++)
            by[category_bar((enum category)k)] += p->by[k];
        buf_printf(dat, "%lld", (long long)p->event);
        for (k = 0; k < BAR_COUNT; k++)
            buf_printf(dat, " %.6f", (double)by[k] / 1e9);
        buf_putc(dat, '\n');
    }
}

/* A line where the part begins, its name at the top; names of parts that are
** narrower than they are left out. */
static void put_part(struct buf *b, const struct timeline *t, int tag,
                     const char *name, int64_t from, int64_t to)
{
    if (from < 0) return;
    if (from > 0)
        buf_printf(b, "set arrow %d from %lld, graph 0 to %lld, graph 1 "
                   "nohead dashtype 3 linecolor '#555555' front\n", tag,
                   (long long)from, (long long)from);
    if ((to - from) * 12 < t->events) return;
    buf_printf(b, "set label %d \"%s\" at %lld, graph 0.97 offset 0.5,0 left "
               "front\n", tag, name, (long long)from);
}

static void put_parts(struct buf *b, const struct timeline *t)
{
    int64_t end = t->events;
    int64_t back = t->backward >= 0 ? t->backward : end;

    put_part(b, t, 1, "forward", 0, t->head >= 0 ? t->head : back);
    put_part(b, t, 2, "head", t->head, back);
    put_part(b, t, 3, "backward", t->backward, end);
}

/* The peak's place, on the side that has room. */
static void put_peak(struct buf *b, const struct timeline *t)
{
    const struct mem_tag *at = &t->peak.tag;
    char text[160], layer[32] = "";
    bool right = (int64_t)t->peak.event * 2 > t->events;

    if (at->op == NULL) return;
    if (at->layer >= 0)
        snprintf(layer, sizeof layer, "layer %d, ", (int)at->layer);
    snprintf(text, sizeof text, "peak %.3f GB: %s, %s%s",
             (double)t->peak.allocated / 1e9,
             mem_phase_name((enum mem_phase)at->phase), layer, at->op);
    buf_printf(b, "set label 4 ");
    plot_quote(b, text);
    buf_printf(b, " at %lld, %.6f point pointtype 7 offset %s front boxed\n",
               (long long)t->peak.event, (double)t->peak.allocated / 1e9,
               right ? "-1,0.7 right" : "1,0.7 left");
}

/* Categories stacked, so that the top line is what was requested. */
static void put_command(const struct record_found *c, int64_t wave,
                        const char *name, struct buf *b)
{
    static const char *const colour[] = {"#e69f00", "#0072b2", "#009e73",
                                         "#cc79a7"};
    const char *source[MAX_LINES];
    int n = choose(c, wave, source), k;

    buf_puts(b, "  plot ");
    for (k = BAR_COUNT - 1; k >= 0; k--)
        buf_printf(b, "\"%s.dat\" using 1:(sum [k=2:%d] column(k)) with "
                   "filledcurves x1 linecolor '%s' title \"%s\", \\\n    ",
                   name, 2 + k, category_bar_colour((enum category_bar)k),
                   category_bar_name((enum category_bar)k));
    for (k = 0; k < n; k++) {
        buf_printf(b, "%.6f with lines dashtype %d linewidth 2.5 linecolor "
                   "'%s' title ", (double)view_bytes(c, wave, RECORD_MAX,
                   source[k], "raw") / 1e9, k + 2, colour[k]);
        plot_label(b, "", source[k], ", raw");
        buf_puts(b, k + 1 < n ? ", \\\n    " : "");
    }
    if (n == 0) buf_puts(b, "NaN notitle");
}

void plot_timeline(const struct record_found *c, int64_t wave, int64_t rank,
                   const struct timeline *t, const char *name,
                   struct plot *out)
{
    struct buf command = BUF_INIT;
    char title[400], full[200];

    plot_begin(out, name, 1000, 560);
    put_data(t, &out->dat);
    snprintf(title, sizeof title, "%s, wave %d, rank %d: above what was there "
             "when it began", view_name(c, full, sizeof full), (int)wave,
             (int)rank);
    buf_puts(&out->gp, "set title ");
    plot_quote(&out->gp, title);
    buf_printf(&out->gp, "\nset xlabel \"allocations and releases of the "
               "wave\"\nset ylabel \"GB\"\nset xrange [0:%lld]\n"
               "set yrange [0:*<1e9]\nset offsets 0, 0, graph 0.08, 0\n"
               "set key outside right center vertical reverse Left\n"
               "set style fill solid 1.0 noborder\n"
               "set style textbox opaque noborder\n", (long long)t->events);
    put_parts(&out->gp, t);
    put_peak(&out->gp, t);
    put_command(c, wave, name, &command);
    if (command.failed) out->gp.failed = true;
    plot_draw(out, buf_text(&command));
    buf_free(&command);
}
