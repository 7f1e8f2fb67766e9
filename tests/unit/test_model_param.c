/* The parameter list: exact bytes of published models, names, adapters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "model/param.h"

#define QWEN36 "lua/models/Qwen3.6-35B-A3B.json"

static struct model load(const char *path, int64_t layers)
{
    struct model m;
    struct err e;
    if (model_load(path, layers, &m, &e) != ERR_OK) fail_msg("%s", e.text);
    return m;
}

static struct param_list list_of(const struct model *m, int64_t ep, int64_t r)
{
    struct param_list l;
    struct err e;
    if (param_list_make(m, ep, r, &l, &e) != ERR_OK) fail_msg("%s", e.text);
    return l;
}

static int64_t base_bytes(const char *path, int64_t layers, int64_t ep)
{
    struct model m = load(path, layers);
    struct param_list l = list_of(&m, ep, 0);
    int64_t bytes = param_base_bytes(&l);
    param_list_free(&l);
    model_free(&m);
    return bytes;
}

static void test_published_base_bytes(void **state)
{
    (void)state;
    assert_int_equal(base_bytes(QWEN36, 40, 1), 69321221376);
    assert_int_equal(base_bytes(QWEN36, 0, 2), 37108966656);
    assert_int_equal(base_bytes(QWEN36, 8, 1), 15491637504);
    assert_int_equal(base_bytes(QWEN36, 8, 2), 9049186560);
    assert_int_equal(base_bytes("lua/models/Qwen3.5-35B-A3B.json", 40, 2),
                     37108966656);
}

/* Counted by hand from the shapes of model.md 1. */
static void test_other_families(void **state)
{
    int64_t h = 2048;
    /* 48 layers: norms, q k v o with head norms, router, 128 experts */
    int64_t moe30 = 48 * (2 * h + 4096 * h * 2 + 512 * h * 2 + 256 + 128 * h
                          + 128 * 3 * 768 * h) + 2 * 151936 * h + h;
    int64_t gdn = 12288 * h + 64 * h + 8192 * 4 + 64 + 128 + h * 4096;
    int64_t att = 8192 * h + 1024 * h + 512 + h * 4096;
    int64_t mlp = 512 * h + 512 * 3 * 512 * h + 3 * 512 * h + h;
    int64_t next = 36 * gdn + 12 * att + 48 * (mlp + 2 * h)
                   + 2 * 151936 * h + h;
    (void)state;
    assert_int_equal(base_bytes("lua/models/Qwen3-30B-A3B.json", 0, 1),
                     2 * moe30);
    assert_int_equal(base_bytes("lua/models/Qwen3-Next-80B-A3B.json", 0, 1),
                     2 * next);
    /* tied: the head is the embedding */
    h = 1024;
    gdn = 6144 * h + 2048 * h + 32 * h + 6144 * 4 + 32 + 128 + h * 2048;
    att = 4096 * h + 1024 * h + 512 + h * 2048;
    assert_int_equal(base_bytes("lua/models/Qwen3.5-0.8B.json", 0, 1),
                     2 * (18 * gdn + 6 * att + 24 * (3 * 3584 * h + 2 * h)
                          + 248320 * h + h));
}

static void test_layer_bytes(void **state)
{
    struct model m = load(QWEN36, 8);
    struct param_list l = list_of(&m, 2, 0);
    int64_t layer[9] = {0}, i;

    (void)state;
    for (i = 0; i < l.n; i++)
        layer[l.p[i].layer < 0 ? 8 : l.p[i].layer] += l.p[i].bytes;
    assert_int_equal(layer[0], 880095616);
    assert_int_equal(layer[3], 867185664);
    assert_int_equal(layer[8], 2 * 2 * 508559360 + 2 * 2048);
    param_list_free(&l);
    model_free(&m);
}

/* pricing.md 8, by layer kind, and the sums over 40 layers. */
static void check_adapters(int64_t r, int64_t ep, int64_t attention,
                           int64_t gdn, int64_t all)
{
    struct model m = load(QWEN36, 0);
    struct param_list l = list_of(&m, ep, r);
    int64_t bytes[41], sum = 0, i;

    param_adapter_bytes(&m, &l, bytes);
    for (i = 0; i < 40; i++) {
        assert_int_equal(bytes[i], i % 4 == 3 ? attention : gdn);
        sum += bytes[i];
    }
    assert_int_equal(bytes[40], 0);
    assert_int_equal(sum, all);
    param_list_free(&l);
    model_free(&m);
}

