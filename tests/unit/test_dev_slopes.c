/*
** test_dev_slopes.c - every backward kernel against its forward: the slope
** of the output along a random direction, by central differences in f64.
**
** A problem has inputs, their gradients, and a forward pass that returns
** sum <d, out> for fixed random d.
*/
#include "dev_fixture.h"

enum { MOST = 6 };

struct slope {
    struct mat x[MOST], dx[MOST];
    int n;
    double (*value)(struct fix *f, struct slope *s);
    struct mat out[3], d[3];        /* outputs and their gradients */
    struct mat w[4];                /* what has no gradient */
    double number;
};

static void shift(struct mat x, struct mat way, double step)
{
    int64_t r, c;

    for (r = 0; r < x.rows; r++)
        for (c = 0; c < x.cols; c++)
            fix_set(x, r, c, fix_get(x, r, c) + step * fix_get(way, r, c));
}

static void check(struct fix *f, struct slope *s, const char *what)
{
    int i;

    for (i = 0; i < s->n; i++) {
        char name[64];
        struct mat way;
        double up, down, want;
        snprintf(name, sizeof name, "%s, input %d", what, i);
        way = fix_in(f, name, s->x[i].rows, s->x[i].cols, 1, 0);
        want = fix_inner(s->dx[i], way);
        shift(s->x[i], way, 1e-5);
        up = s->value(f, s);
        shift(s->x[i], way, -2e-5);
        down = s->value(f, s);
        shift(s->x[i], way, 1e-5);
        assert_true(fabs(want) > 1e-3);
        fix_differ(name, fabs((up - down) / 2e-5 - want) / fabs(want), 1e-6);
    }
}

static struct mat in(struct fix *f, const char *name, int64_t rows,
                     int64_t cols)
{
    return fix_in(f, name, rows, cols, 1, 0);
}

/* ---- one output --------------------------------------------------------- */

static double rms_norm(struct fix *f, struct slope *s)
{
    CALL(f, rms_norm, .y = s->out[0], .x = s->x[0], .w = s->w[0],
         .rstd = s->out[1], .eps = 1e-6, .zero_centred = true);
    return fix_inner(s->out[0], s->d[0]);
}

/* The gradient is added to what is there. */
static void test_rms_norm(void **state)
{
    struct slope s = {.n = 1, .value = rms_norm};
    struct fix f;

    (void)state;
    fix_open(&f, DT_F64);
    s.x[0] = in(&f, "x", 4, 21);
    s.w[0] = in(&f, "w", 1, 21);
    s.d[0] = in(&f, "dy", 4, 21);
    s.out[0] = fix_act(&f, 4, 21);
    s.out[1] = fix_acc(&f, 4, 1);
    s.dx[0] = fix_act(&f, 4, 21);
    CALL(&f, fill, .x = s.dx[0], .value = 1);
    rms_norm(&f, &s);
    CALL(&f, rms_norm_bwd, .dx = s.dx[0], .dy = s.d[0], .x = s.x[0],
         .w = s.w[0], .rstd = s.out[1], .zero_centred = true, .add = true);
    s.w[1] = fix_act(&f, 4, 21);
    CALL(&f, fill, .x = s.w[1], .value = -1);
    CALL(&f, add, .out = s.dx[0], .a = s.dx[0], .b = s.w[1]);
    check(&f, &s, "rms_norm");
    fix_close(&f);
}

static double l2_norm(struct fix *f, struct slope *s)
{
    CALL(f, l2_norm, .y = s->out[0], .x = s->x[0], .rnorm = s->out[1],
         .eps = 1e-2);
    return fix_inner(s->out[0], s->d[0]);
}

static void test_l2_norm(void **state)
{
    struct slope s = {.n = 1, .value = l2_norm};
    struct fix f;

    (void)state;
    fix_open(&f, DT_F64);
    s.x[0] = in(&f, "x", 4, 9);
    s.d[0] = in(&f, "dy", 4, 9);
    s.out[0] = fix_act(&f, 4, 9);
    s.out[1] = fix_acc(&f, 4, 1);
    s.dx[0] = fix_act(&f, 4, 9);
    l2_norm(&f, &s);
    CALL(&f, l2_norm_bwd, .dx = s.dx[0], .dy = s.d[0], .y = s.out[0],
         .rnorm = s.out[1]);
    check(&f, &s, "l2_norm");
    fix_close(&f);
}

