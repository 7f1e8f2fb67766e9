/*
** plot_tokens.c - raw error of cold waves against their tokens, a panel for
** each estimator, all on the same axes. A series is a scenario, model and EP:
** its colour is the scenario's and model's, its mark the EP's; where its waves
** grow from case to case it is a trend, and joined. Waves under the line are
** ringed, and the under side is shaded.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/plots/plot.h"

/* The last series takes what is left. Pixels of the picture, of its panels and
** of a line of the key below them. */
enum { MAX_SERIES = 14, LEAST_TREND = 3 };
enum { WIDTH = 1000, TOP = 80, PANEL = 250, GAP = 85, KEY = 22, COLUMNS = 2 };

struct series {
    const struct record_found *first;
    int colour;             /* of the palette: one a scenario and model */
    int64_t n;              /* waves */
    bool grows;             /* each has more tokens than the one before */
    int64_t last;           /* tokens of the last one */
};

struct all_series {
    struct series s[MAX_SERIES];
    int n, n_colour;
    bool rest;              /* the last holds several */
};

/* One point a wave: cases at other routings are the same wave again. */
static bool is_shown(const struct record_found *c)
{
    return view_wave(c, true) >= 0 && c->shape.tokens > 0 &&
           strcmp(c->shape.routing, "balanced") == 0;
}

static bool same_colour(const struct record_found *a,
                        const struct record_found *b)
{
    return strcmp(a->shape.scenario, b->shape.scenario) == 0 &&
           strcmp(a->shape.model, b->shape.model) == 0;
}

static bool same_series(const struct record_found *a,
                        const struct record_found *b)
{
    return same_colour(a, b) && a->shape.ep == b->shape.ep;
}

/* The series of a case, MAX_SERIES - 1 when that is the rest; -1: none yet. */
static int series_of(const struct all_series *all,
                     const struct record_found *c)
{
    int i;

    for (i = 0; i < all->n; i++)
        if (same_series(all->s[i].first, c)) return i;
    return all->rest ? MAX_SERIES - 1 : -1;
}

static int new_series(struct all_series *all, const struct record_found *c)
{
    struct series s = {.first = c, .grows = true};
    int i;

    if (all->n == MAX_SERIES) {
        all->rest = true;
        all->s[MAX_SERIES - 1].grows = false;
        return MAX_SERIES - 1;
    }
    s.colour = -1;
    for (i = 0; i < all->n; i++)
        if (same_colour(all->s[i].first, c)) s.colour = all->s[i].colour;
    if (s.colour < 0) s.colour = all->n_colour++;
    all->s[all->n] = s;
    return all->n++;
}

static void find_series(const struct view *v, struct all_series *all)
{
    int64_t i;
    int k;

    memset(all, 0, sizeof *all);
    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        struct series *s;
        if (!is_shown(c)) continue;
        k = series_of(all, c);
        s = &all->s[k >= 0 ? k : new_series(all, c)];
        s->grows &= s->n == 0 || c->shape.tokens > s->last;
        s->last = c->shape.tokens;
        s->n++;
    }
}

/* "? ?" where the estimator does not apply. */
static void put_point(struct buf *dat, const struct record_found *c,
                      const char *estimator)
{
    struct miss m = view_miss(c, view_wave(c, true), estimator, "raw");

    if (m.known) buf_printf(dat, " %.4f %d", m.percent, m.under);
    else buf_puts(dat, " ? ?");
}

/* The model is named where the scenario has another one too. */
static void series_name(const struct all_series *all, int i, char *out,
                        size_t cap)
{
    const struct record_case *c = &all->s[i].first->shape;
    bool models = false;
    int k;

    for (k = 0; k < all->n; k++) {
        const struct record_case *x = &all->s[k].first->shape;
        models |= strcmp(x->scenario, c->scenario) == 0 &&
                  strcmp(x->model, c->model) != 0;
    }

    if (all->rest && i == MAX_SERIES - 1)
        snprintf(out, cap, "others");
    else
        snprintf(out, cap, "%s%s%s, EP%d", c->scenario,
                 models ? ", " : "", models ? c->model : "",
                 (int)c->ep);
}

