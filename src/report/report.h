/*
** report.h - tables and pictures from the files of a run.
**
** accuracy.* holds the cases of the dry device and is the same bytes for the
** same records. What varies is apart: timing.*, and cpu.* and device.* for
** cases that computed.
*/
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

enum report_format { REPORT_MD, REPORT_CSV, REPORT_JSON, REPORT_HTML };

struct report_options {
    const char *dir;        /* the run's folder; everything is written there */
    const char *published;  /* folder of the published figures; NULL: none */
    enum report_format format;
    bool pictures;          /* run gnuplot where it is installed */
};

/* Zero it before use; free it also after a failure. */
struct report_said {
    struct buf written;     /* names of files in dir that it wrote, a line
                               each */
    struct buf warning;     /* a line for each picture that was not drawn */
    bool no_gnuplot;        /* pictures were wanted, and there is none */
    bool unfinished;        /* the pages cover a part of the run's cases */
    bool sweep, sweep_unfinished;   /* there is a run in the folder's sweep,
                                       of which the same is true */
};

/* A page is written for each device that has cases. Files are replaced
** whole: a failure leaves the old one. */
int report_write(const struct report_options *o, struct report_said *said,
                 struct err *e) MUST_CHECK;
void report_said_free(struct report_said *s);

/* One case, estimate against peak, term by term and rank by rank: Markdown,
** or JSON when json is not NULL. name is "case" or "scenario/case"; one that
** is not there, or stands for several, is ERR_USAGE. */
int report_explain(const char *dir, const char *name, struct buf *text,
                   json_t **json, struct err *e) MUST_CHECK;

#endif
