/*
** test_dev_views.c - every kernel takes strided views (the same bits as on
** packed ones, the columns beside them untouched) and views without rows.
*/
#include "dev_fixture.h"

enum { MARGIN = 3 };

/* Packed, or in the middle of a wider matrix. */
static struct mat place(struct fix *f, bool wide, int64_t rows, int64_t cols,
                        enum dtype t)
{
    if (!wide) return fix_new(f, rows, cols, t);
    return fix_cols(fix_new(f, rows, cols + 2 * MARGIN, t), MARGIN, cols);
}

static void check_margin(struct mat m)
{
    int64_t r, c;

    for (r = 0; r < m.rows; r++)
        for (c = 1; c <= MARGIN; c++)
            assert_true(isnan(fix_get(m, r, -c))
                        && isnan(fix_get(m, r, m.cols - 1 + c)));
}

/* Results of one run, to be compared with another's. */
struct results { struct mat m[12]; int n; };

static struct mat out(struct fix *f, struct results *res, bool wide,
                      int64_t rows, int64_t cols, enum dtype t)
{
    return res->m[res->n++] = place(f, wide, rows, cols, t);
}

static struct mat in(struct fix *f, bool wide, const char *name, int64_t rows,
                     int64_t cols, enum dtype t)
{
    return fix_fill(place(f, wide, rows, cols, t), name, 0.5, 0.1);
}

static void compare(void (*run)(struct fix *, struct results *, bool),
                    enum dtype act)
{
    struct results packed = {.n = 0}, wide = {.n = 0};
    struct fix f;
    int i;

    fix_open(&f, act);
    run(&f, &packed, false);
    run(&f, &wide, true);
    for (i = 0; i < packed.n; i++) {
        fix_equal("strided", wide.m[i], packed.m[i]);
        if (fix_has_nan(wide.m[i])) fail_msg("result %d is NaN", i);
        check_margin(wide.m[i]);
    }
    fix_close(&f);
}

/* ---- strided ------------------------------------------------------------ */

#define ACT f->d->act
#define ACC f->d->acc
enum { T = 70, HEADS = 2, D = 8, W = HEADS * D };

static void norms(struct fix *f, struct results *r, bool wide)
{
    struct mat x = in(f, wide, "x", T, W, ACT), w = in(f, wide, "w", 1, W, ACT);
    struct mat y = out(f, r, wide, T, W, ACT);
    struct mat rstd = out(f, r, wide, T, 1, ACC);
    struct mat dx = out(f, r, wide, T, W, ACT);
    struct mat l2 = out(f, r, wide, T, W, ACT);
    struct mat rnorm = out(f, r, wide, T, 1, ACC);
    struct mat dl2 = out(f, r, wide, T, W, ACT);

    CALL(f, rms_norm, .y = y, .x = x, .w = w, .rstd = rstd, .eps = 1e-6);
    CALL(f, rms_norm_bwd, .dx = dx, .dy = y, .x = x, .w = w, .rstd = rstd);
    CALL(f, l2_norm, .y = l2, .x = x, .rnorm = rnorm, .eps = 1e-6);
    CALL(f, l2_norm_bwd, .dx = dl2, .dy = x, .y = l2, .rnorm = rnorm);
}

static void gates(struct fix *f, struct results *r, bool wide)
{
    struct mat x = in(f, wide, "x", T, W, ACT), z = in(f, wide, "z", T, W, ACT);
    struct mat gu = in(f, wide, "gu", T, 2 * W, ACT);
    struct mat one = in(f, wide, "one", T, 1, ACC);
    struct mat a = out(f, r, wide, T, W, ACT), b = out(f, r, wide, T, W, ACT);
    struct mat c = out(f, r, wide, T, W, ACT), d = out(f, r, wide, T, W, ACT);
    struct mat dgu = out(f, r, wide, T, 2 * W, ACT);
    struct mat dw = out(f, r, wide, T, 1, ACC);
    struct mat dl = out(f, r, wide, T, 1, ACC);
    struct mat e = out(f, r, wide, T, W, ACT), g = out(f, r, wide, T, W, ACT);

    CALL(f, sigmoid_gate, .out = a, .o = x, .gate = z);
    CALL(f, silu_gate_bwd, .da = b, .dz = c, .dout = a, .a = x, .z = z);
    CALL(f, swiglu, .out = d, .gu = gu, .weight = one);
    CALL(f, swiglu_bwd, .dgu = dgu, .dweight = dw, .dout = d, .gu = gu,
         .weight = one);
    CALL(f, row_gate, .out = e, .x = x, .logit = one);
    CALL(f, row_gate_bwd, .dx = g, .dlogit = dl, .dout = e, .x = x,
         .logit = one);
}

