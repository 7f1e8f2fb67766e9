/* facts_json.c - FACTS.json into struct price_facts; see price_json.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "price/internal.h"
#include "price/price_json.h"

#define FACTS_LIMIT ((size_t)64 << 20)

/* ---- the model ----------------------------------------------------------- */

static bool readable(const char *path) { return access(path, R_OK) == 0; }

/* dir/name if that can be read. *out NULL: it cannot. */
static int try_in(const char *dir, size_t dir_len, const char *name,
                  char **out, struct err *e)
{
    size_t n = dir_len + strlen(name) + 2;
    char *path = malloc(n);

    if (path == NULL) return err_nomem(e);
    snprintf(path, n, "%.*s/%s", (int)dir_len, dir, name);
    if (readable(path)) {
        *out = path;
    } else {
        free(path);
        *out = NULL;
    }
    return ERR_OK;
}

static int find_model(const struct js *at, const char *name,
                      const char *models_dir, char **out, struct err *e)
{
    const char *slash = strrchr(at->origin, '/');
    int rc = ERR_OK;

    *out = NULL;
    if (readable(name)) {
        *out = strdup(name);
        return *out != NULL ? ERR_OK : err_nomem(e);
    }
    if (name[0] != '/' && slash != NULL)
        rc = try_in(at->origin, (size_t)(slash - at->origin), name, out, e);
    if (rc == ERR_OK && *out == NULL && name[0] != '/' && models_dir != NULL)
        rc = try_in(models_dir, strlen(models_dir), name, out, e);
    if (rc == ERR_OK && *out == NULL)
        rc = js_error(at, e, "no file '%.200s' (looked for as it stands, "
                      "beside the facts, and among the shipped models)", name);
    return rc;
}

static int load_named(const struct js *at, const char *models_dir,
                      int64_t layers, struct price_facts *f, struct err *e)
{
    const char *name;
    char *path;
    int rc = js_string(at, &name, e);

    if (rc != ERR_OK) return rc;
    f->model_ref = strdup(name);
    if (f->model_ref == NULL) return err_nomem(e);
    rc = find_model(at, name, models_dir, &path, e);
    if (rc == ERR_OK) rc = model_load(path, layers, f->own_model, e);
    free(path);
    return rc;
}

static int load_inline(const struct js *at, int64_t layers,
                       struct price_facts *f, struct err *e)
{
    f->model_ref = json_dumps(at->v, JSON_COMPACT);
    if (f->model_ref == NULL) return err_nomem(e);
    return model_from_json(at, layers, f->own_model, e);
}

static int read_model(const struct js *top, const char *models_dir,
                      struct price_facts *f, struct err *e)
{
    struct js at;
    int64_t layers;
    int rc = js_need_int(top, "layers", 1, MODEL_MAX_LAYERS, &layers, e);

    if (rc == ERR_OK) rc = js_need(top, "model", &at, e);
    if (rc != ERR_OK) return rc;
    f->own_model = calloc(1, sizeof *f->own_model);
    if (f->own_model == NULL) return err_nomem(e);
    f->model = f->own_model;
    return json_is_object(at.v) ? load_inline(&at, layers, f, e)
                                : load_named(&at, models_dir, layers, f, e);
}

/* ---- the wave ------------------------------------------------------------ */

static int read_parallel(const struct js *top, struct price_facts *f,
                         struct err *e)
{
    static const char *const known[] = {"cp", "ep", "tp", "pp", NULL};
    struct js at;
    int rc = js_need(top, "parallel", &at, e);

    if (rc == ERR_OK) rc = js_object(&at, known, e);
    if (rc == ERR_OK)
        rc = js_need_int(&at, "cp", 1, PRICE_MAX_RANKS, &f->cp, e);
    if (rc == ERR_OK) rc = js_need_int(&at, "ep", 1, 4096, &f->ep, e);
    if (rc == ERR_OK) rc = js_need_int(&at, "tp", 1, 4096, &f->tp, e);
    if (rc == ERR_OK) rc = js_need_int(&at, "pp", 1, 4096, &f->pp, e);
    return rc;
}

