/* names.c - files, columns and status words; frozen by a test. */
#include <stddef.h>

#include "base/csv.h"
#include "record/record.h"

#define KEY "device", "scenario", "case"
#define WAVE KEY, "wave", "temperature"

static const char *const records[] = {
    WAVE, "rank", "source", "term", "bytes", "status", "note", NULL
};
static const char *const peaks[] = {
    WAVE, "rank", "allocated", "requested", "reserved", "event", "phase",
    "layer", "operator", "category", "received_pairs", "hybridep_bytes",
    "retained_bytes", "start_bytes", NULL
};
static const char *const inventory[] = {
    KEY, "rank", "layer", "layer_kind", "category", "operator", "count",
    "bytes", "rows", "bytes_per_row", "allocated_in", "freed_in",
    "freed_after", NULL
};
static const char *const losses[] = {WAVE, "loss", NULL};
static const char *const timings[] = {WAVE, "rank", "what", "ns", NULL};
static const char *const device[] = {WAVE, "rank", "what", "bytes", NULL};
static const char *const cases[] = {
    KEY, "about", "model", "layers", "cp", "ep", "tp", "pp", "lora_rank",
    "dtype", "weights", "recompute", "recompute_modules", "grad", "compiled",
    "wave", "batch", "tokens", "sequences", "attention_rows",
    "gdn_rows", "routed_rows", "top_k", "head_rows", "output_bytes",
    "routing", "seed", "waves", "published_before_cold",
    "published_before_warm", "published_after_cold", "published_after_warm",
    "records", "peaks", "status", "note", NULL
};
static const char *const checks[] = {
    "check", "cases", "seed", "failed", "worst", "note", NULL
};

static const struct { const char *name; const char *const *columns; }
file_table[RECORD_FILES] = {
    [RECORD_RECORDS] = {"records.csv", records},
    [RECORD_PEAKS] = {"peaks.csv", peaks},
    [RECORD_INVENTORY] = {"inventory.csv", inventory},
    [RECORD_LOSSES] = {"losses.csv", losses},
    [RECORD_TIMINGS] = {"timings.csv", timings},
    [RECORD_DEVICE] = {"device.csv", device},
    [RECORD_CASES] = {"cases.csv", cases},
    [RECORD_CHECKS] = {"checks.csv", checks},
};

const char *record_file_name(enum record_file f)
{
    return file_table[f].name;
}

const char *const *record_file_columns(enum record_file f)
{
    return file_table[f].columns;
}

void record_put_header(struct buf *b, enum record_file f)
{
    const char *const *c;

    for (c = file_table[f].columns; *c != NULL; c++) {
        if (c != file_table[f].columns) buf_putc(b, ',');
        csv_put(b, *c);
    }
    buf_putc(b, '\n');
}

const char *record_status_name(enum record_status s)
{
#define NAME(constant, name) [STATUS_##constant] = name,
    static const char *const names[STATUS_COUNT] = {RECORD_STATUSES(NAME)};
#undef NAME

    return names[s];
}
