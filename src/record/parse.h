/*
** parse.h - one row of each file from its cells. Internal to record. Errors
** are ERR_INPUT with file, line and column. Texts are the table's.
*/
#ifndef RECORD_PARSE_H
#define RECORD_PARSE_H

#include "record/read.h"

int parse_row(const struct csv_table *t, int64_t row, void *out,
              struct err *e) MUST_CHECK;        /* struct record_row */
int parse_peak(const struct csv_table *t, int64_t row, void *out,
               struct err *e) MUST_CHECK;       /* struct record_peak */
int parse_item(const struct csv_table *t, int64_t row, void *out,
               struct err *e) MUST_CHECK;       /* struct record_item */
int parse_time(const struct csv_table *t, int64_t row, void *out,
               struct err *e) MUST_CHECK;       /* struct record_time */
int parse_loss(const struct csv_table *t, int64_t row, void *out,
               struct err *e) MUST_CHECK;       /* struct record_loss */
int parse_check(const struct csv_table *t, int64_t row,
                struct record_check *out, struct err *e) MUST_CHECK;

/* Room for the row lists of all cases, sized and checked by the table. */
int parse_lists(const struct csv_table *t, int64_t **out, struct err *e)
    MUST_CHECK;
/* *list is where the next list goes, and is moved on. */
int parse_case(const struct csv_table *t, int64_t row,
               struct record_found *out, int64_t **list, struct err *e)
    MUST_CHECK;
int parse_counts(const struct csv_table *t, int64_t row, int64_t *records,
                 int64_t *peaks, struct err *e) MUST_CHECK;

#endif
