/* facts.c - see facts.h */
#include "script/facts.h"

#include <lauxlib.h>

static void set_int(lua_State *L, const char *key, int64_t v)
{
    lua_pushinteger(L, v);
    lua_setfield(L, -2, key);
}

/* A number that -1 stands for "absent" in. */
static void set_optional(lua_State *L, const char *key, int64_t v)
{
    if (v >= 0) set_int(L, key, v);
}

static void set_flag(lua_State *L, const char *key, bool v)
{
    lua_pushboolean(L, v);
    lua_setfield(L, -2, key);
}

static void set_number(lua_State *L, const char *key, double v)
{
    lua_pushnumber(L, v);
    lua_setfield(L, -2, key);
}

static void set_text(lua_State *L, const char *key, const char *v)
{
    lua_pushstring(L, v);
    lua_setfield(L, -2, key);
}

static void set_list(lua_State *L, const char *key, const int64_t *v,
                     int64_t n)
{
    lua_createtable(L, (int)n, 0);
    for (int64_t i = 0; i < n; i++) {
        lua_pushinteger(L, v[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, key);
}

static void set_kinds(lua_State *L, const struct model *m)
{
    lua_createtable(L, (int)m->layers, 0);
    for (int64_t i = 0; i < m->layers; i++) {
        lua_pushstring(L, m->kind[i] == LAYER_GDN ? "gdn" : "attention");
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "kinds");
}

/* The geometry alone: an estimator gets no file and no weights. */
static void set_model(lua_State *L, const struct model *m)
{
    lua_createtable(L, 0, 32);
    set_text(L, "name", m->name);
    set_text(L, "family", m->family);
    set_int(L, "layers", m->layers);
    set_int(L, "hidden", m->hidden);
    set_int(L, "vocab", m->vocab);
    set_int(L, "max_positions", m->max_positions);
    set_flag(L, "tied", m->tied);
    set_int(L, "q_heads", m->q_heads);
    set_int(L, "kv_heads", m->kv_heads);
    set_int(L, "head_dim", m->head_dim);
    set_int(L, "rotary_dim", m->rotary_dim);
    set_flag(L, "attn_gate", m->attn_gate);
    set_flag(L, "head_norm", m->head_norm);
    set_flag(L, "qkv_bias", m->qkv_bias);
    set_int(L, "k_heads", m->k_heads);
    set_int(L, "k_dim", m->k_dim);
    set_int(L, "v_heads", m->v_heads);
    set_int(L, "v_dim", m->v_dim);
    set_int(L, "conv", m->conv);
    set_int(L, "experts", m->experts);
    set_int(L, "top_k", m->top_k);
    set_int(L, "expert_ffn", m->expert_ffn);
    set_int(L, "shared_ffn", m->shared_ffn);
    set_flag(L, "shared_gate", m->shared_gate);
    set_flag(L, "norm_topk", m->norm_topk);
    set_int(L, "ffn", m->ffn);
    set_number(L, "eps", m->eps);
    set_number(L, "rope_theta", m->rope_theta);
    set_kinds(L, m);
    lua_setfield(L, -2, "model");
}

static void push_stage(lua_State *L, const struct stage *s)
{
    lua_createtable(L, 0, 6);
    set_flag(L, "local", s->local);
    set_int(L, "q", s->q);
    set_int(L, "k", s->k);
    set_int(L, "q_len", s->q_len);
    set_int(L, "k_len", s->k_len);
    set_flag(L, "q_full", s->q_full);
}

static void set_stages(lua_State *L, const struct price_group *g, int64_t cp)
{
    lua_createtable(L, (int)cp, 0);
    for (int64_t r = 0; r < cp; r++) {
        lua_createtable(L, (int)g->n_stage[r], 0);
        for (int64_t v = 0; v < g->n_stage[r]; v++) {
            push_stage(L, &g->stage[r][v]);
            lua_rawseti(L, -2, v + 1);
        }
        lua_rawseti(L, -2, r + 1);
    }
    lua_setfield(L, -2, "stages");
}

/* Pairs by rank, then layer; rows by rank, then stage. */
static void set_pairs(lua_State *L, const char *key, const int64_t *pairs,
                      int64_t cp, int64_t layers)
{
    lua_createtable(L, (int)cp, 0);
    for (int64_t r = 0; r < cp; r++) {
        lua_createtable(L, (int)layers, 0);
        for (int64_t l = 0; l < layers; l++) {
            lua_pushinteger(L, (lua_Integer)pairs[r * layers + l]);
            lua_rawseti(L, -2, l + 1);
        }
        lua_rawseti(L, -2, r + 1);
    }
    lua_setfield(L, -2, key);
}

/* Adapter gradients that are not allocated yet: a list, or false. */
static void set_pending(lua_State *L, const int64_t *list, int64_t layers)
{
    if (list != NULL)
        set_list(L, "adapter_pending", list, layers + 1);
    else
        set_flag(L, "adapter_pending", false);
}

/* All that a group may say; what it does not is nil. */
static void push_group(lua_State *L, const struct price_group *g, int64_t cp,
                       int64_t layers)
{
    lua_createtable(L, 0, 8);
    set_flag(L, "grad", g->grad);
    set_text(L, "slot", g->slot);
    set_list(L, "attention_rows", g->attention_rows, cp);
    set_list(L, "gdn_rows", g->gdn_rows, cp);
    set_optional(L, "routed_rows", g->routed_rows);
    if (g->stage != NULL) set_stages(L, g, cp);
    if (g->attention_retained != NULL)
        set_list(L, "attention_retained", g->attention_retained, cp);
    if (g->pending != NULL) set_pending(L, g->pending, layers);
    if (g->gdn_states != NULL)
        set_list(L, "gdn_states", g->gdn_states, cp);
    if (g->gdn_chunks != NULL)
        set_list(L, "gdn_chunks", g->gdn_chunks, cp);
    if (g->gdn_sent != NULL)
        set_list(L, "gdn_sent", g->gdn_sent, cp);
    if (g->sent_rows != NULL)
        set_pairs(L, "sent_rows", g->sent_rows, cp, g->n_sent);
    if (g->routed_pairs != NULL)
        set_pairs(L, "routed_pairs", g->routed_pairs, cp, layers);
}

static void set_parallel(lua_State *L, const struct price_facts *f)
{
    lua_createtable(L, 0, 4);
    set_int(L, "cp", f->cp);
    set_int(L, "ep", f->ep);
    set_int(L, "tp", f->tp);
    set_int(L, "pp", f->pp);
    lua_setfield(L, -2, "parallel");
}

static void set_modules(lua_State *L, unsigned modules)
{
    lua_Integer n = 0;

    lua_createtable(L, 0, 0);
    for (int i = 0; mode_module_words[i] != NULL; i++) {
        if ((modules >> i & 1) == 0) continue;
        lua_pushstring(L, mode_module_words[i]);
        lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "recompute_modules");
}

/* How the step runs, filled in where facts may leave it out. */
static void set_mode(lua_State *L, const struct price_facts *f)
{
    set_text(L, "recompute", mode_recompute_words[f->mode.recompute]);
    set_modules(L, f->mode.modules);
    set_text(L, "wave", mode_wave_words[f->mode.wave]);
    set_flag(L, "compiled", !f->mode.eager);
    set_flag(L, "sequence_parallel", price_sequence_parallel(f));
    set_int(L, "packed_rows", price_packed_rows(f));
    set_int(L, "rank_rows", price_rank_rows(f));
    set_int(L, "segments", price_segments(f));
    set_int(L, "swiglu_widths", price_swiglu_widths(f));
    set_optional(L, "gdn_executed_rows", f->gdn_executed_rows);
    if (f->output_rows != NULL)
        set_list(L, "output_rows", f->output_rows, f->n_output);
}

static void set_known(lua_State *L, const struct price_facts *f,
                      const struct scenario_known *k)
{
    set_text(L, "dtype", k->dtype);
    lua_createtable(L, 0, 3);
    set_text(L, "scenario", k->scenario);
    set_text(L, "name", k->name);
    set_int(L, "wave", k->wave);
    lua_setfield(L, -2, "case");
    lua_createtable(L, 0, 2);
    set_number(L, "load_cv", k->load_cv);
    if (k->last_pairs != NULL)
        set_pairs(L, "last_pairs", k->last_pairs, f->cp, f->model->layers);
    lua_setfield(L, -2, "known");
}

void facts_push(lua_State *L, const struct price_facts *f,
                const struct scenario_known *known)
{
    const int64_t block[2] = {f->q_block, f->k_block};

    luaL_checkstack(L, 10, "no room for facts");
    lua_createtable(L, 0, 30);
    set_int(L, "format", 1);
    set_model(L, f->model);
    set_int(L, "layers", f->model->layers);
    set_parallel(L, f);
    set_int(L, "lora_rank", f->lora_rank);
    set_flag(L, "cold", f->cold);
    set_pending(L, f->pending, f->model->layers);
    set_flag(L, "moe_stages", f->moe_stages);
    set_flag(L, "routing_state", f->routing_state);
    set_int(L, "head_rows", f->head_rows);
    set_int(L, "output_bytes", f->output_bytes);
    set_optional(L, "hybridep_held_rows", f->hybridep_held_rows);
    set_optional(L, "packed_length", f->packed_length);
    if (f->load_cv > 0) set_number(L, "load_cv", f->load_cv);
    set_flag(L, "softmax_offset", f->softmax_offset);
    set_flag(L, "cp_attention", f->cp_attention);
    set_list(L, "block", block, 2);
    set_mode(L, f);
    lua_createtable(L, (int)f->n_group, 0);
    for (int64_t i = 0; i < f->n_group; i++) {
        push_group(L, &f->group[i], f->cp, f->model->layers);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "groups");
    if (known != NULL) set_known(L, f, known);
}