/* A number, or null (or no key): then *out keeps its -1. */
static int read_nullable(const struct js *o, const char *key, int64_t *out,
                         struct err *e)
{
    struct js at = js_get(o, key);
    return js_is_null(&at) ? ERR_OK : js_int(&at, 0, PRICE_MAX_ROWS, out, e);
}

static int read_block(const struct js *top, struct price_facts *f,
                      struct err *e)
{
    struct js at;
    int64_t *v;
    int rc = js_need(top, "block", &at, e);

    if (rc == ERR_OK) rc = js_ints(&at, 2, 1, 65536, &v, NULL, e);
    if (rc != ERR_OK) return rc;
    f->q_block = v[0];
    f->k_block = v[1];
    free(v);
    return ERR_OK;
}

static int read_flags(const struct js *top, struct price_facts *f,
                      struct err *e)
{
    const struct { const char *key; bool *out; } flag[] = {
        {"cold", &f->cold}, {"moe_stages", &f->moe_stages},
        {"routing_state", &f->routing_state},
        {"softmax_offset", &f->softmax_offset},
        {"cp_attention", &f->cp_attention},
    };
    size_t i;
    int rc = ERR_OK;

    for (i = 0; rc == ERR_OK && i < sizeof flag / sizeof flag[0]; i++)
        rc = js_need_bool(top, flag[i].key, flag[i].out, e);
    return rc;
}

/* Required keys in the order of the format, so that the first gap is named. */
static int read_wave(const struct js *top, struct price_facts *f,
                     struct err *e)
{
    int64_t format;
    int rc = js_need_int(top, "format", 1, 1, &format, e);

    if (rc == ERR_OK) rc = read_parallel(top, f, e);
    if (rc == ERR_OK)
        rc = js_need_int(top, "lora_rank", 0, 65536, &f->lora_rank, e);
    if (rc == ERR_OK) rc = read_flags(top, f, e);
    if (rc == ERR_OK)
        rc = js_need_int(top, "head_rows", 0, PRICE_MAX_ROWS, &f->head_rows,
                         e);
    if (rc == ERR_OK)
        rc = js_need_int(top, "output_bytes", 0, PRICE_MAX_BYTES,
                         &f->output_bytes, e);
    if (rc == ERR_OK)
        rc = read_nullable(top, "hybridep_held_rows", &f->hybridep_held_rows,
                           e);
    if (rc == ERR_OK)
        rc = read_nullable(top, "packed_length", &f->packed_length, e);
    if (rc == ERR_OK) rc = read_block(top, f, e);
    return rc;
}

/* Every key must be a slot of some group. */
static int check_slots(const struct js *at, const struct price_facts *f,
                       struct err *e)
{
    const char *key;
    json_t *v;
    int64_t g;

    json_object_foreach(at->v, key, v) {
        for (g = 0; g < f->n_group; g++)
            if (strcmp(f->group[g].slot, key) == 0) break;
        if (g == f->n_group)
            return js_error(at, e, "no group is of slot '%.64s'", key);
    }
    return ERR_OK;
}

/* true: every adapter's; false: none; or bytes by layer, and outside. Into
** *out, which is the facts' or a group's. */
static int read_list(const struct js *at, struct price_facts *f,
                     int64_t **out, struct err *e)
{
    if (json_is_false(at->v)) return ERR_OK;
    if (json_is_true(at->v)) return price_all_pending(f, out, e);
    if (!json_is_array(at->v))
        return js_error(at, e, "must be true, false or an array");
    return js_ints(at, f->model->layers + 1, 0, PRICE_MAX_BYTES, out, NULL,
                   e);
}

