/* price_json.c - facts and estimates into JSON; see price_json.h */
#include "price/internal.h"
#include "price/price_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/clean.h"

/* o[key] = v, taking v over. A failed allocation, v NULL too, is remembered
** in *ok, so that a writer checks once. */
static void set(json_t *o, const char *key, json_t *v, bool *ok)
{
    if (json_object_set_new(o, key, v) != 0) *ok = false;
}

static void append(json_t *a, json_t *v, bool *ok)
{
    if (json_array_append_new(a, v) != 0) *ok = false;
}

static json_t *ints(const int64_t *v, int64_t n, bool *ok)
{
    json_t *a = json_array();
    int64_t i;

    for (i = 0; i < n; i++) append(a, json_integer(v[i]), ok);
    return a;
}

/* ---- facts --------------------------------------------------------------- */

static json_t *model_json(const struct price_facts *f)
{
    const char *ref = f->model_ref;

    if (ref == NULL) return json_sprintf("%s.json", f->model->name);
    if (ref[0] == '{') return json_loads(ref, 0, NULL);
    return json_string(ref);
}

static json_t *null_if_negative(int64_t v)
{
    return v < 0 ? json_null() : json_integer(v);
}

/* false: none; true: all of them, whose list is all. */
static json_t *pending_list(const struct price_facts *f, const int64_t *list,
                            const int64_t *all, bool *ok)
{
    size_t n = (size_t)f->model->layers + 1;

    if (list == NULL) return json_false();
    if (memcmp(all, list, n * sizeof *list) == 0) return json_true();
    return ints(list, (int64_t)n, ok);
}

/* For every slot alike, or by slot where a group has its own. */
static int pending_json(const struct price_facts *f, json_t **out, bool *ok,
                        struct err *e)
{
    int64_t *all = NULL, g;
    bool by_slot = false;
    int rc = price_all_pending(f, &all, e);

    if (rc != ERR_OK) return rc;
    for (g = 0; g < f->n_group; g++) by_slot |= f->group[g].pending != NULL;
    *out = by_slot ? json_object() : pending_list(f, f->pending, all, ok);
    for (g = 0; by_slot && g < f->n_group; g++)
        if (strcmp(f->group[g].slot, PRICE_BASE_SLOT) != 0)
            set(*out, f->group[g].slot,
                pending_list(f, price_pending(f, g), all, ok), ok);
    free(all);
    return ERR_OK;
}

static json_t *stages_json(const struct stage *s, int64_t n, bool *ok)
{
    json_t *a = json_array();
    int64_t i;

    for (i = 0; i < n; i++) {
        json_t *o = json_object();
        set(o, "local", json_boolean(s[i].local), ok);
        set(o, "q", json_integer(s[i].q), ok);
        set(o, "k", json_integer(s[i].k), ok);
        set(o, "q_len", json_integer(s[i].q_len), ok);
        set(o, "k_len", json_integer(s[i].k_len), ok);
        set(o, "q_full", json_boolean(s[i].q_full), ok);
        append(a, o, ok);
    }
    return a;
}

static json_t *table(const int64_t *v, int64_t rows, int64_t cols, bool *ok)
{
    json_t *a = json_array();
    int64_t r;

    for (r = 0; r < rows; r++) append(a, ints(v + r * cols, cols, ok), ok);
    return a;
}

static void put_routing(const struct price_group *g, int64_t cp,
                        int64_t layers, json_t *o, bool *ok)
{
    if (g->gdn_states != NULL)
        set(o, "gdn_states", ints(g->gdn_states, cp, ok), ok);
    if (g->gdn_chunks != NULL)
        set(o, "gdn_chunks", ints(g->gdn_chunks, cp, ok), ok);
    if (g->gdn_sent != NULL)
        set(o, "gdn_sent", ints(g->gdn_sent, cp, ok), ok);
    if (g->sent_rows != NULL)
        set(o, "sent_rows", table(g->sent_rows, cp, g->n_sent, ok), ok);
    if (g->routed_pairs != NULL)
        set(o, "routed_pairs", table(g->routed_pairs, cp, layers, ok), ok);
}

