/*
** hash.h - FNV-1a, 64 bits: for names, keys and what identifies a run. Start
** with HASH_START and feed what comes; no protection against an adversary.
*/
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
    const unsigned char *c = (const unsigned char *)p;
    size_t i;

    for (i = 0; i < n; i++) h = (h ^ c[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* Without the final NUL. */
static inline uint64_t hash_text(uint64_t h, const char *s)
{
    for (; *s != '\0'; s++)
        h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
    return h;
}

#endif
