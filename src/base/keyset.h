/*
** keyset.h - a hash table from byte strings to numbers, say for
** the keys of cases.
*/
#ifndef BASE_KEYSET_H
#define BASE_KEYSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keyset_slot { char *key; size_t len; int64_t value; };

struct keyset {
    struct keyset_slot *slot;
    size_t n, cap;          /* cap is 0 or a power of two */
};

/* The value's place, NULL when the key is not there. */
int64_t *keyset_find(const struct keyset *s, const char *key, size_t len);
/* Adds a key (copied) that is not there yet; false without memory. */
bool keyset_add(struct keyset *s, const char *key, size_t len, int64_t value);
void keyset_free(struct keyset *s);

#endif
