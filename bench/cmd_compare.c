/* cmd_compare.c - "peakproof compare": what changed between two runs. */
#include <inttypes.h>

#include "bench/snapshots.h"
#include "report/compare.h"

static int run_snapshots(const struct args *a, struct err *e)
{
    struct account_ask ask = {.by = BY_FRAME};
    struct patterns p = {0};
    int64_t changed = 0;
    int rc = snapshots_ask(a, &ask, &p, e);

    if (rc == ERR_OK) rc = snapshots_compare(a, &ask, &changed, e);
    patterns_free(&p);
    if (rc != ERR_OK || !args_has(a, "check") || changed == 0) return rc;
    return err_set(e, ERR_CHECK, "the peaks of %s and %s differ",
                   a->operand[0], a->operand[1]);
}

static int run_folders(const struct args *a, struct err *e)
{
    struct buf text = BUF_INIT;
    struct comparison c;
    json_t *v = NULL;
    int rc = report_compare(a->operand[0], a->operand[1], &text,
                            a->json ? &v : NULL, &c, e);

    if (rc == ERR_OK) rc = a->json ? out_json(v, e) : out_put(&text, e);
    buf_free(&text);
    if (rc != ERR_OK || !args_has(a, "check")) return rc;
    if (c.changed + c.only_old + c.only_new == 0) return ERR_OK;
    return err_set(e, ERR_CHECK, "%s and %s differ in %" PRId64 " cases",
                   a->operand[0], a->operand[1],
                   c.changed + c.only_old + c.only_new);
}

static int run(const struct args *a, struct err *e)
{
    if (snapshots_are(a->operand[0], a->operand[1]))
        return run_snapshots(a, e);
    if (args_has(a, "by") || args_has(a, "patterns") || args_has(a, "rows"))
        return err_set(e, ERR_USAGE, "compare: --by, --patterns and --rows "
                       "go with two snapshots");
    return run_folders(a, e);
}

static const struct command_option options[] = {
    {.name = "check", .help = "exit with code 4 when anything differs"},
    SNAPSHOTS_BY,
    SNAPSHOTS_PATTERNS,
    SNAPSHOTS_ROWS,
    {.name = NULL},
};

static const char *const examples[] = {
    "peakproof compare old new", "peakproof compare --check old new",
    "peakproof compare --by module yesterday.pickle today.pickle", NULL
};

const struct command cmd_compare = {
    .name = "compare",
    .synopsis = "[--check] [--by KEY] [--json] OLD NEW",
    .about = "what changed between two runs, or two memory snapshots",
    .text = "Reads the files of two runs, tells their commits, scenarios, "
            "settings and commands, and lists every case whose peak or raw "
            "estimate differs, and those that one run alone has. Estimates "
            "and simulated peaks are exact, so any difference counts; other "
            "terms that differ are counted. An estimator that one run alone "
            "has is named and not compared.\n\n"
            "Two files are PyTorch memory snapshots: the difference of their "
            "peaks, by frame or --by KEY, for each device that both have.",
    .option = options,
    .operand = "OLD and NEW",
    .min_operands = 2,
    .max_operands = 2,
    .exits = {ERR_RUN, ERR_INPUT, ERR_CHECK},
    .examples = examples,
    .run = run,
};
