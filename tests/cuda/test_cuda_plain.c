/*
** test_cuda_plain.c - plain kernels, products, row moves, norms, gates,
** rotary, head and optimizer: ragged sizes, several blocks, strided views,
** bf16 and f32 and mixes of both, zero rows.
*/
#include "pair.h"

static const int64_t sizes[][2] = {
    {0, 5}, {1, 1}, {3, 7}, {65, 33}, {130, 8}, {2, 600}
};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Every size and type, with views that touch, views with gaps, and views that
** are larger than 2^31 elements. */
static void each(void (*f)(struct pair *p, int64_t rows, int64_t cols))
{
    static const int64_t pads[] = {0, 3, 8};
    int t, i;

    for (t = 0; t < 2; t++)
        for (i = 0; i < SIZES; i++) {
            struct pair p;

            pair_open(&p, t == 0 ? DT_F32 : DT_BF16);
            p.pad = pads[(t + i) % 3];
            f(&p, sizes[i][0], sizes[i][1]);
            pair_close(&p);
        }
    for (t = 0; t < 2 && pair_can_far(); t++) {
        struct pair p;

        pair_open(&p, t == 0 ? DT_F32 : DT_BF16);
        p.pad = PAIR_FAR;
        f(&p, 3, 7);
        pair_close(&p);
    }
}

/* ---- plain ------------------------------------------------------------- */

static void plain(struct pair *p, int64_t rows, int64_t cols)
{
    struct mat a = pair_in(p, "a", rows, cols, 1, 0);
    struct mat b = pair_in_acc(p, "b", rows, cols, 1, 0);
    struct mat out = pair_new(p, "out", rows, cols, DT_F32, 0);
    struct mat low = pair_new(p, "low", rows, cols, p->f.d->act, 0);
    struct mat same = pair_new(p, "same", rows, cols, p->f.d->act, 0);

    BOTH(p, copy, .dst = low, .src = b);
    BOTH(p, copy, .dst = out, .src = a);
    BOTH(p, copy, .dst = same, .src = a);
    BOTH(p, add, .out = out, .a = a, .b = b);
    BOTH(p, add, .out = out, .a = out, .b = out);
    if (rows > 0) BOTH(p, add, .out = out, .a = a, .b = fix_rows(b, 0, 1));
    BOTH(p, scale, .out = low, .a = a, .s = -0.37);
    BOTH(p, fill, .x = low, .value = 2.75);
    BOTH(p, random, .x = low, .seed = 3, .stream = 9, .first = 11,
         .scale = 2, .offset = 0.5);
    BOTH(p, random, .x = out, .seed = 3, .stream = 9, .scale = 0.02);
}

static void test_plain(void **state)
{
    (void)state;
    each(plain);
}

static void test_types(void **state)
{
    static const enum dtype types[] = {DT_BF16, DT_F32, DT_F64, DT_I32,
                                       DT_I64, DT_U8};
    static const int64_t pads[] = {5, 0, 4, 16};
    struct pair p;
    int i;

    (void)state;
    pair_open(&p, DT_F32);
    for (i = 0; i < 4 * 6; i++) {
        struct mat m, n;

        p.pad = pads[i / 6];
        m = pair_new(&p, "m", 3, 304, types[i % 6], 0);
        n = pair_new(&p, "n", 3, 304, types[i % 6], 0);
        BOTH(&p, fill, .x = m, .value = 2.75);
        BOTH(&p, copy, .dst = n, .src = m);
        pair_reset(&p);
    }
    pair_close(&p);
}

static void heads(struct pair *p, int64_t rows, int64_t cols)
{
    int64_t stride = cols + 2, n = 3;
    struct mat joined = pair_in(p, "joined", rows, 1 + n * stride, 1, 0);
    struct mat packed = pair_new(p, "packed", rows, n * cols, DT_F32, 0);
    struct mat other = pair_new(p, "other", rows, 1 + n * stride,
                                p->f.d->act, 0);
    struct mat turned = pair_new(p, "turned", 2 * (cols + 1), rows,
                                 p->f.d->act, 0);
    struct mat two = pair_in(p, "two", 2 * rows, cols, 1, 0);

    BOTH(p, heads, .packed = packed, .joined = joined, .heads = n,
         .head_dim = cols, .stride = stride, .offset = 1);
    BOTH(p, heads, .packed = packed, .joined = other, .heads = n,
         .head_dim = cols, .stride = stride, .offset = 1, .join = true);
    BOTH(p, transpose, .y = turned, .x = two, .n_group = 2);
}

