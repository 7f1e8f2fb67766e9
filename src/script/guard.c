/* guard.c - see guard.h */
#include "script/guard.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#include "base/clean.h"
#include "script/api.h"
#include "script/state.h"

/* ---- charging ------------------------------------------------------- */

/* A guard is a closure over the original, which has no upvalues of its own
** and so may be called in our frame, with our arguments. */
static int original(lua_State *L)
{
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* Bytes of all string arguments. */
static uint64_t text_bytes(lua_State *L)
{
    uint64_t sum = 0;

    for (int i = 1; i <= lua_gettop(L); i++)
        if (lua_type(L, i) == LUA_TSTRING) sum += lua_rawlen(L, i);
    return sum;
}

/* Work in proportion to the text given. */
static int guard_linear(lua_State *L)
{
    script_charge(L, text_bytes(L) / 8);
    return original(L);
}

/* string.rep: n pieces, which may be empty. */
static int guard_rep(lua_State *L)
{
    lua_Integer n = luaL_checkinteger(L, 2);
    uint64_t piece = text_bytes(L);

    if (n > 0) {
        script_charge(L, (uint64_t)n);
        if (piece > 0 && (uint64_t)n > UINT64_MAX / piece)
            return luaL_error(L, "resulting string too large");
        script_charge(L, (uint64_t)n * piece / 8);
    }
    return original(L);
}

/* What a pattern is made of: loops (items that repeat, %b, %1) and choices
** (items with "?"). */
static void pattern_shape(const char *p, const char *end, int *loops,
                          int *choices)
{
    while (p < end) {
        if (*p == '%' && p + 1 < end) {
            *loops += p[1] == 'b' || (p[1] >= '0' && p[1] <= '9');
            p += 2;
        } else if (*p == '[') {
            p += p + 1 < end && p[1] == '^' ? 2 : 1;
            do {                        /* a first "]" stands for itself */
                p += *p == '%' ? 2 : 1;
            } while (p < end && *p != ']');
            p++;
        } else {
            p++;
        }
        if (p >= end) return;
        *loops += *p == '*' || *p == '+' || *p == '-';
        *choices += *p == '?';
    }
}

/*
** Lua's matcher backtracks: over a text of n bytes the k loops of a pattern
** end at places a <= ... <= z, one of C(n + k, k) choices, twice as many for
** every "?"; each is tried with at most the whole pattern. The place to start
** at is one more loop, unless the pattern is anchored.
*/
static void charge_pattern(lua_State *L, bool anchor)
{
    size_t n, length;
    const char *pattern;
    int loops, choices = 0;
    double work;

    luaL_checklstring(L, 1, &n);
    pattern = luaL_checklstring(L, 2, &length);
    loops = anchor && length > 0 && *pattern == '^' ? 0 : 1;
    pattern_shape(pattern, pattern + length, &loops, &choices);
    work = (double)length + 1;
    for (int i = 1; i <= loops && work < 1e18; i++)
        work *= ((double)n + i) / i;
    for (int i = 0; i < choices && work < 1e18; i++) work *= 2;
    script_charge(L, work < 1e18 ? (uint64_t)work : UINT64_MAX);
}

/* string.find, match, gsub. */
static int guard_pattern(lua_State *L)
{
    charge_pattern(L, true);
    return original(L);
}

/* To string.gmatch "^" is a letter like others. */
static int guard_gmatch(lua_State *L)
{
    charge_pattern(L, false);
    return original(L);
}

/* Functions over a list: its length, as they will ask for it. */
static int guard_list(lua_State *L)
{
    if (lua_istable(L, 1)) {
        lua_Integer n = luaL_len(L, 1);
        script_charge(L, n > 0 ? (uint64_t)n : 0);
    }
    return original(L);
}

/* table.concat and unpack: the range asked for, else the whole list. */
static int guard_range(lua_State *L, int first, int last)
{
    lua_Integer i, j;

    if (lua_isnoneornil(L, last)) return guard_list(L);
    i = luaL_optinteger(L, first, 1);
    j = luaL_checkinteger(L, last);
    script_charge(L, j > i ? (uint64_t)j - (uint64_t)i : 1);
    return original(L);
}

static int guard_concat(lua_State *L) { return guard_range(L, 3, 4); }
static int guard_unpack(lua_State *L) { return guard_range(L, 2, 3); }
static int guard_move(lua_State *L) { return guard_range(L, 2, 3); }

static int guard_insert(lua_State *L)
{
    return lua_gettop(L) == 2 ? original(L) : guard_list(L);
}

/* Where there is no function to compare by, each text is gone through as
** often as it is compared. */
static void charge_texts(lua_State *L, lua_Integer n)
{
    for (lua_Integer i = 1; i <= n; i++) {
        if (lua_geti(L, 1, i) == LUA_TSTRING)
            script_charge(L, (uint64_t)lua_rawlen(L, -1) * 16);
        lua_pop(L, 1);
    }
}

static int guard_sort(lua_State *L)
{
    if (lua_istable(L, 1)) {
        lua_Integer n = luaL_len(L, 1);
        script_charge(L, n > 0 ? (uint64_t)n * 16 : 0);
        if (lua_isnoneornil(L, 2)) charge_texts(L, n);
    }
    return original(L);
}

/* pcall: unwinding costs more than its instructions. */
static int guard_pcall(lua_State *L)
{
    script_charge(L, 100);
    return original(L);
}

/* ---- replacements --------------------------------------------------- */

/* A finalizer would run without hooks, and so without limits. */
static int guard_setmetatable(lua_State *L)
{
    if (lua_istable(L, 2)) {
        lua_pushliteral(L, "__gc");
        if (lua_rawget(L, 2) != LUA_TNIL)
            return luaL_error(L, "__gc is not available in scenarios");
        lua_pop(L, 1);
    }
    return original(L);
}

/* xpcall(f, handler, ...): the handler runs when f is unwound, not where it
** failed: a handler called by Lua for an error raised in our hook would run
** with hooks off, and so without limits. */
static int guard_xpcall(lua_State *L)
{
    int n = lua_gettop(L);

    luaL_checktype(L, 2, LUA_TFUNCTION);
    script_charge(L, 100);
    lua_pushboolean(L, 1);              /* handler, true, f, arguments */
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2);
    if (lua_pcall(L, n - 2, LUA_MULTRET, 0) == LUA_OK)
        return lua_gettop(L) - 2;
    lua_pushboolean(L, 0);              /* f, handler, true, error, false */
    lua_replace(L, 3);
    lua_pushvalue(L, 2);
    lua_insert(L, 4);
    (void)lua_pcall(L, 1, LUA_MULTRET, 0);  /* its own error is as good */
    return lua_gettop(L) - 2;
}

