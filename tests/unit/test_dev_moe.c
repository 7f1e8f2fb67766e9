/*
** test_dev_moe.c - routing and grouped products: the MoE block assembled
** from kernels against torch, ties, forced routes, the sort of pairs, empty
** experts, zero rows.
*/
#include "dev_fixture.h"
#include "golden.h"

/* ---- the block as one --------------------------------------------------- */

enum { T = 13, H = 16, E = 8, F = 8, R = 2, TOP = 2, PAIRS = T * TOP };
#define LORA 0.5

struct moe {
    struct mat n, gate, w[2], a[2], b[2];       /* up, down */
    struct mat logits, scores, map, idx, weight, pair_weight;
    struct mat x, h[2], gu, act, f, y;
    int64_t counts[E], offset[E + 1];
    int32_t row[PAIRS], slot[PAIRS];
};

static struct moe moe_new(struct fix *f)
{
    return (struct moe){
        .n = fix_in(f, "moe/n", T, H, 1, 0),
        .gate = fix_in(f, "moe/gate", E, H, 1, 0),
        .w = {fix_in(f, "moe/up", E * 2 * F, H, 1, 0),
              fix_in(f, "moe/down", E * H, F, 1, 0)},
        .a = {fix_in(f, "moe/up_a", E * H, R, 1, 0),
              fix_in(f, "moe/down_a", E * F, R, 1, 0)},
        .b = {fix_in(f, "moe/up_b", E * R, 2 * F, 1, 0),
              fix_in(f, "moe/down_b", E * R, H, 1, 0)},
        .logits = fix_acc(f, T, E), .scores = fix_acc(f, T, E),
        .map = fix_new(f, T, E, DT_U8), .idx = fix_new(f, T, TOP, DT_I64),
        .weight = fix_acc(f, T, TOP), .pair_weight = fix_acc(f, PAIRS, 1),
        .x = fix_act(f, PAIRS, H),
        .h = {fix_act(f, PAIRS, R), fix_act(f, PAIRS, R)},
        .gu = fix_act(f, PAIRS, 2 * F), .act = fix_act(f, PAIRS, F),
        .f = fix_act(f, PAIRS, H), .y = fix_act(f, T, H)
    };
}

static void group(struct fix *f, enum group_form form, struct mat c,
                  struct mat a, struct mat w, double alpha, double beta,
                  const int64_t *offset)
{
    CALL(f, group_gemm, .form = form, .c = c, .a = a, .w = w,
         .w_rows = w.rows / E, .offset = offset, .n_group = E,
         .alpha = alpha, .beta = beta);
}

static void moe_forward(struct fix *f, struct moe *m)
{
    int e;

    CALL(f, gemm, .c = m->logits, .a = m->n, .b = m->gate, .trans_b = true,
         .alpha = 1);
    CALL(f, router, .logits = m->logits, .scores = m->scores, .map = m->map,
         .idx = m->idx, .weight = m->weight, .norm = true);
    CALL(f, route_sort, .idx = m->idx, .weight = m->weight,
         .pair_weight = m->pair_weight, .experts = E, .counts = m->counts,
         .row = m->row, .slot = m->slot);
    m->offset[0] = 0;
    for (e = 0; e < E; e++) m->offset[e + 1] = m->offset[e] + m->counts[e];
    CALL(f, permute, .out = m->x, .x = m->n, .row = m->row);
    group(f, GROUP_NT, m->gu, m->x, m->w[0], 1, 0, m->offset);
    group(f, GROUP_NN, m->h[0], m->x, m->a[0], 1, 0, m->offset);
    group(f, GROUP_NN, m->gu, m->h[0], m->b[0], LORA, 1, m->offset);
    CALL(f, swiglu, .out = m->act, .gu = m->gu, .weight = m->pair_weight);
    group(f, GROUP_NT, m->f, m->act, m->w[1], 1, 0, m->offset);
    group(f, GROUP_NN, m->h[1], m->act, m->a[1], 1, 0, m->offset);
    group(f, GROUP_NN, m->f, m->h[1], m->b[1], LORA, 1, m->offset);
    CALL(f, combine, .out = m->y, .x = m->f, .slot = m->slot, .top_k = TOP);
}

/* Of one projection: dx, and da, db of its adapter. */
static void back(struct fix *f, struct moe *m, int i, struct mat dx,
                 struct mat dy, struct mat x, struct mat da, struct mat db)
{
    struct mat dh = fix_act(f, PAIRS, R);

