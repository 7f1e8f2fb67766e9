/* keyset.c - see keyset.h. Open addressing, at most half full. */
#include "base/keyset.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* The slot that holds the key, or the free one where it belongs. */
static struct keyset_slot *probe(const struct keyset *s, const char *key,
                                 size_t len)
{
    size_t i = (size_t)hash_bytes(HASH_START, key, len) & (s->cap - 1);

    while (s->slot[i].key != NULL && (s->slot[i].len != len ||
           memcmp(s->slot[i].key, key, len) != 0))
        i = (i + 1) & (s->cap - 1);
    return &s->slot[i];
}

int64_t *keyset_find(const struct keyset *s, const char *key, size_t len)
{
    struct keyset_slot *at;

    if (s->n == 0) return NULL;
    at = probe(s, key, len);
    return at->key == NULL ? NULL : &at->value;
}

static bool grow(struct keyset *s)
{
    struct keyset more = {NULL, s->n, s->cap ? s->cap * 2 : 64};
    size_t i;

    more.slot = calloc(more.cap, sizeof *more.slot);
    if (more.slot == NULL) return false;
    for (i = 0; i < s->cap; i++)
        if (s->slot[i].key != NULL)
            *probe(&more, s->slot[i].key, s->slot[i].len) = s->slot[i];
    free(s->slot);
    *s = more;
    return true;
}

bool keyset_add(struct keyset *s, const char *key, size_t len, int64_t value)
{
    char *copy;

    assert(keyset_find(s, key, len) == NULL);
    if (s->n >= s->cap / 2 && !grow(s)) return false;
    copy = malloc(len + 1);
    if (copy == NULL) return false;
    memcpy(copy, key, len);
    copy[len] = '\0';
    *probe(s, key, len) = (struct keyset_slot){copy, len, value};
    s->n++;
    return true;
}

void keyset_free(struct keyset *s)
{
    size_t i;

    for (i = 0; i < s->cap; i++) free(s->slot[i].key);
    free(s->slot);
    *s = (struct keyset){NULL, 0, 0};
}