/* One block of data for each series, two blank lines between (gnuplot's
** index); returns the number of cases in them. */
static int64_t put_data(const struct view *v, const struct all_series *all,
                        struct buf *dat)
{
    int64_t k, cases = 0;
    char name[300];
    int i, j;

    buf_puts(dat, "# tokens, case; for each estimator raw error in percent, "
             "1 when under:");
    for (j = 0; j < v->n_estimator; j++)
        buf_printf(dat, " %s", v->estimator[j]);
    buf_puts(dat, "; a block for each scenario, model and EP\n");
    for (i = 0; i < all->n; i++) {
        series_name(all, i, name, sizeof name);
        buf_printf(dat, "%s# %s\n", i ? "\n\n" : "", name);
        for (k = 0; k < v->n_case; k++) {
            const struct record_found *c = v->kase[k];
            if (!is_shown(c) || series_of(all, c) != i) continue;
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

/* 1, 2 and 5 of every power of ten. */
static void put_tics(struct buf *b, int64_t least, int64_t most)
{
    static const int step[] = {1, 2, 5};
    bool any = false;
    int64_t power;
    int i;

    buf_puts(b, "set xtics (");
    for (power = 1; power <= most; power *= 10)
        for (i = 0; i < 3; i++) {
            int64_t x = power * step[i];
            if (10 * x < 8 * least || 10 * x > 12 * most) continue;
            buf_printf(b, "%s%lld", any ? ", " : "", (long long)x);
            any = true;
        }
    buf_puts(b, ")\n");
}

/* Axes that fit every point of every panel, with room below for a line of
** text. */
static void put_axes(const struct view *v, struct buf *b)
{
    double low = -0.5, high = 0.5;
    int64_t i, least = INT64_MAX, most = 1;
    int j;

    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        if (!is_shown(c)) continue;
        if (c->shape.tokens < least) least = c->shape.tokens;
        if (c->shape.tokens > most) most = c->shape.tokens;
        for (j = 0; j < v->n_estimator; j++) {
            struct miss m = view_miss(c, view_wave(c, true), v->estimator[j],
                                      "raw");
            if (!m.known) continue;
            low = fmin(low, m.percent);
            high = fmax(high, m.percent);
        }
    }
    buf_printf(b, "set xrange [%.0f:%.0f]\nset yrange [%.3f:%.3f]\n",
               0.85 * (double)least, ceil(1.15 * (double)most),
               low - 0.14 * (high - low), high + 0.06 * (high - low));
    buf_puts(b, "set format x \"%.0s%c\"\n");
    if (most < 4 * least) return;
    buf_puts(b, "set logscale x\n");
    put_tics(b, least, most);
}

/* A series by a column of the data; 0: its entry in the key, which must not
** depend on what the panel shows. */
static void put_series(struct buf *b, const struct all_series *all, int i,
                       int column)
{
    const struct series *s = &all->s[i];
    char name[300];

    if (column > 0)
        buf_printf(b, "\"tokens.dat\" index %d using 1:%d", i, column);
    else
        buf_puts(b, "-1e9");
    buf_printf(b, " with %s pointtype %d pointsize 0.8 linecolor '%s' ",
               s->grows && s->n >= LEAST_TREND ? "linespoints" : "points",
               plot_mark(s->first->shape.ep), plot_palette(s->colour));
    series_name(all, i, name, sizeof name);
    if (column > 0) buf_puts(b, "notitle");
    if (column == 0) buf_puts(b, "title ");
    if (column == 0) plot_quote(b, name);
    buf_puts(b, ", \\\n    ");
}

#define RING "with points pointtype 6 pointsize 1.6 linewidth 1.2 linecolor " \
             "'#d55e00' "

/* The key, of the last panel. */
static void put_key(struct buf *b, const struct view *v, int j,
                    const struct all_series *all)
{
    int i;

    if (j + 1 < v->n_estimator) {
        buf_puts(b, "-1e9 notitle\n");
        return;
    }
    for (i = 0; i < all->n; i++) put_series(b, all, i, 0);
    buf_puts(b, "-1e9 " RING "title \"under\"\n");
}

/* The panel of an estimator that applies to no case. gnuplot refuses to plot
** nothing, so it plots a line below the panel. */
static void put_reason(struct buf *b, const struct view *v, int j,
                       const struct all_series *all)
{
    const char *reason = view_reason(v, v->estimator[j]);
    char text[200];

    snprintf(text, sizeof text, "does not apply%s%s", *reason ? ": " : "",
             reason);
    buf_puts(b, "  set label 2 ");
    plot_quote(b, text);
    buf_puts(b, " at graph 0.5, graph 0.6 center\n  plot ");
    put_key(b, v, j, all);
    buf_puts(b, "  unset label 2\n");
}

static int key_lines(const struct all_series *all)
{
    return (all->n + 1 + COLUMNS - 1) / COLUMNS;
}

static int height_of(const struct view *v, const struct all_series *all)
{
    return TOP + v->n_estimator * (PANEL + GAP) + KEY * key_lines(all);
}

/* The place of a panel, and the key below the last one. */
static void put_place(struct buf *b, const struct view *v, int j,
                      const struct all_series *all)
{
    double height = height_of(v, all), top = TOP + j * (PANEL + GAP);

    buf_printf(b, "  set lmargin at screen 0.08\n  set rmargin at screen "
               "0.97\n  set tmargin at screen %.4f\n  set bmargin at screen "
               "%.4f\n", 1 - top / height, 1 - (top + PANEL) / height);
    if (j + 1 < v->n_estimator)
        buf_puts(b, "  unset key\n");
    else
        buf_printf(b, "  set key at screen 0.5, screen %.4f center bottom "
                   "horizontal maxcols %d reverse Left\n", 4 / height,
                   COLUMNS);
}

/* The panel of one estimator, its columns at 3 + 2 * j of the data. */
static void put_panel(struct buf *b, const struct view *v, int j,
                      const struct all_series *all)
{
    int i;

    put_place(b, v, j, all);
    buf_puts(b, "  set title ");
    plot_label(b, "", v->estimator[j], "");
    buf_printf(b, "\n  set xlabel \"%s\"\n",
               j + 1 == v->n_estimator ? "tokens in the wave" : "");
    if (!has_points(v, v->estimator[j])) {
        put_reason(b, v, j, all);
        return;
    }
    buf_puts(b, "  plot ");
    for (i = 0; i < all->n; i++)
        put_series(b, all, i, 3 + 2 * j);
    buf_printf(b, "\"tokens.dat\" using 1:($%d == 1 ? $%d : NaN) " RING
               "notitle, \\\n    ", 4 + 2 * j, 3 + 2 * j);
    put_key(b, v, j, all);
}

bool plot_tokens(const struct view *v, struct plot *out)
{
    struct buf panels = BUF_INIT;
    struct all_series *all = malloc(sizeof *all);
    int64_t cases;
    int j;

    if (all == NULL) out->gp.failed = true;
    if (all == NULL) return true;
    find_series(v, all);
    if (all->n == 0) {
        free(all);
        return false;
    }
    plot_begin(out, "tokens", WIDTH, height_of(v, all));
    cases = put_data(v, all, &out->dat);
    put_axes(v, &out->gp);
    buf_puts(&out->gp,
             "set ylabel \"(estimate - peak) / peak, %\"\n"
             "set format y \"%+.0f\"\n"
             "set xzeroaxis linewidth 2 linecolor '#000000' linetype 1\n"
             "set object 1 rectangle from graph 0, graph 0 to graph 1, "
             "first 0 fillcolor '#f7e3d4' fillstyle solid noborder behind\n"
             "set label 1 \"under: the estimate is below the peak\" at "
             "graph 0.98, graph 0.05 right textcolor '#a04000'\n");
    buf_printf(&panels, "  set multiplot layout %d,1 title \"Raw estimate "
               "against the peak, cold waves, balanced routing: %lld of %lld "
               "cases\"\n", v->n_estimator, (long long)cases,
               (long long)v->n_case);
    for (j = 0; j < v->n_estimator; j++) put_panel(&panels, v, j, all);
    buf_puts(&panels, "  unset multiplot");
    if (panels.failed) out->gp.failed = true;
    plot_draw(out, buf_text(&panels));
    buf_free(&panels);
    free(all);
    return true;
}
