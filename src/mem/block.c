/* block.c - see block.h */
#include "mem/block.h"

#include <stdlib.h>

bool block_reserve(struct block_store *s, size_t n)
{
    while (s->n_unused < n) {
        struct block_chunk *c = malloc(sizeof *c);

        if (c == NULL) return false;
        c->next = s->chunks;
        s->chunks = c;
        for (int i = BLOCK_CHUNK; i-- > 0;) {
            c->block[i].event = s->records++;
            block_drop(s, &c->block[i]);
        }
    }
    return true;
}

void block_store_free(struct block_store *s)
{
    while (s->chunks != NULL) {
        struct block_chunk *next = s->chunks->next;

        free(s->chunks);
        s->chunks = next;
    }
}
