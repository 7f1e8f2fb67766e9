/*
** csv.h - strict reading and plain writing of CSV, over libcsv.
**
** A file is read whole: a header row, then rows of as many cells. Ragged
** rows, stray or unterminated quotes, NUL bytes, what is not UTF-8, empty or
** repeated column names are ERR_INPUT naming file and line. Blank lines are
** skipped, LF and CRLF both end a row, a UTF-8 byte order mark is skipped. An
** empty cell (,,) is "not there" and reads as NULL; a quoted one (,"",) is the
** empty text. Unquoted cells lose blanks around them.
*/
#ifndef BASE_CSV_H
#define BASE_CSV_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct csv_table;

/* Reads path ("-": standard input), at most limit bytes (0: 1 GiB). */
int csv_load(const char *path, size_t limit, struct csv_table **out,
             struct err *e) MUST_CHECK;
/* The same from memory; origin stands for the path in messages. */
int csv_parse_text(const char *text, size_t len, const char *origin,
                   struct csv_table **out, struct err *e) MUST_CHECK;
void csv_table_free(struct csv_table *t);       /* NULL is fine */

int64_t csv_rows(const struct csv_table *t);    /* the header not counted */
int64_t csv_columns(const struct csv_table *t);
const char *csv_origin(const struct csv_table *t);
const char *csv_name(const struct csv_table *t, int64_t column);
/* Line of the file, from 1, at which the row begins. */
int64_t csv_line(const struct csv_table *t, int64_t row);
/* Index of a column, -1 when there is none. */
int64_t csv_find(const struct csv_table *t, const char *name);
/* The same; a missing column is ERR_INPUT naming it and those there are. */
int csv_column(const struct csv_table *t, const char *name, int64_t *out,
               struct err *e) MUST_CHECK;
/* The header must hold none but these names (NULL-terminated), in any order:
** another is ERR_INPUT, with the nearest of them or all. */
int csv_known(const struct csv_table *t, const char *const *names,
              struct err *e) MUST_CHECK;
/* The header must be exactly these names (NULL-terminated), in order. */
int csv_expect_header(const struct csv_table *t, const char *const *names,
                      struct err *e) MUST_CHECK;

/* The cell's text, NULL when empty; borrowed from the table. */
const char *csv_cell(const struct csv_table *t, int64_t row, int64_t column);
/* The cell as a number; an empty cell or a bad one is ERR_INPUT naming file,
** line, column, the text and what is allowed. */
int csv_int(const struct csv_table *t, int64_t row, int64_t column, int64_t lo,
            int64_t hi, int64_t *out, struct err *e) MUST_CHECK;
int csv_double(const struct csv_table *t, int64_t row, int64_t column,
               double *out, struct err *e) MUST_CHECK;
/* An error about one cell: "FILE:LINE: COLUMN: text". */
int csv_error_at(const struct csv_table *t, int64_t row, int64_t column,
                 struct err *e, const char *fmt, ...) ERR_PRINTF(5, 6);

/* Appends one cell, quoted only when it must be; NULL gives the empty cell.
** Commas and line ends are the caller's. */
void csv_put(struct buf *b, const char *text);

#endif
