/*
** fit.h - does a wave fit a device: what "peakproof fit" answers.
**
** What must fit beside the wave's admitted estimate is what a rank holds
** already: base weights, adapters, Adam's two moments in f32 for every
** adapter element, and the adapter gradients that no wave has pending.
** Available is the device's memory less the part that is kept free.
*/
#ifndef FIT_FIT_H
#define FIT_FIT_H

#include "fit/grant.h"
#include "fit/scale.h"

/* Bytes one rank holds between waves. */
struct fit_base {
    int64_t weights, adapters, moments;
    int64_t slots;              /* adapters, moments count once a slot */
};

/* One estimator's answer. Of several waves the dearest counts. */
struct fit_answer {
    struct estimate estimate;
    bool cold;                  /* it is a first wave */
    int64_t gradients;          /* held already in that wave */
    int64_t needed;             /* base, gradients and admitted bytes */
    int64_t budget;             /* tokens, see fit_budgets; -1: none */
};

struct fit {
    int64_t memory, reserve, available;
    int64_t tokens;
    bool simulates;             /* below is known; not of facts, nor where no
                                   step can run */
    char reason[256];           /* why it is not */
    struct simulated simulated;
    struct grant grant;         /* tokens -1: not asked, or a fixed layout */
    bool known;                 /* base is; not under TP or PP, and bf16 */
    struct fit_base base;
    struct fit_answer answer[PRICE_RECOMPUTING];
};

/* What is asked about: a plan's options, or facts as they stand. */
struct fit_source {
    const struct shape *plan;           /* NULL: facts */
    const struct price_facts *facts;
};

/* Base and answers, the simulation's too, without budgets. memory > 0; reserve
** -1: 3 percent of it. */
int fit_price(const struct fit_source *s, int64_t memory, int64_t reserve,
              struct fit *out, struct err *e) MUST_CHECK;
/* Each answer's budget: a number of tokens to which the wave can be scaled,
** every segment (or row count) in proportion, so that it fits and one token
** more does not; 0 when none fits. */
int fit_budgets(const struct fit_source *s, struct fit *f, struct err *e)
    MUST_CHECK;

/* Whether an answer is there, and says yes. */
static inline bool fit_is_priced(const struct fit *f, int i)
{
    return f->known && f->answer[i].estimate.priced;
}
static inline bool fit_fits(const struct fit *f, int i)
{
    return fit_is_priced(f, i) && f->answer[i].needed <= f->available;
}

#endif
