/*
** json.h - a plan's sizes as JSON: what "peakproof plan" prints.
*/
#ifndef PLAN_JSON_H
#define PLAN_JSON_H

#include <jansson.h>

#include "plan/plan.h"

/* {"format", "tokens", "chunk", "chunks", "fetch_waves", "attention_rows",
** "gdn_rows", "chained", "score_ms", "plan_ms", "ranks": [{"stages": [{...}]
** }]}; plan_ms is null when negative. The caller owns the result; NULL when
** memory is short. */
json_t *plan_to_json(const struct plan *p, double plan_ms);

#endif