static void attention(struct fix *f, struct results *r, bool wide)
{
    static const struct slice s[] = {{0, T, 0, T, 0, true}};
    struct mat q = in(f, wide, "q", T, W, ACT), k = in(f, wide, "k", T, D, ACT);
    struct mat v = in(f, wide, "v", T, D, ACT);
    struct mat o = out(f, r, wide, T, W, ACT);
    struct mat lse = out(f, r, wide, T, HEADS, ACC);
    struct mat dq = out(f, r, wide, T, W, ACT);
    struct mat dk = out(f, r, wide, T, D, ACC);
    struct mat dv = out(f, r, wide, T, D, ACC);
    struct mat acc = out(f, r, wide, T, W, ACC);
    struct mat acc_lse = out(f, r, wide, T, HEADS, ACC);
    struct mat tape = out(f, r, wide, T, W, ACC);
    struct mat tape_lse = place(f, wide, T, HEADS, ACC);
    struct mat d_o = out(f, r, wide, T, W, ACT);
    struct mat dl = out(f, r, wide, T, HEADS, ACC);

    CALL(f, attention, .out = o, .lse = lse, .q = q, .k = k, .v = v,
         .heads = HEADS, .kv_heads = 1, .scale = 0.5, .slice = s,
         .n_slice = 1);
    CALL(f, attention_bwd, .dq = dq, .dk = dk, .dv = dv, .q = q, .k = k,
         .v = v, .out = o, .lse = lse, .dout = q, .heads = HEADS,
         .kv_heads = 1, .scale = 0.5, .slice = s, .n_slice = 1);
    CALL(f, fill, .x = acc, .value = 0);
    CALL(f, fill, .x = acc_lse, .value = 0.5);
    CALL(f, merge, .o_acc = acc, .lse_acc = acc_lse, .tape_o = tape,
         .tape_lse = tape_lse, .o = o, .lse = lse, .heads = HEADS);
    CALL(f, merge_bwd, .d_acc = acc, .dlse_acc = acc_lse, .d_o = d_o,
         .dlse = dl, .tape_o = tape, .tape_lse = tape_lse, .o = o, .lse = lse,
         .heads = HEADS);
}

static void delta(struct fix *f, struct results *r, bool wide)
{
    static const struct dev_piece p[] = {{0, T, 0, 1}};
    struct mat q = in(f, wide, "q", T, W, ACT), v = in(f, wide, "v", T, W, ACT);
    struct mat g = in(f, wide, "g", T, HEADS, ACC);
    struct mat beta = in(f, wide, "b", T, HEADS, ACC);
    struct mat s = in(f, wide, "s", 2, W * D, ACC);
    struct mat ds = in(f, wide, "ds", 2, W * D, ACC);
    struct mat o = out(f, r, wide, T, W, ACT);
    struct mat gc = out(f, r, wide, T, HEADS, ACC);
    struct mat x = out(f, r, wide, T, HEADS * 64, ACT);
    struct mat dq = out(f, r, wide, T, W, ACT);
    struct mat dk = out(f, r, wide, T, W, ACT);
    struct mat dv = out(f, r, wide, T, W, ACT);
    struct mat dg = out(f, r, wide, T, HEADS, ACC);
    struct mat db = out(f, r, wide, T, HEADS, ACC);

    CALL(f, scale, .out = g, .a = g, .s = -0.1);
    CALL(f, delta, .o = o, .states = s, .g_cum = gc, .x = x, .q = q, .k = q,
         .v = v, .g = g, .beta = beta, .heads = HEADS, .k_dim = D,
         .v_dim = D, .scale = 1, .piece = p, .n_piece = 1);
    CALL(f, delta_bwd, .dq = dq, .dk = dk, .dv = dv, .dg = dg, .dbeta = db,
         .dstates = ds, .d_o = v, .states = s, .g_cum = gc, .x = x, .q = q,
         .k = q, .v = v, .beta = beta, .heads = HEADS, .k_dim = D,
         .v_dim = D, .scale = 1, .piece = p, .n_piece = 1);
    r->m[r->n++] = s;
    r->m[r->n++] = ds;
}