static double rotary(struct fix *f, struct slope *s)
{
    static const int32_t pos[] = {0, 3, 2};

    CALL(f, rotary, .y = s->out[0], .x = s->x[0], .table = s->w[0],
         .pos = pos, .heads = 2, .head_dim = 10, .sign = 1);
    return fix_inner(s->out[0], s->d[0]);
}

static void test_rotary(void **state)
{
    static const int32_t pos[] = {0, 3, 2};
    struct slope s = {.n = 1, .value = rotary};
    struct fix f;

    (void)state;
    fix_open(&f, DT_F64);
    s.x[0] = in(&f, "x", 3, 20);
    s.d[0] = in(&f, "dy", 3, 20);
    s.out[0] = fix_act(&f, 3, 20);
    s.dx[0] = fix_act(&f, 3, 20);
    s.w[0] = fix_acc(&f, 4, 3);
    CALL(&f, rotary_table, .table = s.w[0], .theta = 100);
    CALL(&f, rotary, .y = s.dx[0], .x = s.d[0], .table = s.w[0], .pos = pos,
         .heads = 2, .head_dim = 10, .sign = -1);
    check(&f, &s, "rotary");
    fix_close(&f);
}

static double sigmoid_gate(struct fix *f, struct slope *s)
{
    CALL(f, sigmoid_gate, .out = s->out[0], .o = s->x[0], .gate = s->x[1]);
    return fix_inner(s->out[0], s->d[0]);
}

static double silu_gate(struct fix *f, struct slope *s)
{
    CALL(f, silu_gate, .out = s->out[0], .a = s->x[0], .z = s->x[1]);
    return fix_inner(s->out[0], s->d[0]);
}

static void test_gates(void **state)
{
    struct slope s = {.n = 2, .value = sigmoid_gate};
    struct fix f;

    (void)state;
    fix_open(&f, DT_F64);
    s.x[0] = in(&f, "a", 4, 9);
    s.x[1] = fix_in(&f, "b", 4, 9, 3, 0);
    s.d[0] = in(&f, "dout", 4, 9);
    s.out[0] = fix_act(&f, 4, 9);
    s.dx[0] = fix_act(&f, 4, 9);
    s.dx[1] = fix_act(&f, 4, 9);
    CALL(&f, sigmoid_gate_bwd, .d_o = s.dx[0], .dgate = s.dx[1],
         .dout = s.d[0], .o = s.x[0], .gate = s.x[1]);
    check(&f, &s, "sigmoid_gate");
    s.value = silu_gate;
    CALL(&f, silu_gate_bwd, .da = s.dx[0], .dz = s.dx[1], .dout = s.d[0],
         .a = s.x[0], .z = s.x[1]);
    check(&f, &s, "silu_gate");
    fix_close(&f);
}

static double swiglu(struct fix *f, struct slope *s)
{
    CALL(f, swiglu, .out = s->out[0], .gu = s->x[0], .weight = s->x[1]);
    return fix_inner(s->out[0], s->d[0]);
}

static double row_gate(struct fix *f, struct slope *s)
{
    CALL(f, row_gate, .out = s->out[0], .x = s->x[0], .logit = s->x[1]);
    return fix_inner(s->out[0], s->d[0]);
}

