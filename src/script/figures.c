/*
** figures.c - what a case is held against: tolerances, published errors,
** measured peaks, and the estimators that it names.
*/
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/suggest.h"
#include "script/api.h"
#include "script/read.h"

#define BIG INT64_C(1000000000)
#define MAX_BYTES (INT64_C(1) << 60)
#define OTHER(key) {key, FIELD_OTHER, 0, 0, 0}
#define END {NULL, FIELD_OTHER, 0, 0, 0}
#define PERCENT(key, member) \
    {key, FIELD_NUMBER, offsetof(struct scenario_case, member), -1000, 1000}

static const struct field tolerance_fields[] = {
    {"over", FIELD_NUMBER, offsetof(struct scenario_case, tolerance_over), 0,
     BIG},
    {"under", FIELD_NUMBER, offsetof(struct scenario_case, tolerance_under),
     0, 100},
    END,
};

static const struct field published_fields[] = {
    PERCENT("after_cold", published_after_cold),
    PERCENT("after_warm", published_after_warm),
    PERCENT("before_cold", published_before_cold),
    PERCENT("before_warm", published_before_warm),
    END,
};

#define BYTES(key, member) \
    {key, FIELD_INT, offsetof(struct scenario_case, member), 0, MAX_BYTES}

static const struct field measured_fields[] = {
    BYTES("estimate", measured.estimate),
    OTHER("estimator"),
    BYTES("first", measured.first),
    {"note", FIELD_TEXT, offsetof(struct scenario_case, measured.note), 0, 0},
    BYTES("peak", measured.peak),
    BYTES("retained", measured.retained),
    {"series", FIELD_TEXT, offsetof(struct scenario_case, measured.series),
     0, 0},
    END,
};

/* The program's estimator of that name, or a complaint with the nearest. */
static const struct price_estimator *find_estimator(const struct decl *d,
                                                    const char *key,
                                                    const char *name)
{
    const struct price_estimator *x = price_find(name);
    const char *known[PRICE_ESTIMATORS + 1] = {NULL}, *near;

    if (x != NULL) return x;
    for (int i = 0; i < PRICE_ESTIMATORS; i++)
        known[i] = price_estimators[i].name;
    near = suggest(name, known);
    decl_fail(d, key, "no estimator '%.60s'%s%s%s", name,
              near != NULL ? " (did you mean '" : "",
              near != NULL ? near : "", near != NULL ? "'?)" : "");
}

static void read_measured(const struct decl *d, struct scenario_case *c)
{
    struct decl m = *d;
    lua_State *L = d->L;

    if (!decl_table(d, "measured")) return;
    decl_open(&m, L, -1, measured_fields, "%.100s: measured", d->what);
    decl_need(&m, "series");
    decl_need(&m, "peak");
    decl_fields(&m, measured_fields, c);
    if (decl_get(&m, "estimator") != LUA_TNIL)
        c->measured.estimator = find_estimator(
            &m, "estimator", lua_tostring(L, -1) != NULL
            ? lua_tostring(L, -1) : "");
    if ((c->measured.estimator != NULL) != (c->measured.estimate >= 0))
        decl_fail(&m, "estimate", "and estimator go together");
    lua_pop(L, 2);
}

void read_estimators(const struct decl *d, struct scenario_case *c)
{
    lua_State *L = d->L;
    int64_t n;

    if (!decl_table(d, "estimators")) return;
    n = decl_list(d, "estimators", -1, SCENARIO_MAX_ESTIMATORS);
    for (int64_t i = 1; i <= n; i++) {
        const struct price_estimator *x;
        if (lua_rawgeti(L, -1, i) != LUA_TSTRING)
            decl_fail(d, "estimators", "item %" PRId64 " must be a name", i);
        x = find_estimator(d, "estimators", lua_tostring(L, -1));
        for (int k = 0; k < c->n_estimator; k++)
            if (c->estimator[k] == x)
                decl_fail(d, "estimators", "names %s twice", x->name);
        c->estimator[c->n_estimator++] = x;
        lua_pop(L, 1);
    }
    c->names_estimators = true;
    lua_pop(L, 1);
}

void read_figures(const struct decl *d, struct scenario_case *c)
{
    struct decl p = *d;

    if (decl_table(d, "tolerance")) {
        decl_open(&p, d->L, -1, tolerance_fields, "%.100s: tolerance",
                  d->what);
        decl_need(&p, "under");
        decl_need(&p, "over");
        decl_fields(&p, tolerance_fields, c);
        c->has_tolerance = true;
        lua_pop(d->L, 1);
    }
    if (decl_table(d, "published")) {
        decl_open(&p, d->L, -1, published_fields, "%.100s: published",
                  d->what);
        decl_fields(&p, published_fields, c);
        lua_pop(d->L, 1);
    }
    read_measured(d, c);
}
