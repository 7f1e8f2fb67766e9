/*
** errors.h - raw errors of a scenario's waves, as a section shows them.
** Inside src/report.
*/
#ifndef REPORT_ERRORS_H
#define REPORT_ERRORS_H

#include "record/errors.h"
#include "report/view.h"

/* The estimator that is priced with what is known of routing. */
#define EVERYWHERE "per-rank-any"

/* Those of the view's cases, sorted; scenario NULL: of all. Without memory
** there are none, and the document has failed. */
void errors_of(struct view *v, const char *scenario,
               struct record_errors *out);

#endif
