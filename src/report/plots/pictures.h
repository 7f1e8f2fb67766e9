/*
** pictures.h - all pictures of a report: one table. They are drawn before the
** pages are written, so that a page links what is there and no more.
** Inside src/report.
*/
#ifndef REPORT_PICTURES_H
#define REPORT_PICTURES_H

#include "report/plots/plot.h"

/* What became of the pictures of a folder. */
struct pictures {
    enum picture_state state[PICTURE_COUNT];
    bool no_gnuplot;        /* pictures were wanted and could not be drawn */
    struct buf warning;     /* a line for each that gnuplot refused */
};

/* Writes NAME.dat and NAME.gp of every picture that has something to show,
** and where draw is set NAME.svg and NAME.png, by one gnuplot each: one that
** fails is a warning. Pictures of an earlier report go first. Appends the
** names of the files in dir to written, a line each. The warnings are the
** caller's. */
int pictures_make(const char *dir, bool draw, const struct record_set *set,
                  const struct figures *published, struct pictures *out,
                  struct buf *written, struct err *e) MUST_CHECK;

#endif
