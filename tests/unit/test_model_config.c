/* config.json: every shipped model, islands, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "model/family.h"
#include "model/model.h"
#include "model_text.h"

#define QWEN36 "lua/models/Qwen3.6-35B-A3B.json"

static struct model load(const char *path, int64_t layers)
{
    struct model m;
    struct err e;
    if (model_load(path, layers, &m, &e) != ERR_OK) fail_msg("%s", e.text);
    return m;
}

static void test_qwen36(void **state)
{
    struct model m = load(QWEN36, 0);

    (void)state;
    assert_string_equal(m.name, "Qwen3.6-35B-A3B");
    assert_string_equal(m.family, "qwen3_5_moe");
    assert_string_equal(m.prefix, "model.language_model.");
    assert_int_equal(m.layers, 40);
    assert_int_equal(m.hidden, 2048);
    assert_int_equal(m.vocab, 248320);
    assert_int_equal(m.max_positions, 262144);
    assert_true(m.norm_zero_centred && m.attn_gate && m.shared_gate
                && m.norm_topk && !m.tied);
    assert_int_equal(model_q(&m), 4096);
    assert_int_equal(model_kv(&m), 512);
    assert_int_equal(m.rotary_dim, 64);
    assert_true(m.rope_theta > 9999999 && m.rope_theta < 10000001);
    assert_true(m.eps > 0.99e-6 && m.eps < 1.01e-6);
    assert_int_equal(model_key(&m), 2048);
    assert_int_equal(model_value(&m), 4096);
    assert_int_equal(model_conv_channels(&m), 8192);
    assert_int_equal(m.conv, 4);
    assert_int_equal(m.experts, 256);
    assert_int_equal(m.top_k, 8);
    assert_int_equal(m.expert_ffn, 512);
    assert_int_equal(m.shared_ffn, 512);
    assert_int_equal(m.ffn, 0);
    assert_int_equal(model_count(&m, LAYER_ATTENTION), 10);
    assert_int_equal(model_count(&m, LAYER_GDN), 30);
    model_free(&m);
}

static void test_other_models(void **state)
{
    struct model m = load("lua/models/Qwen3-30B-A3B.json", 0);

    (void)state;
    assert_int_equal(model_count(&m, LAYER_ATTENTION), 48);
    assert_int_equal(m.rotary_dim, 128);
    assert_int_equal(m.shared_ffn, 0);
    assert_true(!m.attn_gate && !m.norm_zero_centred && !m.shared_gate);
    assert_true(m.head_norm && !m.qkv_bias);
    assert_null(m.names->fused_qkvz);
    assert_string_equal(m.prefix, "model.");
    model_free(&m);

    m = load("lua/models/Qwen3-Next-80B-A3B.json", 0);
    assert_int_equal(m.layers, 48);
    assert_int_equal(model_count(&m, LAYER_GDN), 36);
    assert_int_equal(m.experts, 512);
    assert_int_equal(m.top_k, 10);
    assert_true(m.names->fused_qkvz != NULL && m.norm_topk && m.attn_gate);
    model_free(&m);

    m = load("lua/models/Qwen3.6-27B.json", 0);
    assert_int_equal(m.experts, 0);
    assert_int_equal(m.ffn, 17408);
    assert_int_equal(model_value(&m), 6144);
    model_free(&m);

    m = load("lua/models/Qwen3.5-0.8B.json", 0);
    assert_true(m.tied);
    assert_int_equal(m.ffn, 3584);
    model_free(&m);

    m = load("lua/models/Qwen3.5-35B-A3B.json", 0);
    assert_int_equal(m.layers, 40);
    model_free(&m);
}

/* The geometries of the measured dense models. */
static void test_dense_models(void **state)
{
    static const struct {
        const char *path;
        int64_t layers, gdn, hidden, ffn, q, kv, value;
    } want[] = {
        {"lua/models/Qwen3-1.7B.json", 28, 0, 2048, 6144, 2048, 1024, 0},
        {"lua/models/Qwen3.5-4B.json", 32, 24, 2560, 9216, 4096, 1024, 4096},
        {"lua/models/Qwen3.5-9B.json", 32, 24, 4096, 12288, 4096, 1024,
         4096},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct model m = load(want[i].path, 0);
        bool hybrid = want[i].gdn > 0;
        assert_int_equal(m.layers, want[i].layers);
        assert_int_equal(model_count(&m, LAYER_GDN), want[i].gdn);
        assert_int_equal(m.hidden, want[i].hidden);
        assert_int_equal(m.ffn, want[i].ffn);
        assert_int_equal(model_q(&m), want[i].q);
        assert_int_equal(model_kv(&m), want[i].kv);
        assert_int_equal(model_value(&m), want[i].value);
        assert_int_equal(m.experts, 0);
        assert_true(m.attn_gate == hybrid && m.norm_zero_centred == hybrid);
        assert_true(m.head_norm && !m.qkv_bias);
        model_free(&m);
    }
}

