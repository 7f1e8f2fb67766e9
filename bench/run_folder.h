/*
** run_folder.h - the folder that a run writes: opened with what identifies the
** run, and the files in it that are not rows.
*/
#ifndef BENCH_RUN_FOLDER_H
#define BENCH_RUN_FOLDER_H

#include "bench/run.h"
#include "bench/scenarios.h"

/* Opens dir to be replaced, or continued with --resume. What makes two runs
** the same: device, --only, settings, the texts of scenarios and estimators.
** Miss reports of a run that is replaced go. */
int run_folder_open(const char *dir, const struct args *a, const char *device,
                    const struct scenario_set *set, struct record **out,
                    struct err *e) MUST_CHECK;
/* Writes dir/misses/NAME, or NAME below the folder for snapshots. */
int run_folder_file(const char *dir, const char *snapshots,
                    const struct run_file *f, struct err *e) MUST_CHECK;

#endif
