/*
** adapter.c - adapter gradients that appear while boundaries disappear
** (pricing.md 8).
**
** Backward goes from the last layer down. When it has reached layer i, the
** gradients of layers i.. are there and the boundaries above i are gone; so
** gradients cost extra only where they outgrow the boundaries that made room
** for them.
*/
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

int64_t adapter_walk(const int64_t *p, const int64_t *b, int64_t layers)
{
    struct walk w = walk_from(p ? p[layers] : 0);
    int64_t i;

    for (i = layers - 1; i >= 0; i--) walk_layer(&w, p ? p[i] : 0, b[i]);
    return w.extra;
}

static struct walk walk_group(const struct price_facts *f, int64_t g,
                              int64_t rank)
{
    bool trains = f->pending != NULL
                  && strcmp(f->group[g].slot, PRICE_BASE_SLOT) != 0;
    int64_t i, layers = f->model->layers;
    struct walk w = walk_from(trains ? f->pending[layers] : 0);

    for (i = layers - 1; i >= 0; i--)
        walk_layer(&w, trains ? f->pending[i] : 0,
                   price_boundary(f, g, rank, i));
    return w;
}

/* Groups run one after another in any order. The worst order for a peak in
** group j runs first every other group that leaves more gradients behind
** than it frees boundaries: extra_j + sum of the others' positive nets. */
struct adapter_walks adapter_walk_groups(const struct price_facts *f,
                                         int64_t rank)
{
    struct adapter_walks worst = {0, 0};
    int64_t g, left = 0, others;

    if (f->pending == NULL) return worst;
    for (g = 0; g < f->n_group; g++) {
        struct walk w;
        if (!f->group[g].grad) continue;
        w = walk_group(f, g, rank);
        left = num_sadd(left, num_max(0, walk_net(&w)));
    }
    for (g = 0; g < f->n_group; g++) {
        struct walk w;
        if (!f->group[g].grad) continue;
        w = walk_group(f, g, rank);
        others = left - num_max(0, walk_net(&w));
        worst.extra = num_max(worst.extra, num_sadd(w.extra, others));
        worst.at_head = num_max(worst.at_head, num_sadd(w.outside, others));
    }
    return worst;
}
