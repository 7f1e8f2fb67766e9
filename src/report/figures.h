/*
** figures.h - the published figures (published/figures.csv: key, value,
** unit, source) that the report sets beside its own.
*/
#ifndef REPORT_FIGURES_H
#define REPORT_FIGURES_H

#include <stdint.h>

#include "base/csv.h"
#include "base/err.h"
#include "record/keyset.h"

struct figures {
    struct csv_table *table;
    struct keyset row;      /* key to row */
};

/* ERR_INPUT names file and line; a key must not stand twice, a value must be
** a number. path NULL: no figures at all. */
int figures_load(const char *path, struct figures *out, struct err *e)
    MUST_CHECK;
void figures_free(struct figures *f);

/* The value as written; NaN when the key is not there. The key is a printf
** format. */
double figure(const struct figures *f, const char *key, ...)
    __attribute__((format(printf, 2, 3)));

#endif
