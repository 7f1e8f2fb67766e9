/* cmd_help.c - "peakproof help [TOPIC]" */
#include <stdio.h>
#include <string.h>

#include "base/category.h"
#include "base/suggest.h"
#include "bench/command.h"
#include "bench/manual.h"
#include "model/family.h"
#include "price/price.h"

/* The list of terms, names in a column. */
static void put_terms(struct buf *out)
{
    for (int i = 0; i < CAT_COUNT; i++)
        buf_printf(out, "%-19s%s\n", category_name((enum category)i),
                   category_help((enum category)i));
}

/* The families, and of which parts their layers are. */
static void put_families(struct buf *out)
{
    static const struct { unsigned part; const char *text; } words[] = {
        {FAMILY_GDN, "gated delta nets"}, {FAMILY_MOE, "routed experts"},
        {FAMILY_SHARED, "a shared expert"}, {FAMILY_BIAS, "biases"},
    };
    const struct family *f;
    int i;
    size_t k;

    for (i = 0; (f = family_at(i)) != NULL; i++) {
        buf_printf(out, "%-18sattention", f->type);
        for (k = 0; k < sizeof words / sizeof *words; k++)
            if ((f->parts & words[k].part) != 0)
                buf_printf(out, ", %s", words[k].text);
        buf_puts(out, (f->parts & FAMILY_MOE) != 0 ? "\n" : ", dense MLP\n");
    }
}

static void put_estimators(struct buf *out)
{
    const struct price_estimator *x;
    int i;

    for (i = 0; i < PRICE_ESTIMATORS; i++)
        buf_printf(out, "%-18s%s\n", price_estimators[i].name,
                   price_estimators[i].about);
    for (i = 0; (x = price_earlier(i)) != NULL; i++)
        buf_printf(out, "%-18s%s\n", x->name, x->about);
}

