/* columns.c - see columns.h: the tables; columns are frozen by a test. */
#include "record/columns.h"

#include <assert.h>
#include <string.h>

/* Each list: X(row, name, cell, member). */

#define WAVE(X, row) \
    X(row, "wave", WHOLE, wave) X(row, "temperature", HEAT, cold)

#define RECORDS(X, row) \
    WAVE(X, row) X(row, "rank", RANK, rank) X(row, "source", WORD, source) \
    X(row, "term", WORD, term) X(row, "bytes", BYTES, bytes) \
    X(row, "status", STATUS, status) X(row, "note", TEXT, note)

#define PEAKS(X, row) \
    WAVE(X, row) X(row, "rank", WHOLE, rank) \
    X(row, "allocated", WHOLE, allocated) \
    X(row, "requested", WHOLE, requested) \
    X(row, "reserved", WHOLE, reserved) X(row, "event", WHOLE, event) \
    X(row, "phase", TEXT, phase) X(row, "layer", KNOWN, layer) \
    X(row, "operator", TEXT, op) X(row, "category", TEXT, category) \
    X(row, "received_pairs", KNOWN, beside.received_pairs) \
    X(row, "hybridep_bytes", KNOWN, beside.hybridep_bytes) \
    X(row, "retained_bytes", KNOWN, beside.retained_bytes) \
    X(row, "start_bytes", KNOWN, beside.start_bytes)

#define INVENTORY(X, row) \
    X(row, "rank", WHOLE, rank) X(row, "layer", WHOLE, layer) \
    X(row, "layer_kind", WORD, kind) X(row, "category", WORD, category) \
    X(row, "operator", TEXT, op) X(row, "count", WHOLE, count) \
    X(row, "bytes", WHOLE, bytes) X(row, "rows", WHOLE, rows) \
    X(row, "bytes_per_row", RATIO, bytes) \
    X(row, "allocated_in", WORD, allocated_in) \
    X(row, "freed_in", TEXT, freed_in) \
    X(row, "freed_after", TEXT, freed_after)

#define LOSSES(X, row) WAVE(X, row) X(row, "loss", REAL, loss)

#define TIMINGS(X, row) \
    WAVE(X, row) X(row, "rank", RANK, rank) X(row, "what", WORD, what) \
    X(row, "ns", WHOLE, ns)

#define DEVICE(X, row) \
    WAVE(X, row) X(row, "rank", RANK, rank) X(row, "what", WORD, what) \
    X(row, "bytes", ANY, bytes)

#define CASES(X, row) \
    X(row, "device", WORD, shape.device) \
    X(row, "scenario", WORD, shape.scenario) \
    X(row, "case", WORD, shape.name) X(row, "about", TEXT, shape.about) \
    X(row, "model", TEXT, shape.model) \
    X(row, "layers", WHOLE, shape.layers) X(row, "cp", COUNT, shape.cp) \
    X(row, "ep", COUNT, shape.ep) X(row, "tp", COUNT, shape.tp) \
    X(row, "pp", COUNT, shape.pp) \
    X(row, "lora_rank", WHOLE, shape.lora_rank) \
    X(row, "dtype", TEXT, shape.dtype) \
    X(row, "weights", TEXT, shape.weights) \
    X(row, "recompute", TEXT, shape.recompute) \
    X(row, "recompute_modules", TEXT, shape.modules) \
    X(row, "grad", YES, shape.grad) X(row, "compiled", YES, shape.compiled) \
    X(row, "wave", TEXT, shape.kind) X(row, "batch", TEXT, shape.batch) \
    X(row, "tokens", WHOLE, shape.tokens) \
    X(row, "sequences", WHOLE, shape.sequences) \
    X(row, "attention_rows", ROWS, shape.attention_rows) \
    X(row, "gdn_rows", ROWS, shape.gdn_rows) \
    X(row, "routed_rows", KNOWN, shape.routed_rows) \
    X(row, "top_k", WHOLE, shape.top_k) \
    X(row, "head_rows", WHOLE, shape.head_rows) \
    X(row, "output_bytes", WHOLE, shape.output_bytes) \
    X(row, "routing", TEXT, shape.routing) \
    X(row, "seed", SEED, shape.seed) X(row, "waves", WHOLE, waves) \
    X(row, "published_before_cold", REAL_OR_NONE, \
      shape.published_before_cold) \
    X(row, "published_before_warm", REAL_OR_NONE, \
      shape.published_before_warm) \
    X(row, "published_after_cold", REAL_OR_NONE, \
      shape.published_after_cold) \
    X(row, "published_after_warm", REAL_OR_NONE, \
      shape.published_after_warm) \
    X(row, "series", TEXT, shape.series) \
    X(row, "measured_bytes", KNOWN, shape.measured_peak) \
    X(row, "measured_first_bytes", KNOWN, shape.measured_first) \
    X(row, "measured_retained_bytes", KNOWN, shape.measured_retained) \
    X(row, "measured_note", TEXT, shape.measured_note) \
    X(row, "printed_estimate", KNOWN, shape.printed_estimate) \
    X(row, "printed_by", TEXT, shape.printed_by) \
    X(row, "otherwise", TEXT, shape.otherwise) \
    X(row, "records", WHOLE, records) X(row, "peaks", WHOLE, peaks) \
    X(row, "checksum", SUM, checksum) \
    X(row, "status", STATUS, shape.status) X(row, "note", TEXT, shape.note)

