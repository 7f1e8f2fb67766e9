/* case.c - the cases of a scenario, from tables to struct scenario_case */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/suggest.h"
#include "script/api.h"
#include "script/find.h"
#include "script/read.h"

#define MAX_CASES 100000
#define MAX_BYTES (INT64_C(1) << 60)
#define BIG INT64_C(1000000000)

#define INT(key, lo, hi) \
    {#key, FIELD_INT, offsetof(struct scenario_case, key), lo, hi}
#define NUMBER(key, lo, hi) \
    {#key, FIELD_NUMBER, offsetof(struct scenario_case, key), lo, hi}
#define FLAG(key) \
    {#key, FIELD_FLAG, offsetof(struct scenario_case, key), 0, 0}
#define TEXT(key) \
    {#key, FIELD_TEXT, offsetof(struct scenario_case, key), 0, 0}
#define OTHER(key) {key, FIELD_OTHER, 0, 0, 0}
#define END {NULL, FIELD_OTHER, 0, 0, 0}

static const struct field case_fields[] = {
    TEXT(about),
    OTHER("adapters"),
    OTHER("batch"),
    OTHER("compiled"),
    INT(cp, 1, PLAN_MAX_RANKS),
    FLAG(cp_attention),
    OTHER("device_bytes"),
    OTHER("dtype"),
    INT(ep, 1, BIG),
    OTHER("estimators"),
    OTHER("grad"),
    INT(head_rows, 0, API_MAX_ROWS),
    INT(hybridep_held_rows, 0, API_MAX_ROWS),
    OTHER("init"),
    OTHER("labels"),
    INT(layers, 1, BIG),
    NUMBER(learning_rate, 0, 1000),
    NUMBER(load_cv, 0, ROUTING_MAX_CV),
    NUMBER(lora_alpha, 0, BIG),
    INT(lora_rank, 0, 65536),
    OTHER("loss"),
    OTHER("measured"),
    OTHER("model"),
    OTHER("name"),
    OTHER("origin"),
    OTHER("otherwise"),
    INT(output_bytes, 0, MAX_BYTES),
    OTHER("plan"),
    INT(pp, 1, BIG),
    INT(price_head_rows, 0, API_MAX_ROWS),
    OTHER("published"),
    OTHER("recompute"),
    OTHER("recompute_modules"),
    OTHER("routing"),
    OTHER("seed"),
    FLAG(softmax_offset),
    OTHER("tokens"),
    OTHER("tolerance"),
    INT(tp, 1, BIG),
    OTHER("wave"),
    INT(waves, 1, 1000),
    OTHER("weights"),
    END,
};

/* ---- names and files ------------------------------------------------ */

static void check_name(const struct decl *d, const char *name)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRS"
                               "TUVWXYZ0123456789._+=@-";

    if (strspn(name, good) != strlen(name) || strlen(name) > 100)
        decl_fail(d, "name", "may hold up to 100 letters, digits and "
                  "._+=@-");
    if (strchr("+=@-", *name) != NULL)
        decl_fail(d, "name", "must not begin with + = @ or - (a table "
                  "program takes such a cell for a formula)");
}

/* A name of a shipped model or a path; a mistyped one gets a suggestion. */
static void read_model(const struct decl *d, struct scenario_case *c)
{
    lua_State *L = d->L;
    const char *name;
    char near[100];

    decl_need(d, "model");
    decl_path(d, "model", &c->model_path);
    name = c->model_path;
    if (find_file(L, name, "models", ".json")) {
        script_dup(L, &c->model_path, lua_tostring(L, -1));
        lua_pop(L, 1);
        return;
    }
    find_nearest(L, name, "models", ".json", near, sizeof near);
    if (*near != '\0')
        decl_fail(d, "model", "no file '%s' (did you mean '%s'?)", name,
                  near);
    decl_fail(d, "model", "no file '%s' (looked in %s and %s/models)", name,
              script_of(L)->dir, script_of(L)->data_dir);
}

/* A file or folder that must be there. */
static void read_path(const struct decl *d, const char *key,
                      const char *folder, char **out)
{
    if (!decl_path(d, key, out)) return;
    if (!find_file(d->L, *out, folder, ""))
        decl_fail(d, key, "no file or folder '%s' (looked in %s)", *out,
                  script_of(d->L)->dir);
    script_dup(d->L, out, lua_tostring(d->L, -1));
    lua_pop(d->L, 1);
}

static void read_weights(const struct decl *d, struct scenario_case *c)
{
    if (decl_get(d, "weights") == LUA_TSTRING &&
        strcmp(lua_tostring(d->L, -1), "random") != 0)
        read_path(d, "weights", "", &c->weights);
    else
        decl_text(d, "weights", &c->weights);
    lua_pop(d->L, 1);
}

/* What a file of labels says, nothing else says too. */
static void read_labels(const struct decl *d, struct scenario_case *c)
{
    static const char *const words[] = {"mean", "sum", NULL};
    int word = 0;
    bool loss = decl_word(d, "loss", words, &word);

    read_path(d, "labels", "data", &c->labels);
    c->loss_sum = word == 1;
    if (c->labels == NULL && loss)
        decl_fail(d, "loss", "says how weights of labels are meant, and "
                  "there are none (labels = FILE)");
    if (c->labels != NULL && c->tokens != NULL)
        decl_fail(d, "tokens", "labels holds the tokens already");
    if (c->labels != NULL && c->head_rows >= 0)
        decl_fail(d, "head_rows", "labels says already which rows have one");
}

/* Bytes, as a number or with a unit: "80G". */
static void read_bytes(const struct decl *d, const char *key, uint64_t *out)
{
    int64_t bytes = 0;

    if (decl_get(d, key) != LUA_TSTRING)
        decl_int(d, key, 1, MAX_BYTES, &bytes);
    else if (!num_parse_bytes(lua_tostring(d->L, -1), &bytes) || bytes < 1)
        decl_fail(d, key, "must be a number of bytes, as in \"80G\" or "
                  "\"512Mi\", not '%s'", lua_tostring(d->L, -1));
    lua_pop(d->L, 1);
    *out = (uint64_t)bytes;
}

/* ---- how the step runs ------------------------------------------------ */

/* A list of words without repeats, as a set of bits in the words' order. */
static unsigned read_set(const struct decl *d, const char *key,
                         const char *const *words)
{
    unsigned set = 0;
    int64_t n, i;
    int list, at;

    if (!decl_table(d, key)) return 0;
    list = lua_absindex(d->L, -1);
    n = decl_list(d, key, list, 100);
    for (i = 1; i <= n; i++) {
        const char *word = lua_rawgeti(d->L, list, i) == LUA_TSTRING
                               ? lua_tostring(d->L, -1) : "";
        for (at = 0; words[at] != NULL; at++)
            if (strcmp(words[at], word) == 0) break;
        if (words[at] == NULL) decl_bad_word(d, key, word, words);
        if ((set >> at & 1) != 0)
            decl_fail(d, key, "names %s twice", word);
        set |= 1u << at;
        lua_pop(d->L, 1);
    }
    lua_pop(d->L, 1);
    return set;
}

/* Recompute, gradients and kind of wave, and which of them exclude each
** other. */
static void read_mode(const struct decl *d, struct scenario_case *c)
{
    struct mode *o = &c->mode;
    int recompute = RECOMPUTE_FULL, wave = WAVE_TRAIN;
    bool grad = true, compiled = true;

    o->tp = c->tp;
    decl_word(d, "recompute", mode_recompute_words, &recompute);
    o->recompute = (enum recompute)recompute;
    o->modules = read_set(d, "recompute_modules", mode_module_words);
    o->otherwise = read_set(d, "otherwise", mode_otherwise_words);
    if (o->modules != 0 && o->recompute != RECOMPUTE_SELECTIVE)
        decl_fail(d, "recompute_modules", "go with recompute = "
                  "\"selective\" only, not with \"%s\"",
                  mode_recompute_words[recompute]);
    decl_word(d, "wave", mode_wave_words, &wave);
    o->wave = (enum wave_kind)wave;
    decl_flag(d, "grad", &grad);
    decl_flag(d, "compiled", &compiled);
    o->no_grad = !grad;
    o->eager = !compiled;
}

/* ---- batch and plan ------------------------------------------------- */

static void copy_layout(lua_State *L, const struct api_batch *b,
                        struct scenario_case *c)
{
    c->layout = decl_alloc(L, b->cp, sizeof *c->layout);
    c->layout_tokens = b->tokens;
    c->routed_rows = b->routed_rows;
    for (int64_t r = 0; r < b->cp; r++) {
        const struct rank_plan *from = &b->layout[r];
        struct rank_plan *to = &c->layout[r];
        to->attention_rows = from->attention_rows;
        to->gdn_rows = from->gdn_rows;
        to->stage = decl_alloc(L, from->n_stage, sizeof *to->stage);
        to->n_stage = from->n_stage;
        memcpy(to->stage, from->stage,
               (size_t)from->n_stage * sizeof *to->stage);
    }
}

/* Takes the batch over from Lua's value, which may serve several cases. */
static void read_batch(const struct decl *d, struct scenario_case *c)
{
    lua_State *L = d->L;
    const struct api_batch *b;

    decl_need(d, "batch");
    decl_get(d, "batch");
    b = api_to_batch(L, -1);
    if (b == NULL)
        decl_fail(d, "batch", "must come from batch.layout, lengths, random, "
                  "sequences or tree, not be a %s", luaL_typename(L, -1));
    c->batch_kind = b->kind;
    if (b->kind == BATCH_LAYOUT) {
        if (b->cp != c->cp)
            decl_fail(d, "batch", "is a layout of %" PRId64 " ranks, but cp "
                      "is %" PRId64, b->cp, c->cp);
        copy_layout(L, b, c);
    } else {
        c->batch = b->batch;
        c->batch.seg = NULL;            /* ours only once it is copied */
        c->batch.seg = decl_alloc(L, b->batch.n_seg, sizeof *b->batch.seg);
        memcpy(c->batch.seg, b->batch.seg,
               (size_t)b->batch.n_seg * sizeof *b->batch.seg);
    }
    lua_pop(L, 1);
}

struct plan_decl { int64_t cut; };

static const struct field plan_fields[] = {
    {"cut", FIELD_INT, offsetof(struct plan_decl, cut), 1, API_MAX_ROWS},
    OTHER("profile"),
    END,
};

/* Forced cuts are for tests; of a recorded layout there is nothing to plan. */
static void read_plan(const struct decl *d, struct scenario_case *c)
{
    static const char *const profiles[] = {"old", "new", NULL};
    static const enum plan_profile value[] = {PLAN_OLD, PLAN_NEW};
    struct decl p = *d;
    struct plan_decl v = {0};
    int profile = 1;

    if (!decl_table(d, "plan")) return;
    decl_open(&p, d->L, -1, plan_fields, "%.100s: plan", d->what);
    if (c->batch_kind == BATCH_LAYOUT)
        decl_fail(d, "plan", "has no meaning for a recorded layout");
    decl_fields(&p, plan_fields, &v);
    decl_word(&p, "profile", profiles, &profile);
    c->cut = v.cut;
    c->profile = value[profile];
    if (c->cut > 0 && c->cut >= c->batch.tokens)
        decl_fail(&p, "cut", "must be less than the batch's %" PRId64
                  " tokens, not %" PRId64, c->batch.tokens, c->cut);
    lua_pop(d->L, 1);
}

/* ---- a case --------------------------------------------------------- */

static void set_defaults(lua_State *L, struct scenario_case *c)
{
    c->cp = c->ep = c->tp = c->pp = 1;
    c->lora_rank = 8;
    c->lora_alpha = 32;
    c->load_cv = 1;
    c->waves = 1;
    c->profile = PLAN_NEW;
    c->head_rows = c->price_head_rows = -1;
    c->hybridep_held_rows = c->routed_rows = -1;
    c->cp_attention = true;
    c->measured.peak = c->measured.first = c->measured.retained = -1;
    c->measured.estimate = -1;
    c->published_before_cold = c->published_before_warm = (double)NAN;
    c->published_after_cold = c->published_after_warm = (double)NAN;
    script_dup(L, &c->dtype, "bf16");
    script_dup(L, &c->weights, "random");
}

/* Names the case, for messages: by its name, or by its number. */
static void name_case(struct decl *d, int64_t number, char *out, size_t size)
{
    const char *name = NULL;

    snprintf(out, size, "case %" PRId64, number);
    if (lua_istable(d->L, -1)) {
        lua_pushliteral(d->L, "name");
        if (lua_rawget(d->L, -2) == LUA_TSTRING) {
            name = lua_tostring(d->L, -1);
            snprintf(out, size, "case '%.100s'", name);
            d->name = name;
        }
        lua_pop(d->L, 1);
    }
}

/* Every key of a case once, those that others depend on first. */
static void read_case(lua_State *L, int64_t number, const struct decl *cases,
                      struct scenario_case *c)
{
    static const char *const dtypes[] = {"bf16", "f32", "f64", NULL};
    struct decl d = *cases;
    char what[128];
    int dtype = 0, init = INIT_OWN;
    int64_t seed = 0;

    set_defaults(L, c);
    name_case(&d, number, what, sizeof what);
    decl_open(&d, L, -1, case_fields, "%s", what);
    decl_need(&d, "name");
    decl_text(&d, "name", &c->name);
    check_name(&d, c->name);
    decl_text(&d, "origin", &c->origin);
    d.origin = c->origin;
    decl_fields(&d, case_fields, c);
    if (c->cp * c->tp % c->ep != 0)
        decl_fail(&d, "ep", "must divide cp%s, %" PRId64 ", not be %" PRId64,
                  c->tp > 1 ? " x tp" : "", c->cp * c->tp, c->ep);
    if (decl_word(&d, "dtype", dtypes, &dtype))
        script_dup(L, &c->dtype, dtypes[dtype]);
    if (decl_int(&d, "seed", 0, INT64_MAX, &seed)) c->seed = (uint64_t)seed;
    decl_word(&d, "init", weight_init_words, &init);
    c->init = (enum weight_init)init;
    read_mode(&d, c);
    read_model(&d, c);
    read_weights(&d, c);
    read_path(&d, "adapters", "", &c->adapters);
    read_path(&d, "tokens", "data", &c->tokens);
    read_labels(&d, c);
    read_bytes(&d, "device_bytes", &c->device_bytes);
    read_batch(&d, c);
    if (c->labels != NULL && c->batch_kind == BATCH_LAYOUT)
        decl_fail(&d, "labels", "a recorded layout has no tokens");
    read_plan(&d, c);
    read_routing(&d, c);
    read_figures(&d, c);
    read_estimators(&d, c);
}

void read_free_case(struct scenario_case *c)
{
    free(c->name);
    free(c->about);
    free(c->origin);
    free(c->model_path);
    free(c->dtype);
    free(c->weights);
    free(c->tokens);
    free(c->labels);
    free(c->adapters);
    free(c->measured.series);
    free(c->measured.note);
    batch_free(&c->batch);
    api_free_layout(c->layout, c->cp);
    routing_free(&c->routing);
}

void read_cases(lua_State *L, int index, struct read *r)
{
    struct decl d = DECL_INIT(L);
    struct scenario *s = r->out;
    int list = lua_absindex(L, index), seen;
    int64_t n;

    d.table = list;
    decl_near(&d, "cases", "");
    n = decl_list(&d, "cases", list, MAX_CASES);
    if (n == 0) decl_fail(&d, NULL, "cases: there are none");
    s->kase = decl_alloc(L, n, sizeof *s->kase);
    lua_newtable(L);
    seen = lua_gettop(L);
    for (int64_t i = 1; i <= n; i++) {
        struct scenario_case *c = &s->kase[s->n_case];
        s->n_case++;
        lua_rawgeti(L, list, i);
        read_case(L, i, &d, c);
        if (lua_getfield(L, seen, c->name) != LUA_TNIL)
            decl_fail(&d, NULL, "cases: two have the name '%s'", c->name);
        lua_pushboolean(L, 1);
        lua_setfield(L, seen, c->name);
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
}
