/*
** estimates.h - the program's own estimators on facts, as price prints them.
*/
#ifndef RUN_ESTIMATES_H
#define RUN_ESTIMATES_H

#include <jansson.h>

#include "price/price.h"

/* {"format": 1, "estimates": [...]}; *out is the caller's. */
int estimates_json(const struct price_facts *f, json_t **out, struct err *e)
    MUST_CHECK;

#endif
