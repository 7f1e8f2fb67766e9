/* cmd_import.c - "peakproof import": a user's own peaks beside a case */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/import_table.h"
#include "run/import.h"

/* Where the first snapshot belongs. */
struct place { int64_t wave, rank; };

static int check(const struct args *a, struct place *p, struct err *e)
{
    bool csv = args_has(a, "peaks");
    int rc;

    if (!args_has(a, "case"))
        return err_set(e, ERR_USAGE, "import: needs --case NAME");
    if (csv == (a->n_operand > 1))
        return err_set(e, ERR_USAGE, "import: needs either snapshots or "
                       "--peaks F.csv");
    rc = args_int(a, "rank", 0, PRICE_MAX_RANKS - 1, &p->rank, e);
    if (rc == ERR_OK)
        rc = args_int(a, "wave", 0, INT64_MAX, &p->wave, e);
    if (rc == ERR_OK && csv && (args_has(a, "rank") || args_has(a, "wave")
                                || args_has(a, "waves")))
        rc = err_set(e, ERR_USAGE, "import: --rank, --wave and --waves go "
                     "with snapshots (a CSV file has columns rank and wave)");
    return rc;
}

static int take(const struct args *a, struct import *m, struct place p,
                struct err *e)
{
    int i, rc = ERR_OK;

    if (args_has(a, "peaks")) return import_csv(m, args_text(a, "peaks"), e);
    for (i = 1; i < a->n_operand && rc == ERR_OK; i++)
        rc = import_snapshot(m, a->operand[i], args_text(a, "waves"), p.wave,
                             p.rank + i - 1, e);
    return rc;
}

static void warn(const struct import *m)
{
    const char *line = buf_text(&m->warnings), *end;

    for (; (end = strchr(line, '\n')) != NULL; line = end + 1)
        say_warning("import: %.*s", (int)(end - line), line);
}

/* One row a peak, as text or JSON. */
static int put(const struct args *a, const struct import *m, struct err *e)
{
    json_t *list = json_array();
    struct buf b = BUF_INIT;
    int64_t i, r;

    for (i = 0; i < m->found->waves; i++) {
        for (r = 0; r < m->found->shape.cp; r++) {
            const struct record_rank *k = &m->wave[i].rank[r];
            if (k->absent) continue;
            buf_printf(&b, "%s wave %" PRId64 " rank %" PRId64 ": %" PRIu64
                       " bytes allocated\n", m->found->shape.name, i, r,
                       k->peak.allocated);
            json_array_append_new(list, json_pack(
                "{s:I, s:I, s:I, s:I, s:I}", "wave", (json_int_t)i, "rank",
                (json_int_t)r, "allocated_bytes",
                (json_int_t)k->peak.allocated, "requested_bytes",
                (json_int_t)k->peak.requested, "reserved_bytes",
                (json_int_t)k->peak.reserved));
        }
    }
    if (!a->json) {
        json_decref(list);
        return out_put(&b, e);
    }
    buf_free(&b);
    return out_json(json_pack("{s:i, s:s, s:o}", "format", 1, "case",
                              m->found->shape.name, "peaks", list), e);
}

static int run_table(const struct args *a, struct err *e)
{
    static const char *const other[] = {"case", "peaks", "rank", "wave"};
    size_t i;

    for (i = 0; i < sizeof other / sizeof *other; i++)
        if (args_has(a, other[i]))
            return err_set(e, ERR_USAGE, "import: --table names cases itself "
                           "and goes without --%s", other[i]);
    if (a->n_operand > 1)
        return err_set(e, ERR_USAGE, "import: --table goes without "
                       "snapshots");
    return import_table(a, e);
}

