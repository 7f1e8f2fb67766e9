/* routing.c - a case's routing, from a word or tables to struct routing */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "script/api.h"
#include "script/find.h"
#include "script/read.h"

#define MAX_WAVES 1000
#define MAX_LAYERS 10000
#define MAX_EXPERTS 65536
#define MAX_CELLS (INT64_C(1) << 24)

struct routing_decl {
    double cv, share, drift, burst, factor;
    int64_t rank, seed, hot_expert;
    bool scaled;
};

#define AT(key) offsetof(struct routing_decl, key)

static const struct field routing_fields[] = {
    {"burst", FIELD_NUMBER, AT(burst), 0, 1},
    {"cv", FIELD_NUMBER, AT(cv), 0, ROUTING_MAX_CV},
    {"drift", FIELD_NUMBER, AT(drift), 0, 1},
    {"factor", FIELD_NUMBER, AT(factor), 0, ROUTING_MAX_FACTOR},
    {"histogram", FIELD_OTHER, 0, 0, 0},
    {"hot_expert", FIELD_INT, AT(hot_expert), 0, 65535},
    {"loads", FIELD_OTHER, 0, 0, 0},
    {"rank", FIELD_INT, AT(rank), 0, PLAN_MAX_RANKS - 1},
    {"scaled", FIELD_FLAG, AT(scaled), 0, 0},
    {"seed", FIELD_INT, AT(seed), 0, INT64_MAX},
    {"share", FIELD_NUMBER, AT(share), 1, PLAN_MAX_RANKS},
    {NULL, FIELD_OTHER, 0, 0, 0},
};

static void read_histogram(const struct decl *p, struct routing *out)
{
    const char *name = NULL;
    struct err e;

    decl_get(p, "histogram");
    if (lua_type(p->L, -1) == LUA_TSTRING) name = lua_tostring(p->L, -1);
    if (name == NULL || !find_file(p->L, name, "data", ".csv"))
        decl_fail(p, "histogram", "must name a CSV file that is there");
    api_check(p, "histogram", routing_load(lua_tostring(p->L, -1), out, &e),
              &e);
    lua_pop(p->L, 2);
}

/* The loads of one layer, the table on top of the stack, into out[n]. */
static void read_layer(const struct decl *p, int64_t n, int64_t *out)
{
    int64_t i;
    int whole;

    for (i = 0; i < n; i++) {
        lua_rawgeti(p->L, -1, i + 1);
        out[i] = lua_tointegerx(p->L, -1, &whole);
        if (!whole || lua_type(p->L, -1) != LUA_TNUMBER || out[i] < 0 ||
            out[i] > INT64_C(1) << 40)
            decl_fail(p, "loads", "must be whole numbers from 0 to 2^40");
        lua_pop(p->L, 1);
    }
}

/* Room for all layers, by the first one's experts. */
static void size_loads(const struct decl *p, int64_t layers, int64_t experts,
                       struct routing *out)
{
    if (experts == 0 || layers * experts > MAX_CELLS)
        decl_fail(p, "loads", "has no experts, or too many");
    out->rows = decl_alloc(p->L, layers * experts, sizeof *out->rows);
    out->kind = ROUTING_HISTOGRAM;
    out->waves = out->ranks = 1;
    out->layers = layers;
    out->experts = experts;
    out->scaled = true;
}

