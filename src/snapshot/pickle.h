/*
** pickle.h - a restricted reader of Python pickles, protocols 2 to 5: the
** plain data of a memory snapshot (dicts, lists, tuples, strings, numbers)
** and nothing that would run code, which is refused by name.
**
** The bytes are read once, in order, and are not kept. Values form a graph,
** because a pickle refers to what it has made before; nothing is copied, and
** a hostile file can make it cyclic. So never walk values to any depth: look
** for what a known layout has, level by level. The reader trusts no length
** and bounds the memory it takes by a multiple of the bytes it has read.
**
** A snapshot has millions of small dicts of a few shapes. Hooks see each dict
** and list when it is filled and may take it over: what they made of it is
** kept in its place, its items are not.
** Inside src/snapshot.
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
    uint16_t word;          /* PICKLE_STRING: which of the hooks' words it
                               is, from 1; 0: none of them */
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

/* A list's or tuple's n values, or a dict's n pairs of key and value; or what
** a hook made of them. */
struct pickle_items {
    union {
        struct pickle *at;      /* held 0 */
        uint64_t made;          /* else */
    } u;
    uint32_t n;
    uint8_t held;               /* what it was made into; 0: nothing */
    uint8_t room;               /* log2 of the room, plus 1; 0: none */
};

/* Both are called with what fills a container (from n values, or n pairs): a
** dict once and only while it is empty, a list or tuple also when it grows,
** then to->held says what it is. To take it, set held and made. type is that
** of the container. An error ends the reading; ERR_INPUT's text needs no
** origin. */
struct pickle_hooks {
    void *ctx;
    const char *const *word;    /* NULL-ended, each shorter than 32 bytes */
    int (*dict)(void *ctx, const struct pickle *pair, size_t n,
                struct pickle_items *to, struct err *e);
    int (*list)(void *ctx, unsigned type, const struct pickle *value,
                size_t n, struct pickle_items *to, struct err *e);
};

/* Where bytes come from: data first (len of them), then what fill puts into
** room bytes; *n 0 is the end. fill NULL: data is all. */
struct pickle_input {
    const char *data;
    size_t len;
    int (*fill)(void *ctx, char *to, size_t room, size_t *n, struct err *e);
    void *ctx;
};

/* Reads all of in. Values and strings live in the arena. hooks may be NULL.
** *read (may be NULL) is how many bytes there were. ERR_INPUT names origin
** and byte. */
int pickle_stream(const struct pickle_input *in, const char *origin,
                  const struct pickle_hooks *hooks, struct arena *a,
                  struct pickle *out, uint64_t *read, struct err *e)
    MUST_CHECK;

/* What a hook made of a container; 0: nothing, or p is none. */
unsigned pickle_held(const struct pickle *p);
/* The value of a dict's string key, the last one given; NULL when there is
** none or when d is not a dict of at most PICKLE_KEYS pairs. */
enum { PICKLE_KEYS = 256 };
const struct pickle *pickle_get(const struct pickle *d, const char *key);
bool pickle_is(const struct pickle *s, const char *text);   /* this string */
/* "a list", ... for messages. */
const char *pickle_type_name(const struct pickle *p);

#endif