static void test_heads(void **state)
{
    (void)state;
    each(heads);
}

/* ---- products ---------------------------------------------------------- */

/* Operand: of rows x cols, or its transpose. */
static struct mat operand(struct pair *p, const char *name, int64_t rows,
                          int64_t cols, bool trans, enum dtype t)
{
    struct mat m = trans ? pair_new(p, name, cols, rows, t, 0)
                         : pair_new(p, name, rows, cols, t, 0);

    return fix_fill(m, name, 1, 0);
}

static void products(struct pair *p, int64_t m, int64_t n, int64_t k)
{
    static const enum dtype t[][3] = {
        {DT_F32, DT_F32, DT_F32}, {DT_BF16, DT_BF16, DT_BF16},
        {DT_F32, DT_BF16, DT_BF16}, {DT_F32, DT_BF16, DT_F32},
        {DT_BF16, DT_F32, DT_F32}, {DT_F32, DT_F32, DT_BF16},
        {DT_BF16, DT_F32, DT_BF16}
    };
    int i, f;

    for (i = 0; i < 7; i++)
        for (f = 0; f < 8; f++) {
            bool ta = f & 1, tb = f >> 1 & 1;
            struct mat a = operand(p, "a", m, k, ta, t[i][1]);
            struct mat b = operand(p, "b", k, n, tb, t[i][2]);
            struct mat c = fix_fill(pair_new(p, "c", m, n, t[i][0],
                                             t[i][0] == DT_F32 ? 5e-6 : 1e-2),
                                    "c", 1, 0);
            BOTH(p, gemm, .c = c, .a = a, .b = b, .trans_a = ta,
                 .trans_b = tb, .alpha = 0.7, .beta = f >> 2 ? -0.5 : 0);
            pair_reset(p);
        }
}

static void test_products(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p, DT_F32);
    products(&p, 5, 17, 33);
    products(&p, 1, 1, 1);
    products(&p, 3, 2, 0);
    products(&p, 0, 4, 3);
    p.pad = 3;
    products(&p, 18, 3, 16);
    p.pad = 8;
    products(&p, 70, 72, 130);
    p.pad = PAIR_FAR;
    if (pair_can_far()) products(&p, 3, 3, 4);
    pair_close(&p);
}

/* Parts of the sum that bf16 cannot hold, and that cancel. */
static void test_long_sums(void **state)
{
    struct mat a, b, c;
    struct pair p;
    int i, k;

    (void)state;
    pair_open(&p, DT_BF16);
    a = pair_new(&p, "a", 3, 192, DT_BF16, 0);
    b = pair_new(&p, "b", 192, 2, DT_BF16, 0);
    for (k = 0; k < 192; k++) {
        for (i = 0; i < 3; i++)
            fix_set(a, i, k, k == 7 ? 5 : k < 64 ? 4 : k < 128 ? 0 : -4);
        for (i = 0; i < 2; i++) fix_set(b, k, i, 1);
    }
    c = pair_act(&p, "c", 3, 2);
    BOTH(&p, gemm, .c = c, .a = a, .b = b, .alpha = 1);
    assert_true(fix_get(c, 0, 0) == 1);
    pair_close(&p);
}

/* More rows than one grid has of blocks of 16, by the kernel for two types. */
static void test_tall(void **state)
{
    const int64_t rows = (int64_t)16 * 65535 + 1;
    struct mat a, b, c;
    struct pair p;
    int64_t i;

    (void)state;
    pair_open(&p, DT_F32);
    a = pair_new(&p, "a", rows, 1, DT_BF16, 0);
    b = pair_new(&p, "b", 1, 1, DT_F32, 0);
    c = pair_acc(&p, "c", rows, 1);
    for (i = 0; i < rows; i++) fix_set(a, i, 0, (double)(i % 100));
    fix_set(b, 0, 0, 2);
    assert_int_equal(CUDA_RC(&p, gemm, .c = c, .a = a, .b = b, .alpha = 1),
                     ERR_OK);
    assert_int_equal(cu_ops.sync(p.cu, &p.f.e), ERR_OK);
    for (i = 0; i < rows; i++)
        assert_true(fix_get(c, i, 0) == (double)(i % 100 * 2));
    pair_close(&p);
}

