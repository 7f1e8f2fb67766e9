/*
** run_plain.h - what "peakproof run" takes beside scenarios: --lengths, which
** stands for one, --shard, and --estimator.
*/
#ifndef BENCH_RUN_PLAIN_H
#define BENCH_RUN_PLAIN_H

#include "bench/command.h"
#include "run/run.h"
#include "run/scenarios.h"

/* Of the command's table (run_options.c). */
extern const struct command_option run_options[];
extern const char *const run_examples[];

/* The scenario and settings that --lengths and its companions stand for. */
struct run_plain {
    bool on;                /* --lengths was given */
    char *operand[1];
    char *setting[8];       /* owned */
    int n_setting;
};

/* ERR_USAGE where neither a scenario nor --lengths is there, or both. */
int run_plain_read(const struct args *a, struct run_plain *out,
                   struct err *e) MUST_CHECK;
void run_plain_free(struct run_plain *p);

/* --shard I/N; *of stays 0 without. */
int run_shard_read(const struct args *a, int64_t *shard, int64_t *of,
                   struct err *e) MUST_CHECK;

/* The files of --estimator, into x->extra; the caller frees them. */
int run_estimators_load(const struct args *a, const struct scenario_set *set,
                        const struct scenario_limits *limits,
                        struct run_context *x, struct err *e) MUST_CHECK;

#endif
