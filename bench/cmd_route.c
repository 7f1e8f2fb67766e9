/* cmd_route.c - "peakproof route": how routers of random weights distribute
** rows, as the file that scenarios/random-weights.lua reads */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "bench/plan_args.h"
#include "run/route.h"

static enum weight_init init_of(const char *word)
{
    int i = INIT_HUGGINGFACE;

    while (i > 0 && strcmp(weight_init_words[i], word) != 0) i--;
    return (enum weight_init)i;
}

static void put_loads(const int64_t *row, int64_t n, struct buf *b)
{
    int64_t i;

    for (i = 0; i < n; i++)
        buf_printf(b, "%s%" PRId64, i ? " " : "", row[i]);
}

static int put_csv(const struct route *r, const struct routing *h,
                   struct err *e)
{
    struct buf b = BUF_INIT;
    int64_t i;

    buf_puts(&b, "init,adapter_rank,model_layers,seed,rows,layer,loads\n");
    for (i = 0; i < h->layers; i++) {
        buf_printf(&b, "%s,%" PRId64 ",%" PRId64 ",%" PRIu64 ",%" PRId64
                   ",%" PRId64 ",", weight_init_words[r->init], r->lora_rank,
                   h->layers, r->seed, r->rows, i);
        put_loads(h->rows + i * h->experts, h->experts, &b);
        buf_putc(&b, '\n');
    }
    return out_put(&b, e);
}

static int put_json(const struct route *r, const struct routing *h,
                    struct err *e)
{
    json_t *loads = json_array(), *layer;
    int64_t i, k;

    for (i = 0; i < h->layers; i++) {
        layer = json_array();
        for (k = 0; k < h->experts; k++)
            json_array_append_new(layer, json_integer(
                (json_int_t)h->rows[i * h->experts + k]));
        json_array_append_new(loads, layer);
    }
    return out_json(json_pack(
        "{s:i, s:s, s:I, s:I, s:I, s:I, s:o}", "format", 1, "init",
        weight_init_words[r->init], "adapter_rank",
        (json_int_t)r->lora_rank, "model_layers", (json_int_t)h->layers,
        "seed", (json_int_t)r->seed, "rows", (json_int_t)r->rows, "loads",
        loads), e);
}

static int read_options(const struct args *a, struct route *r, struct err *e)
{
    int64_t seed = 1;
    int rc = args_int(a, "layers", 1, 1 << 20, &r->layers, e);

    if (rc == ERR_OK) rc = args_int(a, "rows", 1, 1 << 20, &r->rows, e);
    if (rc == ERR_OK) rc = args_int(a, "seed", 0, INT64_MAX, &seed, e);
    if (rc == ERR_OK)
        rc = args_int(a, "adapters", 0, 65536, &r->lora_rank, e);
    if (rc == ERR_OK && !args_has(a, "init"))
        rc = err_set(e, ERR_USAGE, "route: whose initial weights? (--init "
                     "megatron or huggingface)");
    if (rc == ERR_OK) r->init = init_of(args_text(a, "init"));
    r->seed = (uint64_t)seed;
    return rc;
}

static int run(const struct args *a, struct err *e)
{
    struct route r = {.rows = 1024};
    struct routing h;
    char *path = NULL;
    int rc = read_options(a, &r, e);

    if (rc == ERR_OK) rc = plan_args_model(args_text(a, "model"), &path, e);
    r.model = path;
    if (rc == ERR_OK) rc = run_route(&r, &h, e);
    if (rc == ERR_OK) {
        rc = a->json ? put_json(&r, &h, e) : put_csv(&r, &h, e);
        routing_free(&h);
    }
    free(path);
    return rc;
}

static const struct command_option options[] = {
    {.name = "init", .arg = "HOW", .values = weight_init_words,
     .help = "how weights are drawn: as Megatron-LM or transformers do, or by "
             "this program's own numbers, which keep every product's size"},
    {.name = "model", .arg = "F.json",
     .help = "a config.json, or a shipped one by name (default: "
             "Qwen3.6-35B-A3B.json)"},
    {.name = "layers", .arg = "N",
     .help = "only the model's first layers (default: all); an initial "
             "weight's size may depend on their number"},
    {.name = "rows", .arg = "R",
     .help = "tokens, drawn at random, of one sequence (default: 1024)"},
    {.name = "seed", .arg = "S", .help = "of weights and tokens (default: 1)"},
    {.name = "adapters", .arg = "RANK",
     .help = "random adapters of this rank, A ~ N(0, 1), B ~ 0.001 N(0, 1), "
             "alpha 32 (default: 0, none)"},
    {.name = NULL}
};

static const char *const examples[] = {
    "peakproof route --model tiny --init megatron --rows 64",
    NULL
};

const struct command cmd_route = {
    .name = "route",
    .synopsis = "--init megatron|huggingface|own [--model F.json] "
                "[--layers N] [--rows R] [--seed S] [--adapters RANK]",
    .about = "how routers of random weights distribute rows, at full width",
    .text = "Runs the forward of a model with random weights on the cpu "
            "device, in f32, with one layer's weights in memory at a time, "
            "and prints a row a layer with the pairs (rows x top-k in all) "
            "that each expert got, in order: the file that "
            "random-weights.lua reads (-- loads=FILE) and whose loads a case "
            "takes as routing = {loads = ...}.\n\n"
            "A layer of the default model takes 3.5 GB and some seconds.",
    .option = options,
    .operand = "nothing",
    .exits = {ERR_RUN, ERR_INPUT, ERR_DEVICE, ERR_OOM},
    .examples = examples,
    .run = run,
};
