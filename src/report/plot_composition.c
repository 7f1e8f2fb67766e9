/*
** plot_composition.c - what the peak is made of, beside both estimates: three
** stacked bars for each published case (or for the first cases there are).
*/
#include <stdio.h>

#include "report/plot.h"

enum { MAX_BARS = 8 };

/* Categories that are drawn as one, from the bottom of the bar up. */
static const struct part {
    const char *name, *colour;
    enum category from[4];
    int n;
} parts[] = {
    {"boundaries", "#332288", {CAT_BOUNDARIES}, 1},
    {"attention", "#88ccee", {CAT_ATTENTION}, 1},
    {"attention records", "#44aa99", {CAT_ATTENTION_RECORDS}, 1},
    {"GDN", "#117733", {CAT_GDN}, 1},
    {"residual, norm", "#999933", {CAT_RESIDUAL_NORM}, 1},
    {"MoE dispatch, routing", "#ddcc77", {CAT_MOE_DISPATCH, CAT_MOE_ROUTING},
     2},
    {"MoE experts", "#cc6677", {CAT_MOE_EXPERTS}, 1},
    {"shared expert", "#882255", {CAT_SHARED_EXPERT}, 1},
    {"gradients", "#aa4499", {CAT_INPUT_GRADIENT, CAT_ADAPTER_GRADIENTS}, 2},
    {"workspace, head", "#777777", {CAT_WORKSPACE, CAT_HEAD}, 2},
    {"other", "#bbbbbb", {CAT_OUTPUTS, CAT_HYBRIDEP, CAT_ROUNDING, CAT_OTHER},
     4},
};
enum { N_PARTS = sizeof parts / sizeof *parts };

static void put_bar(struct buf *b, int x, const char *bar,
                    const struct record_found *c, int64_t w,
                    const char *source)
{
    int i, k;

    buf_printf(b, "%d ", x);
    plot_quote(b, bar);
    for (i = 0; i < N_PARTS; i++) {
        int64_t sum = 0;
        for (k = 0; k < parts[i].n; k++)
            sum += view_bytes(c, w, RECORD_MAX, source,
                              category_name(parts[i].from[k]));
        buf_printf(b, " %.6f", (double)sum / 1e9);
    }
    buf_putc(b, '\n');
}

static int choose(const struct view *v, const struct record_found **out)
{
    int n = 0, pass;
    int64_t i;

    for (pass = 0; pass < 2 && n == 0; pass++)
        for (i = 0; i < v->n_case && n < MAX_BARS; i++)
            if (view_wave(v->kase[i], true) >= 0 &&
                (pass == 1 || view_is_published(v->kase[i])))
                out[n++] = v->kase[i];
    return n;
}

static void put_labels(struct plot *p, const struct record_found **c, int n)
{
    int i;

    buf_puts(&p->gp, "set xtics (");
    for (i = 0; i < n; i++)
        buf_printf(&p->gp, "%s\"before\" %d, \"after\" %d, \"peak\" %d",
                   i ? ", " : "", 4 * i, 4 * i + 1, 4 * i + 2);
    buf_printf(&p->gp, ")\nset xrange [-0.8:%d.8]\n", 4 * n - 2);
    for (i = 0; i < n; i++) {
        buf_printf(&p->gp, "set label %d ", i + 1);
        plot_quote(&p->gp, c[i]->shape.name);
        buf_printf(&p->gp, " at %d, graph -0.12 center\n", 4 * i + 1);
    }
}

bool plot_composition(const struct view *v, struct plot *out)
{
    const struct record_found *c[MAX_BARS];
    struct buf command = BUF_INIT;
    int n = choose(v, c), i;

    if (n == 0) return false;
    plot_begin(out, "composition", 1000, 620);
    buf_puts(&out->dat, "# bar, name, GB of");
    for (i = 0; i < N_PARTS; i++)
        buf_printf(&out->dat, "%s %s", i ? ";" : "", parts[i].name);
    buf_putc(&out->dat, '\n');
    for (i = 0; i < n; i++) {
        int64_t w = view_wave(c[i], true);
        put_bar(&out->dat, 4 * i, "before", c[i], w, BEFORE);
        put_bar(&out->dat, 4 * i + 1, "after", c[i], w, AFTER);
        put_bar(&out->dat, 4 * i + 2, "peak", c[i], w, "peak");
    }
    put_labels(out, c, n);
    buf_puts(&out->gp,
             "set title \"Raw estimates and the peak of the most-loaded "
             "rank, cold wave\"\n"
             "set ylabel \"GB\"\nset yrange [0:*]\n"
             "set bmargin 5\n"
             "set key outside right center vertical reverse Left width 1\n"
             "set style fill solid 1.0 border linecolor '#ffffff'\n");
    /* whole bars first, each later one shorter by its top part */
    for (i = N_PARTS - 1; i >= 0; i--)
        buf_printf(&command, "%s\"%s\" using 1:(sum [k=3:%d] column(k)):(0.8) "
                   "with boxes linecolor '%s' title \"%s\"",
                   i == N_PARTS - 1 ? "" : ", \\\n    ",
                   i == N_PARTS - 1 ? "composition.dat" : "", 3 + i,
                   parts[i].colour, parts[i].name);
    buf_printf(&command, ", \\\n    \"\" using 1:(sum [k=3:%d] column(k)):"
               "(sprintf(\"%%.1f\", sum [k=3:%d] column(k))) with labels "
               "offset 0,0.7 notitle", 2 + N_PARTS, 2 + N_PARTS);
    if (command.failed) out->gp.failed = true;
    plot_draw(out, buf_text(&command));
    buf_free(&command);
    return true;
}
