/* plot_losses.c - the loss of every wave, a line for each case. */
#include "report/plots/plot.h"

enum { MAX_LINES = 6, LEAST_WAVES = 3 };

/* The cases to draw, and in *all how many could be. */
static int choose(const struct view *v, const struct record_found **out,
                  int64_t *all)
{
    int64_t i;
    int n = 0;

    *all = 0;
    for (i = 0; i < v->n_case; i++) {
        if (v->kase[i]->n_loss < LEAST_WAVES) continue;
        if (n < MAX_LINES) out[n++] = v->kase[i];
        ++*all;
    }
    return n;
}

/* One block for each case, two blank lines between (gnuplot's index). */
static void put_data(const struct record_found *const *c, int n,
                     struct buf *dat)
{
    int64_t k;
    int i;

    buf_puts(dat, "# wave, loss; a block for each case\n");
    for (i = 0; i < n; i++) {
        buf_printf(dat, "%s# ", i ? "\n\n" : "");
        plot_quote(dat, c[i]->shape.name);
        buf_putc(dat, '\n');
        for (k = 0; k < c[i]->n_loss; k++)
            buf_printf(dat, "%lld %.6f\n", (long long)c[i]->loss[k].wave,
                       c[i]->loss[k].loss);
    }
}

bool plot_losses(const struct view *v, struct plot *out)
{
    static const char *const colour[MAX_LINES] = {
        "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"
    };
    const struct record_found *c[MAX_LINES];
    struct buf command = BUF_INIT;
    int64_t all;
    int n = choose(v, c, &all), i;

    if (n == 0) return false;
    plot_begin(out, "losses", 900, 420);
    put_data(c, n, &out->dat);
    buf_puts(&out->gp, "set title \"Loss by wave");
    if (n < all)
        buf_printf(&out->gp, ": the first %d of %lld cases", n,
                   (long long)all);
    buf_puts(&out->gp,
             "\"\n"
             "set xlabel \"wave\"\n"
             "set ylabel \"loss, nats a token\"\n"
             "set yrange [0:*]\n"
             "set key top right\n");
    buf_puts(&command, "  plot ");
    for (i = 0; i < n; i++) {
        buf_printf(&command, "%s\"losses.dat\" index %d using 1:2 with "
                   "linespoints pointtype %d pointsize 0.7 linewidth 2 "
                   "linecolor '%s' title ", i ? ", \\\n    " : "", i,
                   i % 2 ? 4 : 7, colour[i]);
        plot_quote(&command, c[i]->shape.name);
    }
    if (command.failed) out->gp.failed = true;
    plot_draw(out, buf_text(&command));
    buf_free(&command);
    return true;
}
