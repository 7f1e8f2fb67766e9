/* cmd_help.c - "peakproof help [TOPIC]" */
#include <stdio.h>
#include <string.h>

#include "base/category.h"
#include "base/suggest.h"
#include "bench/command.h"

/* The list of terms, names in a column. */
static void put_terms(struct buf *out)
{
    for (int i = 0; i < CAT_COUNT; i++)
        buf_printf(out, "%-19s%s\n", category_name((enum category)i),
                   category_help((enum category)i));
}

/* A text; or two, and a list between them. */
static const struct {
    const char *name, *text;
    void (*list)(struct buf *out);
    const char *after;
} topics[] = {
    {"exit-codes",
     "  0  ok\n"
     "  1  the run failed, or a file could not be read or written\n"
     "  2  usage: unknown command, option or value\n"
     "  3  a bad input file: scenario, config, CSV, facts, snapshot\n"
     "  4  a check failed (run --check, compare --check)\n"
     "  5  device not available\n"
     "  6  out of memory in the workload; the case is a record all the same\n"
     "  7  wrong numbers: a loss that is not finite, or allocations or peaks\n"
     "     that are not those of the dry device\n"
     "130  interrupted; finished cases are kept (run --resume goes on)\n"
     "\nWhen several cases fail, the first failed case's code counts.\n",
     NULL, NULL},
    {"environment",
     "PEAKPROOF_DATA         folder with models/, data/ and scenarios/,\n"
     "                       instead of the one beside the program\n"
     "PEAKPROOF_MODULE_PATH  folder in which the cuda module is looked for\n"
     "NO_COLOR, TERM=dumb    no progress line\n",
     NULL, NULL},
    {"files",
     "A run writes into its folder (--out):\n\n"
     "records.csv    every number, one a row: peaks by category, estimates by\n"
     "               term, for each case, wave and rank\n"
     "peaks.csv      allocated, requested, reserved peaks and where they lie\n"
     "cases.csv      one row a case with its parameters, written last: the\n"
     "               mark that the case is complete; a checksum of its rows\n"
     "checks.csv     mirror against executor, lower bound, coverage, ...\n"
     "inventory.csv  the tensors of one recomputed layer of each kind\n"
     "losses.csv, timings.csv, device.csv, run.json\n"
     "               what may differ between two runs; the others never do\n\n"
     "misses/ and histograms/ hold what --misses and --histograms ask for. A\n"
     "run removes and replaces what the folder's run.json lists, through no\n"
     "link, and refuses a folder with other files of these names.\n",
     NULL, NULL},
    {"terms",
     "An estimate's terms and a peak's categories bear the same names:\n\n",
     put_terms, "\n"
     "raw is an estimate without margin, admitted is raw x 1.10, an error is\n"
     "(estimate - peak) / peak against the most-loaded rank.\n"},
    {"scenarios",
     "A scenario is a Lua file that returns a table:\n\n"
     "  return {\n"
     "    name = \"my-batch\",\n"
     "    about = \"two prompts on two ranks\",\n"
     "    options = {len = {help = \"tokens\", default = 4096, min = 1}},\n"
     "    cases = function(opt)\n"
     "      return {{name = \"two\", model = \"Qwen3.6-35B-A3B\",\n"
     "        cp = 2, ep = 2, batch = batch.lengths{opt.len, opt.len}}}\n"
     "    end,\n"
     "  }\n\n"
     "\"peakproof list FILE.lua\" shows its options and cases,\n"
     "\"peakproof run FILE.lua -- len=8192\" runs it. scenarios/template.lua\n"
     "in the data folder (\"peakproof doctor\" says where) is a start to\n"
     "copy.\n\n"
     "Keys of a case: name, about, model, layers, cp, ep, tp, pp,\n"
     "lora_rank, lora_alpha, waves, dtype, seed, weights, init, tokens, batch,\n"
     "plan {cut, profile}, head_rows, price_head_rows, output_bytes,\n"
     "hybridep_held_rows, routing, load_cv, softmax_offset,\n"
     "cp_attention, learning_rate, device_bytes, tolerance {under, over},\n"
     "published {before_cold, before_warm, after_cold, after_warm}.\n\n"
     "Batches: batch.lengths{...}, batch.random{count, length, seed},\n"
     "batch.sequences{file, tree, select}, batch.tree{file},\n"
     "batch.layout{attention_rows, gdn_rows, stages, routed_rows}.\n"
     "Routing: \"balanced\", {cv, seed}, {share, rank}, {hot_expert, factor},\n"
     "{loads = {{...}, ...}}, {histogram = FILE, scaled}.\n\n"
     "An estimator, in a scenario or a file for run --estimator:\n\n"
     "  estimator{name = \"mine\", price = function(facts)\n"
     "    return {raw = facts.groups[1].attention_rows[1] * 200000}\n"
     "  end}\n", NULL, NULL},
    {"snapshots",
     "replay --json prints {format, files: [{file, devices: [...]}]}, or\n"
     "{file, error} for a file that cannot be read. A device has:\n\n"
     "notes          lines that must be known before the numbers are believed\n"
     "allocated_peak_bytes, reserved_peak_bytes, requested_peak_bytes,\n"
     "active_peak_bytes\n"
     "               null without history; under other settings with --set,\n"
     "               then as_recorded has those of the trace\n"
     "history, overflowed, start_allocated_bytes, recorded_ooms\n"
     "predicted, reason, address_mismatches, segment_mismatches\n"
     "               whether our allocator was run beside the record, why\n"
     "               not, and how many blocks and segments differ\n"
     "peak, points   what is allocated there: {point, event, allocated_bytes,\n"
     "               before_trace_bytes, grouped_by, by: [{key, bytes,\n"
     "               blocks}], largest: [...]}; event counts from 0, the\n"
     "               state is the one after it\n"
     "growth         with --since: {key, before_bytes, after_bytes,\n"
     "               change_bytes}\n"
     "phases         annotations: {name, first_event, last_event,\n"
     "               start_allocated_bytes, allocated_peak_bytes, rise_bytes}\n"
     "final          the state at the end, as followed and as recorded\n"
     "least_limit    with --set limit=?: {limit_bytes, fails_below_at}\n\n"
     "The frame that names an allocation is the innermost Python frame\n"
     "outside torch and Python's own library. Groups count whole blocks, so\n"
     "they sum to what is allocated.\n", NULL, NULL},
};
enum { N_TOPICS = sizeof topics / sizeof topics[0] };

