/*
** test_dev_plain.c - plain kernels, row moves and products: conversions,
** strided views, every transpose, indices out of range, views that do not
** fit, zero rows.
*/
#include "dev_fixture.h"

/* A view of rows x cols inside a wider matrix, whose other columns must not
** change: they stay NaN. */
static struct mat strided(struct fix *f, int64_t rows, int64_t cols,
                          enum dtype t)
{
    return fix_cols(fix_new(f, rows, cols + 3, t), 2, cols);
}

static void check_margin(struct mat m)
{
    int64_t r;

    for (r = 0; r < m.rows; r++) {
        assert_true(isnan(fix_get(m, r, -1)) && isnan(fix_get(m, r, -2)));
        assert_true(isnan(fix_get(m, r, m.cols)));
    }
}

/* ---- plain -------------------------------------------------------------- */

static void test_fill(void **state)
{
    static const enum dtype types[] = {DT_BF16, DT_F32, DT_F64, DT_I32,
                                       DT_I64, DT_U8};
    struct fix f;
    size_t i;

    (void)state;
    fix_open(&f, DT_F32);
    for (i = 0; i < 6; i++) {
        struct mat m = fix_new(&f, 2, 3, types[i]);
        bool whole = types[i] >= DT_I32;
        CALL(&f, fill, .x = m, .value = 2.75);
        assert_true(fix_get(m, 1, 2) == (whole ? 2 : 2.75));
    }
    fix_close(&f);
}

/* To bf16: nearest, ties to even, NaN and infinities kept, overflow to
** infinity. */
static void test_bf16(void **state)
{
    static const struct { uint32_t f32; uint16_t bf16; } pair[] = {
        {0x3F800000, 0x3F80}, {0x3F808000, 0x3F80}, {0x3F818000, 0x3F82},
        {0x3F808001, 0x3F81}, {0x7F7FFFFF, 0x7F80}, {0x7F800000, 0x7F80},
        {0xFF800000, 0xFF80}, {0x80000000, 0x8000}, {0x00000001, 0x0000},
        {0x7F800001, 0x7FC0}, {0xFFFFFFFF, 0xFFFF}
    };
    enum { N = sizeof pair / sizeof *pair };
    struct mat src, dst, back;
    struct fix f;
    int i;

    (void)state;
    fix_open(&f, DT_BF16);
    src = fix_new(&f, 1, N, DT_F32);
    dst = fix_act(&f, 1, N);
    back = fix_new(&f, 1, N, DT_F32);
    for (i = 0; i < N; i++) memcpy(fix_at(src, 0, i), &pair[i].f32, 4);
    CALL(&f, copy, .dst = dst, .src = src);
    for (i = 0; i < N; i++)
        assert_int_equal(((uint16_t *)dst.p)[i], pair[i].bf16);
    CALL(&f, copy, .dst = back, .src = dst);
    for (i = 0; i < N; i++) {
        uint32_t u;
        memcpy(&u, fix_at(back, 0, i), 4);
        assert_int_equal(u, (uint32_t)pair[i].bf16 << 16);
    }
    fix_close(&f);
}

static void test_arithmetic(void **state)
{
    struct mat a, b, out;
    struct fix f;
    int64_t r, c;

    (void)state;
    fix_open(&f, DT_BF16);
    a = fix_fill(strided(&f, 3, 5, DT_BF16), "a", 1, 0);
    b = fix_fill(strided(&f, 3, 5, DT_F32), "b", 1, 0);
    out = strided(&f, 3, 5, DT_F32);
    CALL(&f, add, .out = out, .a = a, .b = b);
    for (r = 0; r < 3; r++)
        for (c = 0; c < 5; c++)
            assert_true((float)fix_get(out, r, c)
                        == (float)(fix_get(a, r, c) + fix_get(b, r, c)));
    check_margin(out);
    CALL(&f, add, .out = out, .a = a, .b = fix_rows(b, 1, 1));
    for (c = 0; c < 5; c++)
        assert_true((float)fix_get(out, 2, c)
                    == (float)(fix_get(a, 2, c) + fix_get(b, 1, c)));
    CALL(&f, add, .out = out, .a = a, .b = b);
    CALL(&f, add, .out = b, .a = a, .b = b);
    fix_near("in place", b, out, 0);
    CALL(&f, scale, .out = out, .a = out, .s = -0.5);
    for (r = 0; r < 3; r++)
        assert_true(fix_get(out, r, 4) == -0.5 * fix_get(b, r, 4));
    check_margin(out);
    fix_close(&f);
}