/* Empty groups at both ends and in the middle. */
static void test_groups(void **state)
{
    static const int64_t offset[] = {0, 0, 3, 3, 20, 20};
    struct pair p;
    int t, f, beta;

    (void)state;
    for (t = 0; t < 4; t++)         /* in one call, and where there is none */
        for (f = 0; f < 3; f++)
            for (beta = 0; beta < 2; beta++) {
                static const int64_t w_rows[] = {4, 9, 9};
                struct mat c, a, w;

                pair_open(&p, t % 2 == 0 ? DT_F32 : DT_BF16);
                emu_grouped_missing(t / 2 == 1);
                a = pair_in(&p, "a", 20, 9, 1, 0);
                c = pair_in(&p, "c", 20, 4, 1, 0);
                if (f != GROUP_TN) c = pair_changes(&p, c);
                w = pair_in(&p, "w", 5 * w_rows[f], f == 0 ? 9 : 4, 1, 0);
                if (f == GROUP_TN) w = pair_changes(&p, w);
                BOTH(&p, group_gemm, .form = (enum group_form)f, .c = c,
                     .a = a, .w = w, .w_rows = w_rows[f], .offset = offset,
                     .n_group = 5, .alpha = 0.5, .beta = beta);
                pair_close(&p);
            }
    emu_grouped_missing(false);
}

/* ---- rows -------------------------------------------------------------- */

static void rows(struct pair *p, int64_t n, int64_t cols)
{
    const struct range r[] = {{2, n}, {0, 0}, {n + 4, n / 2}, {0, 1}};
    const struct range twice[] = {{1, n}, {1 + n / 2, n / 2}, {0, 1}};
    int64_t all = n + n / 2 + 1, i;
    struct mat wide = pair_in(p, "wide", 2 * n + 6, cols, 1, 0);
    struct mat packed = pair_new(p, "packed", all, cols, p->f.d->act, 0);
    struct mat other = pair_new(p, "other", all, cols, DT_F32, 0);
    struct mat x = pair_in(p, "x", all, cols, 1, 0);
    struct mat back = pair_changes(
        p, pair_in(p, "back", 2 * n + 6, cols, 1, 0));
    struct mat sum = pair_changes(
        p, pair_in_acc(p, "sum", 2 * n + 6, cols, 1, 0));
    struct mat idx = pair_new(p, "idx", 1, 3 * (n + 1), DT_I32, 0);
    struct mat taken = pair_new(p, "taken", n, cols, p->f.d->act, 0);
    struct mat total = pair_act(p, "total", n, cols);

    for (i = 0; i < 3 * (n + 1); i++)
        fix_set(idx, 0, i, (double)((i * 7 + 3) % all));
    BOTH(p, gather, .out = packed, .x = wide, .r = r, .n = 4);
    BOTH(p, gather, .out = other, .x = wide, .r = r, .n = 4);
    BOTH(p, scatter, .out = back, .x = x, .r = r, .n = 4);
    BOTH(p, scatter, .out = back, .x = x, .r = r, .n = 4, .add = true);
    BOTH(p, scatter, .out = sum, .x = x, .r = twice, .n = 3, .add = true);
    BOTH(p, embed, .out = taken, .table = x, .ids = idx.p);
    BOTH(p, permute, .out = taken, .x = x, .row = idx.p);
    BOTH(p, combine, .out = total, .x = x, .slot = idx.p, .top_k = 3);
    BOTH(p, combine, .out = total, .x = x, .slot = idx.p, .top_k = 2,
         .add = true);
}

static void test_rows(void **state)
{
    (void)state;
    each(rows);
}

/* ---- norms and gates --------------------------------------------------- */

