/* decl.c - see decl.h */
#include "script/decl.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "base/suggest.h"

#define MAX_KEYS 48

/* ---- complaints ----------------------------------------------------- */

/* Text of a literal as the source would hold it; "" for other values. */
static void literal(lua_State *L, int index, char *out, size_t size)
{
    *out = '\0';
    if (lua_type(L, index) == LUA_TSTRING) {
        snprintf(out, size, "%s", lua_tostring(L, index));
    } else if (lua_isinteger(L, index)) {
        snprintf(out, size, "%" PRId64, (int64_t)lua_tointeger(L, index));
    } else if (lua_type(L, index) == LUA_TNUMBER) {
        snprintf(out, size, "%.14g", lua_tonumber(L, index));
    } else if (lua_isboolean(L, index)) {
        snprintf(out, size, "%s", lua_toboolean(L, index) ? "true" : "false");
    }
}

void decl_show(lua_State *L, int index, char *out, size_t size)
{
    char text[64];

    literal(L, index, text, sizeof text);
    if (lua_type(L, index) == LUA_TSTRING)
        snprintf(out, size, "'%s'%s", text,
                 lua_rawlen(L, index) >= sizeof text ? "..." : "");
    else if (*text != '\0')
        snprintf(out, size, "%s", text);
    else if (lua_isnil(L, index))
        snprintf(out, size, "nil");
    else
        snprintf(out, size, "a %s", luaL_typename(L, index));
}

/* "FILE:LINE: " of a key, or of the declaration. */
static void place(const struct decl *of, const char *key, char *out,
                  size_t size)
{
    struct decl near = *of, *d = &near;
    const struct script *s = script_of(d->L);
    const struct source_key *k = NULL;
    char value[64] = "";

    if (d->name != NULL) decl_near(d, "name", d->name);
    if (key != NULL) {
        if (lua_istable(d->L, d->table)) {      /* a complaint may be that
                                                   it is none */
            lua_pushstring(d->L, key);
            lua_rawget(d->L, d->table);
            literal(d->L, -1, value, sizeof value);
            lua_pop(d->L, 1);
        }
        k = source_find(&s->source, key, value, d->file, d->line);
    }
    if (k != NULL)
        snprintf(out, size, "%s:%d: ", k->file, k->line);
    else if (d->line > 0)
        snprintf(out, size, "%s:%d: ", d->file, d->line);
    else
        snprintf(out, size, "%s: ", s->chunk);
}

/* Raises "FILE:LINE: WHAT: KEY: text"; the line is that of the key at, or the
** table's origin. */
static _Noreturn void complain(const struct decl *d, const char *at,
                               const char *key, const char *text)
{
    char where[LUA_IDSIZE + 300];

    if (d->origin == NULL) place(d, at, where, sizeof where);
    else lua_pushfstring(d->L, "%s: ", d->origin);
    lua_pushfstring(d->L, "%s%s%s%s%s%s", d->origin == NULL ? where
                    : lua_tostring(d->L, -1), d->what,
                    *d->what != '\0' ? ": " : "", key != NULL ? key : "",
                    key != NULL ? ": " : "", text);
    lua_error(d->L);
    abort();                /* not reached: lua_error does not return */
}

void decl_fail(const struct decl *d, const char *key, const char *fmt, ...)
{
    char text[600];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    complain(d, key, key, text);
}

static _Noreturn void bad_type(const struct decl *d, const char *key,
                               int index, const char *wanted)
{
    char shown[96];

    decl_show(d->L, index, shown, sizeof shown);
    decl_fail(d, key, "must be %s, not %s", wanted, shown);
}

/* ---- opening -------------------------------------------------------- */

/* Appends the words of a NULL-terminated list, as many as fit. */
static void list_words(char *out, size_t size, const char *const *words)
{
    size_t n = strlen(out);

    for (; *words != NULL && n + strlen(*words) + 3 < size; words++)
        n += (size_t)snprintf(out + n, size - n, " %s", *words);
    snprintf(out + n, size - n, ")");
}

/* "unknown value 'x'", with the nearest word of the list, or all that fit. */
static void unknown(char *out, size_t size, const char *what,
                    const char *word, const char *const *known)
{
    const char *near = suggest(word, known);

    if (near != NULL) {
        snprintf(out, size, "unknown %s '%.64s' (did you mean '%s'?)", what,
                 word, near);
        return;
    }
    snprintf(out, size, "unknown %s '%.64s' (known:", what, word);
    list_words(out, size, known);
}

void decl_bad_word(const struct decl *d, const char *key, const char *word,
                   const char *const *known)
{
    char text[600];

    unknown(text, sizeof text, "value", word, known);
    complain(d, key, key, text);
}

