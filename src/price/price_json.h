/*
** price_json.h - facts and estimates as JSON: what "peakproof price" reads
** and prints, and "peakproof plan --facts" prints.
**
** The formats are frozen (format 1); "peakproof help price" tells their keys.
** Byte counts are JSON integers. Facts are read strictly: an unknown, missing
** or repeated key, a wrong type, a negative or too large number is ERR_INPUT
** naming file and key. Keys that may be null may be left out (routed_rows,
** hybridep_held_rows, packed_length), and so may q_full (then a stage with as
** many queries as the rank has attention rows counts as full), what
** per-rank-any alone reads of a group, load_cv, and what put_kept of
** price_json.c leaves out: how the step runs where it runs as it usually does.
*/
#ifndef PRICE_PRICE_JSON_H
#define PRICE_PRICE_JSON_H

#include <jansson.h>

#include "price/price.h"

struct js;

/* Reads facts; "-" is standard input. A model given by name is looked for as
** it stands, then beside the facts, then in models_dir (NULL: not there).
** The facts own everything; free with price_facts_free. */
int price_facts_read(const char *path, const char *models_dir,
                     struct price_facts *out, struct err *e) MUST_CHECK;
int price_facts_from_json(const struct js *at, const char *models_dir,
                          struct price_facts *out, struct err *e) MUST_CHECK;

/* The same facts to print; the model by model_ref, or by its name. */
int price_facts_to_json(const struct price_facts *f, json_t **out,
                        struct err *e) MUST_CHECK;

/* {"format": 1, "estimates": [...]}; the caller owns *out. Bytes are null
** where an estimate is not priced at all, and of a rank's stages where the
** estimator has none. */
int price_estimates_to_json(const struct estimate *const *est, int64_t n,
                            json_t **out, struct err *e) MUST_CHECK;

#endif
