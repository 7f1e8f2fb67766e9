/*
** test_dev_fault.c - host memory that runs out while the cpu device opens or
** a kernel takes scratch: an error, nothing lost, and the same call works
** once memory is back.
*/
#include "dev_fixture.h"
#include "fault.h"

/* With the first allocation failing, then with memory. The scratch of
** earlier calls is given up by opening the device anew. */
#define TRY(name, ...)                                                       \
    do {                                                                     \
        reopen(&f);                                                          \
        fault_set(1);                                                        \
        assert_int_equal(CALL_RC(&f, name, __VA_ARGS__), ERR_RUN);           \
        assert_true(fault_reached());                                        \
        assert_string_equal(f.e.text, "out of host memory");                 \
        fault_set(0);                                                        \
        CALL(&f, name, __VA_ARGS__);                                         \
    } while (0)

static void reopen(struct fix *f)
{
    struct dev_options o = {.act = f->d->act};

    dev_cpu.close(f->d);
    assert_int_equal(dev_cpu.open(&o, &f->d, &f->e), ERR_OK);
}

static void test_open(void **state)
{
    struct dev_options o = {.act = DT_F32};
    struct dev *d;
    struct err e;

    (void)state;
    fault_set(1);
    assert_int_equal(dev_cpu.open(&o, &d, &e), ERR_RUN);
    fault_set(0);
    assert_int_equal(dev_cpu.open(&o, &d, &e), ERR_OK);
    dev_cpu.close(d);
}

static void test_rows(void **state)
{
    static const struct range r[] = {{1, 2}};
    static const int32_t at[] = {1, 0, 2};
    struct mat x, y, two, one, wide, cut, square, table, m, v;
    struct fix f;

    (void)state;
    fix_open(&f, DT_BF16);
    x = fix_in(&f, "x", 3, 4, 1, 0);
    y = fix_in(&f, "y", 3, 4, 1, 0);
    two = fix_act(&f, 2, 4);
    one = fix_acc(&f, 3, 1);
    wide = fix_act(&f, 4, 3);
    cut = fix_act(&f, 3, 2);
    square = fix_act(&f, 3, 3);
    table = fix_zero(fix_acc(&f, 3, 1));
    m = fix_in_acc(&f, "m", 3, 4, 1, 0);
    v = fix_in_acc(&f, "v", 3, 4, 1, 2);
    TRY(fill, .x = y, .value = 1);
    TRY(copy, .dst = y, .src = x);
    TRY(add, .out = y, .a = x, .b = x);
    TRY(scale, .out = y, .a = x, .s = 2);
    TRY(random, .x = y, .seed = 1, .scale = 1);
    TRY(gather, .out = two, .x = x, .r = r, .n = 1);
    TRY(scatter, .out = y, .x = two, .r = r, .n = 1);
    TRY(embed, .out = y, .table = x, .ids = at);
    TRY(permute, .out = y, .x = x, .row = at);
    TRY(combine, .out = y, .x = x, .slot = at, .top_k = 1);
    TRY(transpose, .y = wide, .x = x, .n_group = 1);
    TRY(rms_norm, .y = y, .x = x, .w = fix_rows(x, 0, 1), .rstd = one,
        .eps = 1e-6);
    TRY(rms_norm_bwd, .dx = y, .dy = x, .x = x, .w = fix_rows(x, 0, 1),
        .rstd = one);
    TRY(l2_norm, .y = y, .x = x, .rnorm = one, .eps = 1e-6);
    TRY(sigmoid_gate, .out = y, .o = x, .gate = x);
    TRY(swiglu, .out = cut, .gu = x);
    TRY(adam, .p = y, .g = x, .m = m, .v = v, .lr = 1, .beta1 = 0.5,
        .beta2 = 0.5, .eps = 1, .step = 1);
    TRY(gemm, .c = square, .a = x, .b = x, .trans_b = true, .alpha = 1);
    TRY(rotary_table, .table = table, .theta = 10);
    TRY(rotary, .y = y, .x = x, .table = table, .pos = at, .heads = 2,
        .head_dim = 2, .sign = 1);
    fix_close(&f);
}

static void test_mixers(void **state)
{
    static const struct slice s[] = {{0, 3, 0, 3, 0, true}};
    static const struct dev_piece p[] = {{0, 3, -1, -1}};
    struct mat x, y, one, dk, dv, xm, w, g, g2, y2, y3;
    struct fix f;

    (void)state;
    fix_open(&f, DT_F32);
    x = fix_in(&f, "x", 3, 4, 1, 0);
    y = fix_act(&f, 3, 4);
    one = fix_in_acc(&f, "one", 3, 1, 0.5, -0.5);
    dk = fix_acc(&f, 3, 4);
    dv = fix_acc(&f, 3, 4);
    xm = fix_act(&f, 3, 64);
    w = fix_in(&f, "w", 4, 2, 1, 0);
    g = fix_acc(&f, 3, 1);
    g2 = fix_acc(&f, 3, 1);
    y2 = fix_act(&f, 3, 4);
    y3 = fix_act(&f, 3, 4);
    TRY(attention, .out = y, .lse = one, .q = x, .k = x, .v = x, .heads = 1,
        .kv_heads = 1, .scale = 1, .slice = s, .n_slice = 1);
    TRY(attention_bwd, .dq = y, .dk = dk, .dv = dv, .q = x, .k = x, .v = x,
        .out = x, .lse = one, .dout = x, .heads = 1, .kv_heads = 1,
        .scale = 1, .slice = s, .n_slice = 1);
    TRY(conv, .y = y, .x = x, .w = w, .piece = p, .n_piece = 1);
    TRY(delta, .o = y, .g_cum = g, .x = xm, .q = x, .k = x,
        .v = x, .g = one, .beta = one, .heads = 1, .k_dim = 4, .v_dim = 4,
        .scale = 1, .piece = p, .n_piece = 1);
    TRY(delta_bwd, .dq = y, .dk = y2, .dv = y3, .dg = g, .dbeta = g2, .d_o = x,
        .g_cum = one, .x = xm, .q = x, .k = x, .v = x, .beta = one,
        .heads = 1, .k_dim = 4, .v_dim = 4, .scale = 1, .piece = p,
        .n_piece = 1);
    fix_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_mixers)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
