/*
** run.h - one case of a scenario, from the script's words to rows of CSV.
**
**   run_case.c    model, plan, prices, step, result: the order of things
**   work.c        what all parts use (work.h)
**   pricing.c     what the estimators are told, and what they say
**   waves.c       the case's waves on the device, and what records keep
**   ranks_run.c   its ranks at work, each a thread where it computes
**   segments.c    what a device answered, and the same answers on dry
**   tokens.c      tokens and targets for devices that compute
**   labels.c      what a file says instead, labels_read.c
**   beside_dry.c  such a device held beside dry
**   crew.c        communicators and GPUs; driver.c, processes.c beside it
**   rows.c        the result as rows of the files that a run writes
**   adapters.c    what the ranks have learned, and saving it
**   dump.c        waves' numbers for comparison
**   show.c        the result as a table and as JSON, tolerances
**   miss.c        miss reports, miss_replay.c priced again
**   pack.c        the result as bytes for a socket
**   checks.c      what --check checks beside tolerances
**   kept.c        what cases that --resume keeps say again
**   identity.c    what makes two runs the same; folder.c the folder it writes
**   summary.c     what a run's records say in a few lines, and its worst cases
**   as_lua.c      a case as the text of a scenario
**   jobs.c        cases one by one, or in worker processes; results in order
**
** Beside cases: scenarios.c and data_dir.c find what a command names, device.c
** the devices, estimates.c and import.c are what price and import do, route.c
** and timeline.c a forward and a wave for a command of their own.
**
** A case's result depends on the case and the device alone, and is text, so
** that it can come through a socket from a worker.
*/
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include <jansson.h>
#include <stdatomic.h>

#include "comm/launch.h"
#include "comm/rendezvous.h"
#include "dev/dev.h"
#include "dev/module.h"
#include "plan/cache.h"
#include "plan/plan.h"
#include "price/price.h"
#include "record/errors.h"
#include "script/scenario.h"
#include "step/step.h"

/* The same for all cases of a run. */
struct run_context {
    const char *data;               /* data folder */
    const char *device;             /* its name */
    const struct dev_ops *ops;
    bool check;                     /* hold tolerances */
    double miss_percent;            /* < 0: no miss reports */
    bool snapshots;                 /* of every rank's allocator */
    bool histograms;                /* of the routes of computed waves */
    const char *save_adapters;      /* folder, or NULL */
    const char *dump;               /* folder for waves' numbers, or NULL */
    const int64_t *dump_rows;       /* [n_dump_rows] packed rows whose logits
                                       are dumped */
    int64_t n_dump_rows;
    bool totals;                    /* records of sums alone */
    bool one_case;                  /* the run has a single case */
    bool colour;                    /* the table is shown on a terminal */
    int name_width;                 /* of the longest "scenario/case" */
    const atomic_int *interrupt;    /* not 0: stop */
    /* on cuda alone: */
    const struct cuda_module *module;
    int gpus;                       /* that this process sees */
    int gpu;                        /* of a rank that is a process */
    bool has_nccl;
    struct launch launch;           /* what a launcher says of us */
    struct record *record;          /* workers leave it; or NULL */
    struct line *line;              /* to the other processes, or NULL */
    struct scenario_estimators **extra;         /* [n_extra] --estimator */
    int n_extra;
};

/* A file beside the records, in DIR/misses, --snapshot's folder or
** DIR/histograms. */
enum run_file_kind { RUN_MISS, RUN_SNAPSHOT, RUN_HISTOGRAM, RUN_FILE_KINDS };
struct run_file { enum run_file_kind kind; char *name; struct buf text; };

struct case_result {
    enum err_code code;             /* why the case failed, or ERR_OK */
    char message[1024];             /* one line; "" when ERR_OK */
    enum record_status status;
    struct record_text rows;        /* for the files of the run */
    struct buf table;               /* for people: a line a wave */
    struct buf json;                /* the same as one JSON object */
    int64_t outside;                /* estimates outside their tolerance */
    struct buf complaint;           /* a line for each of them */
    struct run_file *file;          /* [n_file] owned */
    int64_t n_file;
};

