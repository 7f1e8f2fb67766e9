/* cmd_fit.c - "peakproof fit": a wave against a device's memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/plan_args.h"
#include "fit/fit.h"
#include "price/price_json.h"
#include "run/data_dir.h"

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
    put_cell(b, a->budget, 13);
    buf_putc(b, '\n');
    if (!a->estimate.supported)
        buf_printf(b, "%-12s (as busiest-rank: %s)\n", "",
                   a->estimate.reason);
}

static int64_t held_between(const struct fit_base *b)
{
    return b->weights + b->adapters + b->moments;
}

/* What to change so that it fits; nothing when all answers say it does. */
static void put_advice(struct buf *b, const struct fit *f)
{
    int64_t short_of = held_between(&f->base) - f->available, budget = 0;
    bool asked = false;
    int i;

    if (!f->known) return;
    if (short_of >= 0) {
        buf_puts(b, "cut: what a rank holds between waves does not fit (more "
                    "--ep, fewer --layers, a smaller --lora-rank)\n");
        return;
    }
    for (i = 0; i < PRICE_RECOMPUTING; i++) {
        if (!fit_is_priced(f, i) || fit_fits(f, i)) continue;
        if (!asked || f->answer[i].budget < budget)
            budget = f->answer[i].budget;
        asked = true;
    }
    if (!asked) return;
    buf_puts(b, "cut: waves of this shape fit up to ");
    buf_put_grouped(b, budget);
    buf_puts(b, " tokens (or more --cp or --ep)\n");
}

static void put_text(struct buf *b, const struct fit *f)
{
    int i;

    put_bytes(b, "device memory, bytes", f->memory);
    put_bytes(b, "kept free (3 percent)", f->reserve);
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
    for (i = 0; i < PRICE_RECOMPUTING; i++) put_answer(b, f, i);
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
        "token_budget", number(priced, a->budget));
}

static json_t *fit_json(const struct fit *f)
{
    json_t *answers = json_array();
    int i;

    for (i = 0; i < PRICE_RECOMPUTING; i++)
        json_array_append_new(answers, answer_json(f, i));
    return json_pack(
        "{s:i, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}",
        "format", 1, "memory_bytes", (json_int_t)f->memory,
        "reserve_bytes", (json_int_t)f->reserve,
        "available_bytes", (json_int_t)f->available,
        "tokens", (json_int_t)f->tokens,
        "weight_bytes", number(f->known, f->base.weights),
        "adapter_bytes", number(f->known, f->base.adapters),
        "optimizer_bytes", number(f->known, f->base.moments),
        "estimators", answers);
}

/* ---- command ------------------------------------------------------------ */

static int answer(const struct args *a, const struct fit_source *s,
                  struct err *e)
{
    struct buf text = BUF_INIT;
    struct fit *f = malloc(sizeof *f);
    int64_t memory = 0;
    int rc = f == NULL ? err_nomem(e) : args_bytes(a, "memory", &memory, e);

    if (rc == ERR_OK) rc = fit_price(s, memory, f, e);
    if (rc == ERR_OK) rc = fit_budgets(s, f, e);
    if (rc == ERR_OK && a->json) {
        rc = out_json(fit_json(f), e);
    } else if (rc == ERR_OK) {
        put_text(&text, f);
        rc = out_put(&text, e);
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

static int run(const struct args *a, struct err *e)
{
    struct shape p;
    int64_t memory = 0;
    int rc = args_bytes(a, "memory", &memory, e);

    if (rc != ERR_OK) return rc;
    if (memory < 1)
        return err_set(e, ERR_USAGE, "fit needs the device's memory "
                       "(--memory 80G)");
    if (a->n_operand > 0 && plan_args_given(a))
        return err_set(e, ERR_USAGE, "facts and the options of a plan exclude "
                       "each other");
    if (a->n_operand > 0) return answer_facts(a, e);
    rc = plan_args_read(a, &p, e);
    if (rc != ERR_OK) return rc;
    rc = answer(a, &(struct fit_source){&p, NULL}, e);
    shape_free(&p);
    return rc;
}

static const struct command_option options[] = {
    {.name = "memory", .arg = "BYTES",
     .help = "the device's memory: 80G is 80e9 bytes, 80Gi is 80 * 2^30"},
    PLAN_ARGS_OPTIONS,
    {.name = NULL}
};

static const char *const examples[] = {
    "peakproof fit --memory 80G --lengths 20000,9000 --ep 2",
    "peakproof fit --memory 141G --sequences tau-airline-sequences.csv",
    "peakproof plan --lengths 2047 --facts | peakproof fit --memory 80G -",
    NULL
};

const struct command cmd_fit = {
    .name = "fit",
    .synopsis = "--memory BYTES (FACTS.json|- | options of plan)",
    .about = "whether a wave fits a device, or what to cut",
    .text =
        "Adds up what a rank holds between waves (weights, adapters, Adam's "
        "two moments in f32 for each adapter element, adapter gradients that "
        "were allocated earlier) and each estimator's admitted bytes of the "
        "wave, and compares them with the device's memory less the 3 percent "
        "that are kept free. Of a plan both a first wave and a later one "
        "must fit, and a row is the dearer of the two; facts are taken as "
        "they stand.\n\n"
        "The token budget is the number of tokens to which the wave can be "
        "scaled, every segment in proportion, so that it fits and one token "
        "more does not. The exit code is 0 whatever the answer.",
    .option = options,
    .operand = "FACTS.json",
    .max_operands = 1,
    .exits = {ERR_RUN, ERR_INPUT},
    .examples = examples,
    .run = run,
};