static void test_mlp(void **state)
{
    struct slope s = {.n = 2, .value = swiglu};
    struct fix f;

    (void)state;
    fix_open(&f, DT_F64);
    s.x[0] = fix_in(&f, "gu", 4, 14, 3, 0);
    s.x[1] = in(&f, "weight", 4, 1);
    s.d[0] = in(&f, "dout", 4, 7);
    s.out[0] = fix_act(&f, 4, 7);
    s.dx[0] = fix_act(&f, 4, 14);
    s.dx[1] = fix_acc(&f, 4, 1);
    CALL(&f, swiglu_bwd, .dgu = s.dx[0], .dweight = s.dx[1], .dout = s.d[0],
         .gu = s.x[0], .weight = s.x[1]);
    check(&f, &s, "swiglu");
    s.value = row_gate;
    s.x[0] = in(&f, "x", 4, 7);
    s.dx[0] = fix_act(&f, 4, 7);
    CALL(&f, row_gate_bwd, .dx = s.dx[0], .dlogit = s.dx[1], .dout = s.d[0],
         .x = s.x[0], .logit = s.x[1]);
    check(&f, &s, "row_gate");
    fix_close(&f);
}

/* ---- several outputs ---------------------------------------------------- */

static double gdn_gates(struct fix *f, struct slope *s)
{
    CALL(f, gdn_gates, .g = s->out[0], .beta = s->out[1], .a = s->x[0],
         .b = s->x[1], .a_log = s->w[0], .dt_bias = s->w[1]);
    return fix_inner(s->out[0], s->d[0]) + fix_inner(s->out[1], s->d[1]);
}

static void test_gdn_gates(void **state)
{
    struct slope s = {.n = 2, .value = gdn_gates};
    struct fix f;
    int i;

    (void)state;
    fix_open(&f, DT_F64);
    s.w[0] = in(&f, "a_log", 1, 3);
    s.w[1] = in(&f, "dt_bias", 1, 3);
    for (i = 0; i < 2; i++) {
        s.x[i] = fix_in(&f, i ? "b" : "a", 5, 3, 4, 0);
        s.dx[i] = fix_act(&f, 5, 3);
        s.out[i] = fix_acc(&f, 5, 3);
        s.d[i] = in(&f, i ? "dbeta" : "dg", 5, 3);
    }
    gdn_gates(&f, &s);
    CALL(&f, gdn_gates_bwd, .da = s.dx[0], .db = s.dx[1], .dg = s.d[0],
         .dbeta = s.d[1], .a = s.x[0], .beta = s.out[1], .a_log = s.w[0],
         .dt_bias = s.w[1]);
    check(&f, &s, "gdn_gates");
    fix_close(&f);
}

static const struct dev_piece pieces[] = {{0, 5, 0, 1}, {5, 70, 0, -1},
                                          {75, 2, -1, 2}};

/* The last is shorter than its halo, and leaves rows of that. */
static const struct dev_piece conv_pieces[] = {{0, 5, 0, 1}, {5, 70, 0, -1},
                                               {75, 2, 0, 2}};

/* Of states 1 and 2, which it leaves, too. */
static double conv(struct fix *f, struct slope *s)
{
    CALL(f, conv, .y = s->out[0], .x = s->x[0], .w = s->w[0],
         .halo = s->w[1], .piece = conv_pieces, .n_piece = 3);
    return fix_inner(s->out[0], s->d[0]) + fix_inner(s->out[1], s->d[1]);
}

static void test_conv(void **state)
{
    struct slope s = {.n = 2, .value = conv};
    struct mat dhalo;
    struct fix f;

    (void)state;
    fix_open(&f, DT_F64);
    s.x[0] = in(&f, "x", 77, 3);
    s.w[0] = in(&f, "w", 3, 4);
    s.w[1] = in(&f, "halo", 9, 3);
    dhalo = fix_fill(fix_acc(&f, 9, 3), "dhalo", 1, 0);
    s.x[1] = fix_rows(s.w[1], 0, 3);
    s.out[1] = fix_rows(s.w[1], 3, 6);
    s.dx[1] = fix_zero(fix_rows(dhalo, 0, 3));
    s.d[1] = fix_rows(dhalo, 3, 6);
    s.d[0] = in(&f, "dy", 77, 3);
    s.out[0] = fix_act(&f, 77, 3);
    s.dx[0] = fix_act(&f, 77, 3);
    CALL(&f, conv_bwd, .dx = s.dx[0], .dhalo = dhalo, .dy = s.d[0],
         .x = s.x[0], .w = s.w[0], .halo = s.w[1], .piece = conv_pieces,
         .n_piece = 3);
    check(&f, &s, "conv");
    fix_close(&f);
}

