/* option.c - the options of a scenario: declared, set, handed to cases() */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/suggest.h"
#include "script/read.h"

#define MAX_OPTIONS 64
#define MAX_VALUES 32

enum type { INT, NUMBER, STRING, BOOLEAN };
static const char *const type_name[] = {
    "int", "number", "string", "boolean", NULL,
};
static const char *const type_phrase[] = {
    "an integer", "a number", "a string", "true or false",
};

static const struct field option_fields[] = {
    {"default", FIELD_OTHER, 0, 0, 0},
    {"help", FIELD_TEXT, offsetof(struct scenario_option, help), 0, 0},
    {"max", FIELD_OTHER, 0, 0, 0},
    {"min", FIELD_OTHER, 0, 0, 0},
    {"type", FIELD_OTHER, 0, 0, 0},
    {"values", FIELD_OTHER, 0, 0, 0},
    {NULL, FIELD_OTHER, 0, 0, 0},
};

/* ---- values --------------------------------------------------------- */

/* Whether the value at index has the type. */
static bool has_type(lua_State *L, int index, enum type t)
{
    int exact;

    switch (t) {
    case INT:
        lua_tointegerx(L, index, &exact);
        return lua_type(L, index) == LUA_TNUMBER && exact;
    case NUMBER:
        return lua_type(L, index) == LUA_TNUMBER &&
               isfinite(lua_tonumber(L, index));
    case STRING:
        return lua_type(L, index) == LUA_TSTRING;
    default:
        return lua_isboolean(L, index);
    }
}

/* [-0, +1] Pushes the printed form of a value that has the type. */
static const char *push_shown(lua_State *L, int index, enum type t)
{
    double x = t == NUMBER ? lua_tonumber(L, index) : 0;
    char out[40];

    if (t == STRING) return lua_pushstring(L, lua_tostring(L, index));
    if (t == BOOLEAN)
        return lua_pushstring(L, lua_toboolean(L, index) ? "true" : "false");
    if (t == INT)
        snprintf(out, sizeof out, "%" PRId64,
                 (int64_t)lua_tointeger(L, index));
    else
        snprintf(out, sizeof out, "%.15g", x);
    if (t == NUMBER && (strtod(out, NULL) < x || strtod(out, NULL) > x))
        snprintf(out, sizeof out, "%.17g", x);
    return lua_pushstring(L, out);
}

/* [-0, +1] Pushes the n values of the list at -1 as one text: "a, b, c", with
** last before the last. */
static const char *push_values(lua_State *L, int64_t n, enum type t,
                               const char *last)
{
    int list = lua_absindex(L, -1);
    luaL_Buffer b;

    luaL_buffinit(L, &b);
    for (int64_t i = 1; i <= n; i++) {
        if (i > 1) luaL_addstring(&b, i == n ? last : ", ");
        lua_rawgeti(L, list, i);
        push_shown(L, -1, t);
        lua_remove(L, -2);
        luaL_addvalue(&b);
    }
    luaL_pushresult(&b);
    return lua_tostring(L, -1);
}

/* Pushes the text of a setting as a value of the type, or nothing. */
static bool push_setting(lua_State *L, const char *text, enum type t)
{
    int64_t i;
    double x;

    if (t == INT && num_parse(text, INT64_MIN, INT64_MAX, &i))
        lua_pushinteger(L, i);
    else if (t == NUMBER && num_parse_double(text, &x))
        lua_pushnumber(L, x);
    else if (t == STRING)
        lua_pushstring(L, text);
    else if (t == BOOLEAN && strcmp(text, "true") == 0)
        lua_pushboolean(L, 1);
    else if (t == BOOLEAN && strcmp(text, "false") == 0)
        lua_pushboolean(L, 0);
    else
        return false;
    return true;
}

/* ---- bounds --------------------------------------------------------- */

/* A bound at -1 must fit the type; the value at index is on its side. */
static void check_bound(const struct decl *d, const char *key, enum type t,
                        int value, const char *at)
{
    lua_State *L = d->L;
    bool low = strcmp(key, "min") == 0;

    if (decl_get(d, key) != LUA_TNIL) {
        if ((t != INT && t != NUMBER) || !has_type(L, -1, t))
            decl_fail(d, key, t == INT || t == NUMBER ? "must be %s"
                      : "goes with numbers only, not %s", type_phrase[t]);
        if (lua_compare(L, low ? value : -1, low ? -1 : value, LUA_OPLT)) {
            const char *bound = push_shown(L, -1, t);
            decl_fail(d, at, "must be at %s %s, not %s",
                      low ? "least" : "most", bound, push_shown(L, value, t));
        }
    }
    lua_pop(L, 1);
}

