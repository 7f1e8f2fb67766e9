/* cmd_plan.c - "peakproof plan": the layouts of one wave of tokens. */
#include <time.h>

#include "bench/plan_args.h"
#include "plan/json.h"
#include "price/price_json.h"

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int print_facts(const struct shape *p, const struct plan *plan,
                       bool cold, struct err *e)
{
    struct price_facts f;
    json_t *v = NULL;
    int rc = shape_facts(p, plan, cold ? 0 : 1, &f, e);

    if (rc != ERR_OK) return rc;
    rc = price_facts_to_json(&f, &v, e);
    price_facts_free(&f);
    return rc == ERR_OK ? out_json(v, e) : rc;
}

/* Times the planner alone; reading the batch is none of its work. */
static int run(const struct args *a, struct err *e)
{
    struct shape p;
    struct plan plan;
    double start, ms;
    int rc;

    if (args_has(a, "facts") && args_has(a, "time"))
        return err_set(e, ERR_USAGE, "--facts and --time exclude each other");
    if (args_has(a, "warm") && !args_has(a, "facts"))
        return err_set(e, ERR_USAGE, "--warm needs --facts");
    rc = plan_args_read(a, &p, e);
    if (rc != ERR_OK) return rc;
    start = now_ms();
    rc = plan_make(&p.model, &p.batch, &p.options, &plan, e);
    ms = args_has(a, "time") ? now_ms() - start : -1;
    if (rc == ERR_OK) {
        rc = args_has(a, "facts")
           ? print_facts(&p, &plan, !args_has(a, "warm"), e)
           : out_json(plan_to_json(&plan, ms), e);
        plan_free(&plan);
    }
    shape_free(&p);
    return rc;
}

static const struct command_option options[] = {
    PLAN_ARGS_OPTIONS,
    {.name = "facts", .help = "print what \"peakproof price\" reads, of a "
                              "first wave with all gradients pending"},
    {.name = "warm", .help = "with --facts: of a later wave"},
    {.name = "time", .help = "measure how long planning takes, as plan_ms"},
    {.name = NULL}
};

static const char *const examples[] = {
    "peakproof plan --lengths 2047",
    "peakproof plan --sequences tau-airline-sequences.csv --select 0-22",
    "peakproof plan --tree tau-airline-prefix-tree.csv --cp 4 --time",
    "peakproof plan --lengths 20000,9000 --ep 2 --facts | peakproof price -",
    NULL
};

const struct command cmd_plan = {
    .name = "plan",
    .synopsis = "(--lengths A,B,... | --tree F.csv | --sequences F.csv\n"
                "[--select A-B]) [--cp N] [--ep N] [--model F.json]\n"
                "[--profile new|old] [--facts] [--time]",
    .about = "layouts and attention stages of a wave, from its tokens",
    .text =
        "Plans one wave as the published planner does and prints the result "
        "as JSON: tokens, the planner's chunk and their number, fetch waves, "
        "each rank's rows in attention and in GDN layout, whether a GDN "
        "segment is chained over ranks, the modelled milliseconds of an "
        "attention layer, and every rank's stages. Stage 0 is local; stage "
        "v + 1 reads the keys fetched in wave v.\n\n"
        "A batch is sequences that share nothing (--lengths), a whole tree "
        "of shared prefixes (--tree), or sequences that end in one "
        "(--sequences). Shipped data and models are found by name.",
    .option = options,
    .exits = {ERR_RUN, ERR_INPUT},
    .examples = examples,
    .run = run,
};