/* For every slot alike, or {slot: the same}. */
static int read_pending(const struct js *top, struct price_facts *f,
                        struct err *e)
{
    struct js at, slot;
    int64_t g;
    int rc = js_need(top, "adapter_pending", &at, e);

    if (rc != ERR_OK) return rc;
    if (!json_is_object(at.v)) return read_list(&at, f, &f->pending, e);
    rc = check_slots(&at, f, e);
    for (g = 0; rc == ERR_OK && g < f->n_group; g++) {
        if (strcmp(f->group[g].slot, PRICE_BASE_SLOT) == 0) continue;
        rc = js_need(&at, f->group[g].slot, &slot, e);
        if (rc == ERR_OK)
            rc = read_list(&slot, f, &f->group[g].pending, e);
    }
    return rc;
}

/* ---- groups -------------------------------------------------------------- */

static int read_stage(const struct js *at, int64_t own, struct stage *s,
                      struct err *e)
{
    static const char *const known[] = {"local", "q", "k", "q_len", "k_len",
                                        "q_full", NULL};
    const int64_t most = PRICE_MAX_ROWS;
    int rc = js_object(at, known, e);

    if (rc == ERR_OK) rc = js_need_bool(at, "local", &s->local, e);
    if (rc == ERR_OK) rc = js_need_int(at, "q", 0, most, &s->q, e);
    if (rc == ERR_OK) rc = js_need_int(at, "k", 0, most, &s->k, e);
    if (rc == ERR_OK) rc = js_need_int(at, "q_len", 0, most, &s->q_len, e);
    if (rc == ERR_OK) rc = js_need_int(at, "k_len", 0, most, &s->k_len, e);
    s->q_full = s->q == own;
    s->k_full = s->local && s->k == own;
    if (rc == ERR_OK) rc = js_opt_bool(at, "q_full", &s->q_full, e);
    return rc;
}

static int read_rank_stages(const struct js *at, int64_t own,
                            struct stage **out, int64_t *n, struct err *e)
{
    int64_t i, size = js_size(at);
    int rc = js_array(at, -1, e);

    if (rc != ERR_OK) return rc;
    if (size > PRICE_MAX_STAGES)
        return js_error(at, e, "more than %d stages", PRICE_MAX_STAGES);
    *out = calloc((size_t)size + 1, sizeof **out);
    if (*out == NULL) return err_nomem(e);
    *n = size;
    for (i = 0; rc == ERR_OK && i < size; i++) {
        struct js s = js_item(at, i);
        rc = read_stage(&s, own, &(*out)[i], e);
    }
    return rc;
}

static int read_stages(const struct js *at, int64_t cp, struct price_group *g,
                       struct err *e)
{
    int64_t r;
    int rc = js_array(at, cp, e);

    if (rc != ERR_OK) return rc;
    g->stage = calloc((size_t)cp, sizeof *g->stage);
    g->n_stage = calloc((size_t)cp, sizeof *g->n_stage);
    if (g->stage == NULL || g->n_stage == NULL) return err_nomem(e);
    for (r = 0; rc == ERR_OK && r < cp; r++) {
        struct js rank = js_item(at, r);
        rc = read_rank_stages(&rank, g->attention_rows[r], &g->stage[r],
                              &g->n_stage[r], e);
    }
    return rc;
}

/* Attention by its stages, or by the bytes that they keep; where per-rank
** pricing does not apply, by neither. */
static int read_attention(const struct js *at, int64_t cp,
                          struct price_group *g, struct err *e)
{
    struct js stages = js_get(at, "stages");
    struct js kept = js_get(at, "attention_retained");

    if (stages.v != NULL && kept.v != NULL)
        return js_error(&kept, e, "stages are given too: give one of them");
    if (stages.v != NULL) return read_stages(&stages, cp, g, e);
    if (kept.v == NULL) return ERR_OK;
    return js_ints(&kept, cp, 0, PRICE_MAX_BYTES, &g->attention_retained,
                   NULL, e);
}