static void test_copy_same_type(void **state)
{
    struct mat i64, to, f32;
    struct fix f;

    (void)state;
    fix_open(&f, DT_F32);
    i64 = fix_new(&f, 2, 2, DT_I64);
    to = fix_new(&f, 2, 2, DT_I64);
    f32 = fix_new(&f, 2, 2, DT_F32);
    CALL(&f, fill, .x = i64, .value = -7);
    CALL(&f, copy, .dst = to, .src = i64);
    fix_equal("i64", to, i64);
    assert_int_equal(CALL_RC(&f, copy, .dst = f32, .src = i64), ERR_RUN);
    fix_close(&f);
}

/* The same tensor in parts is the same tensor; f32 and f64 start from the
** same numbers. */
static void test_random(void **state)
{
    struct mat whole, part, wide;
    struct fix f;
    int64_t i;

    (void)state;
    fix_open(&f, DT_F32);
    whole = fix_act(&f, 6, 5);
    part = strided(&f, 2, 5, DT_F32);
    wide = fix_new(&f, 6, 5, DT_F64);
    CALL(&f, random, .x = whole, .seed = 3, .stream = 9, .scale = 2);
    CALL(&f, random, .x = part, .seed = 3, .stream = 9, .first = 20,
         .scale = 2);
    CALL(&f, random, .x = wide, .seed = 3, .stream = 9, .scale = 2);
    for (i = 0; i < 10; i++)
        assert_true(fix_get(part, i / 5, i % 5)
                    == fix_get(whole, 4 + i / 5, i % 5));
    for (i = 0; i < 30; i++)
        assert_true(fix_get(wide, i / 5, i % 5)
                    == fix_get(whole, i / 5, i % 5));
    check_margin(part);
    fix_close(&f);
}

/* ---- rows --------------------------------------------------------------- */

static void test_ranges(void **state)
{
    static const struct range r[] = {{4, 2}, {0, 0}, {1, 1}, {4, 1}};
    static const int64_t row[] = {4, 5, 1, 4};
    struct mat x, out, back;
    struct fix f;
    int64_t i;

    (void)state;
    fix_open(&f, DT_BF16);
    x = fix_fill(strided(&f, 6, 3, DT_BF16), "x", 1, 0);
    out = strided(&f, 4, 3, DT_F32);
    CALL(&f, gather, .out = out, .x = x, .r = r, .n = 4);
    for (i = 0; i < 4; i++)
        fix_near("gathered", fix_rows(out, i, 1), fix_rows(x, row[i], 1), 0);
    check_margin(out);
    back = fix_act(&f, 6, 3);
    CALL(&f, scatter, .out = back, .x = out, .r = r, .n = 4);
    fix_equal("scattered", fix_rows(back, 1, 1), fix_rows(x, 1, 1));
    assert_true(fix_has_nan(fix_rows(back, 0, 1)));
    CALL(&f, fill, .x = back, .value = 0);
    CALL(&f, scatter, .out = back, .x = out, .r = r, .n = 4, .add = true);
    for (i = 0; i < 3; i++) {
        assert_true(fix_get(back, 4, i) == 2 * fix_get(x, 4, i));
        assert_true(fix_get(back, 5, i) == fix_get(x, 5, i));
        assert_true(fix_get(back, 0, i) == 0);
    }
    fix_close(&f);
}