/* The value at index must be one of "values". */
static void check_values(const struct decl *d, enum type t, int value,
                         const char *at)
{
    lua_State *L = d->L;
    bool found = false;

    if (!decl_table(d, "values")) return;
    int64_t n = decl_list(d, "values", -1, MAX_VALUES);
    for (int64_t i = 1; i <= n; i++) {
        lua_rawgeti(L, -1, i);
        if (!has_type(L, -1, t))
            decl_fail(d, "values", "item %" PRId64 " must be %s", i,
                      type_phrase[t]);
        found = found || lua_compare(L, value, -1, LUA_OPEQ);
        lua_pop(L, 1);
    }
    if (!found) {
        const char *all = push_values(L, n, t, ", ");
        decl_fail(d, at, "must be one of %s, not %s", all,
                  push_shown(L, value, t));
    }
    lua_pop(L, 1);
}

/* The value on top, found under the key at (NULL: set from outside). */
static void check_value(const struct decl *d, enum type t, const char *at)
{
    int value = lua_gettop(d->L);

    check_bound(d, "min", t, value, at);
    check_bound(d, "max", t, value, at);
    check_values(d, t, value, at);
}

/* ---- one option ----------------------------------------------------- */

static enum type read_type(const struct decl *d)
{
    lua_State *L = d->L;
    int t;

    if (decl_word(d, "type", type_name, &t)) return (enum type)t;
    decl_get(d, "default");
    /* 1.0 is a number, though it has an integer's value */
    for (t = INT; t < BOOLEAN; t++)
        if (has_type(L, -1, (enum type)t) &&
            (t != INT || lua_isinteger(L, -1))) break;
    lua_pop(L, 1);
    return (enum type)t;
}

/* What a reader of the list may set it to. */
static void describe(const struct decl *d, enum type t,
                     struct scenario_option *o)
{
    lua_State *L = d->L;
    int top = lua_gettop(L);
    const char *low = NULL, *high = NULL;

    if (decl_table(d, "values")) {
        script_dup(L, &o->allowed,
                   push_values(L, (int64_t)lua_rawlen(L, -1), t, " or "));
    } else {
        if (decl_get(d, "min") != LUA_TNIL) low = push_shown(L, -1, t);
        if (decl_get(d, "max") != LUA_TNIL) high = push_shown(L, -1, t);
        if (low != NULL && high != NULL)
            lua_pushfstring(L, "%s to %s", low, high);
        else if (low != NULL || high != NULL)
            lua_pushfstring(L, low != NULL ? "at least %s" : "at most %s",
                            low != NULL ? low : high);
        if (low != NULL || high != NULL)
            script_dup(L, &o->allowed, lua_tostring(L, -1));
    }
    lua_settop(L, top);
}

/* The text behind "name=" of the last setting of that name. */
static const char *find_setting(const struct read *r, const char *name)
{
    size_t n = strlen(name);

    for (int i = r->n_setting - 1; i >= 0; i--)
        if (strncmp(r->setting[i], name, n) == 0 && r->setting[i][n] == '=')
            return r->setting[i] + n + 1;
    return NULL;
}

/* [-0, +1] Pushes the option's value: as set, else its default. */
static void choose_value(const struct decl *d, enum type t, struct read *r,
                         struct scenario_option *o)
{
    const char *setting = find_setting(r, o->name);
    char not[80];

    decl_get(d, "default");
    if (!has_type(d->L, -1, t)) {
        decl_show(d->L, -1, not, sizeof not);
        decl_fail(d, "default", "must be %s, not %s", type_phrase[t], not);
    }
    check_value(d, t, "default");
    script_dup(d->L, &o->default_value, push_shown(d->L, -1, t));
    lua_pop(d->L, 1);
    script_dup(d->L, &o->value, setting != NULL ? setting : o->default_value);
    if (setting == NULL) return;
    lua_pop(d->L, 1);
    r->usage = true;
    if (!push_setting(d->L, setting, t))
        decl_fail(d, NULL, "must be %s, not '%s'", type_phrase[t], setting);
    check_value(d, t, NULL);
    r->usage = false;
}

