/*
** plot_composition.c - what the peak is made of, beside all estimates: a
** stacked bar for each of them and one for the peak, for each published case
** (or for the first cases there are).
*/
#include <stdio.h>

#include "report/plots/plot.h"

enum { MAX_CASES = 8 };

/* What an estimate puts in no category is drawn as other. */
static void put_bar(struct buf *b, int x, const char *bar,
                    const struct record_found *c, int64_t w,
                    const char *source)
{
    int64_t by[BAR_COUNT] = {0}, rest = view_bytes(c, w, RECORD_MAX, source,
                                                   "raw");
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
    for (i = 0; i < BAR_COUNT; i++)
        buf_printf(b, " %.6f", (double)by[i] / 1e9);
    buf_putc(b, '\n');
}

static int choose(const struct view *v, const struct record_found **out)
{
    int n = 0, pass;
    int64_t i;

    for (pass = 0; pass < 2 && n == 0; pass++)
        for (i = 0; i < v->n_case && n < MAX_CASES; i++)
            if (view_wave(v->kase[i], true) >= 0 &&
                (pass == 1 || view_is_published(v->kase[i])))
                out[n++] = v->kase[i];
    return n;
}

/* Do names under the bars need more room than there is? */
static bool is_crowded(const struct view *v, int n)
{
    return n * (v->n_estimator + 2) > 14;
}

/* Names under the bars and, below, under each case's group; upright where
** they would run into each other. */
static void put_labels(const struct view *v, struct plot *p,
                       const struct record_found **c, int n)
{
    int wide = v->n_estimator + 2, i, k;
    bool upright = is_crowded(v, n);

    buf_puts(&p->gp, "set xtics (");
    for (i = 0; i < n; i++) {
        for (k = 0; k < v->n_estimator; k++) {
            plot_label(&p->gp, "", v->estimator[k], "");
            buf_printf(&p->gp, " %d, ", wide * i + k);
        }
        buf_printf(&p->gp, "\"peak\" %d%s", wide * i + k,
                   i + 1 < n ? ", " : "");
    }
    buf_printf(&p->gp, ")%s\nset xrange [-0.8:%d.8]\n",
               upright ? " rotate by 90 right" : "", wide * n - 2);
    for (i = 0; i < n; i++) {
        buf_printf(&p->gp, "set label %d ", i + 1);
        plot_quote(&p->gp, c[i]->shape.name);
        buf_printf(&p->gp, " at %.1f, graph %s\n",
                   wide * i + (wide - 2) / 2.0, upright
                   ? "-0.16 rotate by -30 left" : "-0.12 center");
    }
    buf_printf(&p->gp, "set bmargin %d\n", upright ? 10 : 5);
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

static void put_title(const struct view *v, struct buf *b, int n)
{
    buf_puts(b, "set title \"Raw estimates and the peak of the most-loaded "
             "rank, cold wave");
    if (n < v->n_case)
        buf_printf(b, ": %d of %lld cases", n, (long long)v->n_case);
    buf_puts(b, "\"\n");
}

bool plot_composition(const struct view *v, struct plot *out)
{
    const struct record_found *c[MAX_CASES];
    struct buf command = BUF_INIT;
    int n = choose(v, c), i;

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
    put_title(v, &out->gp, n);
    buf_puts(&out->gp,
             "set ylabel \"GB\"\nset yrange [0:*]\n"
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
               "offset 0,0.7%s notitle", 2 + BAR_COUNT, 2 + BAR_COUNT,
               is_crowded(v, n) ? " font ',8'" : "");
    if (command.failed) out->gp.failed = true;
    plot_draw(out, buf_text(&command));
    buf_free(&command);
    return true;
}
