/*
** plot_composition.c - what the peak is made of, beside all estimates: a
** stacked bar for each of them and one for the peak, for each published case
** (or for the worst there are).
*/
#include <stdio.h>
#include <string.h>

#include "report/plots/plot.h"

enum { MAX_CASES = 8, LONGEST = 24 };

/* What an estimate puts in no category is drawn as other. One that does not
** cover the case, or is not there, has no bar. */
static void put_bar(struct buf *b, int x, const char *bar,
                    const struct record_found *c, int64_t w,
                    const char *source)
{
    int64_t by[BAR_COUNT] = {0}, rest = view_bytes(c, w, RECORD_MAX, source,
                                                   "raw");
    bool there = strcmp(source, "peak") == 0 ||
                 view_miss(c, w, source, "raw").known;
    bool priced = rest != 0;
    int i;

    for (i = 0; i < CAT_COUNT; i++) {
        int64_t bytes = view_bytes(c, w, RECORD_MAX, source,
                                   category_name((enum category)i));
        by[category_bar((enum category)i)] += bytes;
        rest -= bytes;
    }
    if (priced) by[BAR_OTHER] += rest;
    buf_printf(b, "%d ", x);
    plot_quote(b, bar);
    for (i = 0; i < BAR_COUNT; i++) {
        if (there) buf_printf(b, " %.6f", (double)by[i] / 1e9);
        else buf_puts(b, " ?");
    }
    buf_putc(b, '\n');
}

/* Do names under the bars need more room than there is? */
static bool is_crowded(const struct view *v, int n)
{
    return n * (v->n_estimator + 2) > 14;
}

/* Lines that text of n letters takes upright, and slanted by 35 degrees. */
static int upright_lines(size_t n) { return (int)(n * 42 / 100) + 2; }
static int slanted_lines(size_t n) { return (int)(n * 25 / 100) + 2; }

/* Names under the bars, upright where they would run into each other; below
** them, where the longest ends, those of the cases, slanted where one is wider
** than its bars. */
static void put_labels(const struct view *v, struct plot *p,
                       const struct record_found **c, int n)
{
    int wide = v->n_estimator + 2, i, k, below;
    char text[80], name[MAX_CASES][PLOT_NAME];
    size_t longest = 6, widest = plot_names(c, n, LONGEST, name);
    bool upright = is_crowded(v, n), slanted = (int)widest * n > 70;

    buf_puts(&p->gp, "set xtics (");
    for (i = 0; i < n; i++) {
        for (k = 0; k < v->n_estimator; k++) {
            view_label(v->estimator[k], text, sizeof text);
            if (strlen(text) > longest) longest = strlen(text);
            plot_label(&p->gp, "", v->estimator[k], "");
            buf_printf(&p->gp, " %d, ", wide * i + k);
        }
        buf_printf(&p->gp, "\"peak\" %d%s", wide * i + k,
                   i + 1 < n ? ", " : "");
    }
    below = slanted ? slanted_lines(widest) : 2;
    buf_printf(&p->gp, ")%s\nset xrange [-0.8:%d.8]\nset bmargin %d\n",
               upright ? " rotate by 90 right" : "", wide * n - 2,
               below + (upright ? upright_lines(longest) : 2));
    for (i = 0; i < n; i++) {
        buf_printf(&p->gp, "set label %d ", i + 1);
        plot_quote(&p->gp, name[i]);
        buf_printf(&p->gp, " at %.1f, character %d %s\n",
                   wide * i + (slanted ? 0 : (wide - 2) / 2.0), below,
                   slanted ? "left rotate by -35" : "center");
    }
}

static void put_bars(const struct view *v, const struct record_found *c,
                     int x, struct buf *dat)
{
    int64_t w = view_wave(c, true);
    char name[80];
    int k;

    for (k = 0; k < v->n_estimator; k++)
        put_bar(dat, x + k, view_label(v->estimator[k], name, sizeof name), c,
                w, v->estimator[k]);
    put_bar(dat, x + k, "peak", c, w, "peak");
}

static void put_title(const struct view *v, struct buf *b, int n, bool worst)
{
    buf_puts(b, "set title \"Raw estimates and the peak of the most-loaded "
             "rank, cold wave");
    if (n < v->n_case)
        buf_printf(b, ": %s%d of %lld cases", worst ? "the worst " : "", n,
                   (long long)v->n_case);
    buf_puts(b, "\"\n");
}

bool plot_composition(const struct view *v, struct plot *out)
{
    const struct record_found *c[MAX_CASES];
    struct buf command = BUF_INIT;
    bool worst;
    int n = plot_choose(v, c, MAX_CASES, &worst), i;

    if (n == 0) return false;
    plot_begin(out, "composition", 1000, 620);
    buf_puts(&out->dat, "# bar, name, GB of");
    for (i = 0; i < BAR_COUNT; i++)
        buf_printf(&out->dat, "%s %s", i ? ";" : "",
                   category_bar_name((enum category_bar)i));
    buf_putc(&out->dat, '\n');
    for (i = 0; i < n; i++)
        put_bars(v, c[i], (v->n_estimator + 2) * i, &out->dat);
    put_labels(v, out, c, n);
    put_title(v, &out->gp, n, worst);
    buf_puts(&out->gp,
             "set ylabel \"GB\"\nset yrange [0:*]\n"
             "set offsets 0, 0, graph 0.08, 0\n"
             "set key outside right center vertical reverse Left width 1\n"
             "set style fill solid 1.0 border linecolor '#ffffff'\n");
    buf_puts(&command, "  plot ");
    /* whole bars first, each later one shorter by its top part */
    for (i = BAR_COUNT - 1; i >= 0; i--)
        buf_printf(&command, "%s\"%s\" using 1:(sum [k=3:%d] column(k)):(0.8) "
                   "with boxes linecolor '%s' title \"%s\"",
                   i == BAR_COUNT - 1 ? "" : ", \\\n    ",
                   i == BAR_COUNT - 1 ? "composition.dat" : "", 3 + i,
                   category_bar_colour((enum category_bar)i),
                   category_bar_name((enum category_bar)i));
    buf_printf(&command, ", \\\n    \"\" using 1:(sum [k=3:%d] column(k)):"
               "(sprintf(\"%%.1f\", sum [k=3:%d] column(k))) with labels "
               "%s notitle", 2 + BAR_COUNT, 2 + BAR_COUNT,
               is_crowded(v, n) ? "rotate by 90 left offset 0,0.4 font ',9'"
                                : "offset 0,0.7");
    if (command.failed) out->gp.failed = true;
    plot_draw(out, buf_text(&command));
    buf_free(&command);
    return true;
}