    group(f, GROUP_NT, dh, dy, m->b[i], LORA, 0, m->offset);
    group(f, GROUP_TN, dy, m->h[i], db, LORA, 0, m->offset);
    group(f, GROUP_TN, dh, x, da, 1, 0, m->offset);
    group(f, GROUP_NN, dx, dy, m->w[i], 1, 0, m->offset);
    group(f, GROUP_NT, dx, dh, m->a[i], 1, 1, m->offset);
}

static void near_golden(const struct golden *g, const char *name,
                        struct mat m, double limit)
{
    const struct golden_array *a = golden_find(g, name, m.rows * m.cols);
    double top = 0, low = 0;
    int64_t i;

    for (i = 0; i < a->count; i++) {
        double x = fix_get(m, i / m.cols, i % m.cols), y = golden_f64(a, i);
        top += (x - y) * (x - y);
        low += y * y;
    }
    fix_differ(name, sqrt(top / low), limit);
}

static void moe_check(struct fix *f, const struct golden *g, double limit)
{
    struct moe m = moe_new(f);
    struct mat dy = fix_in(f, "moe/dy", T, H, 1, 0);
    struct mat df = fix_act(f, PAIRS, H), dact = fix_act(f, PAIRS, F);
    struct mat dgu = fix_act(f, PAIRS, 2 * F), dx = fix_act(f, PAIRS, H);
    struct mat dpair = fix_acc(f, PAIRS, 1), dweight = fix_acc(f, T, TOP);
    struct mat dlogits = fix_acc(f, T, E), dn = fix_act(f, T, H);
    struct mat da[2] = {fix_act(f, E * H, R), fix_act(f, E * F, R)};
    struct mat db[2] = {fix_act(f, E * R, 2 * F), fix_act(f, E * R, H)};
    const struct golden_array *idx = golden_find(g, "moe/idx", PAIRS);
    int i;

    moe_forward(f, &m);
    for (i = 0; i < PAIRS; i++)
        assert_int_equal(((int64_t *)m.idx.p)[i], golden_i64(idx, i));
    near_golden(g, "moe/y", m.y, limit);
    CALL(f, permute, .out = df, .x = dy, .row = m.row);
    back(f, &m, 1, dact, df, m.act, da[1], db[1]);
    CALL(f, swiglu_bwd, .dgu = dgu, .dweight = dpair, .dout = dact,
         .gu = m.gu, .weight = m.pair_weight);
    back(f, &m, 0, dx, dgu, m.x, da[0], db[0]);
    CALL(f, combine, .out = dn, .x = dx, .slot = m.slot, .top_k = TOP);
    CALL(f, route_unsort, .dweight = dweight, .dpair = dpair, .slot = m.slot);
    CALL(f, router_bwd, .dlogits = dlogits, .dweight = dweight,
         .scores = m.scores, .idx = m.idx, .weight = m.weight, .norm = true);
    CALL(f, gemm, .c = dn, .a = dlogits, .b = m.gate, .alpha = 1, .beta = 1);
    near_golden(g, "moe/dn", dn, limit);
    near_golden(g, "moe/dup_a", da[0], limit);
    near_golden(g, "moe/dup_b", db[0], limit);
    near_golden(g, "moe/ddown_a", da[1], limit);
    near_golden(g, "moe/ddown_b", db[1], limit);
}

/* bf16 rounds every intermediate, some twice over; its limit is that of a
** layer. */
static void test_moe(void **state)
{
    static const struct { enum dtype t; double limit; } runs[] = {
        {DT_F64, 1e-10}, {DT_F32, 5e-6}, {DT_BF16, 2e-2}
    };
    struct golden g;
    size_t i;

    (void)state;
    golden_open(&g, "tests/golden/ops/ops.bin");
    for (i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct fix f;
        fix_open(&f, runs[i].t);
        moe_check(&f, &g, runs[i].limit);
        fix_close(&f);
    }
    golden_free(&g);
}

/* ---- the router --------------------------------------------------------- */

struct routes { struct mat logits, scores, map, idx, weight; };

static struct routes routes_new(struct fix *f, int64_t rows, int64_t experts,
                                int64_t k)
{
    return (struct routes){
        fix_in_acc(f, "logits", rows, experts, 2, 0),
        fix_acc(f, rows, experts), fix_new(f, rows, experts, DT_U8),
        fix_new(f, rows, k, DT_I64), fix_acc(f, rows, k)
    };
}

