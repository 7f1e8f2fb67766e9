/*
** Known bytes of the estimators' parts. Row numbers are those of the list of
** oracles that the formulas come with (pricing.md 12); its fixture is a MoE
** of 188,416 B a routed row without shared expert and routing state.
*/
#include "price_help.h"
#include "price/internal.h"

/* The fixture: Qwen3.6 widths, no shared expert. */
static struct model fixture(int64_t layers)
{
    struct model m = help_model(QWEN36, layers);
    m.shared_ffn = 0;
    m.shared_gate = false;
    return m;
}

static struct price_facts plain_facts(const struct model *m,
                                      struct price_group *g, int64_t n,
                                      int64_t cp)
{
    struct price_facts f = help_facts(m, g, n, cp, 1);
    f.moe_stages = f.routing_state = false;
    f.cold = true;
    return f;
}

/* rows 1-4 */
static void test_mixer_widths(void **state)
{
    struct model m = help_model(QWEN36, 0);
    struct model big = help_model("lua/models/Qwen3.6-27B.json", 0);

    (void)state;
    assert_int_equal(price_mixer_width(&m, LAYER_ATTENTION, 1, true), 68608);
    assert_int_equal(price_mixer_width(&m, LAYER_ATTENTION, 2, true), 95232);
    assert_int_equal(price_mixer_width(&m, LAYER_ATTENTION, 4, true), 95232);
    assert_int_equal(price_mixer_width(&m, LAYER_ATTENTION, 2, false), 68608);
    assert_int_equal(price_mixer_width(&m, LAYER_GDN, 1, true), 81920);
    assert_int_equal(price_mixer_width(&m, LAYER_GDN, 2, true), 94208);
    assert_int_equal(price_mixer_width(&m, LAYER_GDN, 2, false), 94208);
    m.attn_gate = false;
    assert_int_equal(price_mixer_width(&m, LAYER_ATTENTION, 1, true), 52224);
    assert_int_equal(price_mixer_width(&m, LAYER_ATTENTION, 2, true), 78848);
    assert_int_equal(price_mixer_width(&big, LAYER_GDN, 1, true), 122880);
    assert_int_equal(price_mixer_width(&big, LAYER_GDN, 2, true), 145408);
    model_free(&m);
    model_free(&big);
}

/* row 3: which mixer a hybrid is charged */
static void test_wider_mixer(void **state)
{
    struct model m = help_model(QWEN36, 0);
    int64_t rows[2] = {1000, 900};
    struct price_group g = {.grad = true, .attention_rows = rows,
                            .gdn_rows = rows, .routed_rows = -1};
    struct price_facts f = help_facts(&m, &g, 1, 1, 1);
    struct estimate *est = help_price(&f, false, PRICE_AS_IS);

    (void)state;
    assert_int_equal(est->binding_mixer, LAYER_GDN);
    assert_int_equal(est->term[CAT_GDN], 1000 * 81920);
    free(est);
    f.cp = 2;
    est = help_price(&f, false, PRICE_AS_IS);
    assert_int_equal(est->binding_mixer, LAYER_ATTENTION);
    assert_int_equal(est->term[CAT_ATTENTION], 1000 * 68608);
    assert_int_equal(est->term[CAT_ATTENTION_RECORDS], 1000 * 26624);
    free(est);
    model_free(&m);
}

/* Boundaries, and what is beside them but for the cold transient. */
struct floor { int64_t retained, workspace; };

static struct floor floor_of(const struct price_facts *f)
{
    struct estimate *est = help_price(f, false, PRICE_AS_IS);
    struct floor out = {est->term[CAT_BOUNDARIES], 0};
    int64_t cold = est->term[CAT_WORKSPACE] > 0 ? 64 << 20 : 0;

    out.workspace = est->raw - out.retained - cold
                    - est->term[CAT_INPUT_GRADIENT];
    free(est);
    return out;
}

static struct floor floor_two(int64_t a, bool a_grad, int64_t b, bool b_grad)
{
    struct model m = fixture(0);
    struct price_group g[2] = {
        {.grad = a_grad, .attention_rows = &a, .gdn_rows = &a,
         .routed_rows = -1},
        {.grad = b_grad, .attention_rows = &b, .gdn_rows = &b,
         .routed_rows = -1},
    };
    struct price_facts f = plain_facts(&m, g, b > 0 ? 2 : 1, 1);
    struct floor out = floor_of(&f);
    model_free(&m);
    return out;
}

