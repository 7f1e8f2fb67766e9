/* fit_plot.c - see fit_plot.h */
#include "bench/fit_plot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "bench/command.h"
#include "report/plots/plot.h"

enum { POINTS = 16 };

/* The same shape with the batch scaled to tokens; one row of data. */
static int put_point(const struct shape *s, const struct fit *at,
                     int64_t tokens, struct buf *dat, struct err *e)
{
    struct shape x = *s;
    struct fit_source source = {&x, NULL};
    struct fit *f = malloc(sizeof *f);
    int i, rc = f == NULL ? err_nomem(e)
                          : fit_scale_batch(&s->batch, tokens, &x.batch, e);

    if (rc != ERR_OK) {
        free(f);
        return rc;
    }
    rc = fit_price(&source, at->memory, at->reserve, f, e);
    if (rc == ERR_OK) {
        buf_printf(dat, "%" PRId64, f->tokens);
        if (f->simulates)
            buf_printf(dat, " %.6f", (double)f->simulated.needed / 1e9);
        else
            buf_puts(dat, " ?");
        for (i = 0; i < PRICE_RECOMPUTING; i++)
            if (fit_is_priced(f, i))
                buf_printf(dat, " %.6f", (double)f->answer[i].needed / 1e9);
            else
                buf_puts(dat, " ?");
        buf_putc(dat, '\n');
    }
    batch_free(&x.batch);
    free(f);
    return rc;
}

/* The gnuplot script beside the data, so that a picture can be drawn anew. */
static void put_script(const struct fit *f, struct plot *p)
{
    static const char *const colour[] = {"#56b4e9", "#0072b2", "#009e73"};
    struct buf command = BUF_INIT;
    int i;

    buf_puts(&p->gp, "set title \"What a rank takes of its device\"\n"
             "set xlabel \"tokens in the wave\"\nset ylabel \"GB\"\n"
             "set format x \"%.0s%c\"\nset yrange [0:*]\n"
             "set key bottom right reverse Left\n");
    buf_printf(&command, "  plot \"fit.dat\" using 1:2 with linespoints "
               "pointtype 7 linewidth 2 linecolor '#000000' title "
               "\"simulated\"");
    for (i = 0; i < PRICE_RECOMPUTING; i++) {
        if (!fit_is_priced(f, i)) continue;
        buf_printf(&command, ", \\\n    \"\" using 1:%d with lines linewidth "
                   "1.5 linecolor '%s' title ", i + 3, colour[i % 3]);
        plot_quote(&command, f->answer[i].estimate.name);
    }
    buf_printf(&command, ", \\\n    %.6f with lines dashtype 2 linewidth 2 "
               "linecolor '#d55e00' title \"device, less what is kept "
               "free\"", (double)f->available / 1e9);
    if (command.failed) p->gp.failed = true;
    plot_draw(p, buf_text(&command));
    buf_free(&command);
}

int fit_plot(const char *dir, const struct shape *s, const struct fit *f,
             struct err *e)
{
    struct plot p = {NULL, BUF_INIT, BUF_INIT};
    int64_t most = num_max(f->tokens, f->grant.tokens), i;
    bool missing = false;
    int rc = file_make_dirs(dir, e);

    plot_begin(&p, "fit", 900, 560);
    buf_puts(&p.dat, "# tokens; GB: simulated, then each estimator's\n");
    for (i = 1; rc == ERR_OK && i <= POINTS; i++) {
        /* the last three beyond what was asked and granted */
        int64_t tokens = num_smul(most, i) / (POINTS - 3);
        if (tokens >= s->batch.n_seg)
            rc = put_point(s, f, tokens, &p.dat, e);
    }
    put_script(f, &p);
    if (rc == ERR_OK) rc = plot_save(dir, &p, e);
    plot_free(&p);
    if (rc == ERR_OK) rc = plot_run(dir, "fit", &missing, e);
    if (rc == ERR_OK && missing)
        say_warning("no gnuplot: %s/fit.gp draws the picture "
                    "(apt-get install gnuplot-nox)", dir);
    return rc;
}
