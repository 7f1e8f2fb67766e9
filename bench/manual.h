/*
** manual.h - the man page and the completion of bash, from the same tables as
** the help: every command and every option stands in both.
*/
#ifndef BENCH_MANUAL_H
#define BENCH_MANUAL_H

#include "bench/command.h"

/* peakproof.1, for man. */
void manual_page(const struct command *const *all, struct buf *out);
/* Completes commands, options, their fixed values, scenarios, and the topics
** of help: topic, NULL-ended. */
void manual_completion(const struct command *const *all,
                       const char *const *topic, struct buf *out);

#endif
