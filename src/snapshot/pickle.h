/*
** pickle.h - a restricted reader of Python pickles, protocols 2 to 5: the
** plain data of a memory snapshot (dicts, lists, tuples, strings, numbers)
** and nothing that would run code, which is refused by name.
**
** Values form a graph, because a pickle refers to what it has made before;
** nothing is copied, and a hostile file can make it cyclic. So never walk
** values to any depth: look for what a known layout has, level by level.
** Strings point into the file's bytes. The reader trusts no length and
** bounds the memory it takes by a multiple of the file's.
*/
#ifndef SNAPSHOT_PICKLE_H
#define SNAPSHOT_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

enum pickle_type {
    PICKLE_NONE, PICKLE_BOOL, PICKLE_INT, PICKLE_FLOAT, PICKLE_STRING,
    PICKLE_LIST, PICKLE_TUPLE, PICKLE_DICT,
    PICKLE_BIG              /* an integer that u and i cannot hold */
};

struct pickle_items;

struct pickle {
    uint8_t type;           /* enum pickle_type */
    bool negative;          /* PICKLE_INT: i holds it, else u does */
    uint32_t len;           /* PICKLE_STRING: bytes, not NUL-terminated */
    union {
        bool b;
        int64_t i;
        uint64_t u;
        double f;
        const char *s;
        struct pickle_items *items;
    } v;
};

/* A list's or tuple's n values, or a dict's n pairs of key and value. */
struct pickle_items {
    struct pickle *at;
    size_t n, cap;
};

/* Reads all len bytes of data, which must stay while values are in use. The
** values live in the arena. ERR_INPUT names origin and byte. */
int pickle_read(const char *data, size_t len, const char *origin,
                struct arena *a, struct pickle *out, struct err *e) MUST_CHECK;

/* The value of a dict's string key, the last one given; NULL when there is
** none or when d is not a dict of at most PICKLE_KEYS pairs. */
enum { PICKLE_KEYS = 256 };
const struct pickle *pickle_get(const struct pickle *d, const char *key);
bool pickle_is(const struct pickle *s, const char *text);   /* this string */
/* "a list", ... for messages. */
const char *pickle_type_name(const struct pickle *p);

#endif