/* rows 5, 7-9 */
static void test_floors(void **state)
{
    struct floor f = floor_two(16, true, 24, false);
    struct model m = fixture(0);
    int64_t rows[2] = {10, 10}, i;
    struct price_group g = {.grad = true, .attention_rows = rows,
                            .gdn_rows = rows, .routed_rows = -1};
    struct price_facts facts = plain_facts(&m, &g, 1, 1);

    (void)state;
    assert_int_equal(f.retained, 2621440);
    assert_int_equal(f.workspace, 172692480);
    f = floor_two(8192, false, 0, false);
    assert_int_equal(f.retained, 0);
    assert_int_equal(f.workspace, 1677721600);
    f = floor_two(3, false, 11, false);
    assert_int_equal(f.workspace, 2252800);
    f = floor_two(3, true, 11, false);
    assert_int_equal(f.retained, 491520);
    assert_int_equal(f.workspace, 170030080);
    for (i = 0; i < m.layers; i++) m.kind[i] = LAYER_ATTENTION;
    assert_int_equal(floor_of(&facts).workspace, 170429440);
    facts.cp = 2;
    assert_int_equal(floor_of(&facts).workspace, 170695680);
    model_free(&m);
}

/* ---- MoE ----------------------------------------------------------------- */

static struct moe_shape shape(int64_t ep, int64_t rank, bool grad,
                              int64_t shared)
{
    return (struct moe_shape){
        .hidden = 2048, .ffn = 512, .top_k = 8, .local_experts = 256 / ep,
        .rank = rank, .ep = ep, .shared = shared, .grad = grad,
        .stages = rank > 0, .allowance = true,
    };
}

static int64_t coefficient(int64_t ep, int64_t local_experts, int64_t shared)
{
    struct moe_shape s = shape(ep, 0, true, shared);
    struct moe m;
    s.local_experts = local_experts;
    price_moe_make(&s, &m);
    return m.peak[0].per_row;
}

/* row 20 and the table of 3.1; one local expert: FC1 is not enclosed */
static void test_moe_coefficient(void **state)
{
    (void)state;
    assert_int_equal(coefficient(1, 1, 0), 106496);
    assert_int_equal(coefficient(1, 256, 0), 188416);
    assert_int_equal(coefficient(1, 256, 4096), 192512);
    assert_int_equal(coefficient(1, 256, 8192), 196608);
    assert_int_equal(coefficient(2, 128, 0), 217908);
    assert_int_equal(coefficient(2, 128, 4096), 222004);
    assert_int_equal(coefficient(2, 128, 8192), 226100);
    assert_int_equal(coefficient(2, 1, 0), 149095);
    assert_int_equal(coefficient(4, 64, 0), 249037);
    assert_int_equal(coefficient(8, 32, 0), 311296);
}

static int64_t dense(int64_t hidden, int64_t ffn, bool grad)
{
    struct moe_shape s = {.hidden = hidden, .ffn = ffn, .rank = 8,
                          .ep = 1, .grad = grad, .stages = true};
    struct moe m;

    price_moe_make(&s, &m);
    assert_int_equal(m.n, 1);
    assert_int_equal(m.peak[0].shared, m.peak[0].per_row);
    assert_true(m.covered);
    return m.peak[0].per_row;
}

/* the table of 3.5 */
static void test_dense(void **state)
{
    (void)state;
    assert_int_equal(dense(2048, 5632, true), 79968);
    assert_int_equal(dense(2048, 5632, false), 85088);
    assert_int_equal(dense(5120, 17408, true), 246368);
    assert_int_equal(dense(5120, 17408, false), 252512);
}

/* 8 * (1536 + 4 * 2048) * 2 B, times 2 + 0.4 log2(ep / 8), rounded up. */
static void test_allowance_above_8(void **state)
{
    (void)state;
    assert_int_equal(coefficient(16, 16, 0), 373556);   /* 2.4: 373,555.2 */
    assert_int_equal(coefficient(32, 8, 0), 435815);    /* 2.8: 435,814.4 */
    assert_int_equal(coefficient(64, 4, 0), 498074);    /* 3.2: 498,073.6 */
    /* log2(12 / 8) = 0.58496250..., log2(63 / 8) = 2.97727992... */
    assert_int_equal(coefficient(12, 21, 0), 347716);   /* 347,715.297 */
    assert_int_equal(coefficient(63, 4, 0), 496660);    /* 496,659.066 */
}

struct pair { int64_t per_row, fixed; };