/* load(text, name, mode, env): mode is always "t". */
static int guard_load(lua_State *L)
{
    size_t n;
    const char *text, *name;

    if (lua_type(L, 1) != LUA_TSTRING)
        return luaL_error(L, "load takes a string in scenarios");
    text = lua_tolstring(L, 1, &n);
    name = luaL_optstring(L, 2, text);
    script_charge(L, n);
    if (luaL_loadbufferx(L, text, n, name, "t") != LUA_OK) {
        lua_pushnil(L);
        lua_insert(L, -2);
        return 2;
    }
    if (!lua_isnone(L, 4)) {
        lua_pushvalue(L, 4);
        if (lua_setupvalue(L, -2, 1) == NULL) lua_pop(L, 1);
    }
    return 1;
}

/* A terminal sees no control characters but tabs and the ends of lines. */
static void put_clean(lua_State *L, const char *text, size_t len)
{
    char *copy = lua_newuserdatauv(L, len + 1, 0);

    memcpy(copy, text, len);
    copy[len] = '\0';
    text_clean_lines(copy, len);
    fwrite(copy, 1, len, stderr);
    lua_pop(L, 1);
}

/* stdout belongs to the result. */
static int guard_print(lua_State *L)
{
    int n = lua_gettop(L);

    script_charge(L, 1000);
    for (int i = 1; i <= n; i++) {
        size_t len;
        const char *text = luaL_tolstring(L, i, &len);
        if (i > 1) fputc('\t', stderr);
        put_clean(L, text, len);
        lua_pop(L, 1);
    }
    fputc('\n', stderr);
    return 0;
}