static void route(struct fix *f, struct routes *r, const int64_t *forced)
{
    CALL(f, router, .logits = r->logits, .scores = r->scores, .map = r->map,
         .idx = r->idx, .weight = r->weight, .forced = forced, .norm = true);
}

/* Equal logits: the lower index first. NaN: still valid, distinct experts,
** and weights that show it. */
static void test_ties(void **state)
{
    static const double row[3][5] = {{1, 3, 3, 2, 3}, {0, 0, 0, 0, 0},
                                     {(double)NAN, 1, 2, (double)NAN, 0}};
    static const int64_t want[2][3] = {{1, 2, 4}, {0, 1, 2}};
    struct routes r;
    struct fix f;
    int64_t i, j, seen = 0;

    (void)state;
    fix_open(&f, DT_F32);
    r = routes_new(&f, 3, 5, 3);
    for (i = 0; i < 15; i++) fix_set(r.logits, i / 5, i % 5, row[i / 5][i % 5]);
    route(&f, &r, NULL);
    for (i = 0; i < 2; i++)
        for (j = 0; j < 3; j++)
            assert_true(fix_get(r.idx, i, j) == (double)want[i][j]);
    for (j = 0; j < 5; j++) {
        assert_true(fix_get(r.map, 0, j) == (j == 1 || j == 2 || j == 4));
        seen += fix_get(r.map, 2, j) == 1;
    }
    assert_int_equal(seen, 3);
    assert_true(isnan(fix_get(r.weight, 2, 0)));
    assert_true(fabs(fix_get(r.weight, 1, 0) - 1.0 / 3) < 1e-7);
    fix_close(&f);
}

static void test_forced(void **state)
{
    static const int64_t forced[] = {4, 0, 1, 3};
    static const int64_t twice[] = {4, 4, 1, 3};
    static const int64_t beyond[] = {4, 0, 1, 5};
    struct routes r;
    struct fix f;
    int64_t i;

    (void)state;
    fix_open(&f, DT_F32);
    r = routes_new(&f, 2, 5, 2);
    route(&f, &r, forced);
    for (i = 0; i < 4; i++) {
        double a = fix_get(r.scores, i / 2, forced[i]);
        double b = fix_get(r.scores, i / 2, forced[i ^ 1]);
        assert_true(fix_get(r.idx, i / 2, i % 2) == (double)forced[i]);
        assert_true(fabs(fix_get(r.weight, i / 2, i % 2) - a / (a + b)) < 1e-6);
    }
    assert_int_equal(CALL_RC(&f, router, .logits = r.logits,
                             .scores = r.scores, .map = r.map, .idx = r.idx,
                             .weight = r.weight, .forced = twice), ERR_RUN);
    assert_non_null(strstr(f.e.text, "row 0 names expert 4 twice"));
    assert_int_equal(CALL_RC(&f, router, .logits = r.logits,
                             .scores = r.scores, .map = r.map, .idx = r.idx,
                             .weight = r.weight, .forced = beyond), ERR_RUN);
    assert_non_null(strstr(f.e.text, "forced[3] is 5, not in 0..4"));
    fix_close(&f);
}

/* ---- the sort ----------------------------------------------------------- */

