/* cmd_fit.c - "peakproof fit": a wave against a device's memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "bench/fit_plot.h"
#include "bench/plan_args.h"
#include "fit/fit.h"
#include "price/price_json.h"
#include "run/data_dir.h"
#include "run/run.h"
#include "run/scenarios.h"

/* Ranks that are tried for advice: more have no test, and take as long as all
** that was asked. */
#define MOST_ADVISED 16

/* ---- text --------------------------------------------------------------- */

static void put_bytes(struct buf *b, const char *what, int64_t bytes)
{
    struct buf n = BUF_INIT;

    buf_put_grouped(&n, bytes);
    buf_printf(b, "%-26s %19s\n", what, buf_text(&n));
    if (n.failed) b->failed = true;
    buf_free(&n);
}

static void put_cell(struct buf *b, int64_t n, int width)
{
    struct buf cell = BUF_INIT;

    buf_put_grouped(&cell, n);
    buf_printf(b, " %*s", width, buf_text(&cell));
    if (cell.failed) b->failed = true;
    buf_free(&cell);
}

/* An estimator's line; one that prices nothing says why in the same place. */
static void put_answer(struct buf *b, const struct fit *f, int i)
{
    const struct fit_answer *a = &f->answer[i];

    buf_printf(b, "%-12s", a->estimate.name);
    if (!fit_is_priced(f, i)) {
        buf_printf(b, " not priced: %s\n", a->estimate.reason[0] != '\0'
                   ? a->estimate.reason : "weights under TP or PP");
        return;
    }
    buf_printf(b, " %-5s", a->cold ? "first" : "later");
    put_cell(b, a->gradients, 15);
    put_cell(b, a->estimate.admitted, 15);
    put_cell(b, a->needed, 15);
    put_cell(b, f->available - a->needed, 15);
    buf_printf(b, " %-5s", fit_fits(f, i) ? "fits" : "NO");
    if (a->budget >= 0) put_cell(b, a->budget, 13);
    buf_putc(b, '\n');
    if (!a->estimate.supported)
        buf_printf(b, "%-12s (as busiest-rank: %s)\n", "",
                   a->estimate.reason);
}

/* The step itself, above the estimators. */
static void put_simulated(struct buf *b, const struct fit *f)
{
    const struct simulated *x = &f->simulated;

    buf_printf(b, "%-12s", "simulated");
    if (!f->simulates) {
        buf_printf(b, " not run: %s\n", f->reason);
        return;
    }
    buf_printf(b, " %-5s %15s %15s", x->wave == 0 ? "first" : "later", "",
               "");
    put_cell(b, x->needed, 15);
    put_cell(b, f->available - x->needed, 15);
    buf_printf(b, " %-5s", x->fits ? "fits" : "NO");
    if (f->grant.tokens >= 0) put_cell(b, f->grant.tokens, 13);
    buf_putc(b, '\n');
}

/* What the simulated row is made of, in words. s: NULL where nothing was. */
static void put_why(struct buf *b, const struct fit *f, const struct shape *s)
{
    const struct simulated *x = &f->simulated;
    char routing[ROUTING_WORDS];

    if (!f->simulates) return;
    routing_words(&s->routing, routing);
    buf_printf(b, "simulated: three waves on the dry device, allocator and "
               "all, routing %s, recompute %s; rank %d takes most, of it ",
               s->model.experts > 0 ? routing : "none",
               mode_recompute_words[s->mode.recompute], (int)x->rank);
    buf_put_grouped(b, x->dispatch);
    buf_printf(b, " for dispatch buffers%s%s\n", x->fits
               ? "; its peak is in " : "; without a limit its peak is in ",
               x->place);
    if (f->grant.tokens > 0) {
        buf_printf(b, "budget: every segment scaled alike and planned anew; "
                   "%d trials in the hundredth below it fit too; ",
                   (int)f->grant.trials);
        if (f->grant.failure < 0) {
            buf_puts(b, "nothing above was found not to\n");
        } else {
            buf_put_grouped(b, f->grant.failure);
            buf_puts(b, " tokens do not fit\n");
        }
    }
}

static int64_t held_between(const struct fit_base *b)
{
    return b->weights + b->adapters + b->moments;
}

/* One change of the shape, run: says it where it makes the wave fit. */
static int try_change(const struct shape *s, const struct fit *f,
                      int64_t cp, int64_t ep, const char *what,
                      struct buf *b, struct err *e)
{
    struct shape x = *s;
    bool fits = false;
    int rc;