/* The first unknown key in the alphabet, so that the complaint does not
** depend on the order in which Lua holds keys. */
static _Noreturn void unknown_key(const struct decl *d, const char *key,
                                  const char *const *known)
{
    char text[600];

    unknown(text, sizeof text, "key", key, known);
    complain(d, key, NULL, text);
}

static bool is_known(const char *const *known, const char *key)
{
    for (; *known != NULL; known++)
        if (strcmp(*known, key) == 0) return true;
    return false;
}

/* The item at -1, with its key below it; a text where a file is known. */
static void no_item(const struct decl *d, const char *const *known)
{
    lua_State *L = d->L;
    char key[96], value[96];
    bool file = lua_type(L, -1) == LUA_TSTRING && is_known(known, "file");

    decl_show(L, -1, value, sizeof value);
    decl_show(L, -2, key, sizeof key);
    decl_fail(d, NULL, "has an item at %s, but takes only named keys%s%s%s",
              key, file ? " (file = " : "", file ? value : "",
              file ? "?)" : "");
}

static void check_keys(const struct decl *d, const char *const *known)
{
    lua_State *L = d->L;
    const char *bad = NULL;

    lua_pushnil(L);
    while (lua_next(L, d->table) != 0) {
        if (lua_type(L, -2) != LUA_TSTRING) no_item(d, known);
        lua_pop(L, 1);
        const char *key = lua_tostring(L, -1);
        if (!is_known(known, key) && (bad == NULL || strcmp(key, bad) < 0))
            bad = key;                  /* the table keeps it alive */
    }
    if (bad != NULL) unknown_key(d, bad, known);
}

void decl_open(struct decl *d, lua_State *L, int index,
               const struct field *fields, const char *fmt, ...)
{
    const char *known[MAX_KEYS + 1];
    size_t n = 0;
    va_list ap;

    assert(fields != NULL);
    luaL_checkstack(L, 10, "nested too deep");
    d->L = L;
    d->table = lua_absindex(L, index);
    va_start(ap, fmt);
    vsnprintf(d->what, sizeof d->what, fmt, ap);
    va_end(ap);
    if (d->line == 0) d->line = script_line(L, d->file);
    if (!lua_istable(L, index)) {
        char shown[96];
        decl_show(L, index, shown, sizeof shown);
        for (; fields[n].key != NULL; n++)
            if (strcmp(fields[n].key, "file") == 0 &&
                strncmp(d->what, "batch.", 6) == 0 &&
                lua_type(L, index) == LUA_TSTRING)
                decl_fail(d, NULL, "must be a table, not %s (write %s{file = "
                          "%s})", shown, d->what, shown);
        decl_fail(d, NULL, "must be a table, not %s", shown);
    }
    if (lua_getmetatable(L, index))
        decl_fail(d, NULL, "must be a plain table, without a metatable");
    for (; fields[n].key != NULL && n < MAX_KEYS; n++)
        known[n] = fields[n].key;
    known[n] = NULL;
    check_keys(d, known);
}

void decl_near(struct decl *d, const char *key, const char *value)
{
    const struct source_key *k =
        source_find(&script_of(d->L)->source, key, value, NULL, 0);

    if (k == NULL) return;
    snprintf(d->file, sizeof d->file, "%s", k->file);
    d->line = k->line;
}

/* ---- values --------------------------------------------------------- */

int decl_get(const struct decl *d, const char *key)
{
    lua_pushstring(d->L, key);
    return lua_rawget(d->L, d->table);
}

bool decl_has(const struct decl *d, const char *key)
{
    bool has = decl_get(d, key) != LUA_TNIL;

    lua_pop(d->L, 1);
    return has;
}

void decl_need(const struct decl *d, const char *key)
{
    if (!decl_has(d, key)) decl_fail(d, NULL, "'%s' is missing", key);
}

/* The integer at index; d and key only name it. */
static int64_t to_int(const struct decl *d, const char *key, int index,
                      int64_t lo, int64_t hi)
{
    int exact;
    int64_t v = lua_tointegerx(d->L, index, &exact);

    if (lua_type(d->L, index) != LUA_TNUMBER || !exact)
        bad_type(d, key, index, "an integer");
    if (v < lo || v > hi)
        decl_fail(d, key, "must be from %" PRId64 " to %" PRId64 ", not %"
                  PRId64, lo, hi, v);
    return v;
}

bool decl_int(const struct decl *d, const char *key, int64_t lo, int64_t hi,
              int64_t *out)
{
    bool has = decl_get(d, key) != LUA_TNIL;

    if (has) *out = to_int(d, key, -1, lo, hi);
    lua_pop(d->L, 1);
    return has;
}

