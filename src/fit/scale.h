/*
** scale.h - the same wave with more or fewer tokens.
*/
#ifndef FIT_SCALE_H
#define FIT_SCALE_H

#include "batch/batch.h"
#include "price/price.h"

/* Facts with their rows scaled to tokens; stages in proportion, lengths
** rounded up to the planner's 128. Free with price_facts_free. */
int fit_scale_facts(const struct price_facts *f, int64_t tokens,
                    struct price_facts *out, struct err *e) MUST_CHECK;
/* The batch with every segment's length scaled alike, rounded down, none below
** one token. */
int fit_scale_batch(const struct batch *b, int64_t tokens, struct batch *out,
                    struct err *e) MUST_CHECK;
/* Tokens of all groups. */
int64_t fit_tokens(const struct price_facts *f);

#endif