    x.options.cp = cp;
    x.options.ep = ep;
    if (s->model.experts % ep != 0 || cp % ep != 0) return ERR_OK;
    rc = simulate_fits(&x, &x.batch, f->available, &fits, e);
    if (rc == ERR_INPUT) return ERR_OK;
    if (fits) buf_printf(b, "fits with %s\n", what);
    return rc;
}

/* More ranks, more of them for experts: what would make it fit. */
static int put_changes(const struct shape *s, const struct fit *f,
                       struct buf *b, struct err *e)
{
    int64_t cp, ep;
    char what[64];
    size_t before = b->len;
    int rc = ERR_OK;

    if (s == NULL || s->layout != NULL || !f->simulates || f->simulated.fits)
        return ERR_OK;
    for (ep = s->options.ep * 2; rc == ERR_OK && s->model.experts > 0 &&
         ep <= s->options.cp; ep *= 2) {
        snprintf(what, sizeof what, "--ep %" PRId64, ep);
        rc = try_change(s, f, s->options.cp, ep, what, b, e);
    }
    for (cp = s->options.cp * 2; rc == ERR_OK && cp <= MOST_ADVISED &&
         b->len == before; cp *= 2) {
        snprintf(what, sizeof what, "--cp %" PRId64, cp);
        rc = try_change(s, f, cp, s->options.ep, what, b, e);
        if (rc != ERR_OK || s->model.experts == 0 || s->options.ep == cp)
            continue;
        snprintf(what, sizeof what, "--cp %" PRId64 " --ep %" PRId64, cp, cp);
        rc = try_change(s, f, cp, cp, what, b, e);
    }
    return rc;
}

/* What to change so that it fits; nothing when all answers say it does. */
static void put_advice(struct buf *b, const struct fit *f)
{
    int64_t short_of = held_between(&f->base) - f->available, budget = 0;
    bool asked = false;
    int i;

    if (!f->known) return;
    if (f->simulates && f->simulated.fits) return;
    if (short_of >= 0) {
        buf_puts(b, "cut: what a rank holds between waves does not fit (more "
                    "--ep, fewer --layers, a smaller --lora-rank)\n");
        return;
    }
    if (f->grant.tokens > 0) {
        budget = f->grant.tokens;
        asked = true;
    }
    for (i = 0; i < PRICE_RECOMPUTING && !asked; i++) {
        if (!fit_is_priced(f, i) || fit_fits(f, i)) continue;
        budget = f->answer[i].budget;
        asked = true;
    }
    if (!asked) return;
    buf_puts(b, "cut: waves of this shape fit up to ");
    buf_put_grouped(b, budget);
    buf_puts(b, " tokens (or more --cp or --ep)\n");
}

/* For people: what is held, what is left for a wave, then each answer. */
static void put_text(struct buf *b, const struct fit *f, const struct shape *s)
{
    int i;

    put_bytes(b, "device memory, bytes", f->memory);
    put_bytes(b, "kept free (context, NCCL)", f->reserve);
    if (f->known) {
        put_bytes(b, "weights", f->base.weights);
        put_bytes(b, "adapters", f->base.adapters);
        put_bytes(b, "optimizer moments", f->base.moments);
        put_bytes(b, "left for a wave",
                  f->available - held_between(&f->base));
    }
    put_bytes(b, "tokens of the wave", f->tokens);
    buf_printf(b, "\n%-12s %-5s %15s %15s %15s %15s %-5s %13s\n", "estimator",
               "wave", "held gradients", "admitted", "needed in all", "margin",
               "", "token budget");
    put_simulated(b, f);
    for (i = 0; i < PRICE_RECOMPUTING; i++) put_answer(b, f, i);
    put_why(b, f, s);
    if (f->known)
        buf_puts(b, "needed: weights, adapters, moments, held gradients, "
                    "admitted\n");
    put_advice(b, f);
}

/* ---- JSON --------------------------------------------------------------- */

static json_t *number(bool known, int64_t n)
{
    return known ? json_integer(n) : json_null();
}

static json_t *answer_json(const struct fit *f, int i)
{
    const struct fit_answer *a = &f->answer[i];
    bool priced = fit_is_priced(f, i);
    const char *reason = a->estimate.reason;

    return json_pack(
        "{s:s, s:b, s:s?, s:s?, s:o, s:o, s:o, s:o, s:o, s:o}",
        "name", a->estimate.name, "supported", a->estimate.supported,
        "reason", reason[0] != '\0' ? reason : NULL,
        "wave", !priced ? NULL : a->cold ? "first" : "later",
        "admitted_bytes", number(a->estimate.priced, a->estimate.admitted),
        "gradient_bytes", number(priced, a->gradients),
        "needed_bytes", number(priced, a->needed),
        "margin_bytes", number(priced, f->available - a->needed),
        "fits", priced ? json_boolean(fit_fits(f, i)) : json_null(),
        "budget_tokens", number(priced && a->budget >= 0, a->budget));
}