static void others(struct fix *f, struct results *r, bool wide)
{
    static const int32_t pos[] = {3, 0, 1, 2}, target[] = {1, -1, 0, 15};
    static const struct dev_piece p[] = {{0, 4, 0, -1}};
    struct mat x = in(f, wide, "x", 4, W, ACT);
    struct mat w = in(f, wide, "w", W, 4, ACT);
    struct mat halo = in(f, wide, "halo", 3, W, ACT);
    struct mat table = out(f, r, wide, 4, 3, ACC);
    struct mat y = out(f, r, wide, 4, W, ACT);
    struct mat c = out(f, r, wide, 4, W, ACT);
    struct mat dx = out(f, r, wide, 4, W, ACT);
    struct mat dl = out(f, r, wide, 4, W, ACT);
    struct mat dhalo = out(f, r, wide, 3, W, ACC);
    struct mat m = in(f, wide, "m", 4, W, ACC);
    struct mat v = place(f, wide, 4, W, ACC);
    struct mat weight = fix_fill(fix_acc(f, 4, 1), "weight", 0.5, 1);
    double loss = 0;

    CALL(f, rotary_table, .table = table, .theta = 100);
    CALL(f, rotary, .y = y, .x = x, .table = table, .pos = pos, .heads = HEADS,
         .head_dim = D, .sign = 1);
    CALL(f, conv, .y = c, .x = x, .w = w, .halo = halo, .piece = p,
         .n_piece = 1);
    CALL(f, fill, .x = dhalo, .value = 0);
    CALL(f, conv_bwd, .dx = dx, .dhalo = dhalo, .dy = c, .x = x, .w = w,
         .halo = halo, .piece = p, .n_piece = 1);
    CALL(f, cross_entropy, .dlogits = dl, .logits = x, .target = target,
         .weight = weight.p, .loss_sum = &loss);
    CALL(f, fill, .x = v, .value = 2);
    CALL(f, adam, .p = y, .g = x, .m = m, .v = v, .lr = 0.1, .beta1 = 0.9,
         .beta2 = 0.99, .eps = 1, .step = 2);
}

static void test_strided(void **state)
{
    static void (*const run[])(struct fix *, struct results *, bool) = {
        norms, gates, attention, delta, others
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof run / sizeof *run; i++) {
        compare(run[i], DT_F32);
        compare(run[i], DT_BF16);
    }
}

/* ---- no rows ------------------------------------------------------------ */

