/* cmd_compare.c - "peakproof compare": what changed between two runs. */
#include <inttypes.h>

#include "bench/command.h"
#include "report/compare.h"

static int run(const struct args *a, struct err *e)
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

static const struct command_option options[] = {
    {.name = "check", .help = "exit with code 4 when anything differs"},
    {.name = NULL},
};

static const char *const examples[] = {
    "peakproof compare old new", "peakproof compare --check old new", NULL
};

const struct command cmd_compare = {
    .name = "compare",
    .synopsis = "[--check] [--json] OLD NEW",
    .about = "what changed between two runs: peaks, estimates, cases",
    .text = "Reads the files of two runs and lists every case whose peak or "
            "raw estimate differs, and those that one run alone has. "
            "Estimates and simulated peaks are exact, so any difference "
            "counts; other terms that differ are counted.",
    .option = options,
    .operand = "OLD and NEW",
    .min_operands = 2,
    .max_operands = 2,
    .exits = {ERR_RUN, ERR_INPUT, ERR_CHECK},
    .examples = examples,
    .run = run,
};
