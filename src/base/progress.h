/*
** progress.h - one line of progress on standard error, for people: rewritten
** at most ten times a second, and cleared before anything else is said. In a
** pipe, and where TERM is dumb or unset or NO_COLOR is set, it is silent.
*/
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool on;
    int width;              /* columns of the terminal */
    bool shown;             /* a line stands there */
    int64_t last_ns;        /* when it was written */
};

void progress_init(struct progress *p);
/* "[ 7/24] text". The first call and the last (done == total) show at once,
** those between when a tenth of a second has passed. */
void progress_show(struct progress *p, int64_t done, int64_t total,
                   const char *text);
void progress_clear(struct progress *p);

#endif