static void norms(struct pair *p, int64_t rows, int64_t cols)
{
    struct mat x = pair_in(p, "x", rows, cols, 1, 0.1);
    struct mat w = pair_in(p, "w", 1, cols, 0.5, 0);
    struct mat dy = pair_in(p, "dy", rows, cols, 1, 0);
    struct mat y = pair_act(p, "y", rows, cols);
    struct mat rstd = pair_acc(p, "rstd", rows, 1);
    struct mat dx = pair_changes(p, pair_in(p, "dx", rows, cols, 1, 0));
    double limit = p->f.d->act == DT_F32 ? 2e-6 : 1e-2;
    int i;

    for (i = 0; i < p->n; i++)
        if (p->x[i].limit > 0) p->x[i].limit = limit;
    for (i = 0; i < 4; i++) {
        bool centred = i & 1;

        BOTH(p, rms_norm, .y = y, .x = x, .w = w, .rstd = rstd, .eps = 1e-6,
             .zero_centred = centred);
        if (cols < 2) continue;     /* slope of a sign: rounding alone */
        BOTH(p, rms_norm_bwd, .dx = dx, .dy = dy, .x = x, .w = w,
             .rstd = rstd, .zero_centred = centred, .add = i >> 1);
    }
    if (cols < 2) return;
    BOTH(p, l2_norm, .y = y, .x = x, .rnorm = rstd, .eps = 1e-6);
    BOTH(p, l2_norm_bwd, .dx = dx, .dy = dy, .y = y, .rnorm = rstd);
}

static void test_norms(void **state)
{
    (void)state;
    each(norms);
}

static void gates(struct pair *p, int64_t rows, int64_t cols)
{
    struct mat a = pair_in(p, "a", rows, cols, 2, 0);
    struct mat z = pair_in(p, "z", rows, cols, 4, 0);
    struct mat dout = pair_in(p, "dout", rows, cols, 1, 0);
    struct mat gu = pair_in(p, "gu", rows, 2 * cols, 3, 0);
    struct mat weight = pair_in_acc(p, "weight", rows, 1, 0.5, 0.5);
    struct mat a_log = pair_in(p, "a_log", 1, cols, 1, 0);
    struct mat out = pair_act(p, "out", rows, cols);
    struct mat da = pair_act(p, "da", rows, cols);
    struct mat dz = pair_act(p, "dz", rows, cols);
    struct mat dgu = pair_act(p, "dgu", rows, 2 * cols);
    struct mat dweight = pair_acc(p, "dweight", rows, 1);
    struct mat g = pair_acc(p, "g", rows, cols);
    struct mat beta = pair_acc(p, "beta", rows, cols);
    struct mat dg = pair_in_acc(p, "dg", rows, cols, 1, 0);
    struct mat dbeta = pair_in_acc(p, "dbeta", rows, cols, 1, 0);
    struct mat none = {.p = NULL};

    BOTH(p, sigmoid_gate, .out = out, .o = a, .gate = z);
    BOTH(p, sigmoid_gate_bwd, .d_o = da, .dgate = dz, .dout = dout, .o = a,
         .gate = z);
    BOTH(p, silu_gate, .out = out, .a = a, .z = z);
    BOTH(p, silu_gate_bwd, .da = da, .dz = dz, .dout = dout, .a = a, .z = z);
    BOTH(p, swiglu, .out = out, .gu = gu, .weight = weight);
    BOTH(p, swiglu, .out = out, .gu = gu, .weight = none);
    BOTH(p, swiglu_bwd, .dgu = dgu, .dweight = dweight, .dout = dout,
         .gu = gu, .weight = weight);
    BOTH(p, swiglu_bwd, .dgu = dgu, .dweight = none, .dout = dout, .gu = gu,
         .weight = none);
    BOTH(p, row_gate, .out = out, .x = a, .logit = weight);
    BOTH(p, row_gate_bwd, .dx = da, .dlogit = dweight, .dout = dout, .x = a,
         .logit = weight);
    BOTH(p, gdn_gates, .g = g, .beta = beta, .a = z, .b = a, .a_log = a_log,
         .dt_bias = a_log);
    BOTH(p, gdn_gates_bwd, .da = da, .db = dz, .dg = dg, .dbeta = dbeta,
         .a = z, .beta = beta, .a_log = a_log, .dt_bias = a_log);
}