enum { HEADS = 2, K = 6, V = 5 };

/* Inputs q, k, v, g, beta and the first state; outputs o and the states. */
static double delta(struct fix *f, struct slope *s)
{
    CALL(f, copy, .dst = fix_rows(s->out[1], 0, 1), .src = s->x[5]);
    CALL(f, delta, .o = s->out[0], .states = s->out[1], .g_cum = s->w[0],
         .x = s->w[1], .q = s->x[0], .k = s->x[1], .v = s->x[2],
         .g = s->x[3], .beta = s->x[4], .heads = HEADS, .k_dim = K,
         .v_dim = V, .scale = 0.4, .piece = pieces, .n_piece = 3);
    return fix_inner(s->out[0], s->d[0])
        + fix_inner(fix_rows(s->out[1], 1, 2), fix_rows(s->d[1], 1, 2));
}

static void test_delta(void **state)
{
    const int64_t t = 77, size = HEADS * K * V;
    struct slope s = {.n = 6, .value = delta};
    struct mat ds;
    struct fix f;
    int i;

    (void)state;
    fix_open(&f, DT_F64);
    s.x[0] = fix_in(&f, "q", t, HEADS * K, 0.5, 0);
    s.x[1] = fix_in(&f, "k", t, HEADS * K, 0.5, 0);
    s.x[2] = in(&f, "v", t, HEADS * V);
    s.x[3] = fix_in(&f, "g", t, HEADS, 0.2, -0.2);
    s.x[4] = fix_in(&f, "beta", t, HEADS, 0.4, 0.5);
    s.x[5] = in(&f, "s0", 1, size);
    for (i = 0; i < 5; i++) s.dx[i] = fix_act(&f, t, s.x[i].cols);
    s.w[0] = fix_acc(&f, t, HEADS);
    s.w[1] = fix_act(&f, t, HEADS * 64);
    s.out[0] = fix_act(&f, t, HEADS * V);
    s.out[1] = fix_acc(&f, 3, size);
    s.d[0] = in(&f, "do", t, HEADS * V);
    s.d[1] = in(&f, "ds", 3, size);
    ds = in(&f, "ds", 3, size);
    fix_zero(fix_rows(ds, 0, 1));
    s.dx[5] = fix_rows(ds, 0, 1);
    delta(&f, &s);
    CALL(&f, delta_bwd, .dq = s.dx[0], .dk = s.dx[1], .dv = s.dx[2],
         .dg = s.dx[3], .dbeta = s.dx[4], .dstates = ds, .d_o = s.d[0],
         .states = s.out[1], .g_cum = s.w[0], .x = s.w[1], .q = s.x[0],
         .k = s.x[1], .v = s.x[2], .beta = s.x[4], .heads = HEADS,
         .k_dim = K, .v_dim = V, .scale = 0.4, .piece = pieces,
         .n_piece = 3);
    check(&f, &s, "delta");
    fix_close(&f);
}

/* The fold: inputs o1, l1 (accumulators), o2, l2 (stage). */
static double merge(struct fix *f, struct slope *s)
{
    CALL(f, copy, .dst = s->out[0], .src = s->x[0]);
    CALL(f, copy, .dst = s->out[1], .src = s->x[1]);
    CALL(f, merge, .o_acc = s->out[0], .lse_acc = s->out[1], .o = s->x[2],
         .lse = s->x[3], .heads = 2);
    return fix_inner(s->out[0], s->d[0]) + fix_inner(s->out[1], s->d[1]);
}