/* Beside the estimators' answers and with their keys: null where not known. */
static json_t *simulated_json(const struct fit *f, const struct shape *s)
{
    const struct simulated *x = &f->simulated;
    bool known = f->simulates;
    char routing[ROUTING_WORDS];

    if (known) routing_words(&s->routing, routing);
    return json_pack(
        "{s:s, s:b, s:s?, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s?, s:o, s:s?,"
        " s:s?}",
        "name", "simulated", "supported", known,
        "reason", known ? NULL : f->reason,
        "wave", number(known, x->wave),
        "needed_bytes", number(known, x->needed),
        "margin_bytes", number(known, f->available - x->needed),
        "fits", known ? json_boolean(x->fits) : json_null(),
        "budget_tokens", number(known && f->grant.tokens >= 0,
                                f->grant.tokens),
        "first_failure_tokens", number(known && f->grant.failure >= 0,
                                       f->grant.failure),
        "rank", number(known, x->rank),
        "place", known ? x->place : NULL,
        "dispatch_bytes", number(known, x->dispatch),
        "routing", known && s->model.experts > 0 ? routing : NULL,
        "recompute", known ? mode_recompute_words[s->mode.recompute] : NULL);
}

static json_t *fit_json(const struct fit *f, const struct shape *s)
{
    json_t *answers = json_array();
    int i;

    json_array_append_new(answers, simulated_json(f, s));
    for (i = 0; i < PRICE_RECOMPUTING; i++)
        json_array_append_new(answers, answer_json(f, i));
    return json_pack(
        "{s:i, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}",
        "format", 1, "memory_bytes", (json_int_t)f->memory,
        "reserve_bytes", (json_int_t)f->reserve,
        "device_bytes", (json_int_t)f->available,
        "tokens", (json_int_t)f->tokens,
        "weight_bytes", number(f->known, f->base.weights),
        "adapter_bytes", number(f->known, f->base.adapters),
        "optimizer_bytes", number(f->known, f->base.moments),
        "estimates", answers);
}

/* ---- command ------------------------------------------------------------ */

/* What both kinds of input come to, once they are a source. */
static int answer(const struct args *a, const struct fit_source *s,
                  struct err *e)
{
    struct buf text = BUF_INIT;
    struct fit *f = malloc(sizeof *f);
    int64_t memory = 0, reserve = -1;
    int rc = f == NULL ? err_nomem(e) : args_bytes(a, "memory", &memory, e);

    if (rc == ERR_OK) rc = args_bytes(a, "reserve", &reserve, e);
    if (rc == ERR_OK && reserve >= memory)
        rc = err_set(e, ERR_USAGE, "--reserve leaves nothing of --memory");
    if (rc == ERR_OK) rc = fit_price(s, memory, reserve, f, e);
    if (rc == ERR_OK) rc = fit_budgets(s, f, e);
    if (rc == ERR_OK && args_has(a, "plot"))
        rc = s->plan == NULL || s->plan->layout != NULL
             ? err_set(e, ERR_USAGE, "--plot draws the batch at other "
                       "lengths, planned anew: %s (give --lengths, --tree, "
                       "--sequences or a case with such a batch)",
                       s->plan == NULL ? "facts have rows, no lengths"
                       : "a recorded layout has rows and stages of one plan, "
                         "no lengths")
             : fit_plot(args_text(a, "plot"), s->plan, f, e);
    if (rc == ERR_OK && a->json) {
        rc = out_json(fit_json(f, s->plan), e);
    } else if (rc == ERR_OK) {
        put_text(&text, f, s->plan);
        rc = put_changes(s->plan, f, &text, e);
        if (rc == ERR_OK) rc = out_put(&text, e);
        else buf_free(&text);
    }
    free(f);
    return rc;
}

static int answer_facts(const struct args *a, struct err *e)
{
    struct buf models = BUF_INIT;
    struct err ignored;
    struct price_facts f;
    char *data;
    int rc;

    if (data_dir(&data, &ignored) == ERR_OK) {
        buf_printf(&models, "%s/models", data);
        free(data);
    }
    rc = price_facts_read(a->operand[0], models.data, &f, e);
    buf_free(&models);
    if (rc != ERR_OK) return rc;
    rc = answer(a, &(struct fit_source){NULL, &f}, e);
    if (rc == ERR_INPUT) rc = err_wrap(e, "%s", a->operand[0]);
    price_facts_free(&f);
    return rc;
}