static void test_islands(void **state)
{
    struct model m = load(QWEN36, 0);
    int64_t i, in_gdn = 0;

    (void)state;
    for (i = 0; i < m.layers; i++) {
        bool in = i % 4 == 1 || i % 4 == 2, out = i % 4 == 0 || i % 4 == 1;
        assert_int_equal(model_input_layout(&m, i), in);
        assert_int_equal(model_output_layout(&m, i), out);
        in_gdn += in;
    }
    assert_int_equal(in_gdn, 20);
    model_free(&m);

    m = load(QWEN36, 3);    /* a cut model leaves its last island at its end */
    assert_int_equal(m.layers, 3);
    assert_int_equal(model_output_layout(&m, 1), LAYER_GDN);
    assert_int_equal(model_output_layout(&m, 2), LAYER_ATTENTION);
    model_free(&m);
}

/* ---- refusals: the shipped config with one key changed ------------------- */

static json_t *shipped(const char *path)
{
    json_error_t why;
    json_t *v = json_load_file(path, 0, &why);
    assert_non_null(v);
    return v;
}

static int parse(json_t *v, struct err *e)
{
    char *text = json_dumps(v, 0);
    struct model m;
    int rc = model_of_text(text, &m, e);
    if (rc == ERR_OK) model_free(&m);
    free(text);
    return rc;
}

/* value is JSON text; NULL takes the key away. Both words must be in the
** message. */
static void check_change(const char *path, const char *key, const char *value,
                         const char *word)
{
    json_t *v = shipped(path), *t = json_object_get(v, "text_config");
    struct err e = {0};

    if (t == NULL) t = v;
    if (value == NULL)
        json_object_del(t, key);
    else
        json_object_set_new(t, key, json_loads(value, JSON_DECODE_ANY, NULL));
    if (parse(v, &e) != ERR_INPUT) fail_msg("%s = %s is accepted", key,
                                            value ? value : "(gone)");
    if (strstr(e.text, key) == NULL || strstr(e.text, word) == NULL
        || strstr(e.text, "c.json") == NULL)
        fail_msg("%s, %s not named in: %s", key, word, e.text);
    json_decref(v);
}

static void test_sizes_refused(void **state)
{
    static const char *const keys[] = {
        "num_hidden_layers", "hidden_size", "vocab_size",
        "max_position_embeddings", "num_attention_heads",
        "num_key_value_heads", "head_dim", "linear_num_key_heads",
        "linear_key_head_dim", "linear_num_value_heads",
        "linear_value_head_dim", "linear_conv_kernel_dim", "num_experts",
        "num_experts_per_tok", "moe_intermediate_size",
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        check_change(QWEN36, keys[i], NULL, "");
        check_change(QWEN36, keys[i], "0", "");
        check_change(QWEN36, keys[i], "-1", "");
        check_change(QWEN36, keys[i], "4611686018427387904", "");
        check_change(QWEN36, keys[i], "2.0", "");
        check_change(QWEN36, keys[i], "\"8\"", "");
        check_change(QWEN36, keys[i], "null", "");
    }
    check_change(QWEN36, "shared_expert_intermediate_size", "-1", "");
    check_change(QWEN36, "num_experts_per_tok", "257", "num_experts");
    check_change(QWEN36, "num_key_value_heads", "3", "divide");
    check_change(QWEN36, "linear_num_key_heads", "5", "divide");
    check_change("lua/models/Qwen3.6-27B.json", "intermediate_size", NULL,
                 "missing");
}

static void test_meaning_refused(void **state)
{
    (void)state;
    check_change(QWEN36, "attention_bias", "true", "false");
    check_change(QWEN36, "hidden_act", "\"gelu\"", "silu");
    check_change(QWEN36, "hidden_act", NULL, "silu");
    check_change(QWEN36, "mlp_only_layers", "[0]", "empty");
    check_change(QWEN36, "decoder_sparse_step", "2", "1");
    check_change(QWEN36, "quantization_config", "{\"bits\":8}", "bf16");
    check_change(QWEN36, "rms_norm_eps", "0", "above");
    check_change(QWEN36, "rms_norm_eps", NULL, "missing");
    check_change(QWEN36, "output_gate_type", "\"sigmoid\"", "swish");
    check_change(QWEN36, "attn_output_gate", "1", "");
    check_change(QWEN36, "tie_word_embeddings", "true", "differs");
    check_change(QWEN36, "model_type", "\"qwen2\"", "qwen3_5_moe_text");
    check_change("lua/models/Qwen3-30B-A3B.json", "use_sliding_window", "true",
                 "false");
    check_change("lua/models/Qwen3-30B-A3B.json", "norm_topk_prob", NULL,
                 "missing");
    check_change("lua/models/Qwen3-30B-A3B.json", "model_type", "\"gemma3\"",
                 "qwen3_next, qwen3_5_moe, qwen3_5, qwen3_moe, qwen3, "
                 "qwen2_moe, mixtral, llama");
    check_change("lua/models/Qwen3-30B-A3B.json", "text_config", "{}", "none");
}

