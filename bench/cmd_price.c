/* cmd_price.c - "peakproof price": every estimator on frozen facts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/command.h"
#include "price/price.h"
#include "price/price_json.h"

typedef int (*estimator)(const struct price_facts *f, struct estimate *out,
                         struct err *e);

static const estimator estimators[] = {price_busiest_rank, price_per_rank};
#define N_ESTIMATORS (sizeof estimators / sizeof estimators[0])

static int price_all(const struct price_facts *f, const char *path,
                     struct estimate *est, struct err *e)
{
    size_t i;

    for (i = 0; i < N_ESTIMATORS; i++) {
        if (estimators[i](f, &est[i], e) == ERR_OK) continue;
        return err_wrap(e, "%s", strcmp(path, "-") == 0 ? "standard input"
                                                        : path);
    }
    return ERR_OK;
}

static int print(const struct price_facts *f, const char *path, struct err *e)
{
    struct estimate *est = calloc(N_ESTIMATORS, sizeof *est);
    const struct estimate *list[N_ESTIMATORS];
    json_t *v;
    size_t i;
    int rc;

    if (est == NULL) return err_nomem(e);
    for (i = 0; i < N_ESTIMATORS; i++) list[i] = &est[i];
    rc = price_all(f, path, est, e);
    if (rc == ERR_OK)
        rc = price_estimates_to_json(list, (int64_t)N_ESTIMATORS, &v, e);
    if (rc == ERR_OK) rc = out_json(v, e);
    free(est);
    return rc;
}

/* Facts that name a file of their own need no data folder, so its absence
** is no error here. */
static char *models_dir(void)
{
    struct buf b = BUF_INIT;
    struct err e;
    char *data;

    if (data_dir(&data, &e) != ERR_OK) return NULL;
    buf_printf(&b, "%s/models", data);
    free(data);
    return b.data;
}

static int run(const struct args *a, struct err *e)
{
    char *models = models_dir();
    struct price_facts f;
    int rc = price_facts_read(a->operand[0], models, &f, e);

    free(models);
    if (rc != ERR_OK) return rc;
    rc = print(&f, a->operand[0], e);
    price_facts_free(&f);
    return rc;
}

static const char *const examples[] = {
    "peakproof price facts.json",
    "peakproof plan --lengths 20000,9000 --ep 2 --facts | peakproof price -",
    NULL
};

const struct command cmd_price = {
    .name = "price",
    .synopsis = "FACTS.json|-",
    .about = "every estimator on frozen facts",
    .text =
        "Reads the facts of one wave (\"-\": standard input) and prints what "
        "each estimator makes of them as JSON: raw bytes, with the margin of "
        "a tenth (admitted_bytes), and term by term; per-rank also rank by "
        "rank. Where an estimator does not apply, supported is false, the "
        "reason says why, and the bytes are those of busiest-rank, or null "
        "where nothing applies.\n\n"
        "Facts are a JSON object with the keys format (1), model (a "
        "config.json: beside the facts, or one of the shipped ones; or the "
        "object itself), layers, parallel {cp, ep, tp, pp}, lora_rank, cold, "
        "adapter_pending (true, false, or bytes by layer and outside), "
        "moe_stages, routing_state, head_rows, output_bytes, "
        "hybridep_held_rows, packed_length, softmax_offset, cp_attention, "
        "block [queries, keys] and groups: each with grad, slot (\"base\" or "
        "null: the base model), attention_rows, gdn_rows, routed_rows, and "
        "for every rank the stages {local, q, k, q_len, k_len, q_full} or "
        "the bytes attention_retained. Only what may be null, and q_full, "
        "may be left out. \"peakproof plan --facts\" prints such facts.",
    .operand = "FACTS.json",
    .min_operands = 1,
    .max_operands = 1,
    .exits = {ERR_RUN, ERR_INPUT},
    .examples = examples,
    .run = run,
};