/* "balanced", "cv=1.0", "cv=1.0,seed=3", "share=1.3": no more than all that ep
** ranks get. */
static int read_routing(const struct args *a, int64_t ep, struct routing *out,
                        struct err *e)
{
    const char *text = args_text(a, "routing"), *comma;
    char number[64];
    double x = 0;
    int64_t seed = 1;
    size_t n;
    bool ok;

    *out = (struct routing){.kind = ROUTING_BALANCED, .seed = 1};
    if (text == NULL || strcmp(text, "balanced") == 0) return ERR_OK;
    comma = strchr(text, ',');
    n = strcspn(text, ",") - strcspn(text, "=,");
    snprintf(number, sizeof number, "%.*s", (int)(n < sizeof number ? n : 0),
             text + strcspn(text, "=,"));
    ok = number[0] == '=' && num_parse_double(number + 1, &x);
    if (ok && strncmp(text, "cv=", 3) == 0) {
        out->kind = ROUTING_CV;
        out->cv = x;
        ok = routing_cv_fits(x) &&
             (comma == NULL || (strncmp(comma + 1, "seed=", 5) == 0 &&
                                num_parse(comma + 6, 0, INT64_MAX, &seed)));
        out->seed = (uint64_t)seed;
    } else {
        ok = ok && comma == NULL && strncmp(text, "share=", 6) == 0 && x >= 1;
        out->kind = ROUTING_SHARE;
        out->share = x;
    }
    if (!ok)
        return err_set(e, ERR_USAGE, "--routing: '%.40s' is not balanced, "
                       "cv=1.0, cv=1.0,seed=3 or share=1.3", text);
    if (out->kind != ROUTING_SHARE || x <= (double)ep) return ERR_OK;
    return err_set(e, ERR_USAGE, "--routing: share: must be at most ep, %"
                   PRId64 ", not %g", ep, x);
}

/* One case of a scenario, as --only names it. */
static int answer_case(const struct args *a, const struct scenario_set *set,
                       struct err *e)
{
    const struct scenario_case *c = NULL;
    const char *only = args_text(a, "only");
    struct scenario *s = set->s[0];
    struct shape p = {.model_ref = NULL};
    struct shape_told told;
    int64_t i;
    int rc;

    for (i = 0; i < s->n_case; i++)
        if (only == NULL ? s->n_case == 1
                         : strcmp(s->kase[i].name, only) == 0)
            c = &s->kase[i];
    if (c == NULL)
        return err_set(e, ERR_USAGE, "%s: %s%s (peakproof list %s names its "
                       "cases)", s->path, only != NULL ? "no case "
                       : "which case? say --only CASE", only ? only : "",
                       s->path);
    if (c->labels != NULL)
        return err_set(e, ERR_INPUT, "%s: case %s: labels: fit has no file of "
                       "them for the batches that it tries (say how many rows "
                       "are labelled, head_rows, in its place)", s->path,
                       c->name);
    rc = run_case_check(s, c, e);
    if (rc == ERR_OK) rc = model_load(c->model_path, c->layers, &p.model, e);
    if (rc != ERR_OK) return rc;
    told = (struct shape_told){
        c->softmax_offset, c->cp_attention, c->output_bytes,
        c->price_head_rows, c->hybridep_held_rows, c->routed_rows,
        args_has(a, "routing") ? NULL : &c->routing};
    p.told = &told;
    p.options = run_plan_options(c);
    p.lora_rank = c->lora_rank;
    p.head_rows = c->head_rows;
    p.mode = c->mode;
    p.pp = c->pp;
    p.dtype = c->dtype;
    p.routing = c->routing;
    if (c->batch_kind == BATCH_LAYOUT) p.layout = c->layout;
    else p.batch = c->batch;        /* the scenario's */
    if (args_has(a, "routing")) rc = read_routing(a, c->ep, &p.routing, e);
    if (rc == ERR_OK) rc = answer(a, &(struct fit_source){&p, NULL}, e);
    model_free(&p.model);
    return rc;
}

