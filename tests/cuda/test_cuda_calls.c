/*
** test_cuda_calls.c - every CUDA and cuBLAS call that a kernel makes fails
** once: an error that names call and place; then the kernel works.
*/
#include "../unit/dev_fixture.h"
#include "../emu/control.h"
#include "called.h"

extern const struct dev_ops cu_ops;

enum { N = 8 };

static struct called called;    /* by all tests */

struct views {
    struct mat m[4], two, low;  /* [N, N], [N, 2 N] act; [N, N] bf16 */
    struct mat row, col;        /* [1, N] act, [N, 1] f32 */
    struct mat idx, map;        /* [N, 1] i64, [N, N] u8 */
    struct mat states, x, h;    /* [1, N * N] f32, [N, 64], [1, N * N] act */
    int32_t at[2 * N];
    int64_t counts[N];
    float weight[N];
    double loss;
};

struct calls {
    struct fix f;
    struct views w;
};

/* One call after another fails until none is left. A kernel makes some. */
#define EACH_FAILS(name, ...)                                                \
    do {                                                                     \
        long n_;                                                             \
        called.yes[CALLED_##name] = true;                                    \
        for (n_ = 1;; n_++) {                                                \
            int rc_;                                                         \
            emu_fail_at(n_);                                                 \
            rc_ = CALL_RC(&c->f, name, __VA_ARGS__);                         \
            emu_fail_at(0);                                                  \
            if (rc_ == ERR_OK) break;                                        \
            if (rc_ != ERR_RUN && rc_ != ERR_OOM)                            \
                fail_msg("%s: code %d", #name, rc_);                         \
            if (strstr(c->f.e.text, "cuda") == NULL                          \
                && strstr(c->f.e.text, "cublas") == NULL)                    \
                fail_msg("%s: %s", #name, c->f.e.text);                      \
            if (strstr(c->f.e.text, ".cu:") == NULL)                         \
                fail_msg("%s: not said where: %s", #name, c->f.e.text);      \
        }                                                                    \
        if (n_ < 2) fail_msg("%s makes no call", #name);                     \
    } while (0)

static struct calls *calls_new(void)
{
    struct calls *c = calloc(1, sizeof *c);
    struct dev_options o = {.act = DT_F32};
    struct views *w;
    int i;

    assert_non_null(c);
    w = &c->w;
    assert_int_equal(cu_ops.open(&o, &c->f.d, &c->f.e), ERR_OK);
    for (i = 0; i < 4; i++) w->m[i] = fix_in(&c->f, "m", N, N, 1, 0);
    w->two = fix_in(&c->f, "two", N, 2 * N, 1, 0);
    w->low = fix_fill(fix_new(&c->f, N, N, DT_BF16), "low", 1, 0);
    w->row = fix_in(&c->f, "row", 1, N, 1, 0);
    w->col = fix_in(&c->f, "col", N, 1, 0.5, 0.5);
    w->idx = fix_new(&c->f, N, 1, DT_I64);
    w->map = fix_new(&c->f, N, N, DT_U8);
    for (i = 0; i < N; i++) fix_set(w->idx, i, 0, i);
    w->states = fix_in(&c->f, "states", 1, N * N, 1, 0);
    w->x = fix_in(&c->f, "x", N, 64, 1, 0);
    w->h = fix_in(&c->f, "h", 1, N * N, 1, 0);
    for (i = 0; i < 2 * N; i++) w->at[i] = i % N;
    return c;
}

static void calls_free(struct calls *c)
{
    while (c->f.n_block > 0) free(c->f.block[--c->f.n_block]);
    cu_ops.close(c->f.d);
    free(c);
    assert_int_equal(emu_held_bytes(), 0);
    assert_int_equal(emu_open_handles(), 0);
}

static void test_plain(void **state)
{
    static const struct range r[] = {{0, N}};
    static const struct range twice[] = {{0, 4}, {2, 4}};
    static const int64_t offset[] = {0, 4, N};
    struct calls *c = calls_new();
    struct mat *m = c->w.m;

    (void)state;
    EACH_FAILS(fill, .x = m[0], .value = 1);
    EACH_FAILS(fill, .x = c->w.map, .value = 1);
    EACH_FAILS(copy, .dst = m[0], .src = m[1]);
    EACH_FAILS(copy, .dst = m[0], .src = c->w.low);
    EACH_FAILS(add, .out = m[0], .a = m[1], .b = m[2]);
    EACH_FAILS(scale, .out = m[0], .a = m[1], .s = 2);
    EACH_FAILS(random, .x = m[0], .scale = 1);
    EACH_FAILS(gemm, .c = m[0], .a = m[1], .b = m[2], .alpha = 1);
    EACH_FAILS(gemm, .c = m[0], .a = m[1], .b = c->w.low, .alpha = 1);
    EACH_FAILS(group_gemm, .form = GROUP_TN, .c = m[0], .a = m[1],
               .w = fix_shape(c->w.two, 2 * N, N), .w_rows = N,
               .offset = offset, .n_group = 2, .alpha = 1);
    EACH_FAILS(embed, .out = m[0], .table = m[1], .ids = c->w.at);
    EACH_FAILS(gather, .out = m[0], .x = m[1], .r = r, .n = 1);
    EACH_FAILS(scatter, .out = m[0], .x = m[1], .r = r, .n = 1);
    EACH_FAILS(scatter, .out = m[0], .x = m[1], .r = twice, .n = 2,
               .add = true);
    EACH_FAILS(permute, .out = m[0], .x = m[1], .row = c->w.at);
    EACH_FAILS(combine, .out = m[0], .x = m[1], .slot = c->w.at, .top_k = 2);
    EACH_FAILS(heads, .packed = m[0], .joined = c->w.two, .heads = 2,
               .head_dim = 4, .stride = 8);
    EACH_FAILS(transpose, .y = m[0], .x = m[1], .n_group = 2);
    calls_free(c);
}

static void test_rows(void **state)
{
    struct calls *c = calls_new();
    struct mat *m = c->w.m, row = c->w.row, col = c->w.col;

    (void)state;
    EACH_FAILS(rms_norm, .y = m[0], .x = m[1], .w = row, .rstd = col);
    EACH_FAILS(rms_norm_bwd, .dx = m[0], .dy = m[2], .x = m[1], .w = row,
               .rstd = col);
    EACH_FAILS(l2_norm, .y = m[0], .x = m[1], .rnorm = col);
    EACH_FAILS(l2_norm_bwd, .dx = m[0], .dy = m[2], .y = m[1], .rnorm = col);
    EACH_FAILS(rotary_table, .table = fix_cols(m[0], 0, 2), .theta = 1e4);
    EACH_FAILS(rotary, .y = m[0], .x = m[1], .table = fix_cols(m[2], 0, 2),
               .pos = c->w.at, .heads = 2, .head_dim = 4, .sign = 1);
    EACH_FAILS(sigmoid_gate, .out = m[0], .o = m[1], .gate = m[2]);
    EACH_FAILS(sigmoid_gate_bwd, .d_o = m[0], .dgate = m[1], .dout = m[2],
               .o = m[3], .gate = m[3]);
    EACH_FAILS(silu_gate, .out = m[0], .a = m[1], .z = m[2]);
    EACH_FAILS(silu_gate_bwd, .da = m[0], .dz = m[1], .dout = m[2],
               .a = m[3], .z = m[3]);
    EACH_FAILS(swiglu, .out = m[0], .gu = c->w.two, .weight = col);
    EACH_FAILS(swiglu_bwd, .dgu = c->w.two, .dweight = col, .dout = m[0],
               .gu = c->w.two, .weight = col);
    EACH_FAILS(row_gate, .out = m[0], .x = m[1], .logit = col);
    EACH_FAILS(row_gate_bwd, .dx = m[0], .dlogit = col, .dout = m[1],
               .x = m[2], .logit = col);
    EACH_FAILS(gdn_gates, .g = m[0], .beta = m[1], .a = m[2], .b = m[3],
               .a_log = row, .dt_bias = row);
    EACH_FAILS(gdn_gates_bwd, .da = m[0], .db = m[1], .dg = m[2],
               .dbeta = m[3], .a = m[2], .beta = m[3], .a_log = row,
               .dt_bias = row);
    EACH_FAILS(router, .logits = m[0], .scores = m[1], .map = c->w.map,
               .idx = c->w.idx, .weight = col);
    EACH_FAILS(router_bwd, .dlogits = m[0], .dweight = col, .scores = m[1],
               .idx = c->w.idx, .weight = col);
    EACH_FAILS(route_sort, .idx = c->w.idx, .weight = col,
               .pair_weight = fix_cols(m[0], 0, 1), .experts = N,
               .counts = c->w.counts, .row = c->w.at, .slot = c->w.at + N);
    EACH_FAILS(route_unsort, .dweight = col, .dpair = fix_cols(m[0], 0, 1),
               .slot = c->w.at + N);
    EACH_FAILS(cross_entropy, .dlogits = m[0], .logits = m[0],
               .target = c->w.at, .weight = c->w.weight,
               .loss_sum = &c->w.loss);
    EACH_FAILS(adam, .p = m[0], .g = m[1], .m = m[2], .v = m[3], .lr = 0.1,
               .beta1 = 0.9, .beta2 = 0.9, .eps = 1, .step = 1);
    calls_free(c);
}

static void test_mixers(void **state)
{
    static const struct slice s[] = {{0, N, 0, N, 0, true}};
    static const struct dev_piece p[] = {{0, N, 0, 0}};
    struct calls *c = calls_new();
    struct mat *m = c->w.m, lse = fix_cols(m[3], 0, 2), g = c->w.col;
    struct mat halo = fix_rows(m[3], 0, 3), x = c->w.x, h = c->w.h;

    (void)state;
    EACH_FAILS(attention, .out = m[0], .lse = lse, .q = m[1], .k = m[2],
               .v = m[2], .heads = 2, .kv_heads = 2, .slice = s,
               .n_slice = 1);
    EACH_FAILS(attention_bwd, .dq = m[0], .dk = m[0], .dv = m[1], .q = m[2],
               .k = m[2], .v = m[2], .out = m[2], .lse = lse, .dout = m[2],
               .heads = 2, .kv_heads = 2, .slice = s, .n_slice = 1);
    EACH_FAILS(merge, .o_acc = m[0], .lse_acc = lse, .o = m[1], .lse = lse,
               .heads = 2);
    EACH_FAILS(merge_bwd, .d_acc = m[0], .dlse_acc = lse, .d_o = m[1],
               .dlse = lse, .o = m[2], .lse = lse, .heads = 2);
    EACH_FAILS(conv, .y = m[0], .x = m[1], .w = fix_cols(m[2], 0, 4),
               .halo = halo, .piece = p, .n_piece = 1);
    EACH_FAILS(conv_bwd, .dx = m[0], .dhalo = halo, .dy = m[1], .x = m[1],
               .w = fix_cols(m[2], 0, 4), .halo = halo, .piece = p,
               .n_piece = 1);
    EACH_FAILS(repeat_heads, .y = c->w.two, .x = m[0], .rep = 2,
               .head_dim = 4);
    EACH_FAILS(sum_heads, .x = m[0], .y = c->w.two, .rep = 2, .head_dim = 4);
    EACH_FAILS(delta, .o = m[0], .states = c->w.states, .g_cum = g, .x = x,
               .q = m[1], .k = m[1], .v = m[1], .g = g, .beta = g,
               .v_new = m[2], .h = h, .heads = 1, .k_dim = N, .v_dim = N,
               .scale = 1, .piece = p, .n_piece = 1);
    EACH_FAILS(delta_bwd, .dq = m[0], .dk = m[2], .dv = m[2], .dg = g,
               .dbeta = g, .dstates = c->w.states, .d_o = m[1],
               .states = c->w.states, .g_cum = g, .x = x, .q = m[1],
               .k = m[1], .v = m[1], .beta = g, .v_new = m[2], .h = h,
               .du = m[3], .dh = h, .heads = 1, .k_dim = N, .v_dim = N,
               .scale = 1, .piece = p, .n_piece = 1);
    calls_free(c);
}

static void test_every_kernel(void **state)
{
    const char *name = called_not(&called);

    (void)state;
    if (name != NULL) fail_msg("no test here calls %s", name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_mixers), cmocka_unit_test(test_every_kernel)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
