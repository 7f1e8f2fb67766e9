/*
** record.h - the files of a run: what was priced, what was reached, where.
**
** A run writes into one folder. A case is rendered into text, one text a
** file (record_render, which may run in a worker process), and appended
** file by file (record_append): one write for each file, cases.csv last. Its
** row there is the commit mark: rows of a case without one do not count, are
** skipped by readers and cut off when the run is resumed. A write that
** fails (full disk) is undone in every file, so no half-written row stays.
**
** Files that are the same for the same input: records.csv, peaks.csv,
** cases.csv, checks.csv, inventory.csv. Files that may differ between runs:
** losses.csv, timings.csv, device.csv, run.json.
**
** records.csv holds one number a row: device,scenario,case,wave,temperature,
** rank,source,term,bytes,status,note. rank is a number or "max"; an empty
** bytes cell says "not measured". Sources and their terms:
**
**   peak             ranks and max: every category and "total" (their sum,
**                    the allocated peak). max repeats the most-loaded rank.
**   NAME             an estimator. max: every category, "raw" (their sum)
**                    and "admitted". Where it prices by rank, ranks: every
**                    category and "raw" of the rank's binding layer kind.
**   NAME/attention   what NAME would say were the peak in a layer of this
**   NAME/gdn         kind. Ranks: every category and "raw".
**   NAME/stages      the parts as "peakproof price" prints them. Ranks:
**                    boundaries, attention_stage, gdn_stage,
**                    attention_retained, moe_workspace.attention,
**                    moe_workspace.gdn, adapter_extra, total; those of
**                    stages only where NAME has some.
**   NAME/VARIANT     max, "raw": NAME with one thing changed, as the run
**                    computes it. The report knows:
**                    per-rank/unpaired       adapter gradients not paired
**                                            with their rank's own floor
**                    per-rank/no-allowance   no EP routing allowance (x 1)
**                    busiest-rank/no-allowance
**                    per-rank/one-lse        one LSE per attention stage
**   mirror           ranks, "attention_records": the size-only mirror
**   executor         ranks, "attention_records": requested bytes the step's
**                    executor holds for backward
**   kept/attention   ranks, every category and "total": requested bytes of
**   kept/gdn         one recomputed layer of this kind (the last) that live
**                    from its recompute into its backward
**
** status is ok, oom, refused, skipped, wrong or error. An estimator that
** does not apply has status refused, its reason in note, and the bytes of
** the form it falls back to (raw and admitted without bytes where there is
** none).
*/
#ifndef RECORD_RECORD_H
#define RECORD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "mem/mem.h"
#include "model/model.h"
#include "price/price.h"

enum record_file {
    RECORD_RECORDS, RECORD_PEAKS, RECORD_INVENTORY,
    RECORD_SUMMED,          /* the files before go into a case's checksum */
    RECORD_LOSSES = RECORD_SUMMED, RECORD_TIMINGS, RECORD_DEVICE,
    RECORD_CASES,           /* last: the commit mark */
    RECORD_CASE_FILES,      /* files that a case writes to */
    RECORD_CHECKS = RECORD_CASE_FILES,
    RECORD_FILES
};
/* "records.csv", ... and its frozen columns, NULL-terminated. */
const char *record_file_name(enum record_file f);
const char *const *record_file_columns(enum record_file f);
/* Appends the header line. */
void record_put_header(struct buf *b, enum record_file f);

#define RECORD_STATUSES(X) \
    X(OK, "ok") X(OOM, "oom") X(REFUSED, "refused") X(SKIPPED, "skipped") \
    X(WRONG, "wrong") X(ERROR, "error")

enum record_status {
#define RECORD_STATUS(constant, name) STATUS_##constant,
    RECORD_STATUSES(RECORD_STATUS)
#undef RECORD_STATUS
    STATUS_COUNT
};
const char *record_status_name(enum record_status s);

/*
** What a case is made of. Everything is borrowed for the call; NULL strings
** are empty cells.
*/

/* One tensor of a recomputed layer, or several alike (inventory.csv). */
struct record_tensor {
    int64_t rank, layer;
    enum layer_kind kind;
    enum category category;
    const char *op;         /* operator that allocates it */
    int64_t count;          /* allocations summed in this row */
    uint64_t bytes;         /* requested, all of them */
    int64_t rows;           /* the rank's rows in this layer's layout */
    enum mem_phase allocated_in, freed_in;  /* PHASE_NONE: not freed */
    const char *freed_after;    /* the last operator that allocated before
                                   it was freed */
};

