/*
** adapter.c - adapter gradients that appear while boundaries disappear
** (pricing.md 8).
**
** Backward goes from the last layer down. When it has reached layer i, the
** gradients of layers i.. are there and the boundaries above i are gone; so
** gradients cost extra only where they outgrow the boundaries that made room
** for them.
*/
#include <assert.h>
#include <string.h>

#include "base/num.h"
#include "price/internal.h"

/* One chain, fed from the last layer down. */
struct walk {
    int64_t outside;        /* pending outside the decoder */
    int64_t pending, gone;  /* gradients there, boundaries released */
    int64_t extra;
};

static struct walk walk_from(int64_t outside)
{
    return (struct walk){outside, 0, 0, outside};
}

static void walk_layer(struct walk *w, int64_t pending, int64_t boundary)
{
    int64_t live;

    w->pending = num_sadd(w->pending, pending);
    live = num_sadd(w->outside, w->pending);
    w->extra = num_max(w->extra, live - w->gone);
    w->gone = num_sadd(w->gone, boundary);
}

/* What is left over once the whole chain has run. */
static int64_t walk_net(const struct walk *w)
{
    return num_sadd(w->outside, w->pending) - w->gone;
}

const int64_t *price_pending(const struct price_facts *f, int64_t g)
{
    assert(g >= 0 && g < f->n_group);
    if (strcmp(f->group[g].slot, PRICE_BASE_SLOT) == 0) return NULL;
    return f->group[g].pending != NULL ? f->group[g].pending : f->pending;
}

static struct walk walk_group(const struct price_facts *f, int64_t g,
                              int64_t rank)
{
    const int64_t *pending = price_pending(f, g);
    int64_t i, layers = f->model->layers;
    struct walk w = walk_from(pending != NULL ? pending[layers] : 0);

    for (i = layers - 1; i >= 0; i--)
        walk_layer(&w, pending != NULL ? pending[i] : 0,
                   price_boundary(f, g, rank, i));
    return w;
}

static int64_t first_of_slot(const struct price_facts *f, int64_t g)
{
    int64_t i = 0;

    while (strcmp(f->group[i].slot, f->group[g].slot) != 0) i++;
    return i;
}

void price_left_make(const struct price_facts *f, int64_t rank,
                     struct adapter_left *out)
{
    int64_t g;

    assert(f->n_group <= PRICE_MAX_GROUPS && rank < f->cp);
    out->all = 0;
    for (g = 0; g < f->n_group; g++) {
        struct walk w = walk_group(f, g, rank);
        int64_t s = out->slot[g] = first_of_slot(f, g);
        int64_t net = f->group[g].grad ? num_max(0, walk_net(&w)) : 0;
        if (s == g) out->most[s] = 0;
        if (net <= out->most[s]) continue;
        out->all = num_sadd(out->all, net - out->most[s]);
        out->most[s] = net;
    }
}

int64_t price_left_for(const struct adapter_left *l, int64_t g)
{
    return l->all - l->most[l->slot[g]];
}

/* Groups run one after another in any order, and a slot's gradients appear in
** the first of its groups that runs. The worst order for a peak in group j
** lets j be its slot's first, and runs before it, of every other slot, the
** group that leaves most beyond the boundaries that it frees. */
struct adapter_walks price_walk_groups(const struct price_facts *f,
                                       int64_t rank)
{
    struct adapter_walks worst = {0, 0};
    struct adapter_left left;
    int64_t g, others;

    price_left_make(f, rank, &left);
    for (g = 0; g < f->n_group; g++) {
        struct walk w;
        if (!f->group[g].grad) continue;
        w = walk_group(f, g, rank);
        others = price_left_for(&left, g);
        worst.extra = num_max(worst.extra, num_sadd(w.extra, others));
        worst.at_head = num_max(worst.at_head, num_sadd(w.outside, others));
    }
    return worst;
}
