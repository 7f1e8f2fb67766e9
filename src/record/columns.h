/*
** columns.h - the columns of every file of a run: one table each, of which
** header, writer and reader are made. Internal to record.
**
** A column is a name, what its cells hold, and the member of the struct that
** is a row: struct record_row of records.csv, record_peak, record_item,
** record_loss, record_time, column_driver, record_found of cases.csv and
** record_check. All but cases.csv and checks.csv begin with the case's key
** (device, scenario, case), which is in no struct.
** Inside src/record.
*/
#ifndef RECORD_COLUMNS_H
#define RECORD_COLUMNS_H

#include "record/read.h"

enum cell {
    CELL_TEXT,      /* may be empty: NULL writes so, "" reads so */
    CELL_WORD,      /* never empty */
    CELL_WHOLE,     /* 0 or more */
    CELL_COUNT,     /* 1 or more */
    CELL_KNOWN,     /* 0 or more; empty: -1 */
    CELL_ANY,       /* a number with a sign */
    CELL_RANK,      /* a rank, or "max": RECORD_MAX */
    CELL_HEAT,      /* bool: "cold" or "warm" */
    CELL_YES,       /* bool: "yes" or "no" */
    CELL_STATUS,
    CELL_BYTES,     /* of struct record_row: empty when not measured */
    CELL_SEED,      /* all 64 bits */
    CELL_SUM,       /* all 64 bits, as 16 hexadecimal digits */
    CELL_REAL, CELL_REAL_OR_NONE,   /* empty: NaN */
    CELL_ROWS,      /* of struct record_found: a number for each rank */
    CELL_RATIO      /* of struct record_item: bytes / rows, only written */
};

struct column { const char *name; enum cell cell; size_t at; };
/* The file's columns [*n], without the key that comes before when *keyed. */
const struct column *columns_of(enum record_file f, size_t *n, bool *keyed);

/* A row of device.csv, which nothing reads back. */
struct column_driver {
    int64_t wave;
    bool cold;
    int64_t rank;
    const char *what;
    int64_t bytes;
};

/* Number of the column of that name, which must be there (asserted). */
int64_t column_find(enum record_file f, const char *name);
/* Appends a row, its key from c (NULL where the file has none). A failed
** append shows as b->failed. */
void column_put(struct buf *b, enum record_file f, const struct record_case *c,
                const void *row);
/* Fills *row from row i of t; texts are the table's. lists is where the next
** list of rows goes and moves on (cases.csv; NULL else). ERR_INPUT names
** file, line and column. */
int column_parse(const struct csv_table *t, int64_t i, enum record_file f,
                 void *row, int64_t **lists, struct err *e) MUST_CHECK;

#endif