static void check_stages(struct moe_shape s, const struct pair *want, int n)
{
    struct moe m;
    int i;

    price_moe_make(&s, &m);
    assert_int_equal(m.n, n + 1);
    for (i = 0; i < n; i++) {
        assert_int_equal(m.peak[i + 1].per_row, want[i].per_row);
        assert_int_equal(m.peak[i + 1].fixed, want[i].fixed);
    }
}

/* the table of 3.2, and row 25 */
static void test_converted_stages(void **state)
{
    int64_t r;

    (void)state;
    for (r = 1; r < 8; r++) {
        struct pair fwd[] = {{98432, 25165824}, {114688, 0},
                             {155776, 20971520}};
        struct pair grad[] = {{98432, 25165824}, {114816, 12582912},
                              {155904, 33554432}, {188672, 23068672},
                              {82304, 33554432 + 256 * r * 2560 * 2 + 2056}};
        check_stages(shape(1, r, false, 0), fwd, 3);
        check_stages(shape(1, r, true, 0), grad, 5);
    }
    check_stages(shape(1, 8, false, 0), (struct pair[]){
        {98432, 12582912}, {114688, 0}, {155776, 10485760}}, 3);
    check_stages(shape(1, 8, true, 0), (struct pair[]){
        {98432, 12582912}, {114816, 0}, {155904, 10485760}, {188672, 0}}, 4);
    check_stages(shape(1, 8, false, 4096), (struct pair[]){
        {102528, 12582912}, {118784, 0}, {159872, 10485760}}, 3);
    check_stages(shape(1, 8, true, 8192), (struct pair[]){
        {106624, 12582912}, {123008, 0}, {164096, 10485760}, {196864, 0}}, 4);
    check_stages(shape(2, 8, true, 8192), (struct pair[]){
        {100122, 6291456}, {123060, 0}, {180584, 5242880}, {226459, 0}}, 4);
    check_stages(shape(2, 1, true, 8192), (struct pair[]){
        {100122, 12582912}, {123060, 6291456}, {180584, 16777216},
        {226459, 11534336}, {115226, 17433608}}, 5);
    /* ranks that the grouped adapters do not take: nothing is converted */
    check_stages(shape(1, 12, true, 0), NULL, 0);
    check_stages(shape(1, 0, true, 0), NULL, 0);
}

static int64_t w(struct moe_shape s, int64_t rows, int64_t routed)
{
    int64_t term[CAT_COUNT] = {0}, bytes;
    struct moe m;

    price_moe_make(&s, &m);
    bytes = price_moe_workspace(&m, rows, routed, term);
    assert_int_equal(price_sum(term), bytes);
    return bytes;
}

/* rows 10, 11, 21, 22, 24, 26, 27 */
static void test_moe_workspace(void **state)
{
    struct moe_shape s = shape(1, 0, true, 0);
    struct moe_shape fc2_only = s;
    struct moe shared = {{{188416, 65536, 8192, 0}}, 1, 8192, true};
    int64_t t[CAT_COUNT] = {0};

    (void)state;
    fc2_only.local_experts = 1;
    assert_int_equal(price_moe_workspace(&shared, 52480, 48397, t)
                     - price_moe_workspace(&shared, 52480, 52480, t),
                     -735854592);
    assert_int_equal(w(s, 100, 400) - w(s, 100, 100), 56524800);
    assert_int_equal(w(s, 45981, 45981), 8663556096);
    assert_int_equal(w(fc2_only, 106432, 106432), 11334582272);
    assert_int_equal(w(shape(1, 7, true, 0), 1, 1), 42813832);
    assert_int_equal(w(shape(1, 8, true, 0), 0, 0), 0); /* no rows, no stage */
    assert_int_equal(w(shape(1, 7, true, 0), 8, 8), 43389960);
    assert_int_equal(w(shape(1, 1, true, 0), 50640, 50640), 9577418752);
    assert_int_equal(w(shape(1, 7, true, 0), 50640, 50640), 9577418752);
    assert_int_equal(w(shape(1, 8, true, 0), 50640, 50640), 9554350080);
    assert_int_equal(w(shape(1, 16, true, 0), 50640, 50640), 9567313920);
    assert_int_equal(w(shape(1, 8, false, 0), 50640, 50640), 9541386240);
    assert_int_equal(w(shape(1, 1, false, 0), 1, 1), 25264256);
    assert_int_equal(w(shape(1, 1, true, 0), 1, 1), 34949512);
    assert_int_equal(w(shape(1, 8, true, 0), 1, 1), 12681344);
    assert_int_equal(w(shape(1, 16, true, 0), 1, 1), 25264384);
}

