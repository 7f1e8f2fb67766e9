/*
** otherwise.c - choices that no measurement decides, made the other way: what
** only a GPU can tell. Sizes alone, on the dry device; see layers.h and
** model/mode.h.
*/
#include "step/layers.h"
#include "step/weights.h"

static bool is_set(const struct step *s, unsigned choice)
{
    return (s->c.mode.otherwise & choice) != 0;
}

void otherwise_head(struct step *s)
{
    if (is_set(s, OTHERWISE_TABLE_LATE)) ten_free(s, &s->rotary);
    if (is_set(s, OTHERWISE_BLAS_LATE)) ten_free(s, &s->ws[WS_BLAS][0]);
}

/* The table comes back as it was; workspaces come at their next use. */
void otherwise_headed(struct step *s)
{
    struct mat t = s->rotary.m;

    if (is_set(s, OTHERWISE_TABLE_LATE) && s->rotary.b == NULL && t.rows > 0)
        s->rotary = ten_acc(s, CAT_WORKSPACE, "attention.rotary_table",
                            t.rows, t.cols);
}

/* All rows' output, where the rank goes on with its share. */
struct tensor otherwise_embedding(struct step *s)
{
    if (!is_set(s, OTHERWISE_EMBEDDING_WHOLE) || s->tp == 1)
        return (struct tensor){NULL, {0}};
    return ten_act(s, CAT_BOUNDARIES, "embedding.whole",
                   step_rows(s, LAYER_ATTENTION), s->m->hidden);
}

/* A map of a byte an expert and top-k 64-bit choices a row. */
void otherwise_forward(struct step *s, struct layer_saved *l)
{
    int64_t width = s->m->experts + 8 * s->m->top_k;

    if (is_set(s, OTHERWISE_ROUTER_STATE) && s->m->experts > 0)
        l->router = ten_of(s, CAT_MOE_ROUTING, "router.state",
                           step_rows(s, s->m->kind[s->layer]) / s->tp, width,
                           DT_U8);
}

/* Of the size of the last layer's output: the final norm's output, the hidden
** state and its gradient. */
void otherwise_backward(struct step *s)
{
    int64_t rows = step_rows(s, LAYER_ATTENTION) / s->tp;
    int i;

    for (i = 0; is_set(s, OTHERWISE_WIDE_LAST) && i < 3; i++)
        s->wide[i] = ten_act(s, CAT_OUTPUTS, "hidden.held", rows,
                             s->m->hidden);
}

void otherwise_done(struct step *s, struct layer_saved *l)
{
    ten_free(s, &l->router);
    ten_free_all(s, TENSORS(&s->wide));
}
