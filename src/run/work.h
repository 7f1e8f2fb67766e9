/*
** work.h - a case at work: what its parts (the files that run.h lists) hand
** each other. work.c has the words that all of them use.
*/
#ifndef RUN_WORK_H
#define RUN_WORK_H

#include "run/run.h"

#define RUN_MAX_VARIANTS 8
#define RUN_WAVE_TIMINGS 4          /* beside one a rank */

/* The rows of a rank in device.csv, in their order. */
enum { DRIVER_ROWS = 5 };
extern const char *const run_driver_rows[DRIVER_ROWS];

struct run_wave {
    bool cold;
    enum record_status status;
    char note[256];
    bool measured;                  /* rank[] is filled */
    struct record_rank *rank;       /* [cp] */
    struct estimate *estimate;      /* [n_estimate] */
    int64_t n_estimate;
    struct record_variant variant[RUN_MAX_VARIANTS];
    int64_t n_variant;
    struct record_timing *timing;   /* [cp + RUN_WAVE_TIMINGS] */
    int64_t n_timing;
    double loss;
    bool has_loss;
};

struct run_labels;

/* A case at work. */
struct run_work {
    const struct run_context *x;
    const struct scenario *s;
    const struct scenario_case *c;
    bool inventory;                 /* list the tensors of a layer */
    struct model model;
    struct plan_cache *cache;       /* plans of token batches live here */
    struct plan recorded;           /* that of a recorded layout */
    const struct plan *plan;        /* one of these; NULL: not planned */
    struct run_labels *labels;      /* from the case's file, or NULL */
    struct routing routing;         /* the case's, on dry with loads drawn:
                                       estimators and ranks ask many times */
    int64_t routed_rows;            /* as priced; -1: nothing is routed */
    struct run_wave *wave;          /* [c->waves] */
    struct record_tensor *tensor;
    int64_t n_tensor;
    struct buf *snapshot;           /* [cp][waves], or NULL */
    struct buf histogram;           /* routes as CSV, where wanted */
    struct record_device *driver;   /* [n_driver] the GPUs' memory */
    int64_t n_driver;
    char *peer_op;                  /* names of operators of other processes */
};

/* Facts of the case, cold as the wave says; free with price_facts_free. */
int run_facts(const struct run_work *w, int64_t wave, struct price_facts *out,
              struct err *e) MUST_CHECK;
/* Every estimator on every wave. */
int run_price(struct run_work *w, struct err *e) MUST_CHECK;
/* Every wave on every rank. An out-of-memory wave is a result: its status is
** oom, those after it are skipped, and ERR_OOM comes back with its text. A
** device that computes is held beside dry: before, whether it fits, and
** after, whether it took the same memory (ERR_WRONG). */
int run_step(struct run_work *w, struct err *e) MUST_CHECK;
/* Adds a file named "scenario.case" + suffix, in which what is no plain letter
** is %XX. Takes over the text. */
int run_add_file(const struct run_work *w, enum run_file_kind kind,
                 const char *suffix, struct buf *text,
                 struct case_result *out, struct err *e) MUST_CHECK;
/* "scenario.case", what is no plain letter as %XX. */
void run_put_name(const struct run_work *w, struct buf *b);
/* Table, JSON and tolerances of a case that ran or failed. */
int run_show(const struct run_work *w, struct case_result *out,
             struct err *e) MUST_CHECK;
int64_t run_now_ns(void);
/* Notes what a part took; rank -1: the wave as a whole. */
void run_time(const struct run_work *w, struct run_wave *wave, int64_t rank,
              const char *what, int64_t ns);
/* The status of a case or wave that ended with this code. */
enum record_status run_status(int code);

/* (estimate - peak) / peak in percent. */
double run_percent(int64_t estimate, int64_t peak);

/* Is the estimate outside the case's tolerance? Then says so, in a line. False
** where the case has none, or no peak. */
bool run_outside(const struct scenario *s, const struct scenario_case *c,
                 int64_t wave, const char *estimator, int64_t raw,
                 int64_t peak, struct buf *complaint);

/* The most-loaded rank's allocated bytes, -1 where the wave has no peak. */
int64_t run_peak(const struct run_work *w, int64_t wave);

/* What a rank takes of its device in the wave, at most: reserved by the
** allocator, weights and all, and dispatch buffers; -1 where not known. */
int64_t run_taken(const struct run_work *w, int64_t wave);

/* The case as rows of the files (rows.c), into out->rows. */
int run_render(const struct run_work *w, struct case_result *out,
               struct err *e) MUST_CHECK;

#endif
