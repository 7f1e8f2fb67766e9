/*
** plot_change.c - the change itself: raw errors of packed real waves without
** expert parallelism, before and after, the under side marked.
*/
#include <string.h>

#include "report/plots/plot.h"

static bool is_shown(const struct record_found *c)
{
    int64_t w = view_wave(c, true);

    return strcmp(c->shape.scenario, "real-waves") == 0 && c->shape.ep == 1 &&
           view_miss(c, w, BEFORE, "raw").known &&
           view_miss(c, w, AFTER, "raw").known;
}

bool plot_change(const struct view *v, struct plot *out)
{
    struct buf tics = BUF_INIT;
    int64_t i, n = 0;

    for (i = 0; i < v->n_case; i++) n += is_shown(v->kase[i]);
    if (n == 0) return false;
    plot_begin(out, "change", 900, 420);
    buf_puts(&out->dat, "# wave, tokens; raw error in percent: before, "
             "after\n");
    for (i = n = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        int64_t w = view_wave(c, true);
        if (!is_shown(c)) continue;
        buf_printf(&out->dat, "%lld %lld %.4f %.4f\n", (long long)n,
                   (long long)c->shape.tokens,
                   view_miss(c, w, BEFORE, "raw").percent,
                   view_miss(c, w, AFTER, "raw").percent);
        buf_puts(&tics, n > 0 ? ", " : "");
        plot_quote(&tics, c->shape.name);
        buf_printf(&tics, " %lld", (long long)n++);
    }
    buf_printf(&out->gp, "set xtics (%s) rotate by -25 left\n"
               "set xrange [-0.6:%lld.6]\n", buf_text(&tics),
               (long long)n - 1);
    buf_puts(&out->gp,
             "set title \"Packed real waves, EP1: raw estimate against the "
             "peak\"\n"
             "set ylabel \"(estimate - peak) / peak, %\"\n"
             "set format y \"%+.0f\"\nset yrange [*<-1:1<*]\n"
             "set offsets 0, 0, graph 0.05, graph 0.12\n"
             "set xzeroaxis linewidth 2 linecolor '#000000' linetype 1\n"
             "set object 1 rectangle from graph 0, graph 0 to graph 1, "
             "first 0 fillcolor '#f7e3d4' fillstyle solid noborder behind\n"
             "set label 1 \"under: the estimate is below the peak\" at "
             "graph 0.98, graph 0.03 right textcolor '#a04000'\n"
             "set style fill solid\nset key outside right top vertical\n"
             "set bmargin 5\n");
    plot_draw(out, "  plot \"change.dat\" using ($1-0.18):3:(0.32) with boxes "
              "linecolor '#e69f00' title \"before\", \\\n    \"\" using "
              "($1+0.18):4:(0.32) with boxes linecolor '#0072b2' title "
              "\"after\"");
    if (tics.failed) out->gp.failed = true;
    buf_free(&tics);
    return true;
}
