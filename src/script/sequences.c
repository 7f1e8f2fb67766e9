/*
** sequences.c - batch.sequences and batch.pack: waves of recorded sequences.
*/
#include <inttypes.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "script/api.h"
#include "script/find.h"

#define CORPUS "peakproof.corpus"
#define CORPORA "peakproof.corpora"

static int corpus_gc(lua_State *L)
{
    struct corpus **c = luaL_checkudata(L, 1, CORPUS);

    corpus_free(*c);
    *c = NULL;
    return 0;
}

/* [-0, +1] The corpus of two files (tree may be NULL), read once for each
** script. */
static const struct corpus *load_corpus(const struct decl *d,
                                        const char *file, const char *tree)
{
    lua_State *L = d->L;
    const char *name = lua_pushfstring(L, "%s\n%s", file,
                                       tree != NULL ? tree : "");
    struct corpus **c;
    struct err e;

    luaL_getsubtable(L, LUA_REGISTRYINDEX, CORPORA);
    if (lua_getfield(L, -1, name) == LUA_TNIL) {
        lua_pop(L, 1);
        c = lua_newuserdatauv(L, sizeof *c, 0);
        *c = NULL;
        luaL_setmetatable(L, CORPUS);
        api_check(d, "file", corpus_load(file, tree, c, &e), &e);
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, name);
    }
    c = lua_touserdata(L, -1);
    lua_replace(L, -3);
    lua_pop(L, 1);
    return *c;
}

/* [-0, +n] The corpus that file and tree name: without tree the one that
** belongs to the file by its name, if there is one; none with tree = false. */
static const struct corpus *open_corpus(const struct decl *d)
{
    lua_State *L = d->L;
    const char *file, *tree = NULL;
    bool none = false;

    decl_need(d, "file");
    file = api_file(d, "file");
    if (decl_get(d, "tree") == LUA_TBOOLEAN) {
        none = !lua_toboolean(L, -1);
        if (!none) decl_fail(d, "tree", "must be a file name or false");
    } else {
        tree = api_file(d, "tree");
    }
    if (tree == NULL && !none) {
        void **box = api_box(L);
        char *found;
        struct err e;
        api_check(d, "file", corpus_find_tree(file, &found, &e), &e);
        *box = found;
        tree = found;
        if (found != NULL) find_note(L, found);
    }
    return load_corpus(d, file, tree);
}

/* "0-19,25": numbers below count, pushed as integers. */
static int64_t *parse_select(const struct decl *d, const char *text,
                             int64_t count, int64_t *n)
{
    int64_t *pick = api_ints(d->L, count);

    if (!num_parse_ranges(text, count - 1, count, pick, n))
        decl_fail(d, "select", "bad selection '%s' (as in \"0-19,25\", each "
                  "once, numbers below %" PRId64 ")", text, count);
    return pick;
}

/* [-0, +1] The sequences that "select" names: a number, a list, a text of
** ranges; all when it is absent. */
static int64_t *read_select(const struct decl *d, int64_t count, int64_t *n)
{
    lua_State *L = d->L;
    int type = decl_get(d, "select");
    int64_t *pick;

    if (type == LUA_TSTRING) {
        pick = parse_select(d, lua_tostring(L, -1), count, n);
    } else if (type == LUA_TTABLE) {
        pick = api_list(d, "select", -1, 0, count - 1, n);
    } else if (type == LUA_TNIL) {
        pick = api_ints(L, count);
        for (*n = 0; *n < count; (*n)++) pick[*n] = *n;
    } else {
        pick = api_ints(L, 1);
        decl_int(d, "select", 0, count - 1, pick);
        *n = 1;
    }
    lua_remove(L, -2);
    return pick;
}

static const struct field sequence_fields[] = {
    {"file", FIELD_OTHER, 0, 0, 0},
    {"select", FIELD_OTHER, 0, 0, 0},
    {"tree", FIELD_OTHER, 0, 0, 0},
    {NULL, FIELD_OTHER, 0, 0, 0},
};

/* [-0, +1] Pushes the batch of some sequences. */
static void push_batch(const struct decl *d, const struct corpus *c,
                       const int64_t *pick, int64_t n)
{
    struct api_batch *b = api_new_batch(d->L, BATCH_CORPUS);
    struct err e;

    script_charge(d->L, (uint64_t)n);
    api_check(d, "select", corpus_batch(c, pick, n, &b->batch, &e), &e);
    api_hold_batch(d->L, b);
}

int api_sequences(lua_State *L)
{
    struct decl d = DECL_INIT(L);
    const struct corpus *c;
    int64_t n, *pick;

    lua_settop(L, 1);
    decl_open(&d, L, 1, sequence_fields, "batch.sequences");
    c = open_corpus(&d);
    pick = read_select(&d, corpus_count(c), &n);
    push_batch(&d, c, pick, n);
    return 1;
}

struct pack_decl { int64_t tokens; };

static const struct field pack_fields[] = {
    {"file", FIELD_OTHER, 0, 0, 0},
    {"select", FIELD_OTHER, 0, 0, 0},
    {"tokens", FIELD_INT, offsetof(struct pack_decl, tokens), 1,
     API_MAX_ROWS},
    {"tree", FIELD_OTHER, 0, 0, 0},
    {NULL, FIELD_OTHER, 0, 0, 0},
};

int api_pack(lua_State *L)
{
    struct decl d = DECL_INIT(L);
    struct pack_decl p = {0};
    const struct corpus *c;
    struct err e;
    int64_t n, *pick, *first = NULL, waves;
    void **box;

    lua_settop(L, 1);
    decl_open(&d, L, 1, pack_fields, "batch.pack");
    decl_need(&d, "tokens");
    decl_fields(&d, pack_fields, &p);
    c = open_corpus(&d);
    pick = read_select(&d, corpus_count(c), &n);
    box = api_box(L);
    script_charge(L, (uint64_t)n);
    api_check(&d, "select",
              corpus_pack(c, pick, n, p.tokens, &first, &waves, &e), &e);
    *box = first;
    lua_createtable(L, (int)waves, 0);
    for (int64_t w = 0; w < waves; w++) {
        push_batch(&d, c, pick + first[w], first[w + 1] - first[w]);
        lua_rawseti(L, -2, w + 1);
    }
    return 1;
}

void api_open_sequences(lua_State *L)
{
    api_new_type(L, CORPUS, corpus_gc, NULL);
}