static bool decl_number(const struct decl *d, const char *key, double lo,
                        double hi, double *out)
{
    bool has = decl_get(d, key) != LUA_TNIL;

    if (has) {
        double v = lua_tonumber(d->L, -1);
        if (lua_type(d->L, -1) != LUA_TNUMBER)
            bad_type(d, key, -1, "a number");
        if (isnan(v)) decl_fail(d, key, "must be a number, not nan");
        if (v < lo || v > hi)
            decl_fail(d, key, "must be from %g to %g, not %g", lo, hi, v);
        *out = v;
    }
    lua_pop(d->L, 1);
    return has;
}

bool decl_flag(const struct decl *d, const char *key, bool *out)
{
    bool has = decl_get(d, key) != LUA_TNIL;

    if (has && !lua_isboolean(d->L, -1))
        bad_type(d, key, -1, "true or false");
    if (has) *out = lua_toboolean(d->L, -1) != 0;
    lua_pop(d->L, 1);
    return has;
}

/* The text at -1, which holds no control characters: it ends up in CSV
** files and messages of one line. Of a path only its last name does. */
static const char *to_text(const struct decl *d, const char *key, bool path)
{
    const char *text, *name;
    size_t n;

    if (lua_type(d->L, -1) != LUA_TSTRING) bad_type(d, key, -1, "a string");
    text = lua_tolstring(d->L, -1, &n);
    if (n == 0) decl_fail(d, key, "must not be empty");
    name = path && strrchr(text, '/') != NULL ? strrchr(text, '/') : text;
    if (text_plain(name, strlen(name)) < n - (size_t)(name - text))
        decl_fail(d, key, "must not hold control characters");
    return text;
}

bool decl_text(const struct decl *d, const char *key, char **out)
{
    bool has = decl_get(d, key) != LUA_TNIL;

    if (has) script_dup(d->L, out, to_text(d, key, false));
    lua_pop(d->L, 1);
    return has;
}

bool decl_path(const struct decl *d, const char *key, char **out)
{
    bool has = decl_get(d, key) != LUA_TNIL;

    if (has) script_dup(d->L, out, to_text(d, key, true));
    lua_pop(d->L, 1);
    return has;
}

bool decl_word(const struct decl *d, const char *key,
               const char *const *words, int *out)
{
    bool has = decl_get(d, key) != LUA_TNIL;

    if (has) {
        const char *text = to_text(d, key, false);
        int i = 0;
        while (words[i] != NULL && strcmp(words[i], text) != 0) i++;
        if (words[i] == NULL) decl_bad_word(d, key, text, words);
        *out = i;
    }
    lua_pop(d->L, 1);
    return has;
}

bool decl_table(const struct decl *d, const char *key)
{
    int type = decl_get(d, key);

    if (type == LUA_TTABLE) return true;
    if (type != LUA_TNIL) bad_type(d, key, -1, "a table");
    lua_pop(d->L, 1);
    return false;
}

int64_t decl_list(const struct decl *d, const char *key, int index,
                  int64_t max)
{
    lua_State *L = d->L;
    int t = lua_absindex(L, index);
    uint64_t n, count = 0;

    assert(max >= 0);
    if (!lua_istable(L, t)) bad_type(d, key, t, "a list");
    n = lua_rawlen(L, t);
    for (lua_pushnil(L); lua_next(L, t) != 0; lua_pop(L, 1)) {
        char shown[96];
        int64_t i = lua_isinteger(L, -2) ? lua_tointeger(L, -2) : 0;
        count++;
        if (i >= 1 && (uint64_t)i <= n) continue;
        decl_show(L, -2, shown, sizeof shown);
        decl_fail(d, key, "must be a list, but has the key %s", shown);
    }
    if (count != n) decl_fail(d, key, "must be a list without holes");
    if (n > (uint64_t)max)
        decl_fail(d, key, "has %" PRIu64 " items, at most %" PRId64
                  " are possible", n, max);
    return (int64_t)n;
}

void *decl_alloc(lua_State *L, int64_t n, size_t size)
{
    void *p;

    assert(n >= 0 && size > 0);
    script_hold(L, (uint64_t)n * size);
    p = calloc(n > 0 ? (size_t)n : 1, size);
    if (p == NULL) script_nomem(L);
    return p;
}

void decl_fields(const struct decl *d, const struct field *fields, void *base)
{
    for (; fields->key != NULL; fields++) {
        char *at = (char *)base + fields->offset;
        switch (fields->type) {
        case FIELD_INT:
            decl_int(d, fields->key, fields->lo, fields->hi, (void *)at);
            break;
        case FIELD_NUMBER:
            decl_number(d, fields->key, (double)fields->lo,
                        (double)fields->hi, (void *)at);
            break;
        case FIELD_FLAG:
            decl_flag(d, fields->key, (void *)at);
            break;
        case FIELD_TEXT:
            decl_text(d, fields->key, (void *)at);
            break;
        case FIELD_OTHER:
            break;
        }
    }
}
