/*
** test_cuda_attention.c - attention, its gradient and the folding of stages:
** slices of every kind, head widths, shared key heads, rows that see nothing,
** NaN in what is not seen.
*/
#include "pair.h"

struct shape {
    int64_t rows, keys, heads, kv, d, n;
    const struct slice *slice;
};

static const struct slice one[] = {{0, 1, 0, 1, 0, true}};
static const struct slice shifted[] = {
    {0, 100, 0, 170, 70, true}, {100, 40, 170, 30, -10, true}
};
static const struct slice nested[] = {
    {2, 150, 0, 9, 0, false}, {2, 60, 9, 60, 0, true},
    {62, 1, 69, 1, 0, true}, {70, 65, 70, 65, 0, true},
    {100, 50, 135, 5, 0, false}
};
static const struct slice packed[] = {
    {0, 40, 0, 40, 0, true}, {40, 50, 40, 50, 0, true}
};

static void attend(struct pair *p, const struct shape *s)
{
    int64_t q_cols = s->heads * s->d, k_cols = s->kv * s->d;
    struct mat q = pair_in(p, "q", s->rows, q_cols, 1, 0);
    struct mat k = pair_in(p, "k", s->keys, k_cols, 1, 0);
    struct mat v = pair_in(p, "v", s->keys, k_cols, 1, 0);
    struct mat dout = pair_in(p, "dout", s->rows, q_cols, 1, 0);
    struct mat dlse = pair_in_acc(p, "dlse", s->rows, s->heads, 1, 0);
    struct mat out = pair_act(p, "out", s->rows, q_cols);
    struct mat lse = pair_acc(p, "lse", s->rows, s->heads);
    struct mat dq = pair_act(p, "dq", s->rows, q_cols);
    struct mat dk = pair_acc(p, "dk", s->keys, k_cols);
    struct mat dv = pair_acc(p, "dv", s->keys, k_cols);

    BOTH(p, attention, .out = out, .lse = lse, .q = q, .k = k, .v = v,
         .heads = s->heads, .kv_heads = s->kv, .scale = 0.3,
         .slice = s->slice, .n_slice = s->n);
    BOTH(p, attention_bwd, .dq = dq, .dk = dk, .dv = dv, .q = q, .k = k,
         .v = v, .out = out, .lse = lse, .dout = dout, .dlse = dlse,
         .heads = s->heads, .kv_heads = s->kv, .scale = 0.3,
         .slice = s->slice, .n_slice = s->n);
    dlse.p = NULL;
    if (s->n == 2)
        BOTH(p, attention_bwd, .dq = dq, .dk = dk, .dv = dv, .q = q, .k = k,
             .v = v, .out = out, .lse = lse, .dout = dout, .dlse = dlse,
             .heads = s->heads, .kv_heads = s->kv, .scale = 0.3,
             .slice = s->slice, .n_slice = s->n);
    pair_reset(p);
}

static void test_shapes(void **state)
{
    static const struct shape shapes[] = {
        {1, 1, 1, 1, 5, 1, one}, {140, 200, 4, 2, 16, 2, shifted},
        {155, 150, 3, 3, 24, 5, nested}, {155, 150, 6, 1, 7, 5, nested},
        {90, 90, 2, 1, 128, 2, packed}, {7, 3, 2, 1, 16, 0, NULL},
        {0, 3, 2, 1, 16, 0, NULL}, {3, 0, 2, 2, 16, 0, NULL}
    };
    static const enum dtype types[] = {DT_F32, DT_BF16};
    static const int64_t pads[] = {0, 3, 8};
    size_t i;
    int t;

    (void)state;
    for (t = 0; t < 2; t++)
        for (i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            struct pair p;

            pair_open(&p, types[t]);
            p.pad = pads[i % 3];
            attend(&p, &shapes[i]);
            /* up to 200 rows that end beyond element 2^31 */
            p.pad = PAIR_FAR >> 5;
            if (i == 1 && pair_can_far()) attend(&p, &shapes[i]);
            pair_close(&p);
        }
}

/* As in the full models: 8 heads of 256 columns on one key head. */
static void test_wide(void **state)
{
    static const struct slice s[] = {{0, 21, 0, 70, 49, true}};
    static const struct shape shape = {21, 70, 8, 1, 256, 1, s};
    struct pair p;

    (void)state;
    pair_open(&p, DT_BF16);
    attend(&p, &shape);
    pair_close(&p);
    pair_open(&p, DT_F32);
    attend(&p, &shape);
    pair_close(&p);
}

