/*
** plot.h - pictures: a data file, a gnuplot script, and the picture that
** gnuplot makes of them. Data and script are deterministic and written
** always; pictures only where gnuplot is installed.
*/
#ifndef REPORT_PLOT_H
#define REPORT_PLOT_H

#include "record/timeline.h"
#include "report/view.h"

/* NAME.dat and NAME.gp; NAME.svg and NAME.png come from the script. */
struct plot { const char *name; struct buf dat, gp; };

/* Each fills out and returns true when it has anything to show. */
bool plot_errors(const struct view *v, struct plot *out);
bool plot_tokens(const struct view *v, struct plot *out);
bool plot_composition(const struct view *v, struct plot *out);
bool plot_losses(const struct view *v, struct plot *out);
bool plot_change(const struct view *v, struct plot *out);
bool plot_measured(const struct view *v, struct plot *out);
/* What a rank holds in a wave of the case, from event to event, with the peak
** and the raw estimates marked. name is the picture's; it must be one of
** plot_name_ok. */
void plot_timeline(const struct record_found *c, int64_t wave, int64_t rank,
                   const struct timeline *t, const char *name,
                   struct plot *out);
void plot_free(struct plot *p);

/* The head of every script: fonts, grid, the two terminals (the picture is
** drawn for each), in that order: plot_begin, the settings, plot_draw with
** the lines that draw, which both terminals repeat. */
void plot_begin(struct plot *p, const char *name, int width, int height);
void plot_draw(struct plot *p, const char *command);
/* Writes dir/NAME.dat and dir/NAME.gp; neither where either has failed. */
int plot_save(const char *dir, const struct plot *p, struct err *e)
    MUST_CHECK;
/* Letters, digits, ".", "_" and "-" only: what a script can hold unquoted. */
bool plot_name_ok(const char *name);
/* A text inside gnuplot double quotes: escaped against quotes, markup and,
** above all, backticks, which gnuplot hands to a shell. */
void plot_quote(struct buf *b, const char *s);
/* Quoted: before, the estimator as people call it, after. */
void plot_label(struct buf *b, const char *before, const char *estimator,
                const char *after);
enum { PLOT_NAME = 64 };
/* The names of n cases by at most so many bytes (8 to PLOT_NAME - 1) in out,
** [n]: where one is longer, what all begin with is "..", and so is the middle
** of those that are still longer. Returns the bytes of the longest. */
size_t plot_names(const struct record_found *const *c, int n, size_t most,
                  char (*out)[PLOT_NAME]);
/* At most max cases to draw, in their order: the published; where there are
** none all, or those whose raw errors are largest (*worst). Returns how
** many. */
int plot_choose(const struct view *v, const struct record_found **out,
                int max, bool *worst);
/* The mark (gnuplot's pointtype) of an EP, in every picture. */
int plot_mark(int64_t ep);
/* Colours of things that are told apart, from 0; they come again. */
const char *plot_palette(int i);

/* Runs gnuplot on dir/NAME.gp. *missing is set when there is no gnuplot. One
** that fails, draws no picture or takes longer than the seconds of
** PEAKPROOF_GNUPLOT_SECONDS (60) is ERR_RUN, and may leave half a picture. */
int plot_run(const char *dir, const char *name, bool *missing, struct err *e)
    MUST_CHECK;

#endif