/* A group as FACTS.json has it, so that output can be input. */
static json_t *group_json(const struct price_group *g, int64_t cp,
                          int64_t layers, bool *ok)
{
    json_t *o = json_object(), *stages;
    int64_t r;

    set(o, "grad", json_boolean(g->grad), ok);
    set(o, "slot", json_string(g->slot), ok);
    set(o, "attention_rows", ints(g->attention_rows, cp, ok), ok);
    set(o, "gdn_rows", ints(g->gdn_rows, cp, ok), ok);
    set(o, "routed_rows", null_if_negative(g->routed_rows), ok);
    put_routing(g, cp, layers, o, ok);
    if (g->attention_retained != NULL)
        set(o, "attention_retained", ints(g->attention_retained, cp, ok), ok);
    if (g->attention_retained != NULL || g->stage == NULL) return o;
    stages = json_array();
    for (r = 0; r < cp; r++)
        append(stages, stages_json(g->stage[r], g->n_stage[r], ok), ok);
    set(o, "stages", stages, ok);
    return o;
}

static json_t *parallel_json(const struct price_facts *f, bool *ok)
{
    json_t *o = json_object();

    set(o, "cp", json_integer(f->cp), ok);
    set(o, "ep", json_integer(f->ep), ok);
    set(o, "tp", json_integer(f->tp), ok);
    set(o, "pp", json_integer(f->pp), ok);
    return o;
}

static void put_wave(const struct price_facts *f, json_t *pending, json_t *o,
                     bool *ok)
{
    set(o, "format", json_integer(1), ok);
    set(o, "model", model_json(f), ok);
    set(o, "layers", json_integer(f->model->layers), ok);
    set(o, "parallel", parallel_json(f, ok), ok);
    set(o, "lora_rank", json_integer(f->lora_rank), ok);
    set(o, "cold", json_boolean(f->cold), ok);
    set(o, "adapter_pending", pending, ok);
    set(o, "moe_stages", json_boolean(f->moe_stages), ok);
    set(o, "routing_state", json_boolean(f->routing_state), ok);
    set(o, "head_rows", json_integer(f->head_rows), ok);
    set(o, "output_bytes", json_integer(f->output_bytes), ok);
    set(o, "hybridep_held_rows", null_if_negative(f->hybridep_held_rows), ok);
    set(o, "packed_length", null_if_negative(f->packed_length), ok);
    set(o, "softmax_offset", json_boolean(f->softmax_offset), ok);
    set(o, "cp_attention", json_boolean(f->cp_attention), ok);
    set(o, "block", ints((int64_t[2]){f->q_block, f->k_block}, 2, ok), ok);
}

static json_t *modules_json(unsigned modules, bool *ok)
{
    json_t *a = json_array();
    int i;

    for (i = 0; mode_module_words[i] != NULL; i++)
        if (modules >> i & 1)
            append(a, json_string(mode_module_words[i]), ok);
    return a;
}

/* What is as a reader takes it to be is left out. */
static void put_kept(const struct price_facts *f, json_t *o, bool *ok)
{
    const struct {
        const char *key;
        int64_t value, absent;
    } number[] = {
        {"packed_rows", f->packed_rows, -1}, {"rank_rows", f->rank_rows, -1},
        {"segments", f->segments, -1},
        {"swiglu_widths", f->swiglu_widths, 0},
        {"gdn_executed_rows", f->gdn_executed_rows, -1},
    };
    size_t i;

    if (f->mode.recompute != RECOMPUTE_FULL)
        set(o, "recompute",
            json_string(mode_recompute_words[f->mode.recompute]), ok);
    if (f->mode.modules != 0)
        set(o, "recompute_modules", modules_json(f->mode.modules, ok), ok);
    if (f->mode.wave != WAVE_TRAIN)
        set(o, "wave", json_string(mode_wave_words[f->mode.wave]), ok);
    if (f->mode.eager) set(o, "compiled", json_false(), ok);
    if (f->sequence_parallel >= 0)
        set(o, "sequence_parallel", json_boolean(f->sequence_parallel), ok);
    for (i = 0; i < sizeof number / sizeof number[0]; i++)
        if (number[i].value != number[i].absent)
            set(o, number[i].key, json_integer(number[i].value), ok);
    if (f->output_rows != NULL)
        set(o, "output_rows", ints(f->output_rows, f->n_output, ok), ok);
}

int price_facts_to_json(const struct price_facts *f, json_t **out,
                        struct err *e)
{
    json_t *o, *groups, *pending;
    const char *ref = f->model_ref != NULL ? f->model_ref : "";
    size_t n = strlen(ref);
    bool ok = true;
    int64_t i;
    int rc;

