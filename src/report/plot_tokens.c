/*
** plot_tokens.c - raw per-rank error of every cold wave against its tokens.
** Marks differ by EP; waves under the line are drawn again, larger, in a
** colour of their own, and the under side is shaded.
*/
#include <string.h>

#include "report/plot.h"

enum { MAX_EP = 8 };

/* One point a wave: cases at other routings are the same wave again. */
static struct miss miss_of(const struct record_found *c)
{
    struct miss m = view_miss(c, view_wave(c, true), AFTER, "raw");

    m.known &= strcmp(c->shape.routing, "balanced") == 0;
    return m;
}

/* The EP sizes there are, ascending. */
static int find_ep(const struct view *v, int64_t out[MAX_EP])
{
    int n = 0, i;
    int64_t k;

    for (k = 0; k < v->n_case; k++) {
        const struct record_found *c = v->kase[k];
        if (!miss_of(c).known) continue;
        for (i = 0; i < n && out[i] < c->shape.ep; i++) continue;
        if (n == MAX_EP || (i < n && out[i] == c->shape.ep)) continue;
        memmove(&out[i + 1], &out[i], (size_t)(n++ - i) * sizeof *out);
        out[i] = c->shape.ep;
    }
    return n;
}

/* One block of data for each EP, two blank lines between (gnuplot's index);
** returns the number of points. */
static int64_t put_data(const struct view *v, const int64_t *ep, int n,
                        struct buf *dat)
{
    int64_t k, points = 0;
    int i;

    buf_puts(dat, "# tokens, raw per-rank error in percent, 1 when under, "
             "case; a block for each EP\n");
    for (i = 0; i < n; i++) {
        buf_printf(dat, "%s# EP%d\n", i ? "\n\n" : "", (int)ep[i]);
        for (k = 0; k < v->n_case; k++) {
            const struct record_found *c = v->kase[k];
            struct miss m = miss_of(c);
            if (!m.known || c->shape.ep != ep[i] || c->shape.tokens == 0)
                continue;
            buf_printf(dat, "%lld %.4f %d ", (long long)c->shape.tokens,
                       m.percent, m.under);
            plot_quote(dat, c->shape.name);
            buf_putc(dat, '\n');
            points++;
        }
    }
    return points;
}

bool plot_tokens(const struct view *v, struct plot *out)
{
    static const char *const colour[] = {"#e69f00", "#0072b2", "#009e73",
                                         "#cc79a7"};
    static const int mark[] = {8, 7, 4, 12};
    struct buf command = BUF_INIT;
    int64_t ep[MAX_EP];
    int n = find_ep(v, ep), i;

    if (n == 0) return false;
    plot_begin(out, "tokens", 900, 520);
    put_data(v, ep, n, &out->dat);
    buf_puts(&out->gp,
             "set title \"Raw per-rank estimate against the peak, cold "
             "waves\"\n"
             "set xlabel \"tokens in the wave\"\n"
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
    for (i = 0; i < n; i++)
        buf_printf(&command, "%s\"tokens.dat\" index %d using 1:2 with points "
                   "pointtype %d pointsize 0.9 linecolor '%s' title \"EP%d\"",
                   i ? ", \\\n    " : "", i, mark[i % 4], colour[i % 4],
                   (int)ep[i]);
    buf_puts(&command, ", \\\n    \"tokens.dat\" using 1:($3 == 1 ? $2 : NaN) "
             "with points pointtype 6 pointsize 1.6 linewidth 1.2 linecolor "
             "'#d55e00' title \"under\"");
    if (command.failed) out->gp.failed = true;
    plot_draw(out, buf_text(&command));
    buf_free(&command);
    return true;
}