static void test_indices(void **state)
{
    static const int32_t ids[] = {2, 0, 2}, bad[] = {0, 3, -1};
    static const int32_t slot[] = {0, 2, 1, 1, 2, 0};
    struct mat table, out;
    struct fix f;
    int64_t i, c;

    (void)state;
    fix_open(&f, DT_F32);
    table = fix_in(&f, "table", 3, 4, 1, 0);
    out = fix_act(&f, 3, 4);
    CALL(&f, embed, .out = out, .table = table, .ids = ids);
    for (i = 0; i < 3; i++)
        fix_equal("embedded", fix_rows(out, i, 1),
                  fix_rows(table, ids[i], 1));
    CALL(&f, permute, .out = out, .x = table, .row = slot);
    fix_equal("permuted", fix_rows(out, 1, 1), fix_rows(table, 2, 1));
    CALL(&f, combine, .out = out, .x = table, .slot = slot, .top_k = 2);
    for (i = 0; i < 3; i++)
        for (c = 0; c < 4; c++)
            assert_true((float)fix_get(out, i, c)
                        == (float)fix_get(table, slot[2 * i], c)
                           + (float)fix_get(table, slot[2 * i + 1], c));
    CALL(&f, combine, .out = out, .x = table, .slot = slot, .top_k = 1,
         .add = true);
    assert_true((float)fix_get(out, 0, 0)
                == (float)fix_get(table, 0, 0) + (float)fix_get(table, 2, 0)
                   + (float)fix_get(table, 0, 0));
    assert_int_equal(CALL_RC(&f, embed, .out = out, .table = table,
                             .ids = bad), ERR_RUN);
    assert_string_equal(f.e.text, "cpu k_embed: ids[1] is 3, not in 0..2");
    assert_int_equal(CALL_RC(&f, permute, .out = out, .x = table,
                             .row = bad + 1), ERR_RUN);
    assert_int_equal(CALL_RC(&f, combine, .out = out, .x = table,
                             .slot = bad, .top_k = 1), ERR_RUN);
    fix_close(&f);
}

/* Heads 0 and 1 at columns 3 and 11 of a wider row, and back. */
static void test_heads(void **state)
{
    struct mat joined, packed, other;
    struct fix f;
    int64_t r, h, i;

    (void)state;
    fix_open(&f, DT_F32);
    joined = fix_in(&f, "joined", 3, 17, 1, 0);
    packed = fix_act(&f, 3, 10);
    CALL(&f, heads, .packed = packed, .joined = joined, .heads = 2,
         .head_dim = 5, .stride = 8, .offset = 3);
    for (r = 0; r < 3; r++)
        for (h = 0; h < 2; h++)
            for (i = 0; i < 5; i++)
                assert_true(fix_get(packed, r, h * 5 + i)
                            == fix_get(joined, r, 3 + h * 8 + i));
    other = fix_act(&f, 3, 17);
    CALL(&f, heads, .packed = packed, .joined = other, .heads = 2,
         .head_dim = 5, .stride = 8, .offset = 3, .join = true);
    fix_equal("head 0", fix_cols(other, 3, 5), fix_cols(joined, 3, 5));
    fix_equal("head 1", fix_cols(other, 11, 5), fix_cols(joined, 11, 5));
    assert_true(isnan(fix_get(other, 0, 2)) && isnan(fix_get(other, 2, 16)));
    assert_true(isnan(fix_get(other, 1, 8)) && isnan(fix_get(other, 1, 10)));
    assert_int_equal(CALL_RC(&f, heads, .packed = packed, .joined = other,
                             .heads = 2, .head_dim = 5, .stride = 10,
                             .offset = 3), ERR_RUN);
    fix_close(&f);
}

static void test_repeat(void **state)
{
    struct mat x, y, back;
    struct fix f;
    int64_t i;

    (void)state;
    fix_open(&f, DT_F32);
    x = fix_in(&f, "x", 2, 6, 1, 0);
    y = fix_act(&f, 2, 12);
    back = fix_act(&f, 2, 6);
    CALL(&f, repeat_heads, .y = y, .x = x, .rep = 2, .head_dim = 3);
    for (i = 0; i < 12; i++)
        assert_true(fix_get(y, 1, i)
                    == fix_get(x, 1, i / 6 * 3 + i % 3));
    CALL(&f, sum_heads, .x = back, .y = y, .rep = 2, .head_dim = 3);
    for (i = 0; i < 6; i++)
        assert_true(fix_get(back, 1, i) == 2 * fix_get(x, 1, i));
    fix_close(&f);
}

