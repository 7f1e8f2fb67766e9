/* list_models.h - the shipped models, one a line or as JSON. */
#ifndef BENCH_LIST_MODELS_H
#define BENCH_LIST_MODELS_H

#include <stdbool.h>

#include "base/err.h"

/* Prints them to standard output. */
int list_models(bool json, struct err *e) MUST_CHECK;

#endif
