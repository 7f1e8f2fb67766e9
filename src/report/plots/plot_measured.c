/*
** plot_measured.c - simulated against measured peaks: the error of every
** forward by the rows of its cell.
*/
#include <math.h>
#include <string.h>

#include "report/measured.h"
#include "report/plots/plot.h"

static const char *const modes[] = {"full", "none", "selective"};

static bool any_cell(const struct view *v)
{
    int64_t i;

    for (i = 0; i < v->n_measured; i++)
        if (!isnan(measured_error(&v->measured[i], MEASURED_FORWARD)))
            return true;
    return false;
}

/* A block of data for each mode; returns the number of cells in all. */
static int64_t put_data(const struct view *v, struct buf *dat)
{
    int64_t i, n = 0;
    size_t k;

    buf_puts(dat, "# rows, cell, error in percent, 1 when it counts; a block "
             "for each recompute mode\n");
    for (k = 0; k < sizeof modes / sizeof *modes; k++) {
        buf_printf(dat, "%s# %s\n", k > 0 ? "\n\n" : "", modes[k]);
        for (i = 0; i < v->n_measured; i++) {
            const struct measured *m = &v->measured[i];
            double error = measured_error(m, MEASURED_FORWARD);
            if (strcmp(m->forward->shape.recompute, modes[k]) != 0 ||
                isnan(error)) continue;
            buf_printf(dat, "%lld ", (long long)m->forward->shape.tokens);
            plot_quote(dat, m->forward->shape.name);
            buf_printf(dat, " %.4f %d\n", error,
                       measured_counts(m, MEASURED_FORWARD));
            n++;
        }
    }
    return n;
}

/* The axis of rows, as far as they go. */
static void put_range(const struct view *v, struct buf *gp)
{
    int64_t i, least = INT64_MAX, most = 1;

    for (i = 0; i < v->n_measured; i++) {
        int64_t rows = v->measured[i].forward->shape.tokens;
        if (isnan(measured_error(&v->measured[i], MEASURED_FORWARD))) continue;
        if (rows < least) least = rows;
        if (rows > most) most = rows;
    }
    buf_printf(gp, "set logscale x\nset xrange [%.0f:%.0f]\n",
               0.8 * (double)least, ceil(1.25 * (double)most));
}

static bool has_mode(const struct view *v, const char *mode)
{
    int64_t i;

    for (i = 0; i < v->n_measured; i++)
        if (strcmp(v->measured[i].forward->shape.recompute, mode) == 0 &&
            !isnan(measured_error(&v->measured[i], MEASURED_FORWARD)))
            return true;
    return false;
}

bool plot_measured(const struct view *v, struct plot *out)
{
    static const char *const colour[] = {"#009e73", "#0072b2", "#d55e00"};
    static const int mark[] = {5, 7, 9};
    struct buf draw = BUF_INIT;
    bool any = false;
    int64_t n;
    size_t k;

    if (!any_cell(v)) return false;
    plot_begin(out, "measured", 900, 460);
    put_range(v, &out->gp);
    n = put_data(v, &out->dat);
    buf_printf(&out->gp, "set title \"Simulated against measured forward "
               "peaks: %lld of %lld cells\"\n", (long long)n,
               (long long)v->n_measured);
    buf_puts(&out->gp,
             "set xlabel \"packed rows\"\n"
             "set ylabel \"(simulated - measured) / measured, %\"\n"
             "set format x \"%.0s%c\"\n"
             "set yrange [*<-1.5:1.5<*]\n"
             "set xzeroaxis linewidth 2 linecolor '#000000' linetype 1\n"
             "set object 1 rectangle from graph 0, first -1 to graph 1, "
             "first 1 fillcolor '#e8f1e8' fillstyle solid noborder behind\n"
             "set label 1 \"within 1 %\" at graph 1.02, first 0 left "
             "textcolor '#407040'\n"
             "set key outside right top vertical reverse Left\n");
    buf_puts(&draw, "  plot ");
    for (k = 0; k < sizeof modes / sizeof *modes; k++) {
        if (!has_mode(v, modes[k])) continue;
        buf_printf(&draw, "%s\"measured.dat\" index %d using 1:3 with points "
                   "pointtype %d pointsize 0.9 linecolor '%s' title \"%s\"",
                   any ? ", \\\n    " : "", (int)k, mark[k], colour[k],
                   modes[k]);
        any = true;
    }
    if (draw.failed) out->gp.failed = true;
    plot_draw(out, buf_text(&draw));
    buf_free(&draw);
    return true;
}
