/*
** read.h - the files of a run, read back strictly.
**
** Wrong columns, ragged rows, quotes left open, anything but the numbers and
** words that belong there: ERR_INPUT with file and line. Rows of cases
** without a commit mark are left out and counted; in a finished run there are
** none. Rows are grouped by case, and by wave within it, also those of a file
** that people have sorted, so a look-up walks one wave's, never the file.
*/
#ifndef RECORD_READ_H
#define RECORD_READ_H

#include "base/csv.h"
#include "base/json.h"
#include "record/record.h"

#define RECORD_MAX (-1)     /* the rank "max" */

struct record_row {
    int64_t wave;
    bool cold;
    int64_t rank;           /* RECORD_MAX or a number */
    const char *source, *term;
    bool measured;          /* false: the bytes cell is empty */
    int64_t bytes;
    enum record_status status;
    const char *note;       /* "" when there is none */
};

struct record_peak {
    int64_t wave;
    bool cold;
    int64_t rank;
    int64_t allocated, requested, reserved, event;
    const char *phase, *op, *category;
    int64_t layer;          /* -1: outside the decoder */
    struct record_beside beside;
};

/* A row of inventory.csv; words as they stand there. */
struct record_item {
    int64_t rank, layer, count, bytes, rows;
    const char *kind, *category, *op;
    const char *allocated_in, *freed_in, *freed_after;  /* "" none */
};

struct record_time {
    int64_t wave, rank, ns;
    bool cold;
    const char *what;
};

struct record_loss {
    int64_t wave;
    bool cold;
    double loss;
};

/* One committed case: its parameters (shape.wave and tensor are empty) and
** its rows in the arrays of the set. */
struct record_found {
    struct record_case shape;
    int64_t waves;
    int64_t records, peaks;             /* rows that its mark counts */
    uint64_t checksum;  /* of its rows: recover.h */
    const struct record_row *row;       int64_t n_row;
    const struct record_peak *peak;     int64_t n_peak;
    const struct record_item *item;     int64_t n_item;
    const struct record_time *time;     int64_t n_time;
    const struct record_loss *loss;     int64_t n_loss;
};

struct record_set {
    char *dir;
    struct record_found *kase;          /* in the order of cases.csv */
    int64_t n_case;
    struct record_check *check;
    int64_t n_check;
    int64_t uncommitted;                /* rows left out */
    bool finished;                      /* by run.json; true without one */
    json_t *run;                        /* run.json; NULL: there is none */
    /* storage */
    struct csv_table *table[RECORD_FILES];
    struct record_row *row;
    struct record_peak *peak;
    struct record_item *item;
    struct record_time *time;
    struct record_loss *loss;
    int64_t *lists;                     /* the cases' rows by rank */
};

int record_read(const char *dir, struct record_set **out, struct err *e)
    MUST_CHECK;
void record_set_free(struct record_set *s);     /* NULL is fine */

/* The case of that name: CASE, SCENARIO/CASE or DEVICE/SCENARIO/CASE. No such
** case, or several, are ERR_USAGE. */
int record_find(const struct record_set *s, const char *name,
                const struct record_found **out, struct err *e) MUST_CHECK;

/* The rows and the peaks of a wave: from *first to before the result. */
int64_t record_rows_of(const struct record_found *c, int64_t wave,
                       int64_t *first);
int64_t record_peaks_of(const struct record_found *c, int64_t wave,
                        int64_t *first);

/* The row, or NULL. */
const struct record_row *record_get(const struct record_found *c,
                                    int64_t wave, int64_t rank,
                                    const char *source, const char *term);
/* Its bytes; false when there is no such row or nothing was measured. */
bool record_bytes(const struct record_found *c, int64_t wave, int64_t rank,
                  const char *source, const char *term, int64_t *out);
const struct record_peak *record_peak_of(const struct record_found *c,
                                         int64_t wave, int64_t rank);
/* Bytes that a rank takes of its device in a wave: reserved by the allocator,
** weights and earlier waves included, and dispatch buffers beside it. */
int64_t record_taken(const struct record_peak *p);
/* The most-loaded rank: the first with the highest allocated peak. */
const struct record_peak *record_peak_max(const struct record_found *c,
                                          int64_t wave);

#endif