static void test_rotary_refused(void **state)
{
    (void)state;
    check_change(QWEN36, "partial_rotary_factor", "0.5", "differs");
    check_change(QWEN36, "rope_parameters", "{\"rope_theta\":1e7,"
                 "\"rope_type\":\"yarn\"}", "default");
    check_change(QWEN36, "rope_parameters", "[]", "object");
    check_change(QWEN36, "rope_parameters", "{\"rope_theta\":-5}", "above");
    check_change("lua/models/Qwen3-30B-A3B.json", "rope_theta", NULL,
                 "missing");
    check_change("lua/models/Qwen3-30B-A3B.json", "rope_scaling",
                 "{\"type\":\"linear\",\"factor\":2}", "default");
    check_change("lua/models/Qwen3-Next-80B-A3B.json",
                 "partial_rotary_factor", NULL, "missing");
    check_change("lua/models/Qwen3-Next-80B-A3B.json",
                 "partial_rotary_factor", "0.01", "even");
}

static void test_layer_types(void **state)
{
    json_t *v = shipped("lua/models/Qwen3-Next-80B-A3B.json");
    struct model m;
    struct err e;
    char *text;
    int i;

    (void)state;
    check_change(QWEN36, "layer_types", "[\"full_attention\"]", "40");
    check_change(QWEN36, "layer_types", "{}", "array");
    check_change("lua/models/Qwen3-Next-80B-A3B.json",
                 "full_attention_interval", NULL, "missing");
    check_change("lua/models/Qwen3-Next-80B-A3B.json",
                 "full_attention_interval", "0", "");

    /* layer_types wins over the interval */
    json_object_set_new(v, "num_hidden_layers", json_integer(2));
    json_object_set_new(v, "layer_types", json_pack("[s, s]",
                        "full_attention", "linear_attention"));
    text = json_dumps(v, 0);
    assert_int_equal(model_of_text(text, &m, &e), ERR_OK);
    assert_int_equal(m.kind[0], LAYER_ATTENTION);
    assert_int_equal(m.kind[1], LAYER_GDN);
    model_free(&m);
    free(text);
    for (i = 0; i < 2; i++) {
        json_array_set_new(json_object_get(v, "layer_types"), (size_t)i,
                           json_string("sliding_attention"));
        assert_int_equal(parse(v, &e), ERR_INPUT);
        assert_non_null(strstr(e.text, "layer_types["));
    }
    json_decref(v);
}

/* Where no layer is a GDN layer its sizes are 0, so that nobody prices it. */
static void test_no_gdn(void **state)
{
    json_t *v = shipped("lua/models/Qwen3-Next-80B-A3B.json");
    struct model m;
    struct err e;
    char *text;

    (void)state;
    json_object_set_new(v, "full_attention_interval", json_integer(1));
    text = json_dumps(v, 0);
    assert_int_equal(model_of_text(text, &m, &e), ERR_OK);
    assert_int_equal(model_count(&m, LAYER_GDN), 0);
    assert_int_equal(m.v_heads, 0);
    model_free(&m);
    free(text);
    json_decref(v);
}

/* A config.json is named by its folder. */
static void test_name_of_a_folder(void **state)
{
    struct model m;
    struct err e;

    (void)state;
    assert_int_equal(model_load("tests/golden/hf/folders/llama/config.json",
                                0, &m, &e), ERR_OK);
    assert_string_equal(m.name, "llama");
    model_free(&m);
}

static void test_bad_files(void **state)
{
    struct model m;
    struct err e;

    (void)state;
    assert_int_equal(model_load("lua/models/none.json", 0, &m, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "lua/models/none.json"));
    assert_int_equal(model_of_text("", &m, &e), ERR_INPUT);
    assert_int_equal(model_of_text("[1]", &m, &e), ERR_INPUT);
    assert_int_equal(model_of_text("{\"model_type\":", &m, &e), ERR_INPUT);
    assert_int_equal(model_of_text("{}", &m, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "model_type"));
    assert_int_equal(model_of_text("{\"model_type\":3}", &m, &e),
                     ERR_INPUT);
    assert_int_equal(model_load(QWEN36, 41, &m, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "layers"));
    assert_int_equal(model_load(QWEN36, -1, &m, &e), ERR_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qwen36),
        cmocka_unit_test(test_other_models),
        cmocka_unit_test(test_dense_models),
        cmocka_unit_test(test_islands),
        cmocka_unit_test(test_sizes_refused),
        cmocka_unit_test(test_meaning_refused),
        cmocka_unit_test(test_rotary_refused),
        cmocka_unit_test(test_layer_types),
        cmocka_unit_test(test_no_gdn),
        cmocka_unit_test(test_name_of_a_folder),
        cmocka_unit_test(test_bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