/* Two groups of 2 x 3 into 4 x 2 (padded) and 2 x 1 (cut). */
static void test_transpose(void **state)
{
    struct mat x, wide, small;
    struct fix f;
    int64_t g, r, c;

    (void)state;
    fix_open(&f, DT_F32);
    x = fix_in(&f, "x", 4, 3, 1, 0);
    wide = fix_act(&f, 8, 2);
    small = fix_act(&f, 4, 1);
    CALL(&f, transpose, .y = wide, .x = x, .n_group = 2);
    CALL(&f, transpose, .y = small, .x = x, .n_group = 2);
    for (g = 0; g < 2; g++) {
        for (r = 0; r < 4; r++)
            for (c = 0; c < 2; c++)
                assert_true(fix_get(wide, g * 4 + r, c)
                            == (r < 3 ? fix_get(x, g * 2 + c, r) : 0));
        assert_true(fix_get(small, g * 2 + 1, 0) == fix_get(x, g * 2, 1));
    }
    fix_close(&f);
}

/* ---- products ----------------------------------------------------------- */

static double naive(const struct k_gemm *g, int64_t i, int64_t j, double c)
{
    int64_t k, n = g->trans_a ? g->a.rows : g->a.cols;
    double s = 0;

    for (k = 0; k < n; k++)
        s += (g->trans_a ? fix_get(g->a, k, i) : fix_get(g->a, i, k))
           * (g->trans_b ? fix_get(g->b, j, k) : fix_get(g->b, k, j));
    return g->alpha * s + (g->beta != 0 ? g->beta * c : 0);
}

static void check_gemm(struct fix *f, int64_t m, int64_t n, int64_t k,
                       bool ta, bool tb, enum dtype tc, double beta,
                       double limit)
{
    struct k_gemm g = {
        .c = strided(f, m, n, tc),
        .a = fix_fill(strided(f, ta ? k : m, ta ? m : k, f->d->act), "a", 1, 0),
        .b = fix_fill(strided(f, tb ? n : k, tb ? k : n, f->d->act), "b", 1, 0),
        .trans_a = ta, .trans_b = tb, .alpha = 0.75, .beta = beta
    };
    struct mat want = fix_new(f, m, n, DT_F64);
    int64_t i, j;

    if (beta != 0) fix_fill(g.c, "c", 1, 0);
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++)
            fix_set(want, i, j, naive(&g, i, j, fix_get(g.c, i, j)));
    if (f->d->k->gemm(f->d, &g, &f->e) != ERR_OK) fail_msg("%s", f->e.text);
    fix_near("gemm", g.c, want, limit);
    check_margin(g.c);
}

static void test_gemm(void **state)
{
    static const enum dtype types[] = {DT_F64, DT_F32, DT_BF16};
    static const double limits[] = {1e-14, 1e-6, 1e-6};
    int t, form;

    (void)state;
    for (t = 0; t < 3; t++)
        for (form = 0; form < 8; form++) {
            bool ta = form & 1, tb = form & 2, add = form & 4;
            struct fix f;
            fix_open(&f, types[t]);
            check_gemm(&f, 7, 5, 9, ta, tb, f.d->acc, add ? 2 : 0, limits[t]);
            check_gemm(&f, 3, 70, 65, ta, tb, f.d->acc, add, limits[t]);
            check_gemm(&f, 2, 3, 4, ta, tb, f.d->act, add,
                       t == 2 ? 4e-3 : limits[t]);
            check_gemm(&f, 1, 1, 1, ta, tb, f.d->act, add,
                       t == 2 ? 4e-3 : limits[t]);
            fix_close(&f);
        }
}