/* null is the base model, as its name is. */
static int read_slot(const struct js *at, struct price_group *g,
                     struct err *e)
{
    const char *name = PRICE_BASE_SLOT;
    struct js slot;
    int rc = js_need(at, "slot", &slot, e);

    if (rc == ERR_OK && !json_is_null(slot.v)) rc = js_string(&slot, &name, e);
    if (rc != ERR_OK) return rc;
    if (strlen(name) >= sizeof g->slot)
        return js_error(&slot, e, "longer than %zu bytes",
                        sizeof g->slot - 1);
    snprintf(g->slot, sizeof g->slot, "%s", name);
    return ERR_OK;
}

static int read_rows(const struct js *at, const char *key, int64_t cp,
                     int64_t **out, struct err *e)
{
    struct js rows;
    int rc = js_need(at, key, &rows, e);
    return rc != ERR_OK
        ? rc : js_ints(&rows, cp, 0, PRICE_MAX_ROWS, out, NULL, e);
}

/* [cp] numbers, or no key. */
static int read_states(const struct js *at, const char *key, int64_t cp,
                       int64_t **out, struct err *e)
{
    struct js v = js_get(at, key);

    if (v.v == NULL) return ERR_OK;
    return js_ints(&v, cp, 0, PRICE_MAX_ROWS, out, NULL, e);
}

/* A list of n numbers a rank, or no key; n -1: as many as the first has. */
static int read_table(const struct js *at, const char *key, int64_t cp,
                      int64_t *n, int64_t **out, struct err *e)
{
    struct js all = js_get(at, key);
    int64_t r, *row;
    int rc;

    if (all.v == NULL) return ERR_OK;
    rc = js_array(&all, cp, e);
    for (r = 0; rc == ERR_OK && r < cp; r++) {
        struct js v = js_item(&all, r);
        rc = js_ints(&v, *n, 0, PRICE_MAX_ROWS, &row, n, e);
        if (rc != ERR_OK) break;
        if (r == 0) *out = calloc((size_t)(cp * *n) + 1, sizeof **out);
        if (*out != NULL)
            memcpy(*out + r * *n, row, (size_t)*n * sizeof *row);
        free(row);
        if (*out == NULL) return err_nomem(e);
    }
    return rc;
}

static int read_routing(const struct js *at, int64_t cp, int64_t layers,
                        struct price_group *g, struct err *e)
{
    int rc = read_states(at, "gdn_states", cp, &g->gdn_states, e);

    g->n_sent = -1;
    if (rc == ERR_OK)
        rc = read_states(at, "gdn_chunks", cp, &g->gdn_chunks, e);
    if (rc == ERR_OK)
        rc = read_states(at, "gdn_sent", cp, &g->gdn_sent, e);
    if (rc == ERR_OK)
        rc = read_table(at, "sent_rows", cp, &g->n_sent, &g->sent_rows, e);
    return rc == ERR_OK ? read_table(at, "routed_pairs", cp, &layers,
                                     &g->routed_pairs, e) : rc;
}

/* Arrays are as long as there are ranks; the count is checked as they are
** read. */
static int read_group(const struct js *at, int64_t cp, int64_t layers,
                      struct price_group *g, struct err *e)
{
    static const char *const known[] = {
        "grad", "slot", "attention_rows", "gdn_rows", "routed_rows", "stages",
        "attention_retained", "routed_pairs", "gdn_states", "gdn_chunks",
        "gdn_sent", "sent_rows", NULL
    };
    int rc = js_object(at, known, e);

