/*
** Any FACTS.json: an error, or estimates whose terms add up, and the same
** ones from the facts written and read back. A model given by name is put in
** place here, so that no file is opened.
*/
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "price/price_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char config[] =
    "{\"model_type\": \"qwen3_next\", \"attention_bias\": false,"
    " \"decoder_sparse_step\": 1, \"full_attention_interval\": 4,"
    " \"head_dim\": 256, \"hidden_act\": \"silu\", \"hidden_size\": 2048,"
    " \"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": 128,"
    " \"linear_num_key_heads\": 16, \"linear_num_value_heads\": 32,"
    " \"linear_value_head_dim\": 128, \"max_position_embeddings\": 262144,"
    " \"mlp_only_layers\": [], \"moe_intermediate_size\": 512,"
    " \"norm_topk_prob\": true, \"num_attention_heads\": 16,"
    " \"num_experts\": 256, \"num_experts_per_tok\": 8,"
    " \"num_hidden_layers\": 40, \"num_key_value_heads\": 2,"
    " \"partial_rotary_factor\": 0.25, \"rms_norm_eps\": 1e-06,"
    " \"rope_theta\": 10000000, \"shared_expert_intermediate_size\": 512,"
    " \"tie_word_embeddings\": false, \"vocab_size\": 248320}";

static struct estimate estimate;

static void check(const struct estimate *x)
{
    int64_t sum = 0;
    int c;

    for (c = 0; c < CAT_COUNT; c++) {
        if (x->term[c] < 0) abort();
        sum += x->term[c];
    }
    if (sum != x->raw || x->raw < 0 || x->admitted < x->raw) abort();
}

/* Raw bytes of every estimator; -1 where there are none. */
static void price(const struct price_facts *f, int64_t raw[PRICE_ESTIMATORS])
{
    struct err e;
    int i;

    for (i = 0; i < PRICE_ESTIMATORS; i++) {
        raw[i] = -1;
        if (price_estimators[i].price(f, &estimate, &e) != ERR_OK) continue;
        check(&estimate);
        raw[i] = estimate.raw;
    }
}

static void write_and_read(const struct price_facts *f,
                           const int64_t raw[PRICE_ESTIMATORS])
{
    struct price_facts g;
    int64_t again[PRICE_ESTIMATORS];
    struct err e;
    struct js top;
    json_t *v;

    if (price_facts_to_json(f, &v, &e) != ERR_OK) abort();
    top = js_top(v, "g");
    if (price_facts_from_json(&top, NULL, &g, &e) != ERR_OK) abort();
    price(&g, again);
    if (memcmp(again, raw, sizeof again) != 0) abort();
    price_facts_free(&g);
    json_decref(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct price_facts f;
    int64_t raw[PRICE_ESTIMATORS];
    struct js top;
    struct err e;
    json_t *v;

    if (js_parse((const char *)data, size, "f", &v, &e) != ERR_OK) return 0;
    if (json_is_string(json_object_get(v, "model")))
        json_object_set_new(v, "model", json_loads(config, 0, NULL));
    top = js_top(v, "f");
    if (price_facts_from_json(&top, NULL, &f, &e) == ERR_OK) {
        price(&f, raw);
        write_and_read(&f, raw);
        price_facts_free(&f);
    }
    json_decref(v);
    return 0;
}
