/*
** csv_rows.c - csv.rows: the rows of a CSV file as Lua tables.
*/
#include <inttypes.h>
#include <lauxlib.h>
#include <unistd.h>

#include "base/csv.h"
#include "script/api.h"
#include "script/find.h"

#define TABLE "peakproof.csv"
#define FILE_LIMIT ((size_t)16 << 20)
#define MAX_NAMES 64            /* of columns */
#define MAX_CELLS (INT64_C(1) << 20)

static int table_gc(lua_State *L)
{
    struct csv_table **t = luaL_checkudata(L, 1, TABLE);

    csv_table_free(*t);
    *t = NULL;
    return 0;
}

/* [-0, +1] The path that "file" names: where batch.sequences would look, else
** as it stands, from the folder in which the program was called. */
static const char *find_csv(const struct decl *d)
{
    lua_State *L = d->L;
    const char *name;

    decl_need(d, "file");
    if (decl_get(d, "file") != LUA_TSTRING)
        decl_fail(d, "file", "must be a file name, not a %s",
                  luaL_typename(L, -1));
    name = lua_tostring(L, -1);
    if (find_file(L, name, "data", ".csv")) {
        lua_remove(L, -2);
    } else if (*name != '\0' && access(name, R_OK) == 0) {
        find_note(L, name);
    } else {
        decl_fail(d, "file", "no file '%s' (looked in %s, in %s/data, and "
                  "here)", name, script_of(L)->dir, script_of(L)->data_dir);
    }
    return lua_tostring(L, -1);
}

/* [-0, +1] {column = text, ...}; empty cells are absent. */
static void push_row(lua_State *L, const struct csv_table *t, int64_t row)
{
    int64_t columns = csv_columns(t), i;

    script_charge(L, (uint64_t)columns);
    lua_createtable(L, 0, (int)columns);
    for (i = 0; i < columns; i++) {
        const char *cell = csv_cell(t, row, i);
        if (cell == NULL) continue;
        lua_pushstring(L, cell);
        lua_setfield(L, -2, csv_name(t, i));
    }
}

/* "columns", if it is there: the table has no others. */
static void check_columns(const struct decl *d, const struct csv_table *t)
{
    const char *name[MAX_NAMES + 1];
    lua_State *L = d->L;
    struct err e;
    int64_t n, i;

    if (!decl_table(d, "columns")) return;
    n = decl_list(d, "columns", -1, MAX_NAMES);
    for (i = 0; i < n; i++) {
        if (lua_rawgeti(L, -1, i + 1) != LUA_TSTRING)
            decl_fail(d, "columns", "must be a list of names");
        name[i] = lua_tostring(L, -1);      /* the list keeps it alive */
        lua_pop(L, 1);
    }
    name[n] = NULL;
    api_check(d, "file", csv_known(t, name, &e), &e);
    lua_pop(L, 1);
}

static const struct field row_fields[] = {
    {"columns", FIELD_OTHER, 0, 0, 0},
    {"file", FIELD_OTHER, 0, 0, 0},
    {NULL, FIELD_OTHER, 0, 0, 0},
};

/* csv.rows{file = F, columns = LIST}: the rows in order, and where each
** begins: two lists, and the path that was read. */
static int api_csv_rows(lua_State *L)
{
    struct decl d = DECL_INIT(L);
    struct csv_table **t;
    const char *path;
    struct err e;
    int64_t i, n;

    lua_settop(L, 1);
    decl_open(&d, L, 1, row_fields, "csv.rows");
    path = find_csv(&d);
    t = lua_newuserdatauv(L, sizeof *t, 0);
    *t = NULL;
    luaL_setmetatable(L, TABLE);
    api_check(&d, "file", csv_load(path, FILE_LIMIT, t, &e), &e);
    check_columns(&d, *t);
    n = csv_rows(*t);
    if (n > MAX_CELLS / csv_columns(*t))
        decl_fail(&d, "file", "%s has more than %" PRId64 " cells", path,
                  MAX_CELLS);
    lua_createtable(L, (int)n, 0);
    lua_createtable(L, (int)n, 0);
    for (i = 0; i < n; i++) {
        push_row(L, *t, i);
        lua_rawseti(L, -3, i + 1);
        lua_pushinteger(L, csv_line(*t, i));
        lua_rawseti(L, -2, i + 1);
    }
    csv_table_free(*t);
    *t = NULL;
    lua_pushstring(L, path);
    return 3;
}

void api_open_csv(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"rows", api_csv_rows}, {NULL, NULL},
    };

    api_new_type(L, TABLE, table_gc, NULL);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    luaL_newlib(L, functions);
    lua_pushvalue(L, -1);
    lua_setglobal(L, "csv");
    lua_setfield(L, -2, "csv");         /* names functions in tracebacks */
    lua_pop(L, 1);
}