    g->routed_rows = -1;
    if (rc == ERR_OK) rc = js_need_bool(at, "grad", &g->grad, e);
    if (rc == ERR_OK) rc = read_slot(at, g, e);
    if (rc == ERR_OK)
        rc = read_rows(at, "attention_rows", cp, &g->attention_rows, e);
    if (rc == ERR_OK) rc = read_rows(at, "gdn_rows", cp, &g->gdn_rows, e);
    if (rc == ERR_OK)
        rc = read_nullable(at, "routed_rows", &g->routed_rows, e);
    if (rc == ERR_OK) rc = read_attention(at, cp, g, e);
    if (rc == ERR_OK) rc = read_routing(at, cp, layers, g, e);
    return rc;
}

/* At least one group, or there is nothing to price. */
static int read_groups(const struct js *top, struct price_facts *f,
                       struct err *e)
{
    struct js at;
    int64_t i, n;
    int rc = js_need(top, "groups", &at, e);

    if (rc == ERR_OK) rc = js_array(&at, -1, e);
    if (rc != ERR_OK) return rc;
    n = js_size(&at);
    if (n < 1 || n > PRICE_MAX_GROUPS)
        return js_error(&at, e, "must have from 1 to %d groups, has %lld",
                        PRICE_MAX_GROUPS, (long long)n);
    f->group = calloc((size_t)n, sizeof *f->group);
    if (f->group == NULL) return err_nomem(e);
    f->n_group = n;
    for (i = 0; rc == ERR_OK && i < n; i++) {
        struct js g = js_item(&at, i);
        rc = read_group(&g, f->cp, f->model->layers, &f->group[i], e);
    }
    return rc;
}

/* ---- how the step runs: keys that may be left out ------------------------ */

/* Index of the word in a list that ends with NULL. */
static int read_word(const struct js *top, const char *key,
                     const char *const words[], int *out, struct err *e)
{
    const char *word = words[*out];
    struct js at = js_get(top, key);
    int i, rc = js_opt_string(top, key, &word, e);

    for (i = 0; rc == ERR_OK && words[i] != NULL; i++) {
        if (strcmp(word, words[i]) != 0) continue;
        *out = i;
        return ERR_OK;
    }
    return rc != ERR_OK ? rc : js_error(&at, e, "no such %s: '%.64s'", key,
                                        word);
}

/* Words of selective recompute as a set. */
static int read_modules(const struct js *top, unsigned *out, struct err *e)
{
    struct js at = js_get(top, "recompute_modules");
    int64_t i;
    int rc = at.v == NULL ? ERR_OK : js_array(&at, -1, e);

    for (i = 0; rc == ERR_OK && at.v != NULL && i < js_size(&at); i++) {
        struct js item = js_item(&at, i);
        const char *name;
        int k = 0;

        rc = js_string(&item, &name, e);
        if (rc != ERR_OK) break;
        while (mode_module_words[k] != NULL &&
               strcmp(mode_module_words[k], name) != 0) k++;
        if (mode_module_words[k] == NULL)
            return js_error(&item, e, "no such module: '%.64s' (core_attn, "
                            "mlp or moe)", name);
        *out |= 1U << k;
    }
    return rc;
}

static int read_mode(const struct js *top, struct price_facts *f,
                     struct err *e)
{
    int recompute = RECOMPUTE_FULL, wave = WAVE_TRAIN;
    bool compiled = true, parallel = false;
    int rc = read_word(top, "recompute", mode_recompute_words, &recompute, e);

    if (rc == ERR_OK) rc = read_modules(top, &f->mode.modules, e);
    if (rc == ERR_OK) rc = read_word(top, "wave", mode_wave_words, &wave, e);
    if (rc == ERR_OK) rc = js_opt_bool(top, "compiled", &compiled, e);
    if (rc == ERR_OK)
        rc = js_opt_bool(top, "sequence_parallel", &parallel, e);
    f->mode.recompute = (enum recompute)recompute;
    f->mode.wave = (enum wave_kind)wave;
    f->mode.eager = !compiled;
    if (js_get(top, "sequence_parallel").v != NULL)
        f->sequence_parallel = parallel;
    return rc;
}

static int read_outputs(const struct js *top, struct price_facts *f,
                        struct err *e)
{
    struct js at = js_get(top, "output_rows");

