/* open.c - the functions that a script can call, under their names */
#include <lauxlib.h>
#include <lualib.h>

#include "base/suggest.h"
#include "script/api.h"
#include "script/find.h"

#define SEED "peakproof.randomseed"     /* registry */

static const luaL_Reg functions[] = {
    {"layout", api_layout}, {"lengths", api_lengths},
    {"pack", api_pack}, {"random", api_random},
    {"sequences", api_sequences}, {"tree", api_tree}, {NULL, NULL},
};

/* batch.NAME where there is none: (batch, name). */
static int no_function(lua_State *L)
{
    const char *known[sizeof functions / sizeof *functions], *near;
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?";
    size_t i;

    for (i = 0; i < sizeof known / sizeof *known; i++)
        known[i] = functions[i].name;
    near = suggest(name, known);
    if (near == NULL)
        return luaL_error(L, "batch.%s: there is no such function (peakproof "
                          "help batch)", name);
    return luaL_error(L, "batch.%s: there is no such function (did you mean "
                      "batch.%s?)", name, near);
}

/* For api_reseed: the prelude puts another in its place, and so may a
** script. */
static void keep_randomseed(lua_State *L)
{
    lua_getglobal(L, LUA_MATHLIBNAME);
    lua_getfield(L, -1, "randomseed");
    lua_setfield(L, LUA_REGISTRYINDEX, SEED);
    lua_pop(L, 1);
}

void api_reseed(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, SEED);
    lua_pushinteger(L, 0);
    lua_call(L, 1, 0);
}

void api_open(lua_State *L)
{
    keep_randomseed(L);
    api_open_types(L);
    api_open_sequences(L);
    api_open_csv(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    luaL_newlib(L, functions);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, no_function);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_setglobal(L, "batch");
    lua_setfield(L, -2, "batch");       /* names functions in tracebacks */
    lua_pop(L, 1);
    lua_register(L, "estimator", api_estimator);
    lua_getglobal(L, "require");        /* of the package library, or nil */
    lua_pushcclosure(L, find_require, 1);
    lua_setglobal(L, "require");
    if (luaL_loadbufferx(L, api_prelude, api_prelude_len, SCRIPT_PRELUDE,
                         "t") != LUA_OK)
        lua_error(L);
    lua_call(L, 0, 0);
}
