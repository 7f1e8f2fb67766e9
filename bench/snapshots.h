/*
** snapshots.h - what replay and compare share: how groups are asked for, and
** two snapshots against each other.
*/
#ifndef BENCH_SNAPSHOTS_H
#define BENCH_SNAPSHOTS_H

#include "bench/command.h"
#include "snapshot/account.h"

/* The options --by, --patterns and --rows, which the command must have, into
** ask. The caller frees *p. */
int snapshots_ask(const struct args *a, struct account_ask *ask,
                  struct patterns *p, struct err *e) MUST_CHECK;

/* Whether two operands are files and no folders: then they are compared as
** snapshots. */
bool snapshots_are(const char *a, const char *b);
/* *changed counts devices whose peaks differ. */
int snapshots_compare(const struct args *a, const struct account_ask *ask,
                      int64_t *changed, struct err *e) MUST_CHECK;

/* Whether replay is to write files, and those of one device: --timeline,
** --perfetto, --folded. */
bool replay_writes(const struct args *a);
/* ERR_USAGE where one of them would take a snapshot's place, or another's. */
int replay_writes_check(const struct args *a, struct err *e) MUST_CHECK;
int replay_write(const struct args *a, const struct account *x,
                 const struct account_ask *ask, const char *origin,
                 struct err *e) MUST_CHECK;

/* --by, for tables of options. */
#define SNAPSHOTS_BY \
    {.name = "by", .arg = "KEY", .values = compose_names, \
     .help = "what to group a snapshot's bytes by: frame (default), module, " \
             "file, category, size, stream, pool or age"}
#define SNAPSHOTS_PATTERNS \
    {.name = "patterns", .arg = "FILE", \
     .help = "group by the lines \"GROUP: PATTERN\" of a file: the first " \
             "whose pattern stands in a frame \"name (file:line)\""}
#define SNAPSHOTS_ROWS \
    {.name = "rows", .arg = "N", \
     .help = "groups to show in text (default: 12; 0: all)"}

#endif