    return at.v == NULL ? ERR_OK
        : js_ints(&at, -1, 1, PRICE_MAX_ROWS, &f->output_rows, &f->n_output,
                  e);
}

static int read_kept(const struct js *top, struct price_facts *f,
                     struct err *e)
{
    struct js at = js_get(top, "swiglu_widths");
    int rc = read_mode(top, f, e);

    if (rc == ERR_OK) rc = read_nullable(top, "packed_rows", &f->packed_rows,
                                         e);
    if (rc == ERR_OK) rc = read_nullable(top, "rank_rows", &f->rank_rows, e);
    if (rc == ERR_OK) rc = read_nullable(top, "segments", &f->segments, e);
    if (rc == ERR_OK)
        rc = read_nullable(top, "gdn_executed_rows", &f->gdn_executed_rows,
                           e);
    if (rc == ERR_OK) rc = read_outputs(top, f, e);
    if (rc != ERR_OK || at.v == NULL) return rc;
    rc = js_int(&at, 3, 7, &f->swiglu_widths, e);
    if (rc == ERR_OK && f->swiglu_widths % 2 == 0)
        rc = js_error(&at, e, "must be 3 (fused), 5 or 7 (clamped)");
    return rc;
}

/* Absent, or null: nothing is known of routing. */
static int read_load_cv(const struct js *top, struct price_facts *f,
                        struct err *e)
{
    struct js at = js_get(top, "load_cv");
    int rc;

    if (js_is_null(&at)) return ERR_OK;
    rc = js_double(&at, &f->load_cv, e);
    if (rc == ERR_OK && !(f->load_cv >= 0 && f->load_cv <= PRICE_MAX_LOAD_CV))
        rc = js_error(&at, e, "must be from 0 to %d", PRICE_MAX_LOAD_CV);
    return rc;
}

/* ---- the file ------------------------------------------------------------ */

static const char *const known_keys[] = {
    "format", "model", "layers", "parallel", "lora_rank", "cold",
    "adapter_pending", "moe_stages", "routing_state", "head_rows",
    "output_bytes", "hybridep_held_rows", "packed_length", "softmax_offset",
    "cp_attention", "block", "groups", "recompute", "recompute_modules",
    "wave", "compiled", "sequence_parallel", "packed_rows", "rank_rows",
    "segments", "swiglu_widths", "gdn_executed_rows", "output_rows",
    "load_cv", NULL
};

int price_facts_from_json(const struct js *at, const char *models_dir,
                          struct price_facts *out, struct err *e)
{
    struct price_facts f;
    int rc = js_object(at, known_keys, e);

    price_facts_init(&f);
    if (rc == ERR_OK) rc = read_wave(at, &f, e);
    if (rc == ERR_OK) rc = read_model(at, models_dir, &f, e);
    if (rc == ERR_OK) rc = read_groups(at, &f, e);
    if (rc == ERR_OK) rc = read_kept(at, &f, e);
    if (rc == ERR_OK) rc = read_load_cv(at, &f, e);
    if (rc == ERR_OK) {
        rc = price_check_whole(&f, e);
        if (rc != ERR_OK) err_wrap(e, "%s", at->origin);
    }
    if (rc == ERR_OK) rc = read_pending(at, &f, e);
    if (rc != ERR_OK) {
        price_facts_free(&f);
        return rc;
    }
    *out = f;
    return ERR_OK;
}

int price_facts_read(const char *path, const char *models_dir,
                     struct price_facts *out, struct err *e)
{
    json_t *root;
    struct js top;
    int rc = js_load(path, FACTS_LIMIT, &root, e);

    if (rc != ERR_OK) return rc;
    top = js_top(root, strcmp(path, "-") == 0 ? "standard input" : path);
    rc = price_facts_from_json(&top, models_dir, out, e);
    json_decref(root);
    return rc;
}