/* bf16 operands wider than a panel: 70,000 x 130 is converted in pieces. */
static void test_gemm_panels(void **state)
{
    struct mat a, b, c, one;
    struct fix f;
    int64_t i;

    (void)state;
    fix_open(&f, DT_BF16);
    a = fix_act(&f, 70000, 130);
    b = fix_act(&f, 130, 3);
    c = fix_act(&f, 70000, 3);
    CALL(&f, random, .x = a, .seed = 1, .stream = 1, .scale = 1);
    CALL(&f, random, .x = b, .seed = 1, .stream = 2, .scale = 1);
    CALL(&f, gemm, .c = c, .a = a, .b = b, .alpha = 1);
    one = fix_act(&f, 1, 3);
    for (i = 0; i < 70000; i += 4999) {
        CALL(&f, gemm, .c = one, .a = fix_rows(a, i, 1), .b = b, .alpha = 1);
        fix_near("row", fix_rows(c, i, 1), one, 4e-3);
    }
    fix_close(&f);
}

/* Operands of both types over several panels: those that need no conversion
** are read in place. */
static void test_gemm_mixed(void **state)
{
    enum { IN = 1000, OUT = 5000, PART = 7 };
    struct mat a, b, row, column, part;
    struct fix f;
    int64_t i;

    (void)state;
    fix_open(&f, DT_BF16);
    a = fix_act(&f, 2, IN);
    b = fix_acc(&f, IN, OUT);
    row = fix_acc(&f, 2, OUT);
    column = fix_acc(&f, OUT, 2);
    CALL(&f, random, .x = a, .seed = 1, .stream = 1, .scale = 1);
    CALL(&f, random, .x = b, .seed = 1, .stream = 2, .scale = 1);
    CALL(&f, gemm, .c = row, .a = a, .b = b, .alpha = 1);
    CALL(&f, gemm, .c = column, .a = b, .b = a, .trans_a = true,
         .trans_b = true, .alpha = 1);
    part = fix_acc(&f, 2, PART);
    for (i = 0; i + PART <= OUT; i += 1237) {
        int64_t c;
        CALL(&f, gemm, .c = part, .a = a, .b = fix_cols(b, i, PART),
             .alpha = 1);
        fix_near("columns", fix_cols(row, i, PART), part, 1e-5);
        for (c = 0; c < PART; c++)
            assert_true(fabs(fix_get(column, i + c, 1)
                             - fix_get(part, 1, c)) < 1e-3);
    }
    fix_close(&f);
}

/* An inner dimension of 0 leaves beta C; C is not read when beta is 0; NaN
** passes through. */
static void test_gemm_edges(void **state)
{
    static const enum dtype types[] = {DT_F64, DT_F32, DT_BF16};
    int t;

    (void)state;
    for (t = 0; t < 3; t++) {
        struct mat c, a, b;
        struct fix f;
        fix_open(&f, types[t]);
        c = fix_act(&f, 3, 4);
        CALL(&f, gemm, .c = c, .a = fix_act(&f, 3, 0), .b = fix_act(&f, 0, 4),
             .alpha = 1);
        assert_true(fix_inner(c, c) == 0);
        CALL(&f, fill, .x = c, .value = 3);
        CALL(&f, gemm, .c = c, .a = fix_act(&f, 0, 3), .b = fix_act(&f, 0, 4),
             .trans_a = true, .alpha = 1, .beta = 0.5);
        assert_true(fix_get(c, 2, 3) == 1.5);
        a = fix_in(&f, "a", 3, 6, 1, 0);
        b = fix_in(&f, "b", 6, 4, 1, 0);
        fix_set(a, 1, 2, (double)NAN);
        CALL(&f, gemm, .c = c, .a = a, .b = b, .alpha = 1);
        assert_true(isnan(fix_get(c, 1, 0)) && isnan(fix_get(c, 1, 3)));
        assert_true(!isnan(fix_get(c, 0, 0)) && !isnan(fix_get(c, 2, 3)));
        fix_close(&f);
    }
}

