/* api.c - see api.h */
#include "script/api.h"

#include <inttypes.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "script/find.h"

#define BATCH "peakproof.batch"
#define BOX "peakproof.box"

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

/* ---- keys that hold lists and files --------------------------------- */

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

/* ---- types of values ------------------------------------------------ */

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

void api_open_types(lua_State *L)
{
    api_new_type(L, BATCH, batch_gc, batch_index);
    api_new_type(L, BOX, box_gc, NULL);
}
