/*
** scenario.h - a Lua scenario file: its declarations, options and cases.
**
** The file runs in a state with limits on memory and instructions that a
** pcall cannot catch, and without io and os unless unsafe. What it returns
** is walked strictly: an unknown key, a wrong type or a number out of bounds
** is ERR_INPUT naming file, line, key and the nearest valid key. Everything
** the program needs is copied out into the structs below; no Lua value
** outlives a call except estimator functions, which stay in their state.
*/
#ifndef SCRIPT_SCENARIO_H
#define SCRIPT_SCENARIO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "batch/batch.h"
#include "model/init.h"
#include "model/mode.h"
#include "plan/plan.h"
#include "price/price.h"
#include "batch/routing.h"

enum batch_kind { BATCH_LAYOUT, BATCH_LENGTHS, BATCH_TREE, BATCH_CORPUS };

/* What was measured of a case on real devices, for the report to hold ours
** against: allocated bytes less those when the wave began; -1: not known. */
struct scenario_measured {
    char *series;           /* how such cases are counted; NULL: nothing was
                               measured */
    int64_t peak;           /* of the last wave, */
    int64_t first;          /* of the first, */
    int64_t retained;       /* and after the forward of the last */
    char *note;             /* why it is shown and not counted, or NULL */
    int64_t estimate;       /* admitted bytes printed beside it, and by */
    const struct price_estimator *estimator;    /* whom; NULL: none */
};

#define SCENARIO_MAX_ESTIMATORS 12

/* One point of a scenario, all defaults filled in. */
struct scenario_case {
    char *name;             /* unique in the scenario; owned, as all below */
    char *about;            /* one line, or NULL */
    char *origin;           /* "FILE:LINE" that it was made of, for messages;
                               NULL: the scenario itself */
    char *model_path;       /* resolved */
    int64_t layers;         /* 0: all of the model */
    int64_t cp, ep, tp, pp;
    struct mode mode;       /* its tp is tp above */
    int64_t lora_rank;
    double lora_alpha;
    int64_t waves;          /* >= 1; the first is cold */
    char *dtype;            /* "bf16", "f32", "f64" */
    uint64_t seed;
    char *weights;          /* "random" or a folder */
    enum weight_init init;  /* how random ones are drawn */
    char *adapters;         /* folder of adapters, or NULL: random */
    char *tokens;           /* file of text or ids, or NULL: random ids */
    char *labels;           /* file of tokens and labels, or NULL */
    bool loss_sum;          /* their weights are not divided by their sum */
    /* batch */
    enum batch_kind batch_kind;
    struct batch batch;             /* not for BATCH_LAYOUT */
    struct rank_plan *layout;       /* [cp], BATCH_LAYOUT only; sizes */
    int64_t layout_tokens;          /* BATCH_LAYOUT: sum of attention rows */
    int64_t routed_rows;            /* what price is told; -1: its default */
    int64_t cut;                    /* plan = {cut = rows}; 0: none */
    enum plan_profile profile;
    int64_t head_rows;              /* -1: every row is labelled */
    int64_t price_head_rows;        /* -1: as head_rows; what price is told */
    int64_t output_bytes;
    int64_t hybridep_held_rows;     /* -1: growth left out */
    struct routing routing;
    double load_cv;         /* what a price that knows no more is told */
    bool softmax_offset, cp_attention;
    double learning_rate;
    uint64_t device_bytes;          /* dry: 0 unlimited */
    /* --check: bounds on each estimator's raw error in percent */
    bool has_tolerance;
    double tolerance_under, tolerance_over;
    /* figures the report shows beside ours: admitted errors in percent as
    ** published; NaN where not published */
    double published_before_cold, published_before_warm;
    double published_after_cold, published_after_warm;
    struct scenario_measured measured;
    /* estimators instead of those of price_shows */
    bool names_estimators;
    const struct price_estimator *estimator[SCENARIO_MAX_ESTIMATORS];
    int n_estimator;
};

struct scenario_option {
    char *name;
    char *help;             /* one line, or NULL */
    char *type;             /* "int", "number", "string", "boolean" */
    char *value;            /* as set, printed form */
    char *default_value;
    char *allowed;          /* "1 to 8", "a, b or c"; NULL: anything */
};

struct scenario_estimators;

struct scenario {
    char *path, *name, *about;
    struct scenario_option *option;
    int64_t n_option;
    struct scenario_case *kase;
    int64_t n_case;
    /* estimators that the scenario itself declares; NULL: none */
    struct scenario_estimators *estimators;
    /* paths of the files that the load found beside path: modules, models,
    ** CSV files, token texts, folders of weights. Each is ended by a NUL, an
    ** empty one is last. Owned; NULL: none. */
    char *files;
};

struct scenario_limits {
    uint64_t memory_bytes;      /* 0: 256 MiB */
    uint64_t instructions;      /* of one call; 0: 200 million */
    int seconds;                /* of processor time, of one call; 0: 20 */
    bool unsafe;                /* all of Lua's libraries, io and os too */
    /* not 0 ends a running script with ERR_INTERRUPTED; may be NULL. Kept
    ** until scenario_free. */
    const atomic_int *interrupt;
};

/* Loads path ("-" is standard input) with name=value settings (an unknown
** name or a bad value is ERR_USAGE). data_dir is where the shipped models,
** data and modules live ("lua"). Errors in the file are ERR_INPUT: one line
** "FILE:LINE: message", then indented frames of a traceback. */
int scenario_load(const char *path, const char *data_dir, char **setting,
                  int n_setting, const struct scenario_limits *limits,
                  struct scenario **out, struct err *e) MUST_CHECK;
void scenario_free(struct scenario *s);     /* NULL is fine */

/* ---- estimators written in Lua -------------------------------------------

** estimator{name = ..., price = function(facts) ... end} declares one, in a
** scenario or in a file given to --estimator. facts is a fresh table with
** what FACTS.json holds, integers, flags, lists; "model" is a table of its
** geometry; and what struct scenario_known says: "dtype", "case" and "known".
** price returns {raw = bytes, terms = {name = bytes, ...}} whose terms sum to
** raw (left out: all of it is "other"), or nil and a reason where it does not
** apply. Every call has the limits of a scenario. One thread at a time. */

int scenario_estimator_load(const char *path, const char *data_dir,
                            const struct scenario_limits *limits,
                            struct scenario_estimators **out, struct err *e)
    MUST_CHECK;
void scenario_estimator_free(struct scenario_estimators *s);
int64_t scenario_estimator_count(const struct scenario_estimators *s);
/* Borrowed until the estimators are freed. */
const char *scenario_estimator_name(const struct scenario_estimators *s,
                                    int64_t i);
/* As struct scenario's files; borrowed. NULL: none. */
const char *scenario_estimator_files(const struct scenario_estimators *s);
/* What a wave's estimator is told beside its facts: of the case, and of
** routing what it may act on instead of the groups' routed_pairs. */
struct scenario_known {
    const char *scenario, *name, *dtype;
    int64_t wave;
    double load_cv;             /* spread of experts' loads */
    const int64_t *last_pairs;  /* [cp][layers] of the wave before; NULL: it is
                                   not known */
};
/* known NULL: facts alone. ERR_INPUT: an error in the function or in what it
** returned. */
int scenario_estimator_call(struct scenario_estimators *s, int64_t i,
                            const struct price_facts *facts,
                            const struct scenario_known *known,
                            struct estimate *out, struct err *e) MUST_CHECK;

#endif