/* Runs case i of s. Failures are part of the result; a failure to render it
** (host memory, sums that do not add up) leaves rows empty and code set. */
void run_case(const struct run_context *x, const struct scenario *s,
              int64_t i, struct case_result *out);
/* The result of a case whose worker ended without one, say, "by signal 9". */
void run_case_died(const struct run_context *x, const struct scenario *s,
                   int64_t i, const char *how, struct case_result *out);
void case_result_free(struct case_result *r);

/* Checks what can be checked of a case of s before anything is written: its
** model loads, experts and heads divide, and its routing is for the model. The
** error names scenario and case. */
int run_case_check(const struct scenario *s, const struct scenario_case *c,
                   struct err *e) MUST_CHECK;

/* Checks on random cases, the same in every run, into checks.csv: mirror
** against executor, lower bound, coverage of plans, peaks over routing
** shares. Always on dry. */
struct run_checked { int64_t cases, failed; };
int run_checks(const char *data, const atomic_int *interrupt,
               struct record *r, struct run_checked *sum,
               struct err *e) MUST_CHECK;

/* ---- cases kept from before --------------------------------------------- */

struct run_job { const struct scenario *scenario; int64_t index; };

/* What the cases of dir that --resume keeps say again, from its files. */
struct run_kept {
    int first_code;             /* of the first that failed, or ERR_OK */
    int64_t n_ran;              /* to their end, with right numbers or not */
    int64_t n_wrong, n_outside;
    struct buf warning;         /* a line for the first that failed */
    struct buf complaint;       /* --check: a line for each estimate outside
                                   its tolerance */
};
int run_kept(const char *dir, const struct run_context *x,
             const struct run_job *job, int64_t n_job, struct run_kept *out,
             struct err *e) MUST_CHECK;
void run_kept_free(struct run_kept *k);

/* How a case's tokens are planned. */
struct plan_options run_plan_options(const struct scenario_case *c);

/* ---- many cases ---------------------------------------------------------- */

/* What came out of a run: raw errors, in percent of the peak, of the waves that
** an estimator covers. */
struct run_source {
    char name[64];
    int64_t waves, under;
    double least, mean, most_of_95, most;
};
struct run_summary {
    int64_t cases, oom, refused, failed;
    struct run_source *source;  /* [n_source] as the cases name them */
    int n_source;
};
/* Of the records in dir; free it in any case. */
int run_summary(const char *dir, struct run_summary *out, struct err *e)
    MUST_CHECK;
void run_summary_free(struct run_summary *s);
/* In lines, with the errors; in one line; as JSON (NULL: no memory). */
void run_summary_text(const struct run_summary *s, struct buf *out);
void run_summary_line(const struct run_summary *s, struct buf *out);
json_t *run_summary_json(const struct run_summary *s);
/* The ten cases that each estimator is furthest under in, and the ten it is
** furthest over in, are run once more, with all terms, into dir/worst, and
** written as a scenario, dir/worst.lua; where they are goes into out. */
int run_record_worst(const struct run_context *x, const char *dir,
                     const struct run_job *job, int64_t n_job,
                     struct buf *out, struct err *e) MUST_CHECK;
/* The case as an item of the list of a scenario's cases, for one that is
** read with the same data folder. A batch that is a recorded layout is left
** out, a recorded routing balanced. */
void run_as_lua(const struct scenario_case *c, const char *data,
                struct buf *out);

/* ---- jobs --------------------------------------------------------------- */

/* Runs the jobs, n_workers at a time (1: in this process; fewer, but one, where
** the system has no room for more), and hands each result to done, in order of
** the jobs. Stops early when done fails or *x->interrupt is set
** (ERR_INTERRUPTED): results that are already there and next in order are still
** handed over. */
int run_jobs(const struct run_context *x, const struct run_job *job,
             int64_t n_job, int64_t n_workers,
             int (*done)(void *ctx, int64_t i, const struct case_result *r,
                         struct err *e),
             void *ctx, struct err *e) MUST_CHECK;

/* Through the socket and back; unpack checks every length. */
void case_result_pack(const struct case_result *r, struct buf *out);
int case_result_unpack(const char *data, size_t len, struct case_result *out,
                       struct err *e) MUST_CHECK;

/* The table's header line. */
void run_show_header(const struct run_context *x, struct buf *out);

#endif