static int unknown_topic(const struct args *a, const char *word,
                         struct err *e)
{
    const char *names[64] = {NULL}, *near;
    int i, n = 0;

    for (i = 0; i < N_TOPICS; i++) names[n++] = topics[i].name;
    for (i = 0; a->all[i] != NULL; i++) names[n++] = a->all[i]->name;
    near = suggest(word, names);
    if (near != NULL)
        return err_set(e, ERR_USAGE, "help: unknown topic '%s' (did you mean "
                       "'%s'?)", word, near);
    return err_set(e, ERR_USAGE, "help: unknown topic '%s' (see peakproof "
                   "help)", word);
}

static int put_topic(const struct args *a, const char *word, struct buf *out,
                     struct err *e)
{
    const struct command *c = command_find(a->all, word);
    int i;

    if (c != NULL) {
        help_command(c, out);
        return ERR_OK;
    }
    for (i = 0; i < N_TOPICS; i++) {
        if (strcmp(topics[i].name, word) != 0) continue;
        buf_puts(out, topics[i].text);
        if (topics[i].list != NULL) topics[i].list(out);
        if (topics[i].after != NULL) buf_puts(out, topics[i].after);
        return ERR_OK;
    }
    return unknown_topic(a, word, e);
}

static int run(const struct args *a, struct err *e)
{
    struct buf text = BUF_INIT;
    json_t *v;
    int rc = ERR_OK;

    if (a->json && a->n_operand == 0) return out_json(help_json(a->all), e);
    if (a->n_operand == 0)
        help_program(a->all, &text);
    else
        rc = put_topic(a, a->operand[0], &text, e);
    if (rc == ERR_OK && a->json) {
        v = json_pack("{s:i, s:s, s:s}", "format", 1, "topic", a->operand[0],
                      "text", buf_text(&text));
        rc = out_json(v, e);
    } else if (rc == ERR_OK) {
        rc = out_put(&text, e);
    }
    buf_free(&text);
    return rc;
}

static const char *const examples[] = {
    "peakproof help", "peakproof help run", "peakproof help exit-codes", NULL
};

const struct command cmd_help = {
    .name = "help",
    .synopsis = "[TOPIC] [--json]",
    .about = "what a command does and how; also exit-codes, files, terms, ...",
    .text = "Prints the list of commands, or the help of one command or "
            "topic. Topics: exit-codes, environment, files, terms, "
            "scenarios, snapshots.",
    .operand = "TOPIC",
    .max_operands = 1,
    .examples = examples,
    .run = run,
};
