/*
** import_table.h - "peakproof import DIR --table F.csv".
*/
#ifndef BENCH_IMPORT_TABLE_H
#define BENCH_IMPORT_TABLE_H

#include "bench/command.h"

/* Runs every row of the table on the dry device into DIR (the shipped
** scenario measured.lua), writes the report there and prints its files. DIR
** must hold nothing else. A row that cannot be read is ERR_INPUT naming file
** and line; where a case failed, the code is the first one's, after all. */
int import_table(const struct args *a, struct err *e) MUST_CHECK;

#endif
