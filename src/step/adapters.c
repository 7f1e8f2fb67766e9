/*
** adapters.c - adapters and Adam's moments from a folder (model/peft.h), and
** their numbers back to the host.
*/
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "step/numbers.h"
#include "step/weights.h"

/* The first of this rank's experts; 0 for what every rank has whole. */
static int64_t first_expert(const struct step *s, const struct param *p)
{
    return site_is_routed(p->site) ? s->c.rank % s->c.ep * s->local_experts : 0;
}

void adapters_load(struct step *s, const struct param *p,
                   enum peft_part part, struct mat x)
{
    double *v = malloc((size_t)(p->count + 1) * sizeof *v);

    if (v == NULL) s->rc = err_nomem(s->e);
    if (s->rc == ERR_OK)
        s->rc = peft_read(s->c.adapters, p, first_expert(s, p), part, v,
                          s->e);
    if (s->rc == ERR_OK)
        s->rc = numbers_up(s->dev, x.p, x.t, v, p->count, s->e);
    free(v);
}

int step_adapter_get(struct step *s, const struct param *p,
                     enum step_adapter what, double *out, struct err *e)
{
    const struct adapter *a = &s->lw[p->layer].site[p->site];
    bool is_a = p->role == PARAM_LORA_A;
    const struct tensor *t = NULL;

    assert(p->role != PARAM_BASE && p->layer >= 0);
    switch (what) {
    case STEP_VALUE: t = is_a ? &a->a : &a->b; break;
    case STEP_GRADIENT: t = is_a ? &a->grad_a : &a->grad_b; break;
    case STEP_MEAN: t = &a->moment[is_a ? 0 : 2]; break;
    case STEP_SQUARE: t = &a->moment[is_a ? 1 : 3]; break;
    }
    if (t == NULL || t->b == NULL) {
        memset(out, 0, (size_t)p->count * sizeof *out);
        return ERR_OK;
    }
    return numbers_down(s->dev, out, t->m.p, t->m.t, p->count, e);
}

int64_t step_adam_steps(const struct step *s)
{
    return s->adam_step;
}