/* ---- opening -------------------------------------------------------- */

static const struct guard {
    const char *library, *name;
    lua_CFunction function;         /* NULL: taken away, but where unsafe */
} guards[] = {
    {"_G", "collectgarbage", NULL},
    {"_G", "dofile", NULL},
    {"_G", "loadfile", NULL},
    {"_G", "warn", NULL},
    {"_G", "load", guard_load},
    {"_G", "pcall", guard_pcall},
    {"_G", "print", guard_print},
    {"_G", "setmetatable", guard_setmetatable},
    {"_G", "tonumber", guard_linear},
    {"_G", "xpcall", guard_xpcall},
    {"string", "dump", NULL},
    {"string", "byte", guard_linear},
    {"string", "find", guard_pattern},
    {"string", "format", guard_linear},
    {"string", "gmatch", guard_gmatch},
    {"string", "gsub", guard_pattern},
    {"string", "lower", guard_linear},
    {"string", "match", guard_pattern},
    {"string", "pack", guard_linear},
    {"string", "packsize", guard_linear},
    {"string", "rep", guard_rep},
    {"string", "reverse", guard_linear},
    {"string", "sub", guard_linear},
    {"string", "unpack", guard_linear},
    {"string", "upper", guard_linear},
    {"table", "concat", guard_concat},
    {"table", "insert", guard_insert},
    {"table", "move", guard_move},
    {"table", "remove", guard_list},
    {"table", "sort", guard_sort},
    {"table", "unpack", guard_unpack},
    {"utf8", "codepoint", guard_linear},
    {"utf8", "len", guard_linear},
    {"utf8", "offset", guard_linear},
};

/* Only what can neither reach files nor run unseen. */
static void open_safe(lua_State *L)
{
    static const luaL_Reg library[] = {
        {LUA_GNAME, luaopen_base},
        {LUA_STRLIBNAME, luaopen_string},
        {LUA_TABLIBNAME, luaopen_table},
        {LUA_MATHLIBNAME, luaopen_math},
        {LUA_UTF8LIBNAME, luaopen_utf8},
    };

    for (size_t i = 0; i < sizeof library / sizeof *library; i++) {
        luaL_requiref(L, library[i].name, library[i].func, 1);
        lua_pop(L, 1);
    }
}

/* Where unsafe, functions that do more than compute stay as they are. */
static bool stays(const struct guard *g)
{
    return g->function == NULL || g->function == guard_load ||
           g->function == guard_setmetatable;
}

static void set_guards(lua_State *L, bool unsafe)
{
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++) {
        const struct guard *g = &guards[i];
        int top = lua_gettop(L);
        if (unsafe && stays(g)) continue;
        lua_getglobal(L, g->library);
        if (g->function == NULL) {
            lua_pushnil(L);
        } else {
            lua_getfield(L, -1, g->name);
            lua_pushcclosure(L, g->function, 1);
        }
        lua_setfield(L, -2, g->name);
        lua_settop(L, top);
    }
}

int guard_open(lua_State *L)
{
    int top = lua_gettop(L);

    if (script_of(L)->unsafe) luaL_openlibs(L);
    else open_safe(L);
    set_guards(L, script_of(L)->unsafe);
    api_open(L);
    lua_settop(L, top);
    return 0;
}