    if (text_valid(ref, n) < n)
        return err_set(e, ERR_INPUT, "%s: a model whose name is not UTF-8 "
                       "cannot stand in facts (call it otherwise)", ref);
    rc = pending_json(f, &pending, &ok, e);
    if (rc != ERR_OK) return rc;
    o = json_object();
    put_wave(f, pending, o, &ok);
    put_kept(f, o, &ok);
    if (f->load_cv > 0) set(o, "load_cv", json_real(f->load_cv), &ok);
    groups = json_array();
    for (i = 0; i < f->n_group; i++)
        append(groups,
               group_json(&f->group[i], f->cp, f->model->layers, &ok), &ok);
    set(o, "groups", groups, &ok);
    if (!ok) {
        json_decref(o);
        return err_nomem(e);
    }
    *out = o;
    return ERR_OK;
}

/* ---- estimates ----------------------------------------------------------- */

static json_t *terms_json(const struct estimate *est, bool *ok)
{
    json_t *o = json_object();
    int c;

    for (c = 0; est->priced && c < CAT_COUNT; c++)
        set(o, category_name((enum category)c), json_integer(est->term[c]),
            ok);
    return o;
}

static json_t *workspace_json(const struct price_rank *r, bool *ok)
{
    json_t *o = json_object();

    set(o, "attention", json_integer(r->moe_workspace[LAYER_ATTENTION]), ok);
    set(o, "gdn", json_integer(r->moe_workspace[LAYER_GDN]), ok);
    return o;
}

/* What is a stage's is null where there are none. */
static json_t *rank_json(const struct price_rank *r, bool *ok)
{
    json_t *o = json_object();
    bool s = r->staged;

    set(o, "boundaries", json_integer(r->boundaries), ok);
    set(o, "attention_stage",
        s ? json_integer(r->attention_stage) : json_null(), ok);
    set(o, "gdn_stage", s ? json_integer(r->gdn_stage) : json_null(), ok);
    set(o, "attention_retained", json_integer(r->attention_retained), ok);
    set(o, "moe_workspace", s ? workspace_json(r, ok) : json_null(), ok);
    set(o, "adapter_extra", s ? json_integer(r->adapter_extra) : json_null(),
        ok);
    set(o, "total", json_integer(r->total), ok);
    return o;
}

static json_t *mixer_json(const struct estimate *est)
{
    if (est->n_rank == 0 || est->head_binds) return json_null();
    return json_string(est->binding_mixer == LAYER_GDN ? "gdn" : "attention");
}

static void put_ranks(const struct estimate *est, json_t *o, bool *ok)
{
    json_t *ranks = json_array();
    int64_t r;

    set(o, "binding_rank",
        est->n_rank > 0 ? json_integer(est->binding_rank) : json_null(), ok);
    set(o, "binding_mixer", mixer_json(est), ok);
    for (r = 0; r < est->n_rank; r++)
        append(ranks, rank_json(&est->rank[r], ok), ok);
    set(o, "ranks", ranks, ok);
}

static json_t *estimate_json(const struct estimate *est, bool *ok)
{
    json_t *o = json_object();

    set(o, "name", json_string(est->name), ok);
    set(o, "supported", json_boolean(est->supported), ok);
    set(o, "reason", est->supported ? json_null() : json_string(est->reason),
        ok);
    set(o, "raw_bytes", est->priced ? json_integer(est->raw) : json_null(),
        ok);
    set(o, "admitted_bytes",
        est->priced ? json_integer(est->admitted) : json_null(), ok);
    set(o, "terms", terms_json(est, ok), ok);
    if (strncmp(est->name, PRICE_PER_RANK, strlen(PRICE_PER_RANK)) == 0)
        put_ranks(est, o, ok);
    return o;
}

int price_estimates_to_json(const struct estimate *const *est, int64_t n,
                            json_t **out, struct err *e)
{
    json_t *o = json_object(), *list = json_array();
    bool ok = true;
    int64_t i;

    set(o, "format", json_integer(1), &ok);
    for (i = 0; i < n; i++) append(list, estimate_json(est[i], &ok), &ok);
    set(o, "estimates", list, &ok);
    if (!ok) {
        json_decref(o);
        return err_nomem(e);
    }
    *out = o;
    return ERR_OK;
}