#define CHECKS(X, row) \
    X(row, "check", WORD, check) X(row, "cases", WHOLE, cases) \
    X(row, "seed", SEED, seed) X(row, "failed", WHOLE, failed) \
    X(row, "worst", ANY, worst) X(row, "note", TEXT, note)

/* What a member must be for its cell: another type does not compile. */
#define TYPE_TEXT const char *
#define TYPE_WORD const char *
#define TYPE_WHOLE int64_t
#define TYPE_COUNT int64_t
#define TYPE_KNOWN int64_t
#define TYPE_ANY int64_t
#define TYPE_RANK int64_t
#define TYPE_HEAT bool
#define TYPE_YES bool
#define TYPE_STATUS enum record_status
#define TYPE_BYTES int64_t
#define TYPE_SEED uint64_t
#define TYPE_SUM uint64_t
#define TYPE_REAL double
#define TYPE_REAL_OR_NONE double
#define TYPE_ROWS const int64_t *
#define TYPE_RATIO int64_t

#define COLUMN(row, name, cell, member) \
    {name, CELL_##cell, offsetof(row, member) + \
     0 * sizeof((TYPE_##cell *)NULL == &((row *)NULL)->member)},
#define NAME(row, name, cell, member) name,
#define KEY "device", "scenario", "case",

static const struct file {
    const char *name;
    bool keyed;                     /* rows begin with the case's key */
    const char *const *names;       /* all, NULL-terminated */
    const struct column *column;    /* without the key */
    size_t n;
} files[RECORD_FILES] = {
#define TABLE(list, row) (const struct column[]){list(COLUMN, row)}
#define FILE_OF(file, list, row) \
    {file, true, (const char *const[]){KEY list(NAME, row) NULL}, \
     TABLE(list, row), sizeof TABLE(list, row) / sizeof(struct column)}
#define WHOLE_FILE(file, list, row) \
    {file, false, (const char *const[]){list(NAME, row) NULL}, \
     TABLE(list, row), sizeof TABLE(list, row) / sizeof(struct column)}
    [RECORD_RECORDS] = FILE_OF("records.csv", RECORDS, struct record_row),
    [RECORD_PEAKS] = FILE_OF("peaks.csv", PEAKS, struct record_peak),
    [RECORD_INVENTORY] = FILE_OF("inventory.csv", INVENTORY,
                                 struct record_item),
    [RECORD_LOSSES] = FILE_OF("losses.csv", LOSSES, struct record_loss),
    [RECORD_TIMINGS] = FILE_OF("timings.csv", TIMINGS, struct record_time),
    [RECORD_DEVICE] = FILE_OF("device.csv", DEVICE, struct column_driver),
    [RECORD_CASES] = WHOLE_FILE("cases.csv", CASES, struct record_found),
    [RECORD_CHECKS] = WHOLE_FILE("checks.csv", CHECKS, struct record_check),
};

const char *record_file_name(enum record_file f)
{
    return files[f].name;
}

const char *const *record_file_columns(enum record_file f)
{
    return files[f].names;
}

const struct column *columns_of(enum record_file f, size_t *n, bool *keyed)
{
    assert(f < RECORD_FILES);
    *n = files[f].n;
    *keyed = files[f].keyed;
    return files[f].column;
}

void record_put_header(struct buf *b, enum record_file f)
{
    const char *const *c;

    for (c = files[f].names; *c != NULL; c++) {
        if (c != files[f].names) buf_putc(b, ',');
        csv_put(b, *c);
    }
    buf_putc(b, '\n');
}

int64_t column_find(enum record_file f, const char *name)
{
    int64_t i = 0;

    while (strcmp(files[f].names[i], name) != 0) {
        i++;
        assert(files[f].names[i] != NULL);
    }
    return i;
}

const char *record_status_name(enum record_status s)
{
#define STATUS(constant, name) [STATUS_##constant] = name,
    static const char *const names[STATUS_COUNT] = {RECORD_STATUSES(STATUS)};
#undef STATUS

    return names[s];
}