static void no_rows(struct fix *f)
{
    struct mat x = fix_act(f, 0, W), one = fix_acc(f, 0, 1);
    struct mat h = fix_acc(f, 0, HEADS), a = fix_act(f, 0, HEADS);
    struct mat acc = fix_acc(f, 0, W), w = fix_in(f, "w", 1, W, 1, 0);
    struct mat small = fix_in(f, "small", 1, HEADS, 1, 0);
    struct mat taps = fix_in(f, "taps", W, 4, 1, 0), gu = fix_act(f, 0, 2 * W);

    CALL(f, add, .out = x, .a = x, .b = x);
    CALL(f, copy, .dst = x, .src = acc);
    CALL(f, embed, .out = x, .table = w);
    CALL(f, gather, .out = x, .x = w);
    CALL(f, scatter, .out = w, .x = x);
    CALL(f, heads, .packed = x, .joined = gu, .heads = HEADS, .head_dim = D,
         .stride = 2 * D);
    CALL(f, rms_norm, .y = x, .x = x, .w = w, .rstd = one, .eps = 1e-6);
    CALL(f, l2_norm, .y = x, .x = x, .rnorm = one, .eps = 1e-6);
    CALL(f, sigmoid_gate_bwd, .d_o = x, .dgate = x, .dout = x, .o = x,
         .gate = x);
    CALL(f, swiglu_bwd, .dgu = gu, .dweight = one, .dout = x, .gu = gu,
         .weight = one);
    CALL(f, merge, .o_acc = acc, .lse_acc = h, .o = x, .lse = h,
         .heads = HEADS);
    CALL(f, merge_bwd, .d_acc = acc, .dlse_acc = h, .d_o = x, .dlse = h,
         .o = x, .lse = h, .heads = HEADS);
    CALL(f, attention_bwd, .dq = x, .dk = acc, .dv = acc, .q = x, .k = x,
         .v = x, .out = x, .lse = h, .dout = x, .heads = HEADS,
         .kv_heads = HEADS, .scale = 1);
    CALL(f, conv_bwd, .dx = x, .dy = x, .x = x, .w = taps);
    CALL(f, gdn_gates, .g = h, .beta = h, .a = a, .b = a, .a_log = small,
         .dt_bias = small);
    CALL(f, delta_bwd, .dq = x, .dk = x, .dv = x, .dg = h, .dbeta = h,
         .d_o = x, .g_cum = h, .x = fix_act(f, 0, HEADS * 64), .q = x, .k = x,
         .v = x, .beta = h, .heads = HEADS, .k_dim = D, .v_dim = D,
         .scale = 1);
    CALL(f, cross_entropy, .dlogits = x, .logits = x);
}

/* A product over no rows is a zero gradient, not what was there. */
static void test_no_rows(void **state)
{
    static const enum dtype types[] = {DT_F64, DT_F32, DT_BF16};
    int t;

    (void)state;
    for (t = 0; t < 3; t++) {
        struct mat c;
        struct fix f;
        fix_open(&f, types[t]);
        no_rows(&f);
        c = fix_act(&f, 3, W);
        CALL(&f, gemm, .c = c, .a = fix_act(&f, 0, 3), .b = fix_act(&f, 0, W),
             .trans_a = true, .alpha = 1);
        assert_true(fix_inner(c, c) == 0);
        fix_close(&f);
    }
}

/* What no stage and no plan has is told, with the kernel's name. */
static void test_bad_lists(void **state)
{
    struct slice beyond = {.q = 0, .n_q = 3, .k = 0, .n_k = 9};
    struct dev_piece short_of = {2, -1, -1, -1};
    struct fix f;
    struct mat x, h;

    (void)state;
    fix_open(&f, DT_F32);
    x = fix_act(&f, 3, W);
    h = fix_act(&f, 3, HEADS);
    assert_int_equal(CALL_RC(&f, attention, .out = x, .lse = h, .q = x,
        .k = x, .v = x, .heads = HEADS, .kv_heads = HEADS, .scale = 1,
        .slice = &beyond, .n_slice = 1), ERR_RUN);
    assert_non_null(strstr(f.e.text, "cpu k_attention: slices leave"));
    assert_int_equal(CALL_RC(&f, delta_bwd, .dq = x, .dk = x, .dv = x,
        .dg = h, .dbeta = h, .d_o = x, .g_cum = h,
        .x = fix_act(&f, 3, HEADS * 64), .q = x, .k = x, .v = x, .beta = h,
        .heads = HEADS, .k_dim = D, .v_dim = D, .scale = 1,
        .piece = &short_of, .n_piece = 1), ERR_RUN);
    assert_non_null(strstr(f.e.text, "cpu k_delta_bwd: piece[0] is 2"));
    fix_close(&f);
}

/* BLAS takes no rows that overlap, nor one row that would. */
static void test_overlap(void **state)
{
    struct fix f;
    struct mat x, one;

    (void)state;
    fix_open(&f, DT_F32);
    x = fix_act(&f, 1, W);
    one = fix_act(&f, 1, W);
    one.ld = W - 1;
    assert_int_equal(CALL_RC(&f, gemm, .c = fix_act(&f, 1, 1), .a = one,
        .b = x, .trans_b = true, .alpha = 1), ERR_RUN);
    assert_non_null(strstr(f.e.text, "view a->a is 1 x "));
    assert_non_null(strstr(f.e.text, "(rows overlap)"));
    fix_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strided), cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_bad_lists), cmocka_unit_test(test_overlap)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