/* Rows that see no key may hold NaN in q and dout, keys that nobody sees in
** k and v, and one sequence does not show in another's rows. */
static void test_unseen(void **state)
{
    static const struct slice s[] = {{0, 5, 0, 6, -2, true},
                                     {8, 4, 8, 4, 0, true}};
    struct pair p;
    struct mat q, k, v, dout, out, lse, dq, dk, dv;
    int64_t c;
    int t;

    (void)state;
    for (t = 0; t < 2; t++) {
        pair_open(&p, t == 0 ? DT_F32 : DT_BF16);
        q = pair_in(&p, "q", 14, 16, 1, 0);
        k = pair_in(&p, "k", 14, 8, 1, 0);
        v = pair_in(&p, "v", 14, 8, 1, 0);
        dout = pair_in(&p, "dout", 14, 16, 1, 0);
        for (c = 0; c < 16; c++) {
            fix_set(q, 1, c, (double)NAN);
            fix_set(dout, 1, c, (double)NAN);
            fix_set(q, 13, c, (double)NAN);
            fix_set(dout, 13, c, (double)NAN);
        }
        for (c = 0; c < 8; c++) {
            fix_set(k, 6, c, (double)NAN);
            fix_set(v, 13, c, (double)NAN);
            fix_set(v, 9, c, (double)NAN);      /* seen from row 9 on */
        }
        out = pair_act(&p, "out", 14, 16);
        lse = pair_acc(&p, "lse", 14, 2);
        dq = pair_act(&p, "dq", 14, 16);
        dk = pair_acc(&p, "dk", 14, 8);
        dv = pair_acc(&p, "dv", 14, 8);
        BOTH(&p, attention, .out = out, .lse = lse, .q = q, .k = k, .v = v,
             .heads = 2, .kv_heads = 1, .scale = 0.5, .slice = s,
             .n_slice = 2);
        assert_true(isnan(fix_get(out, 10, 3)) && !fix_has_nan(fix_rows(
            out, 0, 8)));
        BOTH(&p, attention_bwd, .dq = dq, .dk = dk, .dv = dv, .q = q, .k = k,
             .v = v, .out = out, .lse = lse, .dout = dout, .heads = 2,
             .kv_heads = 1, .scale = 0.5, .slice = s, .n_slice = 2);
        assert_true(!fix_has_nan(fix_rows(dk, 0, 8)));
        assert_true(!fix_has_nan(fix_rows(dq, 0, 8)));
        pair_close(&p);
    }
}

/* A stage folded into accumulators, with tapes and rows left out, and back;
** empty sides. */
static void fold(struct pair *p, int64_t heads, int64_t d, bool tapes)
{
    const int64_t own = 40, n = 23, w = heads * d;
    struct mat o_acc = pair_changes(p, pair_in_acc(p, "o_acc", own, w, 1, 0));
    struct mat l_acc = pair_changes(
        p, pair_in_acc(p, "lse_acc", own, heads, 1, 0));
    struct mat o = pair_in(p, "o", n, w, 1, 0);
    struct mat lse = pair_in_acc(p, "lse", n, heads, 1, 0);
    struct mat tape_o = pair_new(p, "tape_o", n, w, DT_F32, 0);
    struct mat tape_l = pair_new(p, "tape_lse", n, heads, DT_F32, 0);
    struct mat d_o = pair_act(p, "d_o", n, w);
    struct mat dlse = pair_acc(p, "dlse", n, heads);
    struct mat map = pair_new(p, "map", 1, n, DT_I64, 0);
    struct mat none = {.p = NULL};
    int64_t i;

    for (i = 0; i < n; i++)
        fix_set(map, 0, i, i % 7 == 3 ? -1 : (double)((i * 11 + 5) % own));
    fix_set(lse, 5, 0, -(double)INFINITY);
    fix_set(l_acc, (6 * 11 + 5) % own, 0, -(double)INFINITY);
    fix_set(lse, 9, 1, -(double)INFINITY);
    fix_set(l_acc, (9 * 11 + 5) % own, 1, -(double)INFINITY);
    BOTH(p, merge, .o_acc = o_acc, .lse_acc = l_acc,
         .tape_o = tapes ? tape_o : none, .tape_lse = tapes ? tape_l : none,
         .o = o, .lse = lse, .row = map.p, .heads = heads);
    BOTH(p, merge_bwd, .d_acc = o_acc, .dlse_acc = l_acc, .d_o = d_o,
         .dlse = dlse, .tape_o = tapes ? tape_o : none,
         .tape_lse = tapes ? tape_l : none, .o = o, .lse = lse, .row = map.p,
         .heads = heads);
    BOTH(p, merge, .o_acc = fix_rows(o_acc, 2, n),
         .lse_acc = fix_rows(l_acc, 2, n), .o = o, .lse = lse,
         .heads = heads);
    pair_reset(p);
}

static void test_merge(void **state)
{
    struct pair p;
    int t;

    (void)state;
    for (t = 0; t < 4; t++) {
        pair_open(&p, t & 1 ? DT_F32 : DT_BF16);
        p.pad = t / 2 * 3;
        fold(&p, 3, 5, t / 2);
        fold(&p, 2, 64, !(t / 2));
        p.pad = PAIR_FAR;
        if (pair_can_far()) fold(&p, 3, 5, t / 2);
        pair_close(&p);
    }
}

static void test_refusals(void **state)
{
    static const struct slice outside[] = {{0, 5, 0, 6, 0, true}};
    static const struct slice falling[] = {{3, 1, 0, 1, 0, true},
                                           {0, 1, 0, 1, 0, true}};
    struct pair p;
    struct mat q, k, lse;

    (void)state;
    pair_open(&p, DT_F32);
    q = pair_in(&p, "q", 5, 16, 1, 0);
    k = pair_in(&p, "k", 5, 8, 1, 0);
    lse = pair_in_acc(&p, "lse", 5, 2, 1, 0);
#define ATTEND(k_, heads_, s_, n_)                                           \
    CUDA_RC(&p, attention, .out = q, .lse = lse, .q = q, .k = k_, .v = k,    \
            .heads = heads_, .kv_heads = 1, .slice = s_, .n_slice = n_)
    assert_int_equal(ATTEND(k, 2, outside, 1), ERR_RUN);
    assert_int_equal(ATTEND(k, 2, falling, 2), ERR_RUN);
    assert_non_null(strstr(p.f.e.text, "do not ascend"));
    assert_int_equal(ATTEND(q, 2, NULL, 0), ERR_RUN);
    assert_non_null(strstr(p.f.e.text, "view k is 5 x 16"));
    assert_int_equal(ATTEND(k, 3, NULL, 0), ERR_RUN);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes), cmocka_unit_test(test_wide),
        cmocka_unit_test(test_unseen), cmocka_unit_test(test_merge),
        cmocka_unit_test(test_refusals)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