/* A list of layers, each a list of its experts' loads. */
static void read_loads(const struct decl *p, struct routing *out)
{
    lua_State *L = p->L;
    int list;
    int64_t n, experts, i;

    if (decl_get(p, "loads") != LUA_TTABLE)
        decl_fail(p, "loads", "must be a list of layers");
    list = lua_gettop(L);
    n = decl_list(p, "loads", list, MAX_LAYERS);
    if (n == 0) decl_fail(p, "loads", "must have a layer");
    for (i = 0; i < n; i++) {
        if (lua_rawgeti(L, list, i + 1) != LUA_TTABLE)
            decl_fail(p, "loads", "must have a list of experts for each "
                      "layer");
        experts = decl_list(p, "loads", lua_gettop(L), MAX_EXPERTS);
        if (i == 0) size_loads(p, n, experts, out);
        if (experts != out->experts)
            decl_fail(p, "loads", "has %" PRId64 " experts in layer %" PRId64
                      ", and %" PRId64 " in layer 0", experts, i,
                      out->experts);
        read_layer(p, experts, out->rows + i * experts);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* A key that goes with another one only. */
static void only_with(const struct decl *p, const char *key,
                      const char *other)
{
    if (decl_has(p, key) && !decl_has(p, other))
        decl_fail(p, key, "goes with '%s' only", other);
}

static void check_keys(const struct decl *p)
{
    int kinds = decl_has(p, "cv") + decl_has(p, "share") +
                decl_has(p, "histogram") + decl_has(p, "hot_expert") +
                decl_has(p, "loads");

    if (kinds != 1)
        decl_fail(p, NULL, "must have one of cv, share, hot_expert, "
                  "loads and histogram");
    only_with(p, "seed", "cv");
    only_with(p, "drift", "cv");
    only_with(p, "burst", "cv");
    only_with(p, "rank", "share");
    only_with(p, "scaled", "histogram");
    if (decl_has(p, "cv")) decl_need(p, "seed");
    if (decl_has(p, "burst") || decl_has(p, "hot_expert"))
        decl_need(p, "factor");
    else if (decl_has(p, "factor"))
        decl_fail(p, "factor", "goes with 'burst' or 'hot_expert' only");
}

static enum routing_kind kind_of(const struct decl *p)
{
    if (decl_has(p, "cv")) return ROUTING_CV;
    if (decl_has(p, "share")) return ROUTING_SHARE;
    return decl_has(p, "hot_expert") ? ROUTING_HOT : ROUTING_HISTOGRAM;
}

/* The table on top of the stack, which p has open. */
static void read_table(const struct decl *p, int64_t ep, struct routing *out)
{
    struct routing_decl v = {0};

    check_keys(p);
    decl_fields(p, routing_fields, &v);
    if (!routing_cv_fits(v.cv))
        decl_fail(p, "cv", "must be 0 or from %g to %d", ROUTING_MIN_CV,
                  ROUTING_MAX_CV);
    if (decl_has(p, "histogram")) {
        read_histogram(p, out);
        out->scaled = v.scaled;
        return;
    }
    if (decl_has(p, "loads")) {
        read_loads(p, out);
        return;
    }
    *out = (struct routing){
        .kind = kind_of(p), .cv = v.cv, .seed = (uint64_t)v.seed,
        .drift = v.drift, .burst = v.burst, .factor = v.factor,
        .expert = v.hot_expert, .share = v.share, .share_rank = v.rank
    };
    if (out->kind != ROUTING_SHARE) return;
    if (v.rank >= ep)
        decl_fail(p, "rank", "must be below ep, %" PRId64, ep);
    if (v.share > (double)ep)
        decl_fail(p, "share", "must be at most ep, %" PRId64 ", not %g", ep,
                  v.share);
}

/* A routing a wave. */
static void read_list(const struct decl *d, int64_t ep, struct routing *out)
{
    int list = lua_gettop(d->L);
    int64_t n = decl_list(d, "routing", list, MAX_WAVES), i;

    out->kind = ROUTING_LIST;
    out->each = decl_alloc(d->L, n, sizeof *out->each);
    for (i = 0; i < n; i++) {
        struct decl p = *d;

        lua_rawgeti(d->L, list, i + 1);
        if (lua_type(d->L, -1) != LUA_TTABLE)
            decl_fail(d, "routing", "of a list, every wave's must be a "
                      "table");
        decl_open(&p, d->L, -1, routing_fields, "%.100s: routing[%d]",
                  d->what, (int)i + 1);
        out->n_each = i + 1;
        read_table(&p, ep, &out->each[i]);
        lua_pop(d->L, 1);
    }
}

void read_routing(const struct decl *d, struct scenario_case *c)
{
    static const char *const words[] = {"balanced", NULL};
    int word, type = decl_get(d, "routing");
    const char *text = type == LUA_TSTRING ? lua_tostring(d->L, -1) : NULL;
    struct decl p = *d;

    if (type == LUA_TTABLE && lua_rawlen(d->L, -1) > 0) {
        read_list(d, c->ep, &c->routing);
    } else if (type == LUA_TTABLE) {
        decl_open(&p, d->L, -1, routing_fields, "%.100s: routing", d->what);
        read_table(&p, c->ep, &c->routing);
    } else if (text != NULL ? suggest(text, words) == NULL
                            : type != LUA_TNIL) {
        decl_fail(d, "routing", "must be \"balanced\", {cv, seed}, {share, "
                  "rank}, {hot_expert, factor}, {loads}, {histogram}, or a "
                  "list of such, one a wave");
    } else if (decl_word(d, "routing", words, &word)) {
        c->routing.kind = ROUTING_BALANCED;
    }
    lua_pop(d->L, 1);
}