/* row 34 */
static void test_routing_state(void **state)
{
    struct model m = help_model(QWEN36, 0);
    int64_t rows[2] = {1, 1};
    struct price_group g = {.grad = true, .attention_rows = rows,
                            .gdn_rows = rows, .routed_rows = -1};
    struct price_facts f = help_facts(&m, &g, 1, 2, 1);
    struct price_wave wave;

    (void)state;
    price_wave_make(&f, PRICE_AS_IS, &wave);
    assert_int_equal(wave.routing, 3332);
    assert_int_equal(wave.routing + wave.shared_state, 6404);
    f.ep = 2;
    price_wave_make(&f, PRICE_AS_IS, &wave);
    assert_int_equal(wave.routing, 3600);
    assert_int_equal(wave.routing + wave.shared_state, 6672);
    model_free(&m);
}

/* ---- the whole ----------------------------------------------------------- */

/* row 35, and a growth by hand */
static void test_hybridep(void **state)
{
    struct model m = help_model(QWEN36, 0);
    int64_t rows[2] = {1000, 1025};
    struct price_group g = {.grad = true, .attention_rows = rows,
                            .gdn_rows = rows, .routed_rows = -1};
    struct price_facts f = help_facts(&m, &g, 1, 2, 2);
    struct estimate *est;

    (void)state;
    assert_int_equal(price_hybridep_rows(1, 2), 512);
    assert_int_equal(price_hybridep_rows(512, 2), 512);
    assert_int_equal(price_hybridep_rows(1000, 2), 1024);
    assert_int_equal(price_hybridep_rows(1025, 2), 1088);
    /* 2,025 packed tokens: two chunks of 512 a rank, at most 2,048 rows */
    f.packed_length = 2025;
    f.hybridep_held_rows = 0;
    est = help_price(&f, false, PRICE_AS_IS);
    assert_int_equal(est->term[CAT_HYBRIDEP],
                     2048 * 2 * (4096 + 5 * 256 + 4 * 16));
    free(est);
    f.hybridep_held_rows = 2048;
    est = help_price(&f, false, PRICE_AS_IS);
    assert_int_equal(est->term[CAT_HYBRIDEP], 0);
    free(est);
    f.hybridep_held_rows = 512;
    f.packed_length = 900;      /* below the busiest rank's rows */
    est = help_price(&f, false, PRICE_AS_IS);
    assert_int_equal(est->term[CAT_HYBRIDEP], 1088 * 2 * 5440);
    free(est);
    f.ep = 1;
    est = help_price(&f, false, PRICE_AS_IS);
    assert_int_equal(est->term[CAT_HYBRIDEP], 0);
    free(est);
    model_free(&m);
}

/* row 43: three buffers of 512 rows; row 55: 512 B a row beside them */
static void test_head_stage(void **state)
{
    struct model m = help_model(QWEN36, 0);
    int64_t rows[2] = {600, 500};
    struct price_group g = {.grad = true, .attention_rows = rows,
                            .gdn_rows = rows, .routed_rows = -1};
    struct price_facts f = help_facts(&m, &g, 1, 2, 2);
    struct estimate *est;

    (void)state;
    f.head_rows = 1100;
    est = help_price(&f, false, PRICE_AS_IS);
    assert_true(est->head_binds);
    assert_int_equal(est->term[CAT_HEAD], 762839040 + 600 * 512);
    assert_int_equal(est->term[CAT_INPUT_GRADIENT], 3 * 600 * 4096);
    assert_int_equal(est->raw, 600 * 4096 * 40 + 3 * 600 * 4096 + 762839040
                               + 600 * 512);
    free(est);
    f.head_rows = 100;
    est = help_price(&f, false, PRICE_AS_IS);
    assert_false(est->head_binds);
    free(est);
    model_free(&m);
}

