/*
** golden.h - reads the files that tests/golden/ops/make_golden.py writes
** (format: container.py there). A file that is cut short or lies about its
** sizes is refused, never read past its end.
*/
#ifndef TESTS_UNIT_GOLDEN_H
#define TESTS_UNIT_GOLDEN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GOLDEN_F64 = 0, GOLDEN_I64 = 1, GOLDEN_DIMS = 8, GOLDEN_MAX = 512 };

struct golden_array {
    char name[160];
    int type;
    int64_t count;
    const unsigned char *data;  /* 8 bytes an element, not aligned */
};

struct golden {
    unsigned char *bytes;       /* owned */
    size_t n, at;
    struct golden_array array[GOLDEN_MAX];
    int n_array;
};

/* n bytes, little endian, as a number; false at the end of the file. */
static inline bool golden_number(struct golden *g, size_t n, uint64_t *out)
{
    size_t i;

    if (n > g->n - g->at) return false;
    for (i = 0, *out = 0; i < n; i++)
        *out |= (uint64_t)g->bytes[g->at + i] << (8 * i);
    g->at += n;
    return true;
}

static inline bool golden_dims(struct golden *g, struct golden_array *a)
{
    uint64_t type, dims, d;

    if (!golden_number(g, 1, &type) || type > GOLDEN_I64
        || !golden_number(g, 1, &dims) || dims > GOLDEN_DIMS)
        return false;
    a->type = (int)type;
    a->count = 1;
    for (; dims > 0; dims--) {
        if (!golden_number(g, 8, &d) || d > INT64_MAX
            || __builtin_mul_overflow(a->count, (int64_t)d, &a->count))
            return false;
    }
    if ((uint64_t)a->count > (g->n - g->at) / 8) return false;
    a->data = g->bytes + g->at;
    g->at += (size_t)a->count * 8;
    return true;
}

static inline bool golden_entry(struct golden *g, struct golden_array *a)
{
    uint64_t len;

    if (!golden_number(g, 2, &len) || len >= sizeof a->name
        || len > g->n - g->at)
        return false;
    memcpy(a->name, g->bytes + g->at, (size_t)len);
    a->name[len] = '\0';
    g->at += (size_t)len;
    return golden_dims(g, a);
}

/* Takes over bytes. */
static inline bool golden_parse(unsigned char *bytes, size_t n,
                                struct golden *g)
{
    uint64_t version, arrays;

    memset(g, 0, sizeof *g);
    g->bytes = bytes;
    g->n = n;
    if (n < 8 || memcmp(bytes, "PPGOLDEN", 8) != 0) return false;
    g->at = 8;
    if (!golden_number(g, 4, &version) || version != 1) return false;
    if (!golden_number(g, 4, &arrays) || arrays > GOLDEN_MAX) return false;
    for (; arrays > 0; arrays--)
        if (!golden_entry(g, &g->array[g->n_array++])) return false;
    return g->at == n;
}

static inline void golden_free(struct golden *g)
{
    free(g->bytes);
    memset(g, 0, sizeof *g);
}

static inline void golden_die(const char *what, const char *name)
{
    fprintf(stderr, "golden: %s: %s\n", name, what);
    abort();
}

static inline void golden_open(struct golden *g, const char *path)
{
    FILE *f = fopen(path, "rb");
    unsigned char *bytes;
    long n;

    if (f == NULL) golden_die("cannot be opened (run from the top)", path);
    fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    bytes = malloc(n > 0 ? (size_t)n : 1);
    if (bytes == NULL || n < 0 || fread(bytes, 1, (size_t)n, f) != (size_t)n)
        golden_die("cannot be read", path);
    fclose(f);
    if (!golden_parse(bytes, (size_t)n, g)) golden_die("is damaged", path);
}

/* The array of a name; there must be one of this many elements (any number
** when count is -1). */
static inline const struct golden_array *
golden_find(const struct golden *g, const char *name, int64_t count)
{
    int i;

    for (i = 0; i < g->n_array; i++)
        if (strcmp(g->array[i].name, name) == 0) {
            if (count >= 0 && g->array[i].count != count)
                golden_die("has another number of elements", name);
            return &g->array[i];
        }
    golden_die("is not in the file", name);
    return NULL;
}

static inline double golden_f64(const struct golden_array *a, int64_t i)
{
    double x;

    if (a->type != GOLDEN_F64 || i < 0 || i >= a->count)
        golden_die("is read outside", a->name);
    memcpy(&x, a->data + 8 * i, sizeof x);
    return x;
}

static inline int64_t golden_i64(const struct golden_array *a, int64_t i)
{
    int64_t x;

    if (a->type != GOLDEN_I64 || i < 0 || i >= a->count)
        golden_die("is read outside", a->name);
    memcpy(&x, a->data + 8 * i, sizeof x);
    return x;
}

#endif