/* What a row of peaks.csv says beside the peak; -1 where it is unknown or has
** no meaning. One list, so that a number which nobody sets is unknown, not 0:
**   received_pairs  pairs received in the most-loaded layer
**   hybridep_bytes  dispatch buffers outside the allocator
**   retained_bytes  allocated when the forward was over, less
**   start_bytes     what was when the wave began */
#define RECORD_BESIDE(X) \
    X(received_pairs) X(hybridep_bytes) X(retained_bytes) X(start_bytes)

struct record_beside {
#define RECORD_NUMBER(name) int64_t name;
    RECORD_BESIDE(RECORD_NUMBER)
#undef RECORD_NUMBER
};
#define RECORD_UNKNOWN_NUMBER(name) .name = -1,
#define RECORD_UNKNOWN \
    (struct record_beside){RECORD_BESIDE(RECORD_UNKNOWN_NUMBER)}

/* What one rank reached in one wave. */
struct record_rank {
    bool absent;            /* nothing is known of it: no rows (import) */
    struct mem_peak peak;
    struct record_beside beside;
    /* -1 where unknown or without meaning: */
    int64_t executor_bytes; /* records the step's executor holds */
    int64_t mirror_bytes;   /* the same by price_stage_records */
    bool has_kept;
    int64_t kept[LAYER_KINDS][CAT_COUNT];
};

struct record_variant { const char *source; int64_t raw; };

/* rank -1: the wave as a whole. */
struct record_timing { int64_t rank; const char *what; int64_t ns; };
struct record_device { int64_t rank; const char *what; int64_t bytes; };

struct record_wave {
    int64_t wave;
    bool cold;
    enum record_status status;  /* of the step; estimates stand beside it */
    const char *note;           /* why, when not ok */
    const struct record_rank *rank;         /* [n_rank]; 0: no peak */
    int64_t n_rank;
    const struct estimate *estimate;        /* [n_estimate] */
    int64_t n_estimate;
    const struct record_variant *variant;   /* [n_variant] */
    int64_t n_variant;
    const struct record_timing *timing;     /* [n_timing] */
    int64_t n_timing;
    const struct record_device *driver;     /* [n_driver], driver's view */
    int64_t n_driver;
    bool has_loss;
    double loss;
};

struct record_case {
    bool totals;            /* sums alone: no terms, no ranks but the one that
                               an estimate is of */
    const char *device, *scenario, *name, *about;
    const char *model;
    int64_t layers, cp, ep, tp, pp, lora_rank;
    const char *dtype, *weights;
    /* words of model/mode.h */
    const char *recompute, *modules, *kind, *otherwise;
    bool grad, compiled;
    const char *batch;      /* "layout", "lengths", "tree", "sequences" */
    int64_t tokens, sequences;      /* sequences 0: not known */
    const int64_t *attention_rows, *gdn_rows;   /* [cp] */
    int64_t routed_rows;    /* as priced; -1: not applicable */
    int64_t top_k;          /* experts a token goes to; 0: dense */
    int64_t head_rows;
    int64_t output_bytes;
    const char *routing;    /* "balanced", "cv 0.65 seed 1", "share 1.1" */
    uint64_t seed;
    enum record_status status;      /* worst of the waves */
    const char *note;
    /* Published admitted errors in percent, NaN where there are none. */
    double published_before_cold, published_before_warm;
    double published_after_cold, published_after_warm;
    /* What was measured on real devices (scenario.h), -1 where unknown;
    ** series NULL: nothing was. */
    const char *series, *measured_note;
    int64_t measured_peak, measured_first, measured_retained;
    int64_t printed_estimate;       /* admitted bytes that were printed, */
    const char *printed_by;         /* and the estimator that did */
    const struct record_wave *wave;
    int64_t n_wave;
    const struct record_tensor *tensor;     /* inventory, may be empty */
    int64_t n_tensor;
};

/* The rows of one case, a text for each file. Zero it before use. */
struct record_text { struct buf file[RECORD_CASE_FILES]; };

/* ERR_WRONG when the categories of a peak do not sum to it, or the terms of
** an estimate (one that has any) not to its raw bytes. On an error *out is
** empty. */
int record_render(const struct record_case *c, struct record_text *out,
                  struct err *e) MUST_CHECK;
void record_text_free(struct record_text *t);
/* One byte string for a pipe, and back; unpack checks every length. */
void record_text_pack(const struct record_text *t, struct buf *out);
int record_text_unpack(const char *data, size_t len, struct record_text *out,
                       struct err *e) MUST_CHECK;