static void test_group_forms(void **state)
{
    static const int64_t offset[] = {0, 4, 4, 9};
    struct mat a, w, c, one;
    struct fix f;
    int g;

    (void)state;
    fix_open(&f, DT_BF16);
    a = fix_in(&f, "a", 9, 6, 1, 0);
    w = fix_in(&f, "w", 3 * 5, 6, 1, 0);
    c = fix_act(&f, 9, 5);
    CALL(&f, group_gemm, .form = GROUP_NT, .c = c, .a = a, .w = w,
         .w_rows = 5, .offset = offset, .n_group = 3, .alpha = 0.5);
    for (g = 0; g < 3; g += 2) {
        int64_t n = offset[g + 1] - offset[g];
        one = fix_act(&f, n, 5);
        CALL(&f, gemm, .c = one, .a = fix_rows(a, offset[g], n),
             .b = fix_rows(w, g * 5, 5), .trans_b = true, .alpha = 0.5);
        fix_equal("NT", fix_rows(c, offset[g], n), one);
    }
    CALL(&f, group_gemm, .form = GROUP_NN, .c = a, .a = c, .w = w,
         .w_rows = 5, .offset = offset, .n_group = 3, .alpha = 1);
    for (g = 0; g < 3; g += 2) {
        int64_t n = offset[g + 1] - offset[g];
        one = fix_act(&f, n, 6);
        CALL(&f, gemm, .c = one, .a = fix_rows(c, offset[g], n),
             .b = fix_rows(w, g * 5, 5), .alpha = 1);
        fix_equal("NN", fix_rows(a, offset[g], n), one);
    }
    fix_close(&f);
}

static void test_refusals(void **state)
{
    static const int64_t falling[] = {0, 5, 3, 9}, late[] = {1, 4, 9};
    struct mat a, b, c;
    struct fix f;

    (void)state;
    fix_open(&f, DT_BF16);
    a = fix_act(&f, 9, 6);
    b = fix_act(&f, 9, 5);
    c = fix_act(&f, 18, 6);
    assert_int_equal(CALL_RC(&f, gemm, .c = b, .a = a, .b = a, .alpha = 1),
                     ERR_RUN);
    assert_string_equal(f.e.text, "cpu k_gemm: view a->b is 9 x 6 bf16, not "
                        "6 x 5 float");
    assert_int_equal(CALL_RC(&f, rms_norm, .y = a, .x = a,
                             .w = fix_act(&f, 1, 6), .rstd = fix_act(&f, 9, 1),
                             .eps = 1e-6), ERR_RUN);
    assert_string_equal(f.e.text, "cpu k_rms_norm: view a->rstd is 9 x 1 "
                        "bf16, not 9 x 1 acc");
    b.p = NULL;
    assert_int_equal(CALL_RC(&f, scale, .out = b, .a = b, .s = 1), ERR_RUN);
    assert_non_null(strstr(f.e.text, "(absent)"));
    assert_int_equal(CALL_RC(&f, group_gemm, .form = GROUP_TN, .c = a, .a = a,
                             .w = c, .w_rows = 6, .offset = falling,
                             .n_group = 3, .alpha = 1), ERR_RUN);
    c = fix_act(&f, 12, 6);
    assert_int_equal(CALL_RC(&f, group_gemm, .form = GROUP_TN, .c = a, .a = a,
                             .w = c, .w_rows = 6, .offset = late,
                             .n_group = 2, .alpha = 1), ERR_RUN);
    fix_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill), cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_copy_same_type), cmocka_unit_test(test_random),
        cmocka_unit_test(test_ranges), cmocka_unit_test(test_indices),
        cmocka_unit_test(test_heads), cmocka_unit_test(test_repeat),
        cmocka_unit_test(test_transpose), cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_panels), cmocka_unit_test(test_gemm_mixed),
        cmocka_unit_test(test_gemm_edges),
        cmocka_unit_test(test_group_forms), cmocka_unit_test(test_refusals)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
