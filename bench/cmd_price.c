/* cmd_price.c - "peakproof price": every estimator on frozen facts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/command.h"
#include "run/data_dir.h"
#include "run/estimates.h"
#include "run/miss.h"
#include "price/price_json.h"

/* What price prints for plain facts. */
static int price_plain(const struct js *top, const char *models,
                       json_t **out, struct err *e)
{
    struct price_facts f;
    int rc = price_facts_from_json(top, models, &f, e);

    if (rc != ERR_OK) return rc;
    rc = estimates_json(&f, out, e);
    price_facts_free(&f);
    return rc == ERR_OK ? rc : err_wrap(e, "%s", top->origin);
}

/* Facts that name a file of their own need no data folder, so its absence
** is no error here: *out is NULL. */
static int models_dir(char **out, struct err *e)
{
    struct buf b = BUF_INIT;
    char *data;

    *out = NULL;
    errno = 0;
    if (data_dir(&data, e) != ERR_OK) return errno == ENOMEM ? ERR_RUN : ERR_OK;
    buf_printf(&b, "%s/models", data);
    free(data);
    *out = b.data;
    return b.failed ? err_nomem(e) : ERR_OK;
}

static int run(const struct args *a, struct err *e)
{
    const char *path = a->operand[0];
    char *models;
    json_t *v = NULL, *out = NULL;
    struct js top;
    int rc = models_dir(&models, e);

    if (rc == ERR_OK) rc = js_load(path, 0, &v, e);
    if (rc == ERR_OK) {
        top = js_top(v, strcmp(path, "-") == 0 ? "standard input" : path);
        rc = miss_is(&top) ? miss_replay(&top, models, &out, e)
                           : price_plain(&top, models, &out, e);
    }
    json_decref(v);
    free(models);
    return rc == ERR_OK ? out_json(out, e) : rc;
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
        "a tenth (admitted_bytes), and term by term; per-rank and "
        "per-rank-any also rank by rank, what is a stage's null where the "
        "estimator has none. Where an estimator does not apply, "
        "supported is false, the "
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
        "may be left out; and what per-rank-any alone uses: gdn_states, "
        "gdn_chunks and gdn_sent of every rank, routed_pairs of every rank "
        "and layer, sent_rows of every rank and stage; and load_cv, the "
        "spread of experts' loads that it is told instead of pairs. "
        "\"peakproof plan --facts\" prints such facts.\n\n"
        "How the step runs may be left out too: recompute (\"full\"; "
        "\"none\", \"selective\"), recompute_modules (of core_attn, mlp, "
        "moe), wave (\"train\"; \"hidden\", \"hidden-loss\"), compiled "
        "(true), sequence_parallel (where tp > 1), packed_rows and rank_rows "
        "(from the groups, rounded up to tp), segments (one a group with "
        "gradients), gdn_executed_rows (packed_rows), swiglu_widths (3 fused; "
        "5, 7 clamped; by the model's family) and output_rows (of each "
        "result; one of output_bytes). heuristic, retained-states, "
        "retained-rank and kept-rank price these, dense models and tp.\n\n"
        "A miss report (run --misses) is priced again and compared with what "
        "it says; one that was changed or cut is refused with the first "
        "difference.",
    .operand = "FACTS.json",
    .min_operands = 1,
    .max_operands = 1,
    .exits = {ERR_RUN, ERR_INPUT},
    .examples = examples,
    .run = run,
};