static int answer_scenario(const struct args *a, struct err *e)
{
    struct scenario_limits limits = {0};
    struct scenario_set set;
    int rc = scenarios_load(a->operand, 1, a->setting, a->n_setting, &limits,
                            &set, e);

    if (rc != ERR_OK) return rc;
    rc = answer_case(a, &set, e);
    scenarios_free(&set);
    return rc;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);

    return n > k && strcmp(name + n - k, end) == 0;
}

/* A scenario's name may go without its ending, as with run; facts are a
** file. */
static bool is_scenario(const struct args *a)
{
    const char *name = a->operand[0];

    if (ends_in(name, ".lua") || args_has(a, "only")) return true;
    return strcmp(name, "-") != 0 && !ends_in(name, ".json") &&
           access(name, F_OK) != 0;
}

/* FACTS, a scenario's case, or the options of plan: which one decides the
** rest. */
static int run(const struct args *a, struct err *e)
{
    struct shape p;
    int64_t memory = 0;
    int rc = args_bytes(a, "memory", &memory, e);

    if (rc != ERR_OK) return rc;
    if (memory < 1)
        return err_set(e, ERR_USAGE, "fit needs the device's memory "
                       "(--memory 80G)");
    if (memory < 1 << 20)
        return err_set(e, ERR_USAGE, "fit: --memory: '%s' are bytes, too few "
                       "for a device (say 80G)", args_text(a, "memory"));
    if (a->n_operand > 0 && plan_args_given(a))
        return err_set(e, ERR_USAGE, "facts and the options of a plan exclude "
                       "each other");
    if (a->n_operand > 0 && is_scenario(a))
        return answer_scenario(a, e);
    if (a->n_operand > 0) return answer_facts(a, e);
    rc = plan_args_read(a, &p, e);
    if (rc != ERR_OK) return rc;
    rc = read_routing(a, p.options.ep, &p.routing, e);
    if (rc == ERR_OK) rc = answer(a, &(struct fit_source){&p, NULL}, e);
    shape_free(&p);
    return rc;
}

static const struct command_option options[] = {
    {.name = "memory", .arg = "BYTES",
     .help = "the device's memory: 80G is 80e9 bytes, 80Gi is 80 * 2^30"},
    {.name = "reserve", .arg = "BYTES",
     .help = "kept free of it for the CUDA context, NCCL and kernels "
             "(default: 3 percent)"},
    {.name = "routing", .arg = "HOW",
     .help = "of what is simulated, in place of a case's own, and not told "
             "to the estimators: balanced (default), cv=X or cv=X,seed=N "
             "(loads drawn by layer), share=X (rank 0 gets X times its even "
             "share)"},
    {.name = "plot", .arg = "DIR",
     .help = "draw what a rank takes against tokens, with the device's limit, "
             "as DIR/fit.svg"},
    {.name = "only", .arg = "CASE",
     .help = "the case of SCENARIO.lua that is meant"},
    PLAN_ARGS_OPTIONS,
    {.name = NULL}
};

static const char *const examples[] = {
    "peakproof fit --memory 80G --lengths 20000,9000 --ep 2",
    "peakproof fit --memory 141G --sequences tau-airline-sequences.csv",
    "peakproof plan --lengths 2047 --facts | peakproof fit --memory 80G -",
    "peakproof fit --memory 141G pr-accuracy.lua --only real-40",
    NULL
};

const struct command cmd_fit = {
    .name = "fit",
    .synopsis = "--memory BYTES (FACTS.json|- | SCENARIO.lua --only CASE | "
                "options of plan)",
    .about = "whether a wave fits a device, or what to cut",
    .text =
        "Runs three waves on the dry device (weights, adapters, Adam's "
        "moments, gradients, the caching allocator with its fragmentation, "
        "dispatch buffers) on a device of --memory less what is kept free, "
        "and says in the row simulated whether they fit. Beside it, what each "
        "estimator says: what a rank holds between waves and its admitted "
        "bytes of the wave; of a plan the dearer of a first wave and a later "
        "one. Facts are taken as they stand and cannot be run.\n\n"
        "The budget is the number of tokens to which the batch can be scaled, "
        "every segment alike, planned anew. A larger batch may fit where a "
        "smaller one does not, because the allocator breaks its segments "
        "otherwise: of the simulation a number is granted only if numbers "
        "spread over the hundredth below it fit as well, and the first that "
        "was found not to is printed. An estimator's budget is where it "
        "stops to fit. The exit code is 0 whatever the answer.",
    .option = options,
    .operand = "FACTS.json or SCENARIO.lua",
    .max_operands = 1,
    .settings = true,
    .exits = {ERR_RUN, ERR_INPUT},
    .examples = examples,
    .run = run,
};
