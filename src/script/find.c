/* find.c - see find.h */
#include "script/find.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clean.h"
#include "base/file.h"
#include "base/suggest.h"

#define FILE_LIMIT ((size_t)16 << 20)
#define LOADED "peakproof.loaded"
#define FOUND "peakproof.found"

/* ---- files ---------------------------------------------------------- */

/* A name that is looked for, and the suffix that may follow it. */
struct look { const char *name, *suffix; bool folders; };

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Pushes dir/folder/name+suffix, parts that are "" left out, if that can be
** read. */
static bool try_path(lua_State *L, const char *dir, const char *folder,
                     const struct look *l, const char *suffix)
{
    const char *path =
        lua_pushfstring(L, "%s%s%s%s%s%s", dir, *dir != '\0' ? "/" : "",
                        folder, *folder != '\0' ? "/" : "", l->name, suffix);

    if (access(path, R_OK) == 0 && (l->folders || !is_folder(path)))
        return true;
    lua_pop(L, 1);
    return false;
}

void find_note(lua_State *L, const char *path)
{
    struct buf *found = &script_of(L)->found;

    luaL_getsubtable(L, LUA_REGISTRYINDEX, FOUND);
    if (lua_getfield(L, -1, path) == LUA_TNIL) {
        if (script_of(L)->closed)
            luaL_error(L, "%s: price() may not be the first to read a file, "
                       "or --resume would not know it (read it where the "
                       "estimator is declared)", path);
        lua_pushboolean(L, 1);
        lua_setfield(L, -3, path);
        buf_put(found, path, strlen(path) + 1);
        if (found->failed) script_nomem(L);
    }
    lua_pop(L, 2);
}

static bool try_both(lua_State *L, const char *dir, const char *folder,
                     const struct look *l)
{
    if (try_path(L, dir, folder, l, "")) return true;
    return *l->suffix != '\0' && try_path(L, dir, folder, l, l->suffix);
}

static bool try_all(lua_State *L, const char *folder, const struct look *l)
{
    const struct script *s = script_of(L);
    const char *dir = strcmp(s->dir, ".") == 0 ? "" : s->dir;

    if (*l->name == '/') return try_both(L, "", "", l);
    return try_both(L, dir, "", l) || try_both(L, s->data_dir, folder, l);
}

bool find_file(lua_State *L, const char *name, const char *folder,
               const char *suffix)
{
    struct look l = {name, suffix, *suffix == '\0'};
    bool found;

    if (*name == '\0') return false;
    found = try_all(L, folder, &l);
    if (!found && !l.folders) {
        l.folders = true;
        found = try_all(L, folder, &l);
    }
    if (found) find_note(L, lua_tostring(L, -1));
    return found;
}

void find_nearest(lua_State *L, const char *name, const char *folder,
                  const char *suffix, char *out, size_t size)
{
    const struct script *s = script_of(L);

    suggest_file(lua_pushfstring(L, "%s/%s", s->data_dir, folder), name,
                 suffix, out, size);
    lua_pop(L, 1);
}

/* ---- chunks --------------------------------------------------------- */

struct text { const char *chunk; const struct buf *bytes; };

/* Compiles a struct text (light userdata at 1) and returns the function. */
static int compile(lua_State *L)
{
    const struct text *t = lua_touserdata(L, 1);
    const char *p = buf_text(t->bytes);
    size_t n = t->bytes->len, mark = text_mark(p, n);

    p += mark;
    n -= mark;
    if (n > 0 && *p == '#') {           /* #!: keep the line's end */
        size_t line = strcspn(p, "\n");
        p += line;
        n -= line;
    }
    if (!source_add(&script_of(L)->source, t->chunk, p, n)) script_nomem(L);
    /* "=": shown as it is; "@": shown by its last bytes, if too long */
    lua_pushfstring(L, strlen(t->chunk) < LUA_IDSIZE - 1 ? "=%s" : "@%s",
                    t->chunk);
    if (luaL_loadbufferx(L, p, n, lua_tostring(L, -1), "t") != LUA_OK)
        return lua_error(L);
    return 1;
}

int find_load(struct script *s, const char *path, const char *chunk,
              struct err *e)
{
    struct text t = {chunk, &s->text};
    int rc = file_read(path, FILE_LIMIT, &s->text, e);

    if (rc == ERR_OK) rc = script_protect(s, compile, &t, 0, 1, e);
    buf_free(&s->text);
    return rc;
}

/* ---- require -------------------------------------------------------- */

/* "a.b-c" to "a/b-c"; false when a part is empty or has other characters. */
static bool module_path(const char *name, char *out, size_t size)
{
    size_t i;

    for (i = 0; name[i] != '\0'; i++) {
        bool word = isalnum((unsigned char)name[i]) || name[i] == '_' ||
                    name[i] == '-';
        bool dot = name[i] == '.' && i > 0 && name[i - 1] != '.';
        if (i + 1 == size || (!word && !dot)) return false;
        out[i] = name[i] == '.' ? '/' : name[i];
    }
    out[i] = '\0';
    return i > 0 && out[i - 1] != '/';
}

/* Pushes the module in this file as a function. An error in between leaves the
** text to the script: a finalizer of Lua's needs memory itself. */
static void load_module(lua_State *L, const char *path)
{
    struct script *s = script_of(L);
    struct text t = {path, &s->text};
    struct err e;

    lua_pushcfunction(L, compile);
    lua_pushlightuserdata(L, &t);
    buf_free(&s->text);
    if (file_read(path, FILE_LIMIT, &s->text, &e) != ERR_OK) {
        if (e.code == ERR_RUN) script_nomem(L);
        luaL_error(L, "%s", e.text);
    }
    lua_call(L, 1, 1);
    buf_free(&s->text);
}

/* Pushes the table of modules that have been loaded. */
static void push_loaded(lua_State *L)
{
    if (lua_getfield(L, LUA_REGISTRYINDEX, LOADED) != LUA_TNIL) return;
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, LOADED);
}

/* What the package library, there when unsafe, makes of it. */
static int require_package(lua_State *L, const char *name)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushstring(L, name);
    lua_call(L, 1, 1);
    return 1;
}

/* Runs the module in file; its value is left on the stack. */
static void run_module(lua_State *L, const char *name, const char *file)
{
    push_loaded(L);
    lua_pushboolean(L, 0);              /* being loaded */
    lua_setfield(L, -2, name);
    load_module(L, file);
    lua_pushstring(L, name);
    lua_call(L, 1, 1);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_pushboolean(L, 1);
    }
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, name);
    lua_remove(L, -2);
}

int find_require(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    char file[200];

    lua_settop(L, 1);
    push_loaded(L);
    if (lua_getfield(L, 2, name) == LUA_TBOOLEAN && !lua_toboolean(L, -1))
        return luaL_error(L, "require: module '%s' requires itself", name);
    if (!lua_isnil(L, -1)) return 1;
    if (!module_path(name, file, sizeof file))
        return luaL_error(L, "require: bad module name '%s' (letters, "
                          "digits, _ - and dots)", name);
    if (!find_file(L, file, "", ".lua")) {
        if (!lua_isnil(L, lua_upvalueindex(1)))
            return require_package(L, name);
        return luaL_error(L, "require: no module '%s' (no %s.lua in %s and "
                          "%s)", name, file, script_of(L)->dir,
                          script_of(L)->data_dir);
    }
    run_module(L, name, lua_tostring(L, -1));
    return 1;
}