/*
** Writing.
*/
enum record_mode {
    RECORD_REPLACE,     /* start anew; files of an earlier run go */
    RECORD_RESUME,      /* continue an unfinished run of the same identity */
    RECORD_APPEND       /* add cases to a finished one (import) */
};

struct record_info {
    const char *identity;   /* text that is equal for equal runs: scenarios,
                               settings, device; run.json keeps its hash */
    const char *command;    /* the command line, for run.json */
    const char *commit;     /* version of the program */
    /* further lines for run.json (versions, environment), key and value */
    const char *const (*pair)[2];
    int64_t n_pair;
    /* files that the cases came from, whole paths, and their settings
    ** (name=value), NULL-ended; NULL: not known */
    const char *const *scenario, *const *setting;
};

struct record;

/* How the note of a case begins whose status, error, does not tell its exit
** code: "exit 3: ". Without it the code is ERR_RUN: memory of the host, I/O, a
** process that ended. That says nothing of the case: RESUME does not keep it,
** nor those after it, so that a run goes on to the same bytes in the end. */
#define RECORD_EXIT "exit "

/* Makes the folder where needed. A folder is refused (ERR_USAGE) where a file
** of a run's name has another header, has rows without a run.json beside it,
** or is a link or linked from elsewhere: it is not ours to replace. RESUME cuts
** every file after the last committed case, and checks.csv to its header;
** a different identity is ERR_USAGE. On success call record_close. */
int record_open(const char *dir, enum record_mode mode,
                const struct record_info *info, struct record **out,
                struct err *e) MUST_CHECK;
/* Is the case committed already (RESUME, APPEND)? status as it was. */
bool record_has(const struct record *r, const char *device,
                const char *scenario, const char *name,
                enum record_status *status);
/* Cases that are committed. */
int64_t record_count(const struct record *r);
/* The first case that RESUME found with other rows than were committed, as
** "DEVICE,SCENARIO,CASE", or NULL. It and those after it do not count. (For
** APPEND that is an error.) */
const char *record_altered(const struct record *r);

/* Files below the folder that are not rows ("misses/NAME"). run.json lists
** them before they are written, those of the run before too until
** record_disown: a run may remove or replace what is on the list, and nothing
** else. record_own is ERR_USAGE where a file that is not on it has the name. */
int record_own(struct record *r, const char *const *name, int64_t n,
               struct err *e) MUST_CHECK;
/* Calls remove(name) for all, which then are off the list, unless one fails.*/
int record_disown(struct record *r,
                  int (*remove)(void *ctx, const char *name, struct err *e),
                  void *ctx, struct err *e) MUST_CHECK;
int record_append(struct record *r, const struct record_text *t,
                  struct err *e) MUST_CHECK;
/* record_render and record_append. */
int record_case(struct record *r, const struct record_case *c,
                struct err *e) MUST_CHECK;
/* One row of checks.csv. worst is the largest deviation seen, in the unit
** that note names. Rows of a resumed run are written anew, so a check must
** not depend on which cases this process ran. */
struct record_check {
    const char *check;      /* "mirror-executor", "lower-bound", ... */
    int64_t cases;
    uint64_t seed;
    int64_t failed;
    int64_t worst;
    const char *note;
};
int record_check(struct record *r, const struct record_check *c,
                 struct err *e) MUST_CHECK;
/* In a child process: closes the files, and with them this process's share in
** the lock. The child must not use r, nor free it. NULL is fine. */
void record_leave(struct record *r);
/* Syncs, and marks the run finished in run.json when done. Frees r in any
** case; NULL is fine. */
int record_close(struct record *r, bool done, struct err *e) MUST_CHECK;

/*
** The inventory of one recomputed layer from a rank's trace: events [first,
** n) of what mem_trace gives, which must hold one wave. Every tensor that
** the layer allocates in recompute or backward is in it; alike ones are
** joined, in order of first allocation. A tensor counts as freed in the
** phase, and after the operator, of the last allocation before its free.
** kept[] adds up what was allocated in recompute and freed in backward.
** *out is the caller's (free); its strings are the trace's.
*/
struct record_layer { int64_t rank, layer, rows; enum layer_kind kind; };
int record_inventory(const struct mem_event *trace, uint64_t first,
                     uint64_t n, const struct record_layer *which,
                     struct record_tensor **out, int64_t *n_out,
                     int64_t kept[CAT_COUNT], struct err *e) MUST_CHECK;

#endif
