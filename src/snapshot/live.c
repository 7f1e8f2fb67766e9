/* live.c - see live.h */
#include "snapshot/live.h"

#include <assert.h>
#include <stdlib.h>

static bool add(struct live *l, struct live_block b)
{
    if (l->n == l->cap) {
        int64_t cap = l->cap > 0 ? 2 * l->cap : 256;
        struct live_block *p = realloc(l->block, (size_t)cap * sizeof *p);

        if (p == NULL) return false;
        l->block = p;
        l->cap = cap;
    }
    if (!addr_map_put(&l->at, b.addr, l->n)) return false;
    l->block[l->n++] = b;
    return true;
}

/* The last block takes the place of one that goes. */
static struct live_block take(struct live *l, int64_t i)
{
    struct live_block gone = l->block[i];

    addr_map_remove(&l->at, gone.addr);
    if (i != --l->n) {
        l->block[i] = l->block[l->n];
        (void)addr_map_put(&l->at, l->block[i].addr, i);    /* is there */
    }
    return gone;
}

bool live_start(struct live *l, const struct snapshot *s,
                const struct rewind *from, const struct walk *w)
{
    *l = (struct live){.d = &s->device[w->device], .w = w};
    for (int64_t i = 0; i < from->n_segment; i++) {
        const struct snapshot_segment *g = &from->segment[i];

        for (int64_t k = g->block; k < g->block + g->n_block; k++) {
            const struct snapshot_block *b = &from->block[k];

            if (b->pending) continue;
            if (!add(l, (struct live_block){b->addr, b->size, b->requested,
                                            -1, b->stack, g->lane, 0}))
                return false;
        }
    }
    return true;
}

bool live_step(struct live *l, int64_t event, struct live_block *gone)
{
    const struct snapshot_event *x = &l->d->event[event];
    int64_t i;

    assert(event >= 0 && event < l->d->n_event);
    gone->size = 0;
    switch (x->action) {
    case SNAPSHOT_ALLOC:
        return add(l, (struct live_block){x->addr, l->w->size[event],
                                          x->bytes, event, x->stack, x->lane,
                                          x->category});
    case SNAPSHOT_FREE_REQUESTED:
    case SNAPSHOT_FREE_COMPLETED:
        i = addr_map_get(&l->at, x->addr);
        if (i >= 0) *gone = take(l, i);
        return true;
    default:
        return true;
    }
}

void live_free(struct live *l)
{
    free(l->block);
    addr_map_free(&l->at);
    *l = (struct live){0};
}
