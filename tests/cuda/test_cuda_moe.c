/*
** test_cuda_moe.c - routing: choice with ties and NaN, forced routes, the
** gradient, the sort of pairs over several blocks and its inverse.
*/
#include "pair.h"

struct routes { struct mat logits, scores, map, idx, weight; };

static struct routes routes_new(struct pair *p, int64_t rows, int64_t experts,
                                int64_t k)
{
    struct routes r = {
        pair_in_acc(p, "logits", rows, experts, 2, 0),
        pair_acc(p, "scores", rows, experts),
        pair_new(p, "map", rows, experts, DT_U8, 0),
        pair_new(p, "idx", rows, k, DT_I64, 0), pair_acc(p, "weight", rows, k)
    };

    return r;
}

static void sort_pairs(struct pair *p, const struct routes *r,
                       int64_t experts)
{
    int64_t rows = r->idx.rows, k = r->idx.cols, pairs = rows * k;
    struct mat pair_weight = pair_new(p, "pair_weight", pairs, 1, DT_F32, 0);
    struct mat counts = pair_new(p, "counts", 1, experts, DT_I64, 0);
    struct mat row = pair_new(p, "row", 1, pairs, DT_I32, 0);
    struct mat slot = pair_new(p, "slot", 1, pairs, DT_I32, 0);
    struct mat back = pair_new(p, "back", rows, k, DT_F32, 0);

    BOTH(p, route_sort, .idx = r->idx, .weight = r->weight,
         .pair_weight = pair_weight, .experts = experts, .counts = counts.p,
         .row = row.p, .slot = slot.p);
    BOTH(p, route_unsort, .dweight = back, .dpair = pair_weight,
         .slot = slot.p);
}

static void route(struct pair *p, int64_t rows, int64_t experts, int64_t k,
                  bool norm)
{
    struct routes r = routes_new(p, rows, experts, k);
    struct mat dweight = pair_in_acc(p, "dweight", rows, k, 1, 0);
    struct mat dlogits = pair_acc(p, "dlogits", rows, experts);
    struct mat forced = pair_new(p, "forced", 1, rows * k, DT_I64, 0);
    int64_t i;

    for (i = 0; i < rows && experts > 3; i++) {     /* ties, an empty one */
        fix_set(r.logits, i, 1, 3);
        fix_set(r.logits, i, 3, 3);
        fix_set(r.logits, i, experts - 1, -100);
    }
    BOTH(p, router, .logits = r.logits, .scores = r.scores, .map = r.map,
         .idx = r.idx, .weight = r.weight, .norm = norm);
    BOTH(p, router_bwd, .dlogits = dlogits, .dweight = dweight,
         .scores = r.scores, .idx = r.idx, .weight = r.weight, .norm = norm);
    sort_pairs(p, &r, experts);
    for (i = 0; i < rows * k; i++)
        fix_set(forced, 0, i, (double)((i / k + i % k) % experts));
    BOTH(p, router, .logits = r.logits, .scores = r.scores, .map = r.map,
         .idx = r.idx, .weight = r.weight, .forced = forced.p, .norm = norm);
    sort_pairs(p, &r, experts);
    pair_reset(p);
}

/* The largest has more pairs than one block sorts and more experts than a
** block has threads. */
static void test_router(void **state)
{
    struct pair p;
    int t;

    (void)state;
    for (t = 0; t < 2; t++) {
        pair_open(&p, DT_F32);
        p.pad = t * 3;
        route(&p, 0, 5, 2, true);
        route(&p, 1, 1, 1, t);
        route(&p, 50, 9, 3, !t);
        route(&p, 37, 40, 8, t);
        pair_close(&p);
    }
    pair_open(&p, DT_BF16);
    route(&p, 700, 150, 6, true);
    p.pad = PAIR_FAR;
    if (pair_can_far()) route(&p, 5, 9, 3, true);
    pair_close(&p);
}

/* NaN: valid and distinct experts, weights that show it. */
static void test_nan(void **state)
{
    static const double row[2][5] = {
        {(double)NAN, 1, 2, (double)NAN, 0},
        {(double)NAN, (double)NAN, (double)NAN, (double)NAN, (double)NAN}
    };
    struct routes r;
    struct pair p;
    int64_t i, j, seen;

    (void)state;
    pair_open(&p, DT_F32);
    r = routes_new(&p, 2, 5, 4);
    for (i = 0; i < 10; i++)
        fix_set(r.logits, i / 5, i % 5, row[i / 5][i % 5]);
    assert_int_equal(CUDA_RC(&p, router, .logits = r.logits,
                             .scores = r.scores, .map = r.map, .idx = r.idx,
                             .weight = r.weight, .norm = true), ERR_OK);
    assert_int_equal(cu_ops.sync(p.cu, &p.f.e), ERR_OK);
    for (i = 0; i < 2; i++) {
        for (j = seen = 0; j < 5; j++) seen += fix_get(r.map, i, j) == 1;
        assert_int_equal(seen, 4);
        assert_true(isnan(fix_get(r.weight, i, 0)));
    }
    pair_close(&p);
}

static void test_refusals(void **state)
{
    struct routes r;
    struct pair p;

    (void)state;
    pair_open(&p, DT_F32);
    r = routes_new(&p, 2, 3, 2);
    assert_int_equal(CUDA_RC(&p, router, .logits = r.logits,
                             .scores = r.scores, .map = r.map,
                             .idx = r.scores, .weight = r.weight), ERR_RUN);
    assert_int_equal(CUDA_RC(&p, router, .logits = fix_cols(r.logits, 0, 1),
                             .scores = fix_cols(r.scores, 0, 1),
                             .map = fix_cols(r.map, 0, 1), .idx = r.idx,
                             .weight = r.weight), ERR_RUN);
    assert_non_null(strstr(p.f.e.text, "more choices than experts"));
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_router), cmocka_unit_test(test_nan),
        cmocka_unit_test(test_refusals)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