/* The declaration is on top; its value goes into the table at opt. */
static void read_option(lua_State *L, struct read *r, const char *name,
                        int opt)
{
    struct scenario_option *o = &r->out->option[r->out->n_option];
    struct decl d = DECL_INIT(L);
    enum type t;

    r->out->n_option++;
    script_dup(L, &o->name, name);
    decl_near(&d, name, "");
    decl_open(&d, L, -1, option_fields, "option '%.64s'", name);
    decl_fields(&d, option_fields, o);
    decl_need(&d, "default");
    t = read_type(&d);
    script_dup(L, &o->type, type_name[t]);
    describe(&d, t, o);
    choose_value(&d, t, r, o);
    lua_setfield(L, opt, name);
}

/* ---- all options ---------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_name(const char *s)
{
    return *s != '\0' && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNO"
                                   "PQRSTUVWXYZ0123456789_-") == strlen(s);
}

/* Names of the table on top, in order; the table keeps them alive. */
static int64_t list_names(const struct decl *top, const char **names)
{
    lua_State *L = top->L;
    int64_t n = 0;

    for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING || !is_name(lua_tostring(L, -2)))
            decl_fail(top, "options", "must have names of letters, digits, _ "
                      "and - as keys");
        if (n == MAX_OPTIONS)
            decl_fail(top, "options", "has more than %d options",
                      MAX_OPTIONS);
        names[n++] = lua_tostring(L, -2);
    }
    qsort(names, (size_t)n, sizeof *names, compare_names);
    names[n] = NULL;
    return n;
}

/* Every setting must be of an option. */
static void check_settings(lua_State *L, struct read *r,
                           const char *const *names)
{
    for (int i = 0; i < r->n_setting; i++) {
        size_t n = strcspn(r->setting[i], "="), k = 0;
        const char *name = lua_pushlstring(L, r->setting[i], n), *near;
        while (names[k] != NULL && strcmp(names[k], name) != 0) k++;
        if (names[k] != NULL && r->setting[i][n] == '=') {
            lua_pop(L, 1);
            continue;
        }
        r->usage = true;
        near = suggest(name, names);
        if (names[k] != NULL)
            luaL_error(L, "'%s' is no setting (as in %s=value)",
                       r->setting[i], name);
        else if (near != NULL)
            luaL_error(L, "unknown option '%s' (did you mean '%s'?)", name,
                       near);
        else
            luaL_error(L, "unknown option '%s' (peakproof list %s shows "
                       "them)", name, script_of(L)->path);
    }
}

/* opt.name for a name that is no option; upvalue 1 is "options". */
static int no_option(lua_State *L)
{
    const char *key = luaL_tolstring(L, 2, NULL), *near;
    const char *names[MAX_OPTIONS + 1];
    int64_t n = 0;

    lua_pushvalue(L, lua_upvalueindex(1));
    for (lua_pushnil(L); lua_next(L, -2) != 0 && n < MAX_OPTIONS;
         lua_pop(L, 1))
        names[n++] = lua_tostring(L, -2);
    qsort(names, (size_t)n, sizeof *names, compare_names);
    names[n] = NULL;
    near = suggest(key, names);
    if (near != NULL)
        return luaL_error(L, "no option '%s' (did you mean '%s'?)", key,
                          near);
    return luaL_error(L, "no option '%s'", key);
}

void read_options(const struct decl *top, struct read *r)
{
    lua_State *L = top->L;
    const char *names[MAX_OPTIONS + 1] = {NULL};
    int64_t n;
    int opt;

    lua_newtable(L);
    opt = lua_gettop(L);
    if (!decl_table(top, "options")) lua_newtable(L);
    n = list_names(top, names);
    check_settings(L, r, names);
    r->out->option = decl_alloc(L, n, sizeof *r->out->option);
    for (int64_t i = 0; i < n; i++) {
        lua_getfield(L, -1, names[i]);
        read_option(L, r, names[i], opt);
        lua_pop(L, 1);
    }
    lua_createtable(L, 0, 2);
    lua_rotate(L, -2, 1);
    lua_pushcclosure(L, no_option, 1);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, opt);
}