static void test_gates(void **state)
{
    (void)state;
    each(gates);
}

/* Positions up to 1e5 turn by the right angle. */
static void test_rotary(void **state)
{
    static const int64_t far[] = {0, 1, 99999, 32768, 4095};
    struct pair p;
    int t, i;

    (void)state;
    for (t = 0; t < 2; t++) {
        struct mat table, pos, x, y;

        pair_open(&p, t == 0 ? DT_F32 : DT_BF16);
        if (t == 0) p.limit = 2e-6;
        table = pair_acc(&p, "table", 100000, 2);
        BOTH(&p, rotary_table, .table = table, .theta = 1e7, .factor = 8,
             .low = 1, .high = 4, .positions = 64);
        BOTH(&p, rotary_table, .table = table, .theta = 1e7);
        pos = pair_new(&p, "pos", 5, 1, DT_I32, 0);
        for (i = 0; i < 5; i++) fix_set(pos, i, 0, (double)far[i]);
        x = pair_in(&p, "x", 5, 3 * 7, 1, 0);
        y = pair_act(&p, "y", 5, 3 * 7);
        BOTH(&p, rotary, .y = y, .x = x, .table = table, .pos = pos.p,
             .heads = 3, .head_dim = 7, .sign = 1);
        BOTH(&p, rotary, .y = y, .x = y, .table = table, .pos = pos.p,
             .heads = 3, .head_dim = 7, .sign = -1);
        pair_close(&p);
    }
}

/* ---- head and optimizer ------------------------------------------------ */

static void loss(struct pair *p, int64_t rows, int64_t cols)
{
    struct mat logits = pair_in(p, "logits", rows, cols, 8, 0);
    struct mat sum = pair_new(p, "sum", 1, 1, DT_F64, 1e-5);
    struct mat d = pair_act(p, "d", rows, cols);
    struct mat target = pair_new(p, "target", 1, rows, DT_I32, 0);
    struct mat weight = pair_new(p, "weight", 1, rows, DT_F32, 0);
    struct mat none = {.p = NULL};
    int64_t i;

    fix_fill(weight, "weight", 0.5, 0.5);
    for (i = 0; i < rows; i++)
        fix_set(target, 0, i, i % 4 == 2 ? -1 : (double)(i * 5 % cols));
    fix_set(sum, 0, 0, 3.5);
    BOTH(p, cross_entropy, .dlogits = none, .logits = logits,
         .target = target.p, .weight = weight.p,
         .loss_sum = sum.p);
    if (cols < 2) return;   /* the gradient is zero: rounding alone */
    BOTH(p, cross_entropy, .dlogits = d, .logits = logits,
         .target = target.p, .weight = weight.p,
         .loss_sum = sum.p);
    logits = pair_changes(p, pair_in(p, "in place", rows, cols, 8, 0));
    BOTH(p, cross_entropy, .dlogits = logits, .logits = logits,
         .target = target.p, .weight = weight.p,
         .loss_sum = sum.p);
}

static void test_loss(void **state)
{
    (void)state;
    each(loss);
}

static void adam(struct pair *p, int64_t rows, int64_t cols)
{
    struct mat w = pair_changes(p, pair_in(p, "w", rows, cols, 1, 0));
    struct mat m = pair_changes(p, pair_in_acc(p, "m", rows, cols, 1, 0));
    struct mat v = pair_changes(p, pair_in_acc(p, "v", rows, cols, 0.5, 0.6));
    struct mat g = pair_in(p, "g", rows, cols, 1, 0);

    BOTH(p, adam, .p = w, .g = g, .m = m, .v = v, .lr = 1e-2, .beta1 = 0.9,
         .beta2 = 0.99, .eps = 1e-8, .step = 3);
}

static void test_adam(void **state)
{
    (void)state;
    each(adam);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain), cmocka_unit_test(test_types),
        cmocka_unit_test(test_heads), cmocka_unit_test(test_products),
        cmocka_unit_test(test_long_sums), cmocka_unit_test(test_tall),
        cmocka_unit_test(test_groups), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_norms), cmocka_unit_test(test_gates),
        cmocka_unit_test(test_rotary), cmocka_unit_test(test_loss),
        cmocka_unit_test(test_adam)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
