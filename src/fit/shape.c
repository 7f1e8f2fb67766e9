/* shape.c - see shape.h */
#include "fit/shape.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

void shape_free(struct shape *s)
{
    model_free(&s->model);
    free(s->model_ref);
    batch_free(&s->batch);
}

static int tell(const struct shape_told *t, const struct plan *plan,
                int64_t wave, struct price_facts *f, struct err *e)
{
    f->softmax_offset = t->softmax_offset;
    f->cp_attention = t->cp_attention;
    f->output_bytes = t->output_bytes;
    f->hybridep_held_rows = t->hybridep_held_rows;
    if (t->hybridep_held_rows >= 0) f->packed_length = plan->tokens;
    if (t->price_head_rows >= 0)
        f->head_rows = num_min(t->price_head_rows, plan->tokens);
    f->group->routed_rows = t->routed_rows;
    return t->routing == NULL ? ERR_OK
                              : price_facts_route(f, t->routing, wave, e);
}

int64_t shape_waves(const struct shape *s)
{
    return s->told != NULL && routing_changes(s->told->routing)
           ? SIMULATE_WAVES : 2;
}

int shape_facts(const struct shape *s, const struct plan *plan, int64_t wave,
                struct price_facts *out, struct err *e)
{
    bool cold = wave == 0;
    int rc = price_facts_from_plan(&s->model, plan, s->options.ep,
                                   s->lora_rank, out, e);

    if (rc != ERR_OK) return rc;
    out->tp = mode_tp(&s->mode);
    if (s->pp > 0) out->pp = s->pp;
    out->mode = s->mode;
    out->group->grad = !s->mode.no_grad;
    out->cold = cold;
    out->head_rows = s->head_rows >= 0 ? s->head_rows : plan->tokens;
    if (s->told != NULL) rc = tell(s->told, plan, wave, out, e);
    if (rc == ERR_OK && s->model_ref != NULL) {
        out->model_ref = strdup(s->model_ref);
        if (out->model_ref == NULL) rc = err_nomem(e);
    }
    if (rc == ERR_OK && cold && s->lora_rank > 0)
        rc = price_facts_all_pending(out, e);
    if (rc != ERR_OK) price_facts_free(out);
    return rc;
}
