/*
** weights_load.c - base weights from a checkpoint, copied in blocks. A
** parameter is a list of runs of elements of the tensors that it is made of
** there (model/weights_map.h), read one after another.
*/
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "model/weights_map.h"
#include "step/numbers.h"
#include "step/weights.h"

#define BLOCK 65536     /* elements converted at a time */

struct loader {
    struct step *s;
    const struct param *p;
    struct mat x;           /* where the parameter lives */
    enum param_pack form;   /* in which the folder has it */
    int64_t done;           /* elements written so far */
    double *numbers;        /* [BLOCK] */
};

/* Elements [first, first + n) of t follow what was written so far. */
static void take(struct loader *l, const struct checkpoint_tensor *t,
                 int64_t first, int64_t n)
{
    struct step *s = l->s;
    int64_t width = dtype_bytes(l->x.t);

    while (n > 0 && s->rc == ERR_OK) {
        int64_t part = num_min(n, BLOCK);
        char *to = (char *)l->x.p + l->done * width;

        s->rc = checkpoint_read(s->c.checkpoint, t, first, part, l->numbers,
                                s->e);
        if (s->rc != ERR_OK) return;
        s->rc = numbers_up(s->dev, to, l->x.t, l->numbers, part, s->e);
        l->done += part;
        first += part;
        n -= part;
    }
}

/* The i-th tensor of the parameter; NULL after an error. */
static const struct checkpoint_tensor *find(struct loader *l, int64_t i)
{
    const struct checkpoint_tensor *t = NULL;
    struct step *s = l->s;

    if (s->rc == ERR_OK)
        s->rc = stored_find(s->c.checkpoint, s->m, l->p, l->form, i, &t,
                            s->e);
    return t;
}

/* ---- the ways a parameter is packed ------------------------------------- */

/* One tensor; routed experts hold all experts, of which this rank takes its
** own. */
static void load_plain(struct loader *l)
{
    const struct checkpoint_tensor *t = find(l, 0);
    int64_t rank = site_is_routed(l->p->site) ? l->s->c.rank % l->s->c.ep : 0;

    if (t != NULL) take(l, t, rank * l->p->count, l->p->count);
}

static void load_each_expert(struct loader *l)
{
    int64_t each = stored_tensors(l->s->m, l->p, l->form) / l->s->m->experts;
    int64_t n = l->s->local_experts * each, i;
    int64_t first = l->s->c.rank % l->s->c.ep * n;

    for (i = first; i < first + n && l->s->rc == ERR_OK; i++) {
        const struct checkpoint_tensor *t = find(l, i);

        if (t != NULL) take(l, t, 0, t->count);
    }
}

/* Rows [first, first + n) of every key head's group of group rows. */
static void take_groups(struct loader *l, const struct checkpoint_tensor *t,
                        int64_t group, int64_t first, int64_t n)
{
    int64_t h = l->s->m->hidden, j;

    for (j = 0; t != NULL && j < l->s->m->k_heads; j++)
        take(l, t, (j * group + first) * h, n * h);
}

/* qkvz: per key head q | k | v of its value heads | z of them; ba: b | a. */
static void load_fused(struct loader *l)
{
    const struct model *m = l->s->m;
    const struct param *p = l->p;
    int64_t rep = m->v_heads / m->k_heads, value = rep * m->v_dim;
    bool ba = p->pack == PACK_BA;
    int64_t group = ba ? 2 * rep : 2 * m->k_dim + 2 * value;
    const struct checkpoint_tensor *t = find(l, 0);

    if (ba) {
        bool b = strstr(p->tensor, "in_proj_b") != NULL;
        take_groups(l, t, group, b ? 0 : rep, rep);
    } else if (p->site == SITE_GDN_Z) {
        take_groups(l, t, group, 2 * m->k_dim + value, value);
    } else {
        take_groups(l, t, group, 0, m->k_dim);
        take_groups(l, t, group, m->k_dim, m->k_dim);
        take_groups(l, t, group, 2 * m->k_dim, value);
    }
}

void weights_load(struct step *s, const struct param *p, struct mat x)
{
    struct loader l = {s, p, x, PACK_NONE, 0, NULL};

    l.numbers = malloc(BLOCK * sizeof *l.numbers);
    if (l.numbers == NULL) s->rc = err_nomem(s->e);
    if (s->rc == ERR_OK)
        s->rc = stored_form(s->c.checkpoint, s->m, p, &l.form, s->e);
    if (s->rc == ERR_OK) {
        if (l.form == PACK_EACH_EXPERT) load_each_expert(&l);
        else if (l.form == PACK_QKVZ || l.form == PACK_BA) load_fused(&l);
        else load_plain(&l);
    }
    if (s->rc == ERR_OK && l.done != p->count)
        s->rc = err_set(s->e, ERR_RUN, "%s: loaded %lld of %lld elements",
                        p->tensor, (long long)l.done, (long long)p->count);
    free(l.numbers);
}