/* rows 56 and 60, which the formulas here also cover */
static void test_whole_waves(void **state)
{
    struct model m = fixture(0);
    int64_t a = 67, b = 4096, n = 16384, pending[41], i;
    struct price_group g[2] = {
        {.grad = true, .slot = "policy", .attention_rows = &a,
         .gdn_rows = &a, .routed_rows = -1},
        {.attention_rows = &b, .gdn_rows = &b, .routed_rows = -1},
    };
    struct price_facts f = plain_facts(&m, g, 2, 1);
    struct estimate *est;

    (void)state;
    for (i = 0; i < 41; i++) pending[i] = i < 40 ? 23 << 20 : 0;
    f.pending = pending;
    f.output_bytes = (67 + 4096) * 4096;
    est = help_price(&f, false, PRICE_AS_IS);
    assert_int_equal(est->admitted, 2261641113);
    free(est);
    m.vocab = 1024000;          /* a head of 3,000 MiB, no rotary rows */
    m.rotary_dim = 0;
    f.head_rows = 512;
    est = help_price(&f, false, PRICE_AS_IS);
    assert_true(est->head_binds);
    assert_int_equal(est->admitted, 3750431872);
    free(est);
    f.cold = false;
    est = help_price(&f, false, PRICE_AS_IS);
    assert_int_equal(est->admitted, 3492057113);
    free(est);
    model_free(&m);

    m = help_model(QWEN36, 0);
    g[0].attention_rows = g[0].gdn_rows = &n;
    f = help_facts(&m, g, 1, 1, 1);
    f.cold = true;
    assert_int_equal(floor_of(&f).retained, 2684354560);
    assert_int_equal(floor_of(&f).workspace, 4974515200);
    model_free(&m);
}

/* One local expert: FC1 does not enclose the stage, so one gradient a saved
** input stands in for it, and the head is not staged (pricing.md 4, 10). */
static void test_one_local_expert(void **state)
{
    struct model m = help_model(QWEN36, 4);
    int64_t rows[2] = {100, 80}, boundaries = 4 * 100 * 4096;
    struct price_group g = {.grad = true, .slot = "policy",
                            .attention_rows = rows, .gdn_rows = rows,
                            .routed_rows = -1};
    struct price_facts f = help_facts(&m, &g, 1, 2, 2);
    struct estimate *est;

    (void)state;
    m.experts = 2;
    m.top_k = 1;
    help_pending(&f);
    est = help_price(&f, false, PRICE_AS_IS);
    assert_int_equal(est->term[CAT_BOUNDARIES], boundaries);
    assert_int_equal(est->term[CAT_INPUT_GRADIENT], boundaries);
    /* the FC2 sum: 2.8 B an element of F + 3H, one adapter rank more */
    assert_int_equal(est->term[CAT_MOE_DISPATCH], 0);
    assert_int_equal(est->term[CAT_MOE_EXPERTS], 90 * (18637 + 23));
    free(est);
    f.head_rows = 512;
    est = help_price(&f, false, PRICE_AS_IS);
    assert_true(est->head_binds);
    assert_int_equal(est->raw, 2 * boundaries + 762839040
                               + est->adapter_paired);
    free(est);
    free(f.pending);
    model_free(&m);
}

/* rows 12 and 13 */
static void test_layout_floor(void **state)
{
    struct model m = fixture(0);
    struct two_ranks t = help_real;
    struct price_group g = help_group(&t, true);
    struct price_facts f = plain_facts(&m, &g, 1, 2);
    int64_t kept[2] = {970720000, 3079000000};
    struct estimate *est, *before;

    (void)state;
    g.attention_retained = kept;
    g.routed_rows = 48397;
    est = help_price(&f, true, PRICE_AS_IS);
    before = help_price(&f, false, PRICE_AS_IS);
    assert_int_equal(est->rank[0].boundaries, 8247214080);
    assert_int_equal(est->rank[1].boundaries, 7611514880);
    assert_int_equal(before->term[CAT_BOUNDARIES], 8598323200);
    assert_int_equal(est->rank[0].total, 22367167232);
    assert_int_equal(est->rank[1].total, 23212599232);
    assert_int_equal(est->raw - est->term[CAT_INPUT_GRADIENT] - (64 << 20),
                     23380376512);
    assert_int_equal(23380376512 - 8247214080, 15133162432);
    assert_int_equal(before->raw - before->term[CAT_INPUT_GRADIENT]
                     - (64 << 20), 23312561152);
    free(est);
    free(before);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixer_widths),
        cmocka_unit_test(test_wider_mixer),
        cmocka_unit_test(test_floors),
        cmocka_unit_test(test_moe_coefficient),
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_allowance_above_8),
        cmocka_unit_test(test_converted_stages),
        cmocka_unit_test(test_moe_workspace),
        cmocka_unit_test(test_routing_state),
        cmocka_unit_test(test_hybridep),
        cmocka_unit_test(test_head_stage),
        cmocka_unit_test(test_whole_waves),
        cmocka_unit_test(test_one_local_expert),
        cmocka_unit_test(test_layout_floor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
