/*
** load.c - see scenario.h: loading a scenario, or a file of estimators, in the
** order of calls.
*/
#include "script/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "script/estimator.h"
#include "script/find.h"
#include "script/guard.h"
#include "script/read.h"
#include "script/state.h"

static const struct field scenario_fields[] = {
    {"about", FIELD_TEXT, offsetof(struct scenario, about), 0, 0},
    {"cases", FIELD_OTHER, 0, 0, 0},
    {"name", FIELD_TEXT, offsetof(struct scenario, name), 0, 0},
    {"options", FIELD_OTHER, 0, 0, 0},
    {NULL, FIELD_OTHER, 0, 0, 0},
};

/* The file's name without folder and ".lua". */
static void default_name(lua_State *L, struct scenario *s)
{
    const char *chunk = script_of(L)->chunk;
    size_t n = strlen(chunk);

    if (n > 4 && strcmp(chunk + n - 4, ".lua") == 0) n -= 4;
    lua_pushlstring(L, chunk, n);
    script_dup(L, &s->name, lua_tostring(L, -1));
    lua_pop(L, 1);
}

/* Its own, or its file's. */
static void check_name(const struct decl *d, const char *name)
{
    if (strchr("+=@-", *name) != NULL)
        decl_fail(d, "name", "must not begin with + = @ or - (a table program "
                  "takes such a cell for a formula)");
}

/* (read, what the file returned) -> cases, opt */
static int read_top(lua_State *L)
{
    struct read *r = lua_touserdata(L, 1);
    struct decl d = DECL_INIT(L);
    int type;

    if (!lua_istable(L, 2))
        return luaL_error(L, "a scenario must return a table (return {name "
                          "= ..., cases = ...})");
    decl_open(&d, L, 2, scenario_fields, "%s", "");
    script_dup(L, &r->out->path, script_of(L)->path);
    default_name(L, r->out);
    decl_fields(&d, scenario_fields, r->out);
    check_name(&d, r->out->name);
    decl_need(&d, "cases");
    type = decl_get(&d, "cases");
    if (type != LUA_TTABLE && type != LUA_TFUNCTION)
        decl_fail(&d, "cases", "must be a function or a list, not a %s",
                  lua_typename(L, type));
    if (type == LUA_TTABLE && decl_has(&d, "options"))
        decl_fail(&d, "options", "need cases to be a function of them");
    read_options(&d, r);
    return 2;
}

/* (read, cases) -> nothing */
static int read_all(lua_State *L)
{
    read_cases(L, 2, lua_touserdata(L, 1));
    return 0;
}

static int load_into(struct script *s, const char *path, struct read *r,
                     struct err *e)
{
    int rc = find_load(s, path, s->chunk, e);

    if (rc == ERR_OK) rc = script_call(s, 0, 1, e);
    if (rc == ERR_OK) rc = script_protect(s, read_top, r, 1, 2, e);
    if (rc == ERR_INPUT && r->usage) {
        if (e != NULL) e->code = ERR_USAGE;
        return ERR_USAGE;
    }
    if (rc != ERR_OK) return rc;
    if (lua_isfunction(s->L, -2))
        rc = script_call(s, 1, 1, e);
    else
        lua_pop(s->L, 1);
    if (rc == ERR_OK) rc = script_protect(s, read_all, r, 1, 0, e);
    return rc;
}

int scenario_load(const char *path, const char *data_dir, char **setting,
                  int n_setting, const struct scenario_limits *limits,
                  struct scenario **out, struct err *e)
{
    struct script *s;
    struct read r = {NULL, setting, n_setting, false};
    int rc = script_new(path, data_dir, limits, guard_open, &s, e);

    if (rc != ERR_OK) return rc;
    r.out = calloc(1, sizeof *r.out);
    rc = r.out != NULL ? load_into(s, path, &r, e) : err_nomem(e);
    if (rc == ERR_OK) rc = estimators_take(s, &r.out->estimators, e);
    if (rc == ERR_OK) {
        r.out->files = s->found.data;
        s->found = (struct buf)BUF_INIT;
    }
    if (rc != ERR_OK || r.out->estimators == NULL) script_free(s);
    if (rc != ERR_OK) {
        scenario_free(r.out);
        return rc;
    }
    *out = r.out;
    return ERR_OK;
}

int scenario_estimator_load(const char *path, const char *data_dir,
                            const struct scenario_limits *limits,
                            struct scenario_estimators **out, struct err *e)
{
    struct script *s;
    int rc = script_new(path, data_dir, limits, guard_open, &s, e);

    if (rc != ERR_OK) return rc;
    rc = find_load(s, path, s->chunk, e);
    if (rc == ERR_OK) rc = script_call(s, 0, 0, e);
    if (rc == ERR_OK) rc = estimators_take(s, out, e);
    if (rc == ERR_OK && *out == NULL)
        rc = err_set(e, ERR_INPUT, "%s: declares no estimator (estimator{"
                     "name = ..., price = function(facts) ... end})", s->path);
    if (rc != ERR_OK) script_free(s);
    return rc;
}

void scenario_free(struct scenario *s)
{
    if (s == NULL) return;
    for (int64_t i = 0; i < s->n_case; i++) read_free_case(&s->kase[i]);
    for (int64_t i = 0; i < s->n_option; i++) {
        struct scenario_option *o = &s->option[i];
        free(o->name);
        free(o->help);
        free(o->type);
        free(o->value);
        free(o->default_value);
        free(o->allowed);
    }
    free(s->kase);
    free(s->option);
    free(s->files);
    free(s->path);
    free(s->name);
    free(s->about);
    scenario_estimator_free(s->estimators);
    free(s);
}
