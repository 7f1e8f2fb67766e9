/* estimator.c - estimators written in Lua; see scenario.h */
#include "script/estimator.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "base/num.h"
#include "script/api.h"
#include "script/facts.h"

#define LIST "peakproof.estimators"     /* registry: {{name=, price=}, ...} */
#define MAX_ESTIMATORS 64
/* 9 PB: sums and differences of what stands in records fit 64 bits. */
#define MOST_BYTES (INT64_C(1) << 53)

struct scenario_estimators {
    struct script *script;
    int64_t n;
    char **name;            /* [n] owned */
};

/* ---- declaring ------------------------------------------------------ */

static const struct field estimator_fields[] = {
    {"name", FIELD_OTHER, 0, 0, 0},
    {"price", FIELD_OTHER, 0, 0, 0},
    {NULL, FIELD_OTHER, 0, 0, 0},
};

/* Names become cells of CSV files and columns: what would break those is
** refused. */
static void check_name(const struct decl *d, const char *name, int list)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRS"
                               "TUVWXYZ0123456789._+-";
    static const char *const taken[] = {
        "peak", "mirror", "executor",
    };
    lua_State *L = d->L;

    if (*name == '\0' || strlen(name) > 63 ||
        strspn(name, good) != lua_rawlen(L, -1))
        decl_fail(d, "name", "may hold 1 to 63 letters, digits and ._+-");
    if (*name == '+' || *name == '-')
        decl_fail(d, "name", "must not begin with + or - (a table program "
                  "takes such a cell for a formula)");
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (price_find(name) != NULL || strcmp(name, taken[i]) == 0)
            decl_fail(d, "name", "'%s' is taken by the program", name);
    for (lua_Unsigned i = 1; i <= lua_rawlen(L, list); i++) {
        lua_rawgeti(L, list, (lua_Integer)i);
        lua_getfield(L, -1, "name");
        if (strcmp(lua_tostring(L, -1), name) == 0)
            decl_fail(d, "name", "'%s' is declared twice", name);
        lua_pop(L, 2);
    }
}

/* estimator{name, price}: declares one and returns the table. */
int api_estimator(lua_State *L)
{
    struct decl d = DECL_INIT(L);
    int list;

    lua_settop(L, 1);
    decl_open(&d, L, 1, estimator_fields, "estimator");
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LIST);
    list = lua_gettop(L);
    decl_need(&d, "name");
    if (decl_get(&d, "name") != LUA_TSTRING)
        decl_fail(&d, "name", "must be a string");
    check_name(&d, lua_tostring(L, -1), list);
    if (decl_get(&d, "price") != LUA_TFUNCTION)
        decl_fail(&d, "price", "must be a function of the facts, not %s%s",
                  lua_isnil(L, -1) ? "" : "a ",
                  luaL_typename(L, -1));
    if (lua_rawlen(L, list) >= MAX_ESTIMATORS)
        return luaL_error(L, "more than %d estimators", MAX_ESTIMATORS);
    lua_createtable(L, 0, 2);
    lua_rotate(L, -3, 1);
    lua_setfield(L, -3, "price");
    lua_setfield(L, -2, "name");
    lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
    lua_settop(L, 1);
    return 1;
}

/* ---- taking over ---------------------------------------------------- */

/* (estimators) -> nothing: copies the names. */
static int copy_names(lua_State *L)
{
    struct scenario_estimators *s = lua_touserdata(L, 1);
    int64_t n;

    luaL_getsubtable(L, LUA_REGISTRYINDEX, LIST);
    n = (int64_t)lua_rawlen(L, -1);
    s->name = decl_alloc(L, n, sizeof *s->name);
    for (int64_t i = 0; i < n; i++) {
        lua_rawgeti(L, -1, i + 1);
        lua_getfield(L, -1, "name");
        s->n++;
        script_dup(L, &s->name[i], lua_tostring(L, -1));
        lua_pop(L, 2);
    }
    return 0;
}

static void free_names(struct scenario_estimators *s)
{
    for (int64_t i = 0; i < s->n; i++) free(s->name[i]);
    free(s->name);
    free(s);
}

int estimators_take(struct script *s, struct scenario_estimators **out,
                    struct err *e)
{
    struct scenario_estimators *t = calloc(1, sizeof *t);
    int rc;

    *out = NULL;
    if (t == NULL) return err_nomem(e);
    t->script = s;
    rc = script_protect(s, copy_names, t, 0, 0, e);
    s->closed = true;
    if (rc == ERR_OK && t->n > 0)
        *out = t;
    else
        free_names(t);
    return rc;
}

