/* cmd_explain.c - "peakproof explain": one case, term by term. */
#include "bench/command.h"
#include "report/report.h"

static int run(const struct args *a, struct err *e)
{
    struct buf text = BUF_INIT;
    json_t *v = NULL;
    int rc = report_explain(a->operand[0], a->operand[1], &text,
                            a->json ? &v : NULL, e);

    if (rc == ERR_OK) rc = a->json ? out_json(v, e) : out_put(&text, e);
    buf_free(&text);
    return rc;
}

static const char *const examples[] = {
    "peakproof explain out pr-accuracy/real-40",
    "peakproof explain --json out routing/real-40.cv-0", NULL
};

const struct command cmd_explain = {
    .name = "explain",
    .synopsis = "[--json] DIR CASE",
    .about = "one case's estimate against its peak, term by term, by rank",
    .text = "Reads the files of a run in DIR. CASE is a case's name, or "
            "SCENARIO/CASE where several scenarios have one of that name. "
            "Every estimator in the records has a table of its terms, "
            "per-rank one for each rank. Bytes are above what was allocated "
            "when the wave began; only reserved bytes are absolute. "
            "The residue of each table is what estimate and peak differ by "
            "when all categories are taken together.",
    .operand = "DIR and CASE",
    .min_operands = 2,
    .max_operands = 2,
    .exits = {ERR_RUN, ERR_INPUT},
    .examples = examples,
    .run = run,
};
