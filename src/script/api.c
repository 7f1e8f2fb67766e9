/* api.c - see api.h */
#include "script/api.h"

#include <inttypes.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/suggest.h"
#include "script/find.h"
#include "script/guard.h"

#define BATCH "peakproof.batch"
#define BOX "peakproof.box"

#define OTHER(key) {key, FIELD_OTHER, 0, 0, 0}
#define END {NULL, FIELD_OTHER, 0, 0, 0}

/* ---- the batch value ------------------------------------------------ */

struct api_batch *api_new_batch(lua_State *L, enum batch_kind kind)
{
    struct api_batch *b = lua_newuserdatauv(L, sizeof *b, 0);

    memset(b, 0, sizeof *b);
    b->kind = kind;
    b->routed_rows = -1;
    luaL_setmetatable(L, BATCH);
    return b;
}

struct api_batch *api_to_batch(lua_State *L, int index)
{
    return luaL_testudata(L, index, BATCH);
}

void api_hold_batch(lua_State *L, struct api_batch *b)
{
    uint64_t bytes = (uint64_t)b->batch.n_seg * sizeof *b->batch.seg;

    b->tokens = b->batch.tokens;
    script_charge(L, 100 + (uint64_t)b->batch.n_seg);
    script_hold(L, bytes);
    b->held += bytes;
}

static int batch_gc(lua_State *L)
{
    struct api_batch *b = luaL_checkudata(L, 1, BATCH);

    batch_free(&b->batch);
    api_free_layout(b->layout, b->cp);
    script_release(L, b->held);
    memset(b, 0, sizeof *b);
    return 0;
}

/* b.tokens, b.sequences, ...: what a scenario may want to know. */
static int batch_index(lua_State *L)
{
    static const char *const keys[] = {
        "tokens", "sequences", "segments", "longest", NULL,
    };
    const struct api_batch *b = luaL_checkudata(L, 1, BATCH);
    const char *key = luaL_checkstring(L, 2), *near;
    const int64_t value[] = {
        b->tokens, b->batch.n_seq, b->batch.n_seg, b->batch.longest,
    };

    for (int i = 0; keys[i] != NULL; i++) {
        if (strcmp(key, keys[i]) != 0) continue;
        if (b->kind == BATCH_LAYOUT && i > 0)
            return luaL_error(L, "a recorded layout has no '%s'", key);
        lua_pushinteger(L, value[i]);
        return 1;
    }
    near = suggest(key, keys);
    return luaL_error(L, "a batch has no '%s' (did you mean '%s'?)", key,
                      near != NULL ? near : keys[0]);
}

void api_check(const struct decl *d, const char *key, int rc,
               const struct err *e)
{
    if (rc == ERR_OK) return;
    if (rc == ERR_RUN) script_nomem(d->L);
    decl_fail(d, key, "%s", e->text);
}

/* ---- what C made and Lua frees -------------------------------------- */

void **api_box(lua_State *L)
{
    void **box = lua_newuserdatauv(L, sizeof *box, 0);

    *box = NULL;
    luaL_setmetatable(L, BOX);
    return box;
}

static int box_gc(lua_State *L)
{
    void **box = luaL_checkudata(L, 1, BOX);

    free(*box);
    *box = NULL;
    return 0;
}

/* ---- lengths and trees ---------------------------------------------- */

int64_t *api_ints(lua_State *L, int64_t n)
{
    return lua_newuserdatauv(L, (size_t)(n > 0 ? n : 1) * sizeof(int64_t), 0);
}

int64_t *api_list(const struct decl *d, const char *key, int index,
                  int64_t lo, int64_t hi, int64_t *n)
{
    lua_State *L = d->L;
    int t = lua_absindex(L, index);
    int64_t *v;

    *n = decl_list(d, key, t, API_MAX_SEGMENTS);
    script_charge(L, (uint64_t)*n);
    v = api_ints(L, *n);
    for (int64_t i = 0; i < *n; i++) {
        int exact;
        lua_rawgeti(L, t, i + 1);
        v[i] = lua_tointegerx(L, -1, &exact);
        if (lua_type(L, -1) != LUA_TNUMBER || !exact || v[i] < lo ||
            v[i] > hi)
            decl_fail(d, key, "item %" PRId64 " must be an integer from %"
                      PRId64 " to %" PRId64, i + 1, lo, hi);
        lua_pop(L, 1);
    }
    return v;
}

/* Opens a declaration whose keys are checked elsewhere (a plain list). */
static void open_list(struct decl *d, lua_State *L, const char *what)
{
    d->L = L;
    d->table = 1;
    strcpy(d->what, what);
    d->line = script_line(L, d->file);
}

/* batch.lengths{n, n, ...}: independent sequences. */
static int api_lengths(lua_State *L)
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
static int api_random(lua_State *L)
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

const char *api_file(const struct decl *d, const char *key)
{
    const char *name;

    if (decl_get(d, key) == LUA_TNIL) {
        lua_pop(d->L, 1);
        return NULL;
    }
    if (lua_type(d->L, -1) != LUA_TSTRING)
        decl_fail(d, key, "must be a file name, not a %s",
                  luaL_typename(d->L, -1));
    name = lua_tostring(d->L, -1);
    if (!find_file(d->L, name, "data", ".csv"))
        decl_fail(d, key, "no file '%s' (looked in %s and %s/data)", name,
                  script_of(d->L)->dir, script_of(d->L)->data_dir);
    lua_remove(d->L, -2);
    return lua_tostring(d->L, -1);
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
static int api_tree(lua_State *L)
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

/* ---- opening -------------------------------------------------------- */

void api_new_type(lua_State *L, const char *name, lua_CFunction gc,
                  lua_CFunction index)
{
    luaL_newmetatable(L, name);
    lua_pushcfunction(L, gc);
    lua_setfield(L, -2, "__gc");
    if (index != NULL) {
        lua_pushcfunction(L, index);
        lua_setfield(L, -2, "__index");
    }
    lua_pushstring(L, name);
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
}

void api_open(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"layout", api_layout}, {"lengths", api_lengths},
        {"pack", api_pack}, {"random", api_random},
        {"sequences", api_sequences}, {"tree", api_tree}, {NULL, NULL},
    };

    api_new_type(L, BATCH, batch_gc, batch_index);
    api_new_type(L, BOX, box_gc, NULL);
    api_open_sequences(L);
    api_open_csv(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    luaL_newlib(L, functions);
    lua_pushvalue(L, -1);
    lua_setglobal(L, "batch");
    lua_setfield(L, -2, "batch");       /* names functions in tracebacks */
    lua_pop(L, 1);
    lua_register(L, "estimator", api_estimator);
    lua_getglobal(L, "require");        /* of the package library, or nil */
    lua_pushcclosure(L, find_require, 1);
    lua_setglobal(L, "require");
    if (luaL_loadbufferx(L, api_prelude, api_prelude_len, GUARD_PRELUDE,
                         "t") != LUA_OK)
        lua_error(L);
    lua_call(L, 0, 0);
}