/* Files are read before anything is written: a bad one leaves DIR as it was. */
static int run(const struct args *a, struct err *e)
{
    const struct record_found *found;
    struct record_set *set = NULL;
    struct import m = {0};
    struct place at = {0, 0};
    int rc;

    if (args_has(a, "table")) return run_table(a, e);
    rc = check(a, &at, e);
    if (rc != ERR_OK) return rc;
    rc = record_read(a->operand[0], &set, e);
    if (rc == ERR_OK)
        rc = record_find(set, args_text(a, "case"), &found, e);
    if (rc == ERR_OK)
        rc = import_new(found, args_has(a, "peaks") ? args_text(a, "peaks")
                                                    : a->operand[1], &m, e);
    if (rc == ERR_OK) rc = take(a, &m, at, e);
    if (rc == ERR_OK) rc = import_check(&m, e);
    if (rc == ERR_OK) rc = import_write(&m, a->operand[0], e);
    if (rc == ERR_OK) warn(&m);
    if (rc == ERR_OK) rc = put(a, &m, e);
    import_free(&m);
    record_set_free(set);
    return rc;
}

static const struct command_option options[] = {
    {"case", 0, "NAME", "the case that was measured: CASE, SCENARIO/CASE or "
     "DEVICE/SCENARIO/CASE", NULL, false},
    {"peaks", 0, "F.csv", "peaks from a CSV file with the columns rank, "
     "allocated_bytes, requested_bytes, reserved_bytes and, where it is not "
     "0, wave; tokens, if there, must be the case's", NULL, false},
    {"rank", 0, "N", "rank of the first snapshot (default: 0); the others "
     "follow", NULL, false},
    {"table", 0, "F.csv", "measured peaks of many shapes, a row each, with "
     "the columns of reports/published/measured-memory.csv", NULL, false},
    {"wave", 0, "N", "the wave that the snapshots hold (default: 0)", NULL,
     false},
    {"waves", 0, "NAME", "the snapshots hold several waves: annotations whose "
     "name begins so, from --wave on", NULL, false},
    {NULL, 0, NULL, NULL, NULL, false}
};

static const char *const examples[] = {
    "peakproof import out rank0.pickle rank1.pickle --case real-40",
    "peakproof import out --peaks mine.csv --case pr-accuracy/real-40",
    "peakproof import out/measured --table mine.csv", NULL
};

const struct command cmd_import = {
    .name = "import",
    .synopsis = "DIR ((SNAPSHOT... | --peaks F.csv) --case NAME "
                "[--rank N] [--wave N] [--waves NAME] | --table F.csv) "
                "[--json]",
    .about = "a user's own measured peaks into the records of a run",
    .text = "Adds peaks that were measured elsewhere to the finished run in "
            "DIR, as a case of device \"import\" with the same name, beside "
            "the estimates that stand there; report then writes imported.md "
            "and explain shows it.\n\n"
            "A snapshot (torch.cuda.memory._dump_snapshot) must begin where "
            "its wave begins and end before the next, as run --snapshot "
            "writes them, or with --waves mark each wave by an annotation: "
            "its peak is the highest allocated bytes less those at its "
            "start. A peak below what the case holds in boundaries alone is "
            "refused; missing ranks, and peaks far from the simulated ones, "
            "are warned of. In a CSV file bytes are those of "
            "torch.cuda.memory_stats() (allocated_bytes.all.peak, "
            "requested_bytes.all.peak, less what was allocated when the wave "
            "began; reserved_bytes.all.peak as it is). Nothing is known of "
            "their categories: they are \"other\" and \"rounding\".\n\n"
            "--table asks how well this program predicts a cluster: it runs "
            "every row on the dry device into DIR, sets simulated beside "
            "measured peaks and every estimator beside both, and writes the "
            "report there (accuracy.md). Columns that must be full: id, "
            "model (a config.json or a shipped model), tp, cp, recompute "
            "(full, none, selective), lengths (4096, 4096+2048, 512*8), "
            "packed_rows and forward_peak, the highest allocated bytes of a "
            "warm forward less those at its start. Others, where known: "
            "series, modules (core_attn+mlp), compiled (yes, no), "
            "shared_prefix, lora_rank (1), ep (1), concentrated_routing (yes, "
            "no), forward_first, forward_repeat, "
            "retained, forward_backward_peak. In both files a column of "
            "another name is an error.",
    .option = options,
    .operand = "DIR",
    .min_operands = 1,
    .max_operands = -1,
    .exits = {ERR_RUN, ERR_INPUT},
    .examples = examples,
    .run = run,
};
