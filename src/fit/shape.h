/*
** shape.h - a wave that is asked about without a scenario: a batch, a model
** and a parallel shape.
*/
#ifndef FIT_SHAPE_H
#define FIT_SHAPE_H

#include "batch/routing.h"
#include "model/mode.h"
#include "plan/plan.h"
#include "price/price.h"

enum { SIMULATE_WAVES = 3 };    /* what only the first holds, and what stays */

/* What a case tells the estimators beside its plan: its keys of these names. */
struct shape_told {
    bool softmax_offset, cp_attention;
    int64_t output_bytes;
    int64_t price_head_rows;    /* -1: as head_rows; of a smaller batch its
                                   rows at most */
    int64_t hybridep_held_rows; /* -1: growth left out */
    int64_t routed_rows;        /* of a recorded layout; -1: the default */
    const struct routing *routing;      /* pairs by rank and layer are known by
                                   it; borrowed; NULL: they are not */
};

struct shape {
    struct model model;
    char *model_ref;            /* as given; NULL: a shipped one */
    struct batch batch;
    struct plan_options options;
    int64_t lora_rank;
    int64_t head_rows;          /* -1: all */
    struct mode mode;
    int64_t pp;                 /* pipeline stages; 0: 1 */
    const char *dtype;          /* of activations, borrowed; NULL: "bf16" */
    const struct shape_told *told;      /* borrowed; NULL: nothing */
    struct routing routing;     /* of what is simulated; borrowed rows */
    const struct rank_plan *layout;     /* [cp] instead of a batch; borrowed;
                                           NULL: the batch */
};
void shape_free(struct shape *s);

/* What price is told of one wave of a plan: the first one, wave 0, with all
** adapter gradients pending, or a later one. */
int shape_facts(const struct shape *s, const struct plan *plan, int64_t wave,
                struct price_facts *out, struct err *e) MUST_CHECK;
/* How many waves, from the first on, may be priced differently: later ones
** differ in routing alone, and no more than SIMULATE_WAVES are looked at. */
int64_t shape_waves(const struct shape *s);

#endif
