/*
** folder.h - the folder that a run writes: opened with what identifies the
** run, and the files in it that are not rows.
*/
#ifndef RUN_FOLDER_H
#define RUN_FOLDER_H

#include "run/run.h"
#include "run/scenarios.h"

/* What a user asked for, beside what the run's context says; borrowed. */
struct run_request {
    const char *only, *misses;      /* as given, or NULL */
    bool resume;
    int64_t shard, shards;          /* of cases, from 1; shards 0: all */
    char *const *scenario;          /* [of the set] as named; "-" is standard
                                       input */
    char *const *setting;           /* [n_setting] "name=value" */
    int n_setting;
    const char *const *estimator;   /* [n_estimator] files */
    int n_estimator;
    char *const *word;              /* [n_word] the command line */
    int n_word;
};

/* Text that is equal for equal runs: version, device, --only, --misses,
** settings, and the bytes of scenarios, estimators and all that they read (of
** a folder of weights: names, sizes and times of its files). */
int run_identify(const struct run_request *q, const struct run_context *x,
                 const struct scenario_set *set, struct buf *out,
                 struct err *e) MUST_CHECK;
/* Opens dir to be replaced, or continued with --resume. What makes two runs
** the same is run_identify's. Files that the run.json of a run that is
** replaced lists go, through no link. ERR_USAGE where the run reads a file in
** dir. */
int run_folder_open(const char *dir, const struct run_request *q,
                    const struct run_context *x,
                    const struct scenario_set *set, struct record **out,
                    struct err *e) MUST_CHECK;
/* Writes a case's files: dir/misses/NAME and dir/histograms/NAME, which r
** lists before, and NAME below the folder for snapshots. ERR_USAGE where
** another's file has the name. */
int run_folder_files(const char *dir, const char *snapshots,
                     struct record *r, const struct run_file *f, int64_t n,
                     struct err *e) MUST_CHECK;

#endif
