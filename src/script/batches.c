/*
** batches.c - batches that a scenario makes of numbers: batch.lengths,
** batch.random, batch.tree; see api.h.
*/
#include <inttypes.h>
#include <lauxlib.h>
#include <string.h>

#include "base/random.h"
#include "script/api.h"

#define OTHER(key) {key, FIELD_OTHER, 0, 0, 0}
#define END {NULL, FIELD_OTHER, 0, 0, 0}

/* Opens a declaration whose keys are checked elsewhere (a plain list). */
static void open_list(struct decl *d, lua_State *L, const char *what)
{
    d->L = L;
    d->table = 1;
    strcpy(d->what, what);
    d->line = script_line(L, d->file);
}

/* batch.lengths{n, n, ...}: independent sequences. */
int api_lengths(lua_State *L)
{
    struct decl d = DECL_INIT(L);
    struct err e;
    int64_t n, *length;
    struct api_batch *b;

    lua_settop(L, 1);
    open_list(&d, L, "batch.lengths");
    length = api_list(&d, NULL, 1, 1, API_MAX_ROWS, &n);
    b = api_new_batch(L, BATCH_LENGTHS);
    api_check(&d, NULL, batch_from_lengths(length, n, &b->batch, &e), &e);
    api_hold_batch(L, b);
    return 1;
}

struct random_decl { int64_t count, lo, hi, seed; };

static const struct field random_fields[] = {
    {"count", FIELD_INT, offsetof(struct random_decl, count), 1,
     API_MAX_SEGMENTS},
    {"seed", FIELD_INT, offsetof(struct random_decl, seed), 0, INT64_MAX},
    OTHER("length"),
    END,
};

static void read_length(const struct decl *d, struct random_decl *r)
{
    int64_t n, *range;

    if (decl_get(d, "length") != LUA_TTABLE) {
        decl_int(d, "length", 1, API_MAX_ROWS, &r->lo);
        r->hi = r->lo;
    } else {
        range = api_list(d, "length", -1, 1, API_MAX_ROWS, &n);
        if (n != 2 || range[0] > range[1])
            decl_fail(d, "length", "must be a number, or {least, most}");
        r->lo = range[0];
        r->hi = range[1];
        if (r->lo < r->hi) decl_need(d, "seed");
        lua_pop(d->L, 1);
    }
    lua_pop(d->L, 1);
}

/* batch.random{count, length, seed}: independent sequences, each as long as
** length, or of a length drawn evenly from {least, most}. */
int api_random(lua_State *L)
{
    struct random_decl r = {0, 0, 0, 0};
    struct decl d = DECL_INIT(L);
    struct err e;
    struct api_batch *b;
    int64_t *length;
    uint64_t span, state;

    lua_settop(L, 1);
    decl_open(&d, L, 1, random_fields, "batch.random");
    decl_need(&d, "count");
    decl_need(&d, "length");
    decl_fields(&d, random_fields, &r);
    read_length(&d, &r);
    script_charge(L, (uint64_t)r.count);
    length = api_ints(L, r.count);
    span = (uint64_t)(r.hi - r.lo) + 1;
    state = (uint64_t)r.seed;
    for (int64_t i = 0; i < r.count; i++)
        length[i] = r.lo + (int64_t)(random_next(&state) % span);
    b = api_new_batch(L, BATCH_LENGTHS);
    api_check(&d, NULL, batch_from_lengths(length, r.count, &b->batch, &e),
              &e);
    api_hold_batch(L, b);
    return 1;
}

static const struct field tree_fields[] = {
    OTHER("file"), OTHER("parents"), OTHER("lengths"), END,
};

static void tree_of_lists(const struct decl *d, struct api_batch *b)
{
    struct err e;
    int64_t n, n_parent, *parent, *length;

    decl_need(d, "parents");
    decl_need(d, "lengths");
    decl_get(d, "parents");
    parent = api_list(d, "parents", -1, -1, API_MAX_SEGMENTS, &n_parent);
    decl_get(d, "lengths");
    length = api_list(d, "lengths", -1, 1, API_MAX_ROWS, &n);
    if (n != n_parent)
        decl_fail(d, "lengths", "must have as many items as parents, %"
                  PRId64, n_parent);
    api_check(d, "parents", batch_from_tree(parent, length, n, &b->batch, &e),
              &e);
    lua_pop(d->L, 4);
}

/* batch.tree{file = F}, or {parents = {...}, lengths = {...}}: all of a
** prefix tree; segments count from 0, the parent of a root is -1. */
int api_tree(lua_State *L)
{
    struct decl d = DECL_INIT(L);
    struct err e;
    const char *file;
    struct api_batch *b;

    lua_settop(L, 1);
    decl_open(&d, L, 1, tree_fields, "batch.tree");
    b = api_new_batch(L, BATCH_TREE);
    file = api_file(&d, "file");
    if (file == NULL) {
        tree_of_lists(&d, b);
    } else {
        if (decl_has(&d, "parents") || decl_has(&d, "lengths"))
            decl_fail(&d, "file", "and parents, lengths exclude each other");
        api_check(&d, "file", batch_load_tree(file, &b->batch, &e), &e);
        lua_pop(L, 1);
    }
    api_hold_batch(L, b);
    return 1;
}
