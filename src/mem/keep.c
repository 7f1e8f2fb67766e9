/* keep.c - an allocator and its dry source as they were, see mem.h */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "mem/state.h"

struct mem_kept {
    struct mem mem;
    struct mem_dry_source source;
    int64_t n;
    struct block_chunk *copy;   /* [n] of the chunks, the newest first */
};

int mem_keep(const struct mem *m, struct mem_kept **out, struct err *e)
{
    struct mem_kept *k = calloc(1, sizeof *k);
    struct block_chunk *c;
    int64_t n = 0;

    assert(m->trace == NULL && m->ranges == NULL);
    for (c = m->store.chunks; c != NULL; c = c->next) n++;
    if (k != NULL) k->copy = calloc((size_t)n + 1, sizeof *k->copy);
    if (k == NULL || k->copy == NULL) {
        mem_kept_free(k);
        return err_nomem(e);
    }
    k->mem = *m;
    k->source = *(const struct mem_dry_source *)m->source.ctx;
    for (c = m->store.chunks; c != NULL; c = c->next) k->copy[k->n++] = *c;
    *out = k;
    return ERR_OK;
}

void mem_rewind(struct mem *m, const struct mem_kept *k)
{
    struct block_chunk *c;
    int64_t i = 0;

    /* later chunks stand before those that were there */
    while (m->store.chunks != k->mem.store.chunks) {
        c = m->store.chunks;
        m->store.chunks = c->next;
        free(c);
    }
    for (c = m->store.chunks; c != NULL; c = c->next) *c = k->copy[i++];
    *(struct mem_dry_source *)m->source.ctx = k->source;
    *m = k->mem;
}

void mem_kept_free(struct mem_kept *k)
{
    if (k == NULL) return;
    free(k->copy);
    free(k);
}