/* Against the definition: pairs in order of (expert, row), and back. */
static void test_sort(void **state)
{
    enum { ROWS = 50, EXPERTS = 9, K = 3, N = ROWS * K };
    int32_t row[N], slot[N];
    int64_t counts[EXPERTS], total = 0, p;
    struct mat pair_weight, back_weight;
    struct routes r;
    struct fix f;
    int64_t i;

    (void)state;
    fix_open(&f, DT_F32);
    r = routes_new(&f, ROWS, EXPERTS, K);
    for (i = 0; i < ROWS; i++) fix_set(r.logits, i, 6, -100);
    route(&f, &r, NULL);
    pair_weight = fix_acc(&f, N, 1);
    back_weight = fix_acc(&f, ROWS, K);
    CALL(&f, route_sort, .idx = r.idx, .weight = r.weight,
         .pair_weight = pair_weight, .experts = EXPERTS, .counts = counts,
         .row = row, .slot = slot);
    assert_int_equal(counts[6], 0);
    for (i = 0; i < EXPERTS; i++) total += counts[i];
    assert_int_equal(total, N);
    for (i = 0; i < N; i++) {
        int64_t e = (int64_t)fix_get(r.idx, i / K, i % K), before = 0;
        for (p = 0; p < N; p++) {
            int64_t other = (int64_t)fix_get(r.idx, p / K, p % K);
            before += other < e || (other == e && p / K < i / K);
        }
        assert_int_equal(slot[i], before);
        assert_int_equal(row[slot[i]], i / K);
        assert_true(fix_get(pair_weight, slot[i], 0)
                    == fix_get(r.weight, i / K, i % K));
    }
    CALL(&f, route_unsort, .dweight = back_weight, .dpair = pair_weight,
         .slot = slot);
    fix_equal("unsorted", back_weight, r.weight);
    fix_set(r.idx, 2, 1, EXPERTS);
    assert_int_equal(CALL_RC(&f, route_sort, .idx = r.idx, .weight = r.weight,
                             .pair_weight = pair_weight, .experts = EXPERTS,
                             .counts = counts, .row = row, .slot = slot),
                     ERR_RUN);
    assert_non_null(strstr(f.e.text, "idx[7] is 9, not in 0..8"));
    fix_close(&f);
}

/* ---- groups ------------------------------------------------------------- */

/* Empty groups at both ends and in the middle; TN writes their zeros, or
** keeps what was there with beta. */
static void test_empty_groups(void **state)
{
    static const int64_t offset[] = {0, 0, 3, 3, 8, 8};
    struct mat a, c, w, one;
    struct fix f;
    int64_t g;

    (void)state;
    fix_open(&f, DT_F64);
    a = fix_in(&f, "a", 8, 4, 1, 0);
    c = fix_in(&f, "c", 8, 3, 1, 0);
    w = fix_act(&f, 5 * 4, 3);
    CALL(&f, group_gemm, .form = GROUP_TN, .c = c, .a = a, .w = w,
         .w_rows = 4, .offset = offset, .n_group = 5, .alpha = 2);
    for (g = 0; g < 5; g++) {
        int64_t n = offset[g + 1] - offset[g];
        one = fix_zero(fix_act(&f, 4, 3));
        if (n > 0)
            CALL(&f, gemm, .c = one, .a = fix_rows(a, offset[g], n),
                 .b = fix_rows(c, offset[g], n), .trans_a = true, .alpha = 2);
        fix_equal("group", fix_rows(w, g * 4, 4), one);
    }
    CALL(&f, fill, .x = w, .value = 3);
    CALL(&f, group_gemm, .form = GROUP_TN, .c = c, .a = a, .w = w,
         .w_rows = 4, .offset = offset, .n_group = 5, .alpha = 2, .beta = 1);
    assert_true(fix_get(w, 0, 0) == 3 && fix_get(w, 19, 2) == 3);
    fix_close(&f);
}

/* No rows at all: nothing to route, sort or move; gradients become zero. */
static void test_zero_rows(void **state)
{
    static const int64_t offset[] = {0, 0, 0};
    int64_t counts[2] = {7, 7};
    struct routes r;
    struct mat none, w;
    struct fix f;

    (void)state;
    fix_open(&f, DT_BF16);
    r = routes_new(&f, 0, 2, 1);
    none = fix_act(&f, 0, 4);
    w = fix_act(&f, 8, 4);
    route(&f, &r, NULL);
    CALL(&f, route_sort, .idx = r.idx, .weight = r.weight,
         .pair_weight = fix_acc(&f, 0, 1), .experts = 2, .counts = counts);
    assert_true(counts[0] == 0 && counts[1] == 0);
    CALL(&f, permute, .out = none, .x = none);
    CALL(&f, combine, .out = none, .x = none, .top_k = 1);
    CALL(&f, group_gemm, .form = GROUP_NT, .c = none, .a = none, .w = w,
         .w_rows = 4, .offset = offset, .n_group = 2, .alpha = 1);
    CALL(&f, group_gemm, .form = GROUP_TN, .c = none, .a = none, .w = w,
         .w_rows = 4, .offset = offset, .n_group = 2, .alpha = 1);
    assert_true(fix_inner(w, w) == 0);
    fix_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moe), cmocka_unit_test(test_ties),
        cmocka_unit_test(test_forced), cmocka_unit_test(test_sort),
        cmocka_unit_test(test_empty_groups), cmocka_unit_test(test_zero_rows)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