static void test_adapter_bytes(void **state)
{
    (void)state;
    check_adapters(1, 1, 2941952, 2944000, 117739520);
    check_adapters(8, 1, 23535616, 23552000, 941916160);
    check_adapters(1, 2, 43008 + 15360 + 1441792, 45056 + 15360 + 1441792,
                   60067840);
    check_adapters(8, 2, 344064 + 122880 + 11534336,
                   360448 + 122880 + 11534336, 480542720);
    check_adapters(16, 1, 2 * 23535616, 2 * 23552000, 1883832320);
    check_adapters(16, 2, 2 * 12001280, 2 * 12017664, 961085440);
    check_adapters(0, 2, 0, 0, 0);
}

static const struct param *find(const struct param_list *l, int64_t layer,
                                const char *name)
{
    int64_t i;
    for (i = 0; i < l->n; i++)
        if (l->p[i].layer == layer && strcmp(l->p[i].tensor, name) == 0)
            return &l->p[i];
    fail_msg("layer %d has no %s", (int)layer, name);
    return NULL;
}

static void check_dims(const struct param *p, int64_t a, int64_t b, int64_t c)
{
    assert_int_equal(p->dim[0], a);
    assert_int_equal(p->dim[1], b);
    assert_int_equal(p->dim[2], c);
    assert_int_equal(p->dim[3], 1);
    assert_int_equal(p->count, a * b * c);
    assert_int_equal(p->bytes, 2 * a * b * c);
}

static void test_shapes(void **state)
{
    struct model m = load(QWEN36, 4);
    struct param_list l = list_of(&m, 2, 8);

    (void)state;
    check_dims(find(&l, 3, "self_attn.q_proj.weight"), 8192, 2048, 1);
    check_dims(find(&l, 0, "linear_attn.conv1d.weight"), 8192, 1, 4);
    check_dims(find(&l, 0, "mlp.experts.gate_up_proj"), 128, 1024, 2048);
    check_dims(find(&l, 0, "mlp.experts.down_proj"), 128, 2048, 512);
    check_dims(find(&l, 0, "mlp.shared_expert_gate.weight"), 1, 2048, 1);
    check_dims(find(&l, 0, "mlp.experts.gate_up_proj.lora_A.weight"),
               128, 2048, 8);
    check_dims(find(&l, 0, "mlp.experts.down_proj.lora_B.weight"),
               128, 8, 2048);
    check_dims(find(&l, 3, "self_attn.q_proj.lora_A.weight"), 8, 2048, 1);
    check_dims(find(&l, 3, "self_attn.q_proj.lora_B.weight"), 8192, 8, 1);
    check_dims(find(&l, -1, "lm_head.weight"), 248320, 2048, 1);
    assert_int_equal(find(&l, 0, "linear_attn.in_proj_z.weight")->site,
                     SITE_GDN_Z);
    assert_int_equal(find(&l, 0, "linear_attn.out_proj.weight")->pack,
                     PACK_NONE);
    check_dims(find(&l, 3, "self_attn.o_proj.lora_A.weight"), 8, 4096, 1);
    param_list_free(&l);
    model_free(&m);
}

static void test_order(void **state)
{
    struct model m = load(QWEN36, 8);
    struct param_list l = list_of(&m, 1, 8);
    int64_t i;

    (void)state;
    for (i = 1; i < l.n; i++) {
        const struct param *p = &l.p[i - 1], *q = &l.p[i];
        assert_true(q->layer < 0 || q->layer >= p->layer);
        if (q->layer == p->layer && p->role != PARAM_BASE)
            assert_int_not_equal(q->role, PARAM_BASE);
        if (q->role == PARAM_LORA_B) assert_int_equal(q->site, p->site);
    }
    param_list_free(&l);
    model_free(&m);
}

/* The framework's projections: one tensor of q, k and v, of a delta net's
** q|k|v, z, b and a, of gate and up; everything else stands alone. */
static void test_joined(void **state)
{
    struct model m = load("lua/models/Qwen3.6-27B.json", 4);
    struct param_list l = list_of(&m, 1, 1);
    int64_t h = 5120, i, n = 0, joined[16];

    (void)state;
    for (i = 0; i < l.n; i++) {
        if (l.p[i].joins)
            assert_int_equal(l.p[i].layer, l.p[i - 1].layer);
        else if (param_joined(&l, i) != l.p[i].count)
            joined[n++] = param_joined(&l, i);
    }
    assert_int_equal(n, 8);
    assert_int_equal(joined[0], 16480 * h);     /* delta net */
    assert_int_equal(joined[1], 34816 * h);
    assert_int_equal(joined[6], 14336 * h);     /* attention with a gate */
    assert_int_equal(joined[7], 34816 * h);
    param_list_free(&l);
    model_free(&m);
}

