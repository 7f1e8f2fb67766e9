/*
** weights_load.c - base weights from a checkpoint: every parameter of the
** list finds its tensor by name, checks its shape, and is copied in blocks.
**
** A folder may pack some tensors otherwise (param.h, enum param_pack): GDN
** projections fused by key head, experts one by one, a router under another
** name. What lies under the parameter's own name is taken first. A parameter
** is therefore a list of runs of elements, read one after another.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "model/family.h"
#include "step/numbers.h"
#include "step/rank_state.h"

#define BLOCK 65536     /* elements converted at a time */

struct loader {
    struct step *s;
    const struct param *p;
    struct mat x;           /* where the parameter lives */
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

/* ---- names -------------------------------------------------------------- */

static const struct checkpoint_tensor *find(struct loader *l,
                                            const char *tensor,
                                            const int64_t *dim, int64_t n_dim)
{
    const struct checkpoint_tensor *t = NULL;
    struct step *s = l->s;
    char name[256];

    if (s->rc != ERR_OK) return NULL;
    weights_name(s, l->p->layer, tensor, name, sizeof name);
    s->rc = checkpoint_find(s->c.checkpoint, name, dim, n_dim, &t, s->e);
    return t;
}

static bool has(const struct loader *l, const char *tensor)
{
    char name[256];

    weights_name(l->s, l->p->layer, tensor, name, sizeof name);
    return checkpoint_get(l->s->c.checkpoint, name) != NULL;
}

/* Trailing ones are no dimensions, but for a convolution's taps. */
static int64_t used_dims(const int64_t *dim)
{
    int64_t n = 4;

    while (n > 1 && dim[n - 1] == 1) n--;
    return n;
}

/* ---- the ways a parameter is packed ------------------------------------- */

/* Under one name; routed experts hold all experts, of which this rank takes
** its own. */
static void load_plain(struct loader *l, const char *tensor)
{
    const struct param *p = l->p;
    int64_t dim[4], rank = 0;
    const struct checkpoint_tensor *t;

    memcpy(dim, p->dim, sizeof dim);
    if (p->site == SITE_EXPERT_UP || p->site == SITE_EXPERT_DOWN) {
        dim[0] = l->s->m->experts;
        rank = l->s->c.rank % l->s->c.ep;
    }
    t = find(l, tensor, dim, used_dims(dim));
    if (t != NULL) take(l, t, rank * p->count, p->count);
}

static void expert_name(const struct family_names *f, int64_t expert,
                        const char *which, char *out, size_t cap)
{
    snprintf(out, cap, "%s.%lld.%s.weight", f->experts, (long long)expert,
             which);
}

/* One expert's matrix, stored on its own as [rows, cols]. */
static void load_expert(struct loader *l, int64_t expert, const char *which,
                        int64_t rows, int64_t cols)
{
    int64_t dim[2] = {rows, cols};
    const struct checkpoint_tensor *t;
    char name[96];

    expert_name(l->s->m->names, expert, which, name, sizeof name);
    t = find(l, name, dim, 2);
    if (t != NULL) take(l, t, 0, rows * cols);
}

static void load_each_expert(struct loader *l)
{
    const struct model *m = l->s->m;
    const struct family_names *f = m->names;
    int64_t el = l->s->local_experts, i;
    int64_t first = l->s->c.rank % l->s->c.ep * el;

    for (i = first; i < first + el && l->s->rc == ERR_OK; i++) {
        if (l->p->site == SITE_EXPERT_DOWN) {
            load_expert(l, i, f->down, m->hidden, m->expert_ffn);
        } else {
            load_expert(l, i, f->gate, m->expert_ffn, m->hidden);
            load_expert(l, i, f->up, m->expert_ffn, m->hidden);
        }
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
static void load_fused(struct loader *l, const char *tensor)
{
    const struct model *m = l->s->m;
    const struct param *p = l->p;
    int64_t rep = m->v_heads / m->k_heads, value = rep * m->v_dim;
    bool ba = p->pack == PACK_BA;
    int64_t group = ba ? 2 * rep : 2 * m->k_dim + 2 * value;
    int64_t dim[2] = {m->k_heads * group, m->hidden};
    const struct checkpoint_tensor *t;

    t = find(l, tensor, dim, 2);
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

/* ---- which way ----------------------------------------------------------- */

/* The name behind the packed form, the first expert's for experts; false
** where the family has none. */
static bool packed_name(const struct loader *l, char *out, size_t cap)
{
    const struct family_names *f = l->s->m->names;
    const char *name = NULL;

    switch (l->p->pack) {
    case PACK_NONE: return false;
    case PACK_QKVZ: name = f->fused_qkvz; break;
    case PACK_BA: name = f->fused_ba; break;
    case PACK_ROUTER: name = f->router; break;
    case PACK_EACH_EXPERT:
        expert_name(f, 0, l->p->site == SITE_EXPERT_DOWN ? f->down : f->gate,
                    out, cap);
        return true;
    }
    if (name != NULL) snprintf(out, cap, "%s", name);
    return name != NULL;
}

static void missing(struct loader *l, const char *packed)
{
    struct step *s = l->s;
    char own[256], other[256];

    weights_name(s, l->p->layer, l->p->tensor, own, sizeof own);
    weights_name(s, l->p->layer, packed, other, sizeof other);
    s->rc = err_set(s->e, ERR_INPUT, "%s: tensor %s is missing, and so is %s "
                    "(peakproof doctor --weights says what a folder holds)",
                    checkpoint_folder(s->c.checkpoint), own, other);
}

static void load(struct loader *l)
{
    char name[96];

    if (has(l, l->p->tensor) || !packed_name(l, name, sizeof name))
        load_plain(l, l->p->tensor);
    else if (!has(l, name))
        missing(l, name);
    else if (l->p->pack == PACK_EACH_EXPERT)
        load_each_expert(l);
    else if (l->p->pack == PACK_ROUTER)
        load_plain(l, name);
    else
        load_fused(l, name);
}

void weights_load(struct step *s, const struct param *p, struct mat x)
{
    struct loader l = {s, p, x, 0, NULL};

    l.numbers = malloc(BLOCK * sizeof *l.numbers);
    if (l.numbers == NULL) s->rc = err_nomem(s->e);
    if (s->rc == ERR_OK) load(&l);
    if (s->rc == ERR_OK && l.done != p->count)
        s->rc = err_set(s->e, ERR_RUN, "%s: loaded %lld of %lld elements",
                        p->tensor, (long long)l.done, (long long)p->count);
    free(l.numbers);
}