static void test_merge(void **state)
{
    struct slope s = {.n = 4, .value = merge};
    struct fix f;
    int i;

    (void)state;
    fix_open(&f, DT_F64);
    for (i = 0; i < 4; i++) {
        s.x[i] = in(&f, i < 2 ? "accumulator" : "stage", 5, i % 2 ? 2 : 8);
        s.dx[i] = fix_act(&f, 5, i % 2 ? 2 : 8);
    }
    for (i = 0; i < 2; i++) {
        s.out[i] = fix_acc(&f, 5, i ? 2 : 8);
        s.d[i] = in(&f, i ? "dlse" : "do", 5, i ? 2 : 8);
        CALL(&f, copy, .dst = s.dx[i], .src = s.d[i]);
    }
    CALL(&f, merge_bwd, .d_acc = s.dx[0], .dlse_acc = s.dx[1],
         .d_o = s.dx[2], .dlse = s.dx[3], .tape_o = s.x[0],
         .tape_lse = s.x[1], .o = s.x[2], .lse = s.x[3], .heads = 2);
    check(&f, &s, "merge");
    fix_close(&f);
}

/* The choice is held; number is 1 for normalised weights. */
static double router(struct fix *f, struct slope *s)
{
    CALL(f, router, .logits = s->x[0], .scores = s->out[0], .map = s->w[0],
         .idx = s->w[1], .weight = s->out[1], .forced = s->w[2].p,
         .norm = s->number > 0);
    return fix_inner(s->out[1], s->d[1]);
}

static void test_router(void **state)
{
    struct slope s = {.n = 1, .value = router};
    struct fix f;
    int i;

    (void)state;
    fix_open(&f, DT_F64);
    s.x[0] = in(&f, "logits", 4, 6);
    s.dx[0] = fix_acc(&f, 4, 6);
    s.out[0] = fix_acc(&f, 4, 6);
    s.out[1] = fix_acc(&f, 4, 3);
    s.d[1] = in(&f, "dweight", 4, 3);
    s.w[0] = fix_new(&f, 4, 6, DT_U8);
    s.w[1] = fix_new(&f, 4, 3, DT_I64);
    s.w[2] = fix_new(&f, 4, 3, DT_I64);
    for (i = 0; i < 12; i++) fix_set(s.w[2], i / 3, i % 3, (i / 3 + 5 * i) % 6);
    for (i = 0; i < 2; i++) {
        s.number = i;
        router(&f, &s);
        CALL(&f, router_bwd, .dlogits = s.dx[0], .dweight = s.d[1],
             .scores = s.out[0], .idx = s.w[1], .weight = s.out[1],
             .norm = s.number > 0);
        check(&f, &s, "router");
    }
    fix_close(&f);
}

static const int32_t target[] = {2, -1, 0, 36};
static const double weight[] = {0.5, 1, 0.25, 2};

static double cross_entropy(struct fix *f, struct slope *s)
{
    double loss = 0;

    CALL(f, cross_entropy, .logits = s->x[0], .target = target,
         .weight = weight, .loss_sum = &loss);
    return loss;
}

/* Row sums of the gradient are zero; a row without a target has none. */
static void test_cross_entropy(void **state)
{
    struct slope s = {.n = 1, .value = cross_entropy};
    double loss = 0;
    struct fix f;
    int64_t r, c;

    (void)state;
    fix_open(&f, DT_F64);
    s.x[0] = fix_in(&f, "logits", 4, 37, 4, 0);
    s.dx[0] = fix_act(&f, 4, 37);
    CALL(&f, cross_entropy, .dlogits = s.dx[0], .logits = s.x[0],
         .target = target, .weight = weight, .loss_sum = &loss);
    check(&f, &s, "cross_entropy");
    for (r = 0; r < 4; r++) {
        double total = 0;
        for (c = 0; c < 37; c++) total += fix_get(s.dx[0], r, c);
        assert_true(fabs(total) < 1e-15);
    }
    assert_true(fix_inner(fix_rows(s.dx[0], 1, 1), fix_rows(s.dx[0], 1, 1))
                == 0);
    fix_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rms_norm), cmocka_unit_test(test_l2_norm),
        cmocka_unit_test(test_rotary), cmocka_unit_test(test_gates),
        cmocka_unit_test(test_mlp), cmocka_unit_test(test_gdn_gates),
        cmocka_unit_test(test_conv), cmocka_unit_test(test_delta),
        cmocka_unit_test(test_merge), cmocka_unit_test(test_router),
        cmocka_unit_test(test_cross_entropy)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