void scenario_estimator_free(struct scenario_estimators *s)
{
    if (s == NULL) return;
    script_free(s->script);
    free_names(s);
}

int64_t scenario_estimator_count(const struct scenario_estimators *s)
{
    return s != NULL ? s->n : 0;
}

const char *scenario_estimator_name(const struct scenario_estimators *s,
                                    int64_t i)
{
    assert(s != NULL && i >= 0 && i < s->n);
    return s->name[i];
}

const char *scenario_estimator_files(const struct scenario_estimators *s)
{
    return s->script->found.data;
}

/* ---- calling -------------------------------------------------------- */

struct call {
    const struct scenario_estimators *s;
    int64_t i;
    const struct price_facts *facts;
    const struct scenario_known *known;
    struct estimate *out;
};

/* (call) -> price function, facts. Which calls a process has had before this
** one goes by who came first for a case, so none may show in what is drawn. */
static int push_call(lua_State *L)
{
    const struct call *c = lua_touserdata(L, 1);

    api_reseed(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LIST);
    lua_rawgeti(L, -1, c->i + 1);
    lua_getfield(L, -1, "price");
    facts_push(L, c->facts, c->known);
    return 2;
}

static const struct field result_fields[] = {
    {"raw", FIELD_OTHER, 0, 0, 0},
    {"terms", FIELD_OTHER, 0, 0, 0},
    {NULL, FIELD_OTHER, 0, 0, 0},
};

/* Terms at index 3, into out; their sum. */
static int64_t read_terms(lua_State *L, const struct decl *d,
                          struct estimate *out)
{
    struct field fields[CAT_COUNT + 1];
    struct decl t = *d;
    int64_t sum = 0;

    for (int i = 0; i < CAT_COUNT; i++)
        fields[i] = (struct field){category_name((enum category)i),
                                   FIELD_OTHER, 0, 0, 0};
    fields[CAT_COUNT].key = NULL;
    decl_open(&t, L, -1, fields, "%.100s: terms", d->what);
    for (int i = 0; i < CAT_COUNT; i++) {
        decl_int(&t, fields[i].key, -MOST_BYTES, MOST_BYTES, &out->term[i]);
        sum += out->term[i];
    }
    return sum;
}

/* floor(raw x 1.10) */
static int64_t admitted(int64_t raw)
{
    return num_sadd(raw, raw / 10);
}

/* (call, result, reason) -> nothing: fills the estimate. */
static int read_result(lua_State *L)
{
    const struct call *c = lua_touserdata(L, 1);
    struct estimate *out = c->out;
    struct decl d = DECL_INIT(L);
    const char *name = c->s->name[c->i];
    int64_t sum;

    out->binding_rank = -1;
    snprintf(out->name, sizeof out->name, "%s", name);
    if (lua_isnil(L, 2)) {
        if (lua_type(L, 3) != LUA_TSTRING)
            return luaL_error(L, "estimator '%s': returned nil without a "
                              "reason (return nil, \"why\")", name);
        snprintf(out->reason, sizeof out->reason, "%s", lua_tostring(L, 3));
        text_clean(out->reason);
        return 0;
    }
    decl_open(&d, L, 2, result_fields, "estimator '%s'", name);
    decl_need(&d, "raw");
    decl_int(&d, "raw", 0, MOST_BYTES, &out->raw);
    out->admitted = admitted(out->raw);
    out->supported = out->priced = true;
    if (!decl_table(&d, "terms")) {
        out->term[CAT_OTHER] = out->raw;
        return 0;
    }
    sum = read_terms(L, &d, out);
    if (sum != out->raw)
        decl_fail(&d, "terms", "sum to %" PRId64 ", but raw is %" PRId64, sum,
                  out->raw);
    return 0;
}

int scenario_estimator_call(struct scenario_estimators *s, int64_t i,
                            const struct price_facts *facts,
                            const struct scenario_known *known,
                            struct estimate *out, struct err *e)
{
    struct call c = {s, i, facts, known, out};
    int rc;

    assert(i >= 0 && i < s->n);
    memset(out, 0, sizeof *out);
    rc = script_protect(s->script, push_call, &c, 0, 2, e);
    if (rc == ERR_OK) rc = script_call(s->script, 1, 2, e);
    if (rc == ERR_OK) rc = script_protect(s->script, read_result, &c, 2, 0, e);
    if (rc != ERR_OK) lua_settop(s->script->L, 0);
    return rc;
}
