/*
** plot_errors.c - error by case, admitted, cold wave: a bar for each
** estimator, and where there are any the published figures as marks.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "report/plots/plot.h"

enum { MAX_CASES = 24 };

static void put_value(struct buf *b, double x)
{
    if (isnan(x)) buf_puts(b, " ?");
    else buf_printf(b, " %.4f", x);
}

/* Lowest and highest error over the routings of a case's shape. */
static void put_range(const struct view *v, const struct record_found *base,
                      const char *estimator, struct buf *b)
{
    double low = NAN, high = NAN;
    int64_t i;

    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        double x;
        if (!view_same_shape(base, c)) continue;
        x = view_miss(c, view_wave(c, true), estimator, "admitted").percent;
        if (!(x >= low)) low = x;
        if (!(x <= high)) high = x;
    }
    put_value(b, low);
    put_value(b, high);
}

enum { WIDTH = 1000, HEIGHT = 580, KEY = 85, LONGEST = 30 };

/* The cases' names, slanted where they would run into each other, and where the
** last of them ends the margin; below them the key. */
static void put_tics(struct plot *p, const struct record_found **c, int n)
{
    char name[MAX_CASES][PLOT_NAME];
    int longest = (int)plot_names(c, n, LONGEST, name), i;
    bool slanted = n * longest > 100;
    int below = KEY + 30 + (slanted ? longest * 9 * 57 / 100 : 10);
    int64_t beside = slanted ? num_max(30, longest * 13 / 2 + 10 - 400 / n)
                             : 30;

    buf_puts(&p->gp, "set xtics (");
    for (i = 0; i < n; i++) {
        if (i > 0) buf_puts(&p->gp, ", ");
        plot_quote(&p->gp, name[i]);
        buf_printf(&p->gp, " %d", i);
    }
    buf_printf(&p->gp, ")%s\nset xrange [-0.6:%d.6]\n"
               "set bmargin at screen %.3f\nset lmargin at screen 0.09\n"
               "set rmargin at screen %.3g\n"
               "set key at screen 0.5, screen 0.01 center bottom horizontal "
               "maxcols 3 reverse Left\n", slanted ? " rotate by -35 left"
               : "", n - 1, (double)below / HEIGHT,
               1 - (double)beside / WIDTH);
}

enum { FIRST_BAR = 5 };     /* columns before it: number, name, published */

/* Where estimator k's bar stands beside its case, bars being step apart. */
static double place(const struct view *v, int k, double step)
{
    return (k - (v->n_estimator - 1) / 2.0) * step;
}

/* The bars' ranges over routings, on them; then what is published, as marks
** beside the ranges. */
static void put_marks(const struct view *v, struct buf *b, double step)
{
    int k, column;

    for (k = 0, column = FIRST_BAR; k < v->n_estimator; k++, column += 3)
        buf_printf(b, ", \\\n    \"errors.dat\" using ($1%+.3f):%d:(0):"
                   "($%d-$%d) with vectors heads size screen 0.006,90 "
                   "linewidth 1.5 linecolor '#222222' %s", place(v, k, step),
                   column + 1, column + 2, column + 1, k ? "notitle"
                   : "title \"ours, least to most over all routings\"");
    buf_printf(b, ", \\\n    \"errors.dat\" using ($1%+.3f):3 with points "
               "pointtype 5 pointsize 1.2 linecolor '#000000' "
               "title \"before, published\", \\\n"
               "    \"errors.dat\" using ($1%+.3f):4 with points pointtype 13 "
               "pointsize 1.2 linecolor '#000000' "
               "title \"after, published\"", place(v, 0, step) - 0.2 * step,
               place(v, 1, step) + 0.2 * step);
}

/* The bars of all estimators beside each other. */
static void put_command(const struct view *v, struct buf *b, bool published)
{
    static const char *const colour[] = {"#e69f00", "#0072b2", "#009e73",
                                         "#cc79a7", "#56b4e9", "#999999"};
    double step = 0.8 / v->n_estimator;
    int k, column;

    buf_puts(b, "  plot ");
    for (k = 0, column = FIRST_BAR; k < v->n_estimator; k++, column += 3) {
        buf_printf(b, "%s\"errors.dat\" using ($1%+.3f):%d:(%.3f) with boxes "
                   "linecolor '%s' title ", k ? ", \\\n    " : "",
                   place(v, k, step), column, 0.9 * step, colour[k % 6]);
        plot_label(b, "", v->estimator[k], published && k < 2 ? ", ours" : "");
    }
    if (published) put_marks(v, b, step);
}

/* Says the routing where it is one, and how many cases are left out. */
static void put_title(const struct view *v, struct buf *b,
                      const struct record_found **c, int n, bool published,
                      bool worst)
{
    bool balanced = true;
    int i;

    for (i = 0; i < n; i++)
        balanced &= strcmp(c[i]->shape.routing, "balanced") == 0;
    buf_printf(b, "set title \"Admitted estimate (raw x 1.10) against the "
               "peak, cold wave%s", balanced ? ", balanced routing" : "");
    if (n < v->n_case)
        buf_printf(b, ": %s%d of %lld cases%s", worst ? "the worst " : "", n,
                   (long long)v->n_case, published ? ", the published" : "");
    buf_puts(b, "\"\n");
}

/* The picture's numbers with their meaning, readable without the picture. */
static void put_data(const struct view *v, struct buf *dat,
                     const struct record_found **c, int n)
{
    int i, k;

    buf_puts(dat, "# case number, name, admitted error in percent, cold: "
             "published before, published after; for each estimator ours, "
             "lowest and highest over routings:");
    for (k = 0; k < v->n_estimator; k++)
        buf_printf(dat, " %s", v->estimator[k]);
    buf_putc(dat, '\n');
    for (i = 0; i < n; i++) {
        int64_t w = view_wave(c[i], true);
        buf_printf(dat, "%d ", i);
        plot_quote(dat, c[i]->shape.name);
        put_value(dat, c[i]->shape.published_before_cold);
        put_value(dat, c[i]->shape.published_after_cold);
        for (k = 0; k < v->n_estimator; k++) {
            put_value(dat, view_miss(c[i], w, v->estimator[k],
                                     "admitted").percent);
            put_range(v, c[i], v->estimator[k], dat);
        }
        buf_putc(dat, '\n');
    }
}

bool plot_errors(const struct view *v, struct plot *out)
{
    const struct record_found *c[MAX_CASES];
    struct buf command = BUF_INIT;
    bool worst, any;
    int n = plot_choose(v, c, MAX_CASES, &worst);

    any = n > 0 && view_is_published(c[0]);
    if (n == 0) return false;
    plot_begin(out, "errors", WIDTH, HEIGHT);
    put_data(v, &out->dat, c, n);
    put_tics(out, c, n);
    put_title(v, &out->gp, c, n, any, worst);
    buf_puts(&out->gp,
             "set ylabel \"(estimate - peak) / peak, %\"\n"
             "set format y \"%+.0f\"\n"
             "set yrange [*<-2:2<*]\nset offsets 0, 0, 3, 0\n"
             "set xzeroaxis linewidth 2 linecolor '#000000' linetype 1\n"
             "set style fill solid 1.0 noborder\n");
    put_command(v, &command, any);
    if (command.failed) out->gp.failed = true;
    plot_draw(out, buf_text(&command));
    buf_free(&command);
    return true;
}
