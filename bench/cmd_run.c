/* cmd_run.c - "peakproof run": cases of scenarios into a folder of records */
#include <fnmatch.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "bench/command.h"
#include "bench/run_gpus.h"
#include "bench/run_plain.h"
#include "run/device.h"
#include "run/folder.h"
#include "run/crew.h"

static atomic_int interrupt;

static void on_interrupt(int sig)
{
    interrupt = sig;
}

/* A second SIGINT ends the program at once. */
static void catch_interrupt(void)
{
    struct sigaction a = {.sa_handler = on_interrupt,
                          .sa_flags = (int)SA_RESETHAND};

    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

#define MAX_DUMP_ROWS 1024

struct run {
    const struct args *args;
    struct run_context x;
    struct scenario_set set;
    struct run_job *job;
    int64_t n_job;              /* cases that were asked for */
    int64_t n_kept;             /* of them, kept from before (--resume) */
    const char *dir;
    int64_t workers;
    struct record *record;
    struct progress progress;
    int64_t done;
    int first_code;             /* of the first failed case */
    int64_t n_failed, n_outside;
    int64_t n_held;             /* cases with a tolerance */
    int64_t n_ran, n_wrong;     /* of all that are committed */
    struct run_plain plain;
    int64_t shard, shards;      /* --shard; shards 0: all cases */
    struct run_job *all;        /* [n_all] jobs, also those kept */
    int64_t n_all;
    struct buf json;            /* cases, comma-separated */
    int64_t dump_rows[MAX_DUMP_ROWS];   /* --dump-rows */
};

/* ---- what to run -------------------------------------------------------- */

/* --dump-rows 0,5-7: packed rows; without it the first. */
static int read_dump_rows(struct run *r, struct err *e)
{
    const char *text = args_text(r->args, "dump-rows");
    int64_t n;

    if (text != NULL && r->x.dump == NULL)
        return err_set(e, ERR_USAGE, "run: --dump-rows: which rows, but not "
                       "where to (add --dump DIR)");
    if (r->x.dump != NULL && !r->x.ops->computes)
        return err_set(e, ERR_USAGE, "run: --dump: device %s computes no "
                       "numbers (use --device cpu)", r->x.device);
    if (r->x.dump == NULL) return ERR_OK;
    if (!num_parse_ranges(text != NULL ? text : "0", BATCH_MAX_TOKENS - 1,
                          MAX_DUMP_ROWS, r->dump_rows, &n))
        return err_set(e, ERR_USAGE, "run: --dump-rows: '%s' is no list of "
                       "up to %d rows as in 0,5-7", text, MAX_DUMP_ROWS);
    r->x.dump_rows = r->dump_rows;
    r->x.n_dump_rows = n;
    return ERR_OK;
}

/* From words to the run's context; what they exclude is checked here. */
static int read_options(struct run *r, struct err *e)
{
    const struct args *a = r->args;
    const char *device = args_text(a, "device");
    double miss = -1;
    int rc;

    r->x.device = device != NULL ? device : "dry";
    r->x.check = args_has(a, "check");
    r->x.totals = args_has(a, "totals");
    r->x.colour = terminal_wants(STDOUT_FILENO);
    r->x.snapshots = args_has(a, "snapshot");
    r->x.histograms = args_has(a, "histograms");
    r->x.save_adapters = args_text(a, "save-adapters");
    r->x.dump = args_text(a, "dump");
    r->x.interrupt = &interrupt;
    r->workers = 1;
    r->dir = args_has(a, "out") ? args_text(a, "out") : "out";
    rc = run_plain_read(a, &r->plain, e);
    if (rc == ERR_OK) rc = run_shard_read(a, &r->shard, &r->shards, e);
    if (rc == ERR_OK) rc = args_int(a, "jobs", 1, 256, &r->workers, e);
    if (rc == ERR_OK) rc = args_double(a, "misses", 0, 1e6, &miss, e);
    r->x.miss_percent = miss;
    if (rc == ERR_OK) rc = device_find(r->x.device, &r->x.ops, e);
    if (rc == ERR_OK && strcmp(r->x.device, "cuda") == 0)
        rc = run_gpus(a, r->workers, &r->x, e);
    if (rc == ERR_OK && r->x.histograms && !r->x.ops->computes)
        rc = err_set(e, ERR_USAGE, "run: --histograms: device %s has no "
                     "router (use --device cpu)", r->x.device);
    if (rc == ERR_OK) rc = read_dump_rows(r, e);
    if (rc == ERR_OK && r->x.save_adapters != NULL && !r->x.ops->computes)
        rc = err_set(e, ERR_USAGE, "run: --save-adapters: device %s learns "
                     "nothing (use --device cpu)", r->x.device);
    return rc;
}

static bool wanted(const char *only, const char *scenario, const char *name)
{
    char full[1024];

    if (only == NULL) return true;
    snprintf(full, sizeof full, "%s/%s", scenario, name);
    return fnmatch(only, full, 0) == 0 || fnmatch(only, name, 0) == 0;
}

/* Cases in a row, so that shards one after another are the whole. */
static void take_shard(struct run *r)
{
    int64_t first, end;

    if (r->shards == 0) return;
    first = r->n_job * (r->shard - 1) / r->shards;
    end = r->n_job * r->shard / r->shards;
    memmove(r->job, r->job + first, (size_t)(end - first) * sizeof *r->job);
    r->n_job = end - first;
}

/* The cases that --only leaves, of all scenarios, in order. */
static int list_jobs(struct run *r, struct err *e)
{
    const char *only = args_text(r->args, "only");
    int64_t total = 0, i;
    int k, width;

    for (k = 0; k < r->set.n; k++) total += r->set.s[k]->n_case;
    r->job = calloc((size_t)total + 1, sizeof *r->job);
    if (r->job == NULL) return err_nomem(e);
    for (k = 0; k < r->set.n; k++) {
        const struct scenario *s = r->set.s[k];
        for (i = 0; i < s->n_case; i++) {
            if (!wanted(only, s->name, s->kase[i].name)) continue;
            r->job[r->n_job++] = (struct run_job){s, i};
            width = (int)(strlen(s->name) + strlen(s->kase[i].name) + 1);
            if (width > r->x.name_width) r->x.name_width = width;
        }
    }
    r->x.one_case = r->n_job == 1;
    take_shard(r);
    if (r->n_job == 0 && only != NULL && r->shards == 0)
        return err_set(e, ERR_USAGE, "run: --only: none of %" PRId64 " cases "
                       "matches '%s' (peakproof list names them)", total,
                       only);
    return ERR_OK;
}

static int check_jobs(const struct run *r, struct err *e)
{
    int64_t i;
    int rc = ERR_OK;

    for (i = 0; i < r->n_job && rc == ERR_OK; i++) {
        const struct run_job *j = &r->job[i];
        rc = run_case_check(j->scenario, &j->scenario->kase[j->index], e);
    }
    return rc;
}

/* Standard input is gone when a run goes on. */
static int check_resume(const struct args *a, struct err *e)
{
    int i;

    for (i = 0; i < a->n_operand && args_has(a, "resume"); i++)
        if (strcmp(a->operand[i], "-") == 0)
            return err_set(e, ERR_USAGE, "run: --resume needs a file, not "
                           "standard input");
    return ERR_OK;
}

static int load(struct run *r, struct err *e)
{
    const struct args *a = r->args;
    struct scenario_limits limits = {
        .unsafe = args_has(a, "unsafe"), .interrupt = &interrupt
    };
    int rc = check_resume(a, e);

    if (rc == ERR_OK && r->plain.on)
        rc = scenarios_load(r->plain.operand, 1, r->plain.setting,
                            r->plain.n_setting, &limits, &r->set, e);
    else if (rc == ERR_OK)
        rc = scenarios_load(a->operand, a->n_operand, a->setting,
                            a->n_setting, &limits, &r->set, e);
    r->x.data = r->set.data;
    if (rc == ERR_OK) rc = run_estimators_load(a, &r->set, &limits, &r->x, e);
    if (rc == ERR_OK) rc = list_jobs(r, e);
    if (rc == ERR_OK) rc = check_jobs(r, e);
    return rc;
}

/* ---- cases kept from before --------------------------------------------- */

static void put_complaint(const struct buf *complaint)
{
    const char *p = buf_text(complaint);

    for (; *p != '\0'; p += strcspn(p, "\n") + 1)
        fprintf(stderr, "peakproof: check: %.*s\n", (int)strcspn(p, "\n"), p);
}

static bool is_held(const struct run_job *j)
{
    return j->scenario->kase[j->index].has_tolerance;
}

/* Takes committed cases off the list of jobs, and hears them again. */
static int skip_kept(struct run *r, struct err *e)
{
    struct run_kept k = {0};
    struct run_job *kept = calloc((size_t)r->n_job + 1, sizeof *kept);
    int64_t i, n = 0;
    enum record_status s;
    int rc;

    r->all = calloc((size_t)r->n_job + 1, sizeof *r->all);
    if (kept == NULL || r->all == NULL) {
        free(kept);
        return err_nomem(e);
    }
    memcpy(r->all, r->job, (size_t)r->n_job * sizeof *r->all);
    r->n_all = r->n_job;
    for (i = 0; i < r->n_job; i++) {
        const struct run_job *j = &r->job[i];
        r->n_held += is_held(j);
        if (record_has(r->record, r->x.device, j->scenario->name,
                       j->scenario->kase[j->index].name, &s))
            kept[r->n_kept++] = *j;
        else
            r->job[n++] = *j;
    }
    r->n_job = n;
    if (record_altered(r->record) != NULL)
        say_warning("run: %s: the rows of case %s are not those that were "
                    "written: it and those after it run again", r->dir,
                    record_altered(r->record));
    rc = run_kept(r->dir, &r->x, kept, r->n_kept, &k, e);
    if (k.warning.len > 0) say_warning("run: %s", buf_text(&k.warning));
    put_complaint(&k.complaint);
    r->first_code = k.first_code;
    r->n_ran = k.n_ran;
    r->n_wrong = k.n_wrong;
    r->n_outside = k.n_outside;
    run_kept_free(&k);
    free(kept);
    return rc;
}

/* ---- results ------------------------------------------------------------ */

/* Says what went wrong, and remembers the first code. */
static void judge(struct run *r, const struct run_job *j,
                  const struct case_result *c)
{
    int code = c->code;

    if (code != ERR_OK) {
        fprintf(stderr, "peakproof: %s/%s: %s\n", j->scenario->name,
                j->scenario->kase[j->index].name, c->message);
        r->n_failed++;
    }
    put_complaint(&c->complaint);
    r->n_outside += c->outside;
    r->n_wrong += c->status == STATUS_WRONG;
    r->n_ran += c->status == STATUS_WRONG || c->status == STATUS_OK;
    if (code == ERR_OK && c->outside > 0) code = ERR_CHECK;
    if (r->first_code == ERR_OK) r->first_code = code;
}

/* Without one of its ranks a run can do no more: this ends it. */
static int lost(const struct run *r, int64_t i, const struct case_result *c,
                struct err *e)
{
    const struct run_job *j = &r->job[i];
    char left[60] = "";

    if (i + 1 < r->n_job)
        snprintf(left, sizeof left, "; %" PRId64 " more cases are not run",
                 r->n_job - i - 1);
    return err_set(e, c->code, "%s/%s: %.700s%s", j->scenario->name,
                   j->scenario->kase[j->index].name, c->message, left);
}

/* In the order of the cases, whichever worker was first: so files are the
** same. */
static int on_result(void *ctx, int64_t i, const struct case_result *c,
                     struct err *e)
{
    struct run *r = ctx;
    const struct run_job *j = &r->job[i];
    int rc = ERR_OK;

    progress_clear(&r->progress);
    if (c->code != ERR_OK && r->x.line != NULL && line_lost(r->x.line))
        return lost(r, i, c, e);
    judge(r, j, c);
    if (r->record == NULL) return ERR_OK;   /* rank 0 writes */
    if (c->rows.file[RECORD_CASES].len == 0)
        rc = err_set(e, c->code, "%s/%s: %.900s", j->scenario->name,
                     j->scenario->kase[j->index].name, c->message);
    if (rc == ERR_OK)
        rc = run_folder_files(r->dir, args_text(r->args, "snapshot"),
                              r->record, c->file, c->n_file, e);
    if (rc == ERR_OK) rc = record_append(r->record, &c->rows, e);
    if (rc != ERR_OK) return rc;
    if (r->args->json) {
        if (r->json.len > 0) buf_putc(&r->json, ',');
        buf_puts(&r->json, buf_text(&c->json));
    } else if (!r->x.totals) {
        out_text(buf_text(&c->table), c->table.len);
        out_flush();
    }
    r->done++;
    progress_show(&r->progress, r->done, r->n_job,
                  j->scenario->kase[j->index].name);
    return ERR_OK;
}

/* What waves.c found in every case, as a check. */
static int check_dry(struct run *r, struct err *e)
{
    struct record_check c = {
        .check = "same-as-dry", .cases = r->n_ran,
        .failed = r->n_wrong, .worst = r->n_wrong,
        .note = "worst: cases with other allocations, peaks or losses than "
                "can be; cases.csv says which"
    };

    return record_check(r->record, &c, e);
}

/* The result as it is asked for, a line or JSON, and what came out. */
static int put_result(struct run *r, const struct run_summary *sum,
                      struct err *e)
{
    struct buf text = BUF_INIT;
    json_t *cases, *o;
    int rc;

    if (!r->args->json) return ERR_OK;
    buf_printf(&text, "[%s]", buf_text(&r->json));
    if (text.failed) return err_nomem(e);
    rc = js_parse(text.data, text.len, "cases", &cases, e);
    buf_free(&text);
    if (rc != ERR_OK) return rc;
    o = json_object();
    json_object_set_new(o, "format", json_integer(1));
    json_object_set_new(o, "device", json_string(r->x.device));
    json_object_set_new(o, "folder", js_text(r->dir));
    json_object_set_new(o, "kept", json_integer(r->n_kept));
    json_object_set_new(o, "cases", cases);
    json_object_set_new(o, "summary", run_summary_json(sum));
    return out_json(o, e);
}

/* What --check held against what; complaints have been told. */
static int put_checked(const struct run *r, const struct run_checked *sum,
                       struct err *e)
{
    struct buf text = BUF_INIT;

    if (r->args->json) return ERR_OK;
    buf_printf(&text, "check: %" PRId64 " of %" PRId64 " cases have a "
               "tolerance, %" PRId64 " estimates are outside; of %" PRId64
               " drawn cases %" PRId64 " failed (%s/checks.csv)\n", r->n_held,
               r->n_job + r->n_kept, r->n_outside, sum->cases, sum->failed,
               r->dir);
    return out_put(&text, e);
}

/* What came out of the whole run, and of totals what was worst. */
static int put_summary(struct run *r, const struct run_summary *s,
                       struct err *e)
{
    struct buf text = BUF_INIT;
    int rc = ERR_OK;

    if (r->x.totals) {
        run_summary_text(s, &text);
        rc = run_record_worst(&r->x, r->dir, r->all, r->n_all, &text, e);
    } else {
        run_summary_line(s, &text);
    }
    if (rc == ERR_OK && !r->args->json) rc = out_put(&text, e);
    buf_free(&text);
    return rc;
}

static int finish(struct run *r, struct err *e)
{
    struct run_summary s;
    int rc = run_summary(r->dir, &s, e);

    if (rc == ERR_OK) rc = put_result(r, &s, e);
    if (rc == ERR_OK) rc = put_summary(r, &s, e);
    run_summary_free(&s);
    return rc;
}

/* The cases, then what is said of all of them; the folder is closed in any
** case. */
static int run_all(struct run *r, struct err *e)
{
    struct buf header = BUF_INIT;
    struct err late = {ERR_OK, ""};
    struct run_checked sum = {0, 0};
    int rc, closed;

    r->x.record = r->record;
    progress_init(&r->progress);
    rc = skip_kept(r, e);
    if (rc == ERR_OK && !r->args->json && !r->x.totals)
        run_show_header(&r->x, &header);
    if (rc == ERR_OK) rc = out_put(&header, e);
    if (rc == ERR_OK)
        rc = run_jobs(&r->x, r->job, r->n_job, r->workers, on_result, r, e);
    progress_clear(&r->progress);
    if (rc == ERR_OK && r->x.ops->computes) rc = check_dry(r, e);
    if (rc == ERR_OK && r->x.check)
        rc = run_checks(r->x.data, &interrupt, r->record, &sum, e);
    if (rc == ERR_OK && r->x.check) rc = put_checked(r, &sum, e);
    if (sum.failed > 0 && r->first_code == ERR_OK) r->first_code = ERR_CHECK;
    closed = record_close(r->record, rc == ERR_OK, &late);
    if (rc == ERR_OK && closed != ERR_OK) {
        *e = late;
        rc = closed;
    }
    if (rc == ERR_OK) rc = finish(r, e);
    if (rc != ERR_OK) return rc;
    e->text[0] = '\0';      /* the cases have said why */
    return r->first_code;
}

/* A rank that is a process and not rank 0: it computes, and says nothing but
** what went wrong. */
static int run_beside(struct run *r, struct err *e)
{
    int rc = run_jobs(&r->x, r->job, r->n_job, 1, on_result, r, e);

    if (rc != ERR_OK) return rc;
    e->text[0] = '\0';
    return r->first_code;
}

static void run_free(struct run *r)
{
    int i;

    line_close(r->x.line);

    for (i = 0; i < r->x.n_extra; i++)
        scenario_estimator_free(r->x.extra[i]);
    free(r->x.extra);
    free(r->job);
    free(r->all);
    run_plain_free(&r->plain);
    scenarios_free(&r->set);
    buf_free(&r->json);
}

static int open_folder(struct run *r, struct err *e)
{
    const struct args *a = r->args;
    struct run_request q = {
        .only = args_text(a, "only"), .misses = args_text(a, "misses"),
        .resume = args_has(a, "resume"), .scenario = a->operand,
        .setting = a->setting, .n_setting = a->n_setting,
        .shard = r->shard, .shards = r->shards,
        .word = a->argv, .n_word = a->argc
    };

    if (r->plain.on) {
        q.scenario = r->plain.operand;
        q.setting = r->plain.setting;
        q.n_setting = r->plain.n_setting;
    }
    q.estimator = args_list(a, "estimator", &q.n_estimator);
    return run_folder_open(r->dir, &q, &r->x, &r->set, &r->record, e);
}

static int run(const struct args *a, struct err *e)
{
    struct run r = {.args = a, .json = BUF_INIT};
    int rc;

    catch_interrupt();
    rc = read_options(&r, e);
    if (rc == ERR_OK) rc = load(&r, e);
    if (rc == ERR_OK && r.x.launch.rank == 0) rc = open_folder(&r, e);
    if (rc == ERR_OK)
        rc = r.x.launch.rank == 0 ? run_all(&r, e) : run_beside(&r, e);
    run_free(&r);
    return rc;
}

const struct command cmd_run = {
    .name = "run",
    .synopsis = "[--device NAME] [--out DIR] [--only GLOB] [-j N] "
                "[--estimator FILE]... [--check] [--resume] [--misses PCT] "
                "[--snapshot DIR] [--histograms] [--save-adapters DIR] "
                "[--dump DIR [--dump-rows LIST]] "
                "[--unsafe] [--json] [--totals] [--shard I/N]\n"
                "(SCENARIO.lua... [-- name=value...] | --lengths LIST "
                "[--model M] [--cp LIST] [--ep LIST] [--lora-rank LIST] "
                "[--layers LIST] [--waves N])",
    .about = "run scenarios: peaks and estimates of every case, into a folder",
    .text = "Runs every case of the scenarios: the step of each wave on each "
            "rank, and every estimator on the wave's plan. Prints one line "
            "an estimate and writes the records into DIR; a finished DIR is "
            "replaced. A failed case is a record too, and the run goes on.\n\n"
            "A device that computes trains on the case's tokens, ranks as "
            "threads. Before, the case runs on dry: what cannot fit ends with "
            "exit 6 before any memory is touched. Afterwards it runs there "
            "once more with the routes that were seen: other allocations or "
            "peaks are exit 7. The built-in estimators price bf16; for "
            "another dtype they are refused.\n\n"
            "--resume goes on with the same run only: version, device, "
            "settings, and the bytes of the scenarios and of what they read "
            "(of a folder of weights: sizes and times). Failed cases are kept "
            "and give their exit code again; a case that the machine failed "
            "(exit 1: memory, a file, a worker killed) runs again, and those "
            "after it.\n\n"
            "A scenario's name without a folder is also looked for among the "
            "shipped ones (peakproof list). Values after -- set the options "
            "that the scenario declares.",
    .option = run_options,
    .operand = "a SCENARIO.lua",
    .min_operands = 0,
    .max_operands = -1,
    .settings = true,
    .exits = {ERR_RUN, ERR_INPUT, ERR_CHECK, ERR_DEVICE, ERR_OOM, ERR_WRONG,
              ERR_INTERRUPTED},
    .examples = run_examples,
    .run = run,
};