/* A text; or two, and a list between them. */
static const struct {
    const char *name, *text;
    void (*list)(struct buf *out);
    const char *after;
} topics[] = {
    {"exit-codes",
     "", help_exits,
     "\nWhen several cases fail, the first failed case's code counts.\n"},
    {"environment",
     "PEAKPROOF_DATA         folder with models/, data/ and scenarios/,\n"
     "                       instead of the one beside the program\n"
     "PEAKPROOF_MODULE_PATH  folder in which the cuda module is looked for\n"
     "PEAKPROOF_GNUPLOT_SECONDS  that a picture may take (60)\n"
     "PEAKPROOF_CUDA_TIMES   file to which the seconds of each kernel are\n"
     "                       added; the program waits for each then\n"
     "NO_COLOR, TERM=dumb    no progress line, UNDER is not red\n\n"
     "Of ranks that are processes (run --device cuda), by their launcher:\n\n"
     "RANK, WORLD_SIZE, LOCAL_RANK  or those of Open MPI or Slurm: which one\n"
     "MASTER_ADDR, MASTER_PORT      where rank 0 listens\n"
     "PEAKPROOF_TOKEN        what this job's alone know; else the job's name\n"
     "                       as torchrun, Slurm or PMIx set it\n\n"
     "CUDA_HOME, VIRTUAL_ENV, CONDA_PREFIX  where CUDA's libraries may be\n",
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
     "Keys of a case: name, about, origin, model, layers, cp, ep, tp, pp,\n"
     "lora_rank, lora_alpha, waves, dtype, seed, weights, init, adapters,\n"
     "tokens, labels, loss, learning_rate, batch, plan {cut, profile},\n"
     "recompute, recompute_modules, grad, compiled, wave, otherwise,\n"
     "head_rows, price_head_rows, output_bytes, hybridep_held_rows, routing,\n"
     "load_cv, softmax_offset, cp_attention, device_bytes, estimators,\n"
     "tolerance {under, over}, measured {series, peak, first, retained,\n"
     "estimate, estimator, note},\n"
     "published {before_cold, before_warm, after_cold, after_warm}.\n\n"
     "Batches: batch.lengths{...}, batch.random{count, length, seed},\n"
     "batch.sequences{file, tree, select}, batch.tree{file},\n"
     "batch.pack{file, tree, select, tokens},\n"
     "batch.layout{attention_rows, gdn_rows, stages, routed_rows}.\n"
     "Routing: \"balanced\", {cv, seed, drift, burst, factor}, {share, rank},\n"
     "{hot_expert, factor}, {loads = {{...}, ...}}, {histogram = FILE,\n"
     "scaled}, or a list of such tables, one a wave. lua/README.md has what\n"
     "each means.\n\n"
     "An estimator, in a scenario or a file for run --estimator:\n\n"
     "  estimator{name = \"mine\", price = function(facts)\n"
     "    return {raw = facts.groups[1].attention_rows[1] * 200000}\n"
     "  end}\n", NULL, NULL},
    {"models",
     "A model is a config.json of Hugging Face, or a shipped one by its name\n"
     "(peakproof list --models). Families (model_type):\n\n", put_families,
     "\nTraining is LoRA on frozen weights: adapters on every projection,\n"
     "their gradients and Adam's moments; or a forward alone. A backward runs\n"
     "whole layers again (recompute = \"full\"), nothing (\"none\"), or\n"
     "modules (\"selective\"). Ranks share a wave by context, and experts by\n"
     "any divisor of those; on dry also by tensor.\n"},
    {"batch",
     "A case's batch is one wave of packed sequences:\n\n"
     "batch.lengths{n, ...}    independent sequences\n"
     "batch.random{count, length, seed}\n"
     "                         length a number, or {least, most}\n"
     "batch.tree{file} or {parents, lengths}\n"
     "                         a prefix tree: CSV segment,parent,tokens; a\n"
     "                         root's parent is -1\n"
     "batch.sequences{file, tree, select}\n"
     "                         recorded sequences as the tree of the prefixes\n"
     "                         that they share\n"
     "batch.pack{file, tree, select, tokens}\n"
     "                         a list of such, of up to that many tokens each\n"
     "batch.layout{attention_rows, gdn_rows, stages, routed_rows}\n"
     "                         rows and stages of each rank as they were\n"
     "                         recorded; dry alone\n\n"
     "plan, price and fit take the same as --lengths, --tree, --sequences.\n\n"
     "Routing says which ranks get the rows of experts, of which every token\n"
     "goes to top-k: rows x top-k pairs a layer, in all. A histogram (CSV\n"
     "wave,layer,rank,expert,rows) has the pairs that each rank, the sender,\n"
     "sends to each expert; what is left out is 0, one wave holds for all,\n"
     "and a layer's sum must be the pairs of the batch. With scaled = true,\n"
     "and as {loads = {{...}, ...}}, they are loads of any sum, by which the\n"
     "batch's pairs are shared out. Experts lie on the ranks in order.\n",
     NULL, NULL},
    {"estimators",
     "What a run shows beside a peak, and what a case's estimators may name:\n"
     "\n", put_estimators,
     "\nThe first three are shown beside training waves that recompute whole\n"
     "layers, the next four beside other modes and waves. NAME/CHANGE is the\n"
     "same with one thing changed. One that does not cover a case is refused,\n"
     "with its reason. help scenarios says how to write one's own.\n"},
    {"snapshots",
     "replay --json prints {format, files: [{file, devices: [...]}]}, or\n"
     "{file, error} for a file that cannot be read. A device has:\n\n"
     "notes          lines that must be known before the numbers are believed\n"
     "allocated_peak_bytes, reserved_peak_bytes, requested_peak_bytes,\n"
     "active_peak_bytes\n"
     "               null without history; under other settings with --set,\n"
     "               then as_recorded has those of the trace\n"
     "history, overflowed, start_allocated_bytes, recorded_ooms\n"
     "ooms           how many requests failed: of those recorded, or with\n"
     "               --set under its settings\n"
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

/* Those that are made of the commands. */
static bool put_manual(const struct args *a, const char *word,
                       struct buf *out)
{
    const char *names[N_TOPICS + 3] = {NULL};
    int i;

    for (i = 0; i < N_TOPICS; i++) names[i] = topics[i].name;
    names[i] = "man";
    names[i + 1] = "bash-completion";
    if (strcmp(word, "man") == 0)
        manual_page(a->all, out);
    else if (strcmp(word, "bash-completion") == 0)
        manual_completion(a->all, names, out);
    else
        return false;
    return true;
}

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
    if (put_manual(a, word, out)) return ERR_OK;
    for (i = 0; i < N_TOPICS; i++) {
        if (strcmp(topics[i].name, word) != 0) continue;
        buf_puts(out, topics[i].text);
        if (topics[i].list != NULL) topics[i].list(out);
        if (topics[i].after != NULL) buf_puts(out, topics[i].after);
        return ERR_OK;
    }
    return unknown_topic(a, word, e);
}

/* The whole program, a command or a topic, as text or JSON. */
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
    "peakproof help", "peakproof help run", "peakproof help models", NULL
};

const struct command cmd_help = {
    .name = "help",
    .synopsis = "[TOPIC] [--json]",
    .about = "what a command does and how; also exit-codes, files, terms, ...",
    .text = "Prints the list of commands, or the help of one command or "
            "topic. Topics: exit-codes, environment, files, terms, "
            "models, scenarios, batch, estimators, snapshots; and man and "
            "bash-completion, of which make install makes files.",
    .operand = "TOPIC",
    .max_operands = 1,
    .examples = examples,
    .run = run,
};
