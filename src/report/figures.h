/*
** figures.h - the published figures that the report sets beside its own: a
** folder with figures.csv (key, value, unit, source) and inventory.csv (what
** a layer is recommended to keep: layer_kind, operator, per, bytes, what).
*/
#ifndef REPORT_FIGURES_H
#define REPORT_FIGURES_H

#include <stdint.h>

#include "base/csv.h"
#include "base/err.h"
#include "base/keyset.h"

struct figures {
    struct csv_table *table;        /* figures.csv */
    struct keyset row;              /* its keys to rows */
    struct csv_table *inventory;
};

/* ERR_INPUT names file and line; a key must not stand twice, a value must be
** a number. dir NULL: no figures at all. */
int figures_load(const char *dir, struct figures *out, struct err *e)
    MUST_CHECK;
void figures_free(struct figures *f);

/* The value as written; NaN when the key is not there. The key is a printf
** format. */
double figure(const struct figures *f, const char *key, ...)
    __attribute__((format(printf, 2, 3)));

/* What a layer kind ("attention", "gdn") is recommended to keep of one
** operator's tensors: bytes a row, or a routed pair. */
struct keeping { double bytes; bool per_pair; const char *what; };
/* False when inventory.csv says nothing on the operator. */
bool figure_keeping(const struct figures *f, const char *kind,
                    const char *op, struct keeping *out);

#endif
