/* norm.c - the norms in front of projections: see linear.h */
#include "step/linear.h"

#include <assert.h>

#include "step/rows.h"

void norm_forward(struct step *s, enum category c, const char *op,
                  struct mat x, struct mat w, bool gather,
                  struct norm_saved *n)
{
    struct tensor y = ten_act(s, c, op, x.rows, x.cols);

    n->rstd = ten_acc(s, c, op, x.rows, 1);
    RUN(s, rms_norm, .y = y.m, .x = x, .w = w,
        .rstd = n->rstd.m, .eps = s->m->eps,
        .zero_centred = s->m->norm_zero_centred);
    if (s->tp == 1 || !gather) {
        n->out = y;
        return;
    }
    n->local = y;
    n->out = tp_gather(s, c, op, y.m);
}

struct tensor norm_backward(struct step *s, const char *op, struct tensor *dn,
                            struct mat x, struct mat w, struct norm_saved *n)
{
    struct tensor dx;

    assert(dn->m.cols == x.cols);
    if (dn->m.rows > x.rows) tp_scatter(s, CAT_INPUT_GRADIENT, op, dn);
    dx = ten_act(s, CAT_INPUT_GRADIENT, op, x.rows, x.cols);
    RUN(s, rms_norm_bwd, .dx = dx.m, .dy = dn->m, .x = x,
        .w = w, .rstd = n->rstd.m,
        .zero_centred = s->m->norm_zero_centred);
    ten_free(s, dn);
    ten_free(s, &n->rstd);
    ten_free(s, &n->local);
    return dx;
}