static void test_packed_checkpoints(void **state)
{
    struct model m = load("lua/models/Qwen3-Next-80B-A3B.json", 4);
    struct param_list l = list_of(&m, 1, 0);
    const struct param *p = find(&l, 0, "linear_attn.in_proj_qkv.weight");

    (void)state;
    assert_int_equal(p->pack, PACK_QKVZ);
    p = find(&l, 0, "linear_attn.in_proj_a.weight");
    assert_int_equal(p->pack, PACK_BA);
    p = find(&l, 0, "mlp.experts.down_proj");
    assert_int_equal(p->pack, PACK_EACH_EXPERT);
    param_list_free(&l);
    model_free(&m);
}

/* Parameters of whole models: as published, Qwen2 from its shapes by hand. */
static void test_totals(void **state)
{
    static const struct { const char *path; int64_t n; } want[] = {
        {"lua/models/Llama-3.1-8B.json", INT64_C(8030261248)},
        {"lua/models/Mixtral-8x7B.json", INT64_C(46702792704)},
        {"lua/models/Qwen3-8B.json", INT64_C(8190735360)},
        {"lua/models/Qwen3-30B-A3B.json", INT64_C(30532122624)},
        {"lua/models/Qwen2-57B-A14B.json", INT64_C(57408658944)},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct model m = load(want[i].path, 0);
        struct param_list l = list_of(&m, 1, 0);

        if (param_base_bytes(&l) != 2 * want[i].n)
            fail_msg("%s: %lld", want[i].path,
                     (long long)param_base_bytes(&l) / 2);
        param_list_free(&l);
        model_free(&m);
    }
}

/* Dense members: gate, up and down of the MLP carry the adapters. */
static void test_dense_adapters(void **state)
{
    struct model m = load("lua/models/Qwen3.6-27B.json", 4);
    struct param_list l = list_of(&m, 1, 8);
    int64_t bytes[5], h = 5120, f = 17408, mlp = 3 * (h + f);

    (void)state;
    param_adapter_bytes(&m, &l, bytes);
    assert_int_equal(bytes[3], 2 * 8 * (mlp + h + 2 * 24 * 256
                                        + 2 * (h + 4 * 256) + 24 * 256 + h));
    assert_int_equal(bytes[0], 2 * 8 * (mlp + h + 10240 + 2 * (h + 6144)));
    param_list_free(&l);
    model_free(&m);
}

/* Layers ascending, what lies outside last; a tensor counts by its bytes.
** Figures of pricing.md 12, row 54, where the 10 shared by two layers count
** at the higher one and the 4 of the last layer are f32. */
static void test_adapter_sums(void **state)
{
    struct model m = {.layers = 4};
    struct param p[] = {
        {.layer = 0, .role = PARAM_LORA_A, .bytes = 3 * 2},
        {.layer = 1, .role = PARAM_LORA_A, .bytes = 5 * 2},
        {.layer = 2, .role = PARAM_BASE, .bytes = 1000},
        {.layer = 3, .role = PARAM_LORA_A, .bytes = 10 * 2},
        {.layer = 3, .role = PARAM_LORA_B, .bytes = 4 * 4},
        {.layer = -1, .role = PARAM_LORA_B, .bytes = 6 * 2},
    };
    struct param_list l = {p, 6};
    int64_t out[5], want[5] = {6, 10, 0, 36, 12};

    (void)state;
    param_adapter_bytes(&m, &l, out);
    assert_memory_equal(out, want, sizeof want);
    assert_int_equal(param_base_bytes(&l), 1000);
}

static void check_refused(const struct model *m, int64_t ep, int64_t r,
                          const char *key)
{
    struct param_list l;
    struct err e;
    assert_int_equal(param_list_make(m, ep, r, &l, &e), ERR_INPUT);
    if (strstr(e.text, key) == NULL) fail_msg("no %s in: %s", key, e.text);
}

static void test_refused(void **state)
{
    struct model m = load(QWEN36, 0);
    struct model dense = load("lua/models/Qwen3.5-0.8B.json", 0);

    (void)state;
    check_refused(&m, 3, 8, "ep:");
    check_refused(&m, 0, 8, "ep:");
    check_refused(&m, 512, 8, "ep:");
    check_refused(&dense, 2, 8, "ep:");
    check_refused(&m, 1, -1, "lora_rank:");
    check_refused(&m, 1, 1 << 20, "lora_rank:");
    m.expert_ffn = m.hidden = MODEL_MAX_WIDTH;
    m.experts = 65536;
    check_refused(&m, 1, 0, "64-bit");
    model_free(&m);
    model_free(&dense);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_base_bytes),
        cmocka_unit_test(test_other_families),
        cmocka_unit_test(test_layer_bytes),
        cmocka_unit_test(test_adapter_bytes),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_packed_checkpoints),
        cmocka_unit_test(test_dense_adapters),
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_adapter_sums),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
