/* cmd_explain.c - "peakproof explain": one case, term by term. */
#include "bench/command.h"
#include "bench/explain_plot.h"
#include "report/report.h"

static int plot(const struct args *a, struct err *e)
{
    int64_t wave = 0, rank = -1;
    int rc = args_int(a, "wave", 0, INT64_MAX, &wave, e);

    if (rc == ERR_OK) rc = args_int(a, "rank", 0, INT64_MAX, &rank, e);
    if (rc == ERR_OK && !args_has(a, "plot") &&
        (args_has(a, "wave") || args_has(a, "rank")))
        rc = err_set(e, ERR_USAGE, "explain: --wave and --rank say what "
                     "--plot draws");
    if (rc == ERR_OK && args_has(a, "plot"))
        rc = explain_plot(args_text(a, "plot"), a->operand[0], a->operand[1],
                          wave, rank, e);
    return rc;
}

static int run(const struct args *a, struct err *e)
{
    struct buf text = BUF_INIT;
    json_t *v = NULL;
    int rc = report_explain(a->operand[0], a->operand[1], &text,
                            a->json ? &v : NULL, e);

    if (rc == ERR_OK) rc = plot(a, e);
    if (rc == ERR_OK) rc = a->json ? out_json(v, e) : out_put(&text, e);
    else json_decref(v);
    buf_free(&text);
    return rc;
}

static const struct command_option options[] = {
    {.name = "plot", .arg = "FILE.svg",
     .help = "also draw what a rank holds from event to event of a wave, with "
             "the peak and the estimates marked; FILE.dat and FILE.gp beside "
             "it"},
    {.name = "wave", .arg = "N", .help = "of --plot, from 0 (default: 0)"},
    {.name = "rank", .arg = "N",
     .help = "of --plot (default: the most-loaded)"},
    {.name = NULL}
};

static const char *const examples[] = {
    "peakproof explain out pr-accuracy/real-40",
    "peakproof explain --json out routing/real-40.cv-0",
    "peakproof explain --plot real-40.svg out pr-accuracy/real-40", NULL
};

const struct command cmd_explain = {
    .name = "explain",
    .synopsis = "[--json] [--plot FILE.svg [--wave N] [--rank N]] DIR CASE",
    .about = "one case's estimate against its peak, term by term, by rank",
    .text = "Reads the files of a run in DIR. CASE is a case's name, or "
            "SCENARIO/CASE where several scenarios have one of that name. "
            "Every estimator in the records has a table of its terms, "
            "per-rank one for each rank. Bytes are above what was allocated "
            "when the wave began; only reserved bytes are absolute. "
            "The residue of each table is what estimate and peak differ by "
            "when all categories are taken together.\n\n"
            "For --plot the case runs once more on the dry device, from the "
            "scenario that DIR's run.json names.",
    .option = options,
    .operand = "DIR and CASE",
    .min_operands = 2,
    .max_operands = 2,
    .exits = {ERR_RUN, ERR_INPUT},
    .examples = examples,
    .run = run,
};
