/*
** plot_tokens.c - raw error of cold waves against their tokens, a panel for
** each estimator. Marks and colours are those of the EP; waves under the line
** are ringed, and the under side is shaded.
*/
#include <stdio.h>
#include <string.h>

#include "report/plots/plot.h"

enum { MAX_EP = 8, PANEL = 340 };

/* One point a wave: cases at other routings are the same wave again. */
static bool is_shown(const struct record_found *c)
{
    return view_wave(c, true) >= 0 && c->shape.tokens > 0 &&
           strcmp(c->shape.routing, "balanced") == 0;
}

/* The EP sizes there are, ascending. */
static int find_ep(const struct view *v, int64_t out[MAX_EP])
{
    int n = 0, i;
    int64_t k;

    for (k = 0; k < v->n_case; k++) {
        const struct record_found *c = v->kase[k];
        if (!is_shown(c)) continue;
        for (i = 0; i < n && out[i] < c->shape.ep; i++) continue;
        if (n == MAX_EP || (i < n && out[i] == c->shape.ep)) continue;
        memmove(&out[i + 1], &out[i], (size_t)(n++ - i) * sizeof *out);
        out[i] = c->shape.ep;
    }
    return n;
}

/* "? ?" where the estimator does not apply. */
static void put_point(struct buf *dat, const struct record_found *c,
                      const char *estimator)
{
    struct miss m = view_miss(c, view_wave(c, true), estimator, "raw");

    if (m.known) buf_printf(dat, " %.4f %d", m.percent, m.under);
    else buf_puts(dat, " ? ?");
}

/* One block of data for each EP, two blank lines between (gnuplot's index);
** returns the number of cases in them. */
static int64_t put_data(const struct view *v, const int64_t *ep, int n,
                        struct buf *dat)
{
    int64_t k, cases = 0;
    int i, j;

    buf_puts(dat, "# tokens, case; for each estimator raw error in percent, "
             "1 when under:");
    for (j = 0; j < v->n_estimator; j++)
        buf_printf(dat, " %s", v->estimator[j]);
    buf_puts(dat, "; a block for each EP\n");
    for (i = 0; i < n; i++) {
        buf_printf(dat, "%s# EP%d\n", i ? "\n\n" : "", (int)ep[i]);
        for (k = 0; k < v->n_case; k++) {
            const struct record_found *c = v->kase[k];
            if (!is_shown(c) || c->shape.ep != ep[i]) continue;
            buf_printf(dat, "%lld ", (long long)c->shape.tokens);
            plot_quote(dat, c->shape.name);
            for (j = 0; j < v->n_estimator; j++)
                put_point(dat, c, v->estimator[j]);
            buf_putc(dat, '\n');
            cases++;
        }
    }
    return cases;
}

static bool has_points(const struct view *v, const char *estimator)
{
    int64_t k;

    for (k = 0; k < v->n_case; k++)
        if (is_shown(v->kase[k]) &&
            view_miss(v->kase[k], view_wave(v->kase[k], true), estimator,
                      "raw").known) return true;
    return false;
}

/* The panel of an estimator that applies to no case. gnuplot refuses to plot
** nothing, so it plots a line below the panel. */
static void put_reason(struct buf *b, const struct view *v, int j)
{
    const char *reason = view_reason(v, v->estimator[j]);
    char text[200];

    snprintf(text, sizeof text, "does not apply%s%s", *reason ? ": " : "",
             reason);
    buf_puts(b, "  set label 2 ");
    plot_quote(b, text);
    buf_puts(b, " at graph 0.5, graph 0.6 center\n"
             "  plot [1:10] [-1:1] -2 notitle\n  unset label 2\n");
}

/* The panel of one estimator, its columns at 3 + 2 * j of the data. */
static void put_panel(struct buf *b, const struct view *v, int j,
                      const int64_t *ep, int n)
{
    int i;

    buf_puts(b, "  set title ");
    plot_label(b, "", v->estimator[j], "");
    buf_printf(b, "\n  set xlabel \"%s\"\n",
               j + 1 == v->n_estimator ? "tokens in the wave" : "");
    if (!has_points(v, v->estimator[j])) {
        put_reason(b, v, j);
        return;
    }
    buf_puts(b, "  plot ");
    for (i = 0; i < n; i++)
        buf_printf(b, "\"tokens.dat\" index %d using 1:%d with points "
                   "pointtype %d pointsize 0.9 linecolor '%s' title "
                   "\"EP%d\", \\\n    ", i, 3 + 2 * j, plot_mark(ep[i]),
                   plot_colour(ep[i]), (int)ep[i]);
    buf_printf(b, "\"tokens.dat\" using 1:($%d == 1 ? $%d : NaN) with points "
               "pointtype 6 pointsize 1.6 linewidth 1.2 linecolor '#d55e00' "
               "title \"under\"\n", 4 + 2 * j, 3 + 2 * j);
}

bool plot_tokens(const struct view *v, struct plot *out)
{
    struct buf panels = BUF_INIT;
    int64_t ep[MAX_EP], cases;
    int n = find_ep(v, ep), j;

    if (n == 0) return false;
    plot_begin(out, "tokens", 900, 60 + PANEL * v->n_estimator);
    cases = put_data(v, ep, n, &out->dat);
    buf_puts(&out->gp,
             "set ylabel \"(estimate - peak) / peak, %\"\n"
             "set format y \"%+.0f\"\n"
             "set logscale x\nset format x \"%.0s%c\"\n"
             "set yrange [*<-1:1<*]\nset offsets 0, 0, 1, 0.5\n"
             "set xzeroaxis linewidth 2 linecolor '#000000' linetype 1\n"
             "set object 1 rectangle from graph 0, first -1000 to graph 1, "
             "first 0 fillcolor '#f7e3d4' fillstyle solid noborder behind\n"
             "set label 1 \"under: the estimate is below the peak\" at "
             "graph 0.98, graph 0.03 right textcolor '#a04000'\n"
             "set key outside right top vertical reverse Left\n");
    buf_printf(&panels, "  set multiplot layout %d,1 title \"Raw estimate "
               "against the peak, cold waves, balanced routing: %lld of %lld "
               "cases\"\n", v->n_estimator, (long long)cases,
               (long long)v->n_case);
    for (j = 0; j < v->n_estimator; j++) put_panel(&panels, v, j, ep, n);
    buf_puts(&panels, "  unset multiplot");
    if (panels.failed) out->gp.failed = true;
    plot_draw(out, buf_text(&panels));
    buf_free(&panels);
    return true;
}
