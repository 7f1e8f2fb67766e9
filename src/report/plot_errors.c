/*
** plot_errors.c - error by case: before and after, ours and published,
** admitted, cold wave. Four marks in one group for each case.
*/
#include <math.h>

#include "report/plot.h"

enum { MAX_CASES = 24 };

static void put_value(struct buf *b, double x)
{
    if (isnan(x)) buf_puts(b, " ?");
    else buf_printf(b, " %.4f", x);
}

static bool has_errors(const struct record_found *c)
{
    int64_t w = view_wave(c, true);

    return view_miss(c, w, BEFORE, "admitted").known ||
           view_miss(c, w, AFTER, "admitted").known;
}

/* The published cases; in a folder without any, the first there are. */
static int choose(const struct view *v, const struct record_found **out)
{
    int n = 0, pass;
    int64_t i;

    for (pass = 0; pass < 2 && n == 0; pass++)
        for (i = 0; i < v->n_case && n < MAX_CASES; i++)
            if (has_errors(v->kase[i]) &&
                (pass == 1 || view_is_published(v->kase[i])))
                out[n++] = v->kase[i];
    return n;
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

static void put_tics(struct plot *p, const struct record_found **c, int n)
{
    int i;

    buf_puts(&p->gp, "set xtics (");
    for (i = 0; i < n; i++) {
        if (i > 0) buf_puts(&p->gp, ", ");
        plot_quote(&p->gp, c[i]->shape.name);
        buf_printf(&p->gp, " %d", i);
    }
    buf_printf(&p->gp, ")%s\nset xrange [-0.6:%d.6]\n",
               n > 6 ? " rotate by -35 left\nset bmargin 10" : "", n - 1);
}

/* Bars for ours; where figures are published also their marks, and the range
** of ours over routings. */
static void put_command(struct buf *b, bool published)
{
    buf_puts(b,
             "\"errors.dat\" using ($1-0.2):3:(0.36) with boxes "
             "linecolor '#56b4e9' title \"before, ours\", \\\n"
             "    \"\" using ($1+0.2):4:(0.36) with boxes "
             "linecolor '#0072b2' title \"after, ours\"");
    if (!published) return;
    buf_puts(b,
             ", \\\n"
             "    \"\" using ($1-0.2):7:(0):($8-$7) with vectors heads size "
             "screen 0.006,90 linewidth 1.5 linecolor '#222222' "
             "title \"ours, all routings\", \\\n"
             "    \"\" using ($1+0.2):9:(0):($10-$9) with vectors heads size "
             "screen 0.006,90 linewidth 1.5 linecolor '#222222' "
             "notitle, \\\n"
             "    \"\" using ($1-0.28):5 with points pointtype 7 "
             "pointsize 1.4 linecolor '#e69f00' "
             "title \"before, published\", \\\n"
             "    \"\" using ($1+0.28):6 with points pointtype 13 "
             "pointsize 1.7 linecolor '#d55e00' "
             "title \"after, published\"");
}

bool plot_errors(const struct view *v, struct plot *out)
{
    const struct record_found *c[MAX_CASES];
    struct buf command = BUF_INIT;
    int n = choose(v, c), i;
    bool any = n > 0 && view_is_published(c[0]);

    if (n == 0) return false;
    plot_begin(out, "errors", 900, 520);
    buf_puts(&out->dat, "# case number, name, admitted error in percent, "
             "cold: before, after, published before, published after, lowest "
             "and highest over routings before, after\n");
    for (i = 0; i < n; i++) {
        int64_t w = view_wave(c[i], true);
        buf_printf(&out->dat, "%d ", i);
        plot_quote(&out->dat, c[i]->shape.name);
        put_value(&out->dat, view_miss(c[i], w, BEFORE, "admitted").percent);
        put_value(&out->dat, view_miss(c[i], w, AFTER, "admitted").percent);
        put_value(&out->dat, c[i]->shape.published_before_cold);
        put_value(&out->dat, c[i]->shape.published_after_cold);
        put_range(v, c[i], BEFORE, &out->dat);
        put_range(v, c[i], AFTER, &out->dat);
        buf_putc(&out->dat, '\n');
    }
    put_tics(out, c, n);
    buf_puts(&out->gp,
             "set title \"Admitted estimate (raw x 1.10) against the peak, "
             "cold wave, balanced routing\"\n"
             "set ylabel \"(estimate - peak) / peak, %\"\n"
             "set format y \"%+.0f\"\n"
             "set yrange [*<-2:2<*]\nset offsets 0, 0, 3, 0\n"
             "set xzeroaxis linewidth 2 linecolor '#000000' linetype 1\n"
             "set key outside bottom center horizontal\n"
             "set style fill solid 1.0 noborder\n");
    put_command(&command, any);
    if (command.failed) out->gp.failed = true;
    plot_draw(out, buf_text(&command));
    buf_free(&command);
    return true;
}
