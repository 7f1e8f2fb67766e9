/* Planning grows with segments and chunks, never with tokens: counted, not
** timed. And trees of extreme shape. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "plan_moe35.h"

static int make(const struct batch *b, int64_t cp, struct plan *p,
                struct err *e)
{
    struct plan_options o = {.cp = cp, .profile = PLAN_NEW, .owned_ms = -1};

    return plan_make(&moe35, b, &o, p, e);
}

static struct plan must_make(const struct batch *b, int64_t cp)
{
    struct plan p;
    struct err e = {0};

    if (make(b, cp, &p, &e) != ERR_OK) fail_msg("%s", e.text);
    return p;
}

static struct batch tree(const int64_t *parent, const int64_t *tokens,
                         int64_t n)
{
    struct batch b;
    struct err e = {0};

    if (batch_from_tree(parent, tokens, n, &b, &e) != ERR_OK)
        fail_msg("%s", e.text);
    return b;
}

/* The bounds of planner.md 2 and 5 at CP2: at most 161 chunks wherever their
** size follows from the tokens, and 2 rounds x (1 + 2 steps x 4 moves). */
static void tokens_do_not_count(void **state)
{
    int64_t n, allocations = 0;

    (void)state;
    for (n = 10000; n <= 10000000; n *= 10) {
        const int64_t parent[] = {-1, 0, 0, 0};
        const int64_t tokens[] = {n / 4, n / 4, n / 4, n / 4};
        struct batch b = tree(parent, tokens, 4);
        struct plan p = must_make(&b, 2);
        assert_true(p.chunks <= 160);
        assert_true(p.work.parts <= b.n_seg + p.chunks);
        assert_int_equal(p.work.cells, p.chunks * (p.chunks + 1) / 2);
        assert_true(p.work.scores <= (n < 50000 ? 4 * 65 : 2 * 9));
        assert_true(p.work.chain_scores <= 2 + 4 * 8 + 1);
        assert_true(p.work.slices <= 3 * b.n_seg);
        if (n > 100000) assert_int_equal(p.work.allocations, allocations);
        allocations = p.work.allocations;
        assert_true(allocations <= 12);
        plan_free(&p);
        batch_free(&b);
    }
}

/* A path of a million segments is one chain: one slice a stage. */
static void a_deep_path(void **state)
{
    const int64_t n = 1000000;
    int64_t *parent = malloc((size_t)n * sizeof *parent);
    int64_t *tokens = malloc((size_t)n * sizeof *tokens);
    struct batch b;
    struct plan p;
    int64_t i;

    (void)state;
    for (i = 0; i < n; i++) {
        parent[i] = i - 1;
        tokens[i] = 3;
    }
    b = tree(parent, tokens, n);
    p = must_make(&b, 2);
    assert_int_equal(p.work.slices, 3);
    assert_int_equal(p.rank[0].stage[0].n_slice, 1);
    assert_int_equal(p.rank[1].stage[1].n_slice, 1);
    assert_true(p.work.parts <= n + p.chunks);
    plan_free(&p);
    batch_free(&b);
    free(parent);
    free(tokens);
}

/* A million leaves below one root. */
static void a_wide_star(void **state)
{
    const int64_t n = 1000000;
    int64_t *parent = calloc((size_t)n, sizeof *parent);
    int64_t *tokens = calloc((size_t)n, sizeof *tokens);
    struct batch b;
    struct plan p;
    int64_t i;

    (void)state;
    for (i = 0; i < n; i++) tokens[i] = 1;
    parent[0] = -1;
    tokens[0] = 100;
    b = tree(parent, tokens, n);
    p = must_make(&b, 2);
    assert_true(p.work.slices <= 3 * n);
    assert_int_equal(p.rank[0].gdn_rows + p.rank[1].gdn_rows, b.tokens);
    plan_free(&p);
    batch_free(&b);
    free(parent);
    free(tokens);
}

/* A comb: at every depth a leaf comes before the branch that goes on, so a
** path sees as many separate ranges as it is deep. */
static struct batch comb(int64_t depth)
{
    int64_t n = 2 * depth + 1, i;
    int64_t *parent = malloc((size_t)n * sizeof *parent);
    int64_t *tokens = malloc((size_t)n * sizeof *tokens);
    struct batch b;

    parent[0] = -1;
    tokens[0] = 2;
    for (i = 0; i < depth; i++) {
        int64_t up = i == 0 ? 0 : 2 * i;
        parent[2 * i + 1] = parent[2 * i + 2] = up;
        tokens[2 * i + 1] = tokens[2 * i + 2] = 2;
    }
    b = tree(parent, tokens, n);
    free(parent);
    free(tokens);
    return b;
}

static void combs(void **state)
{
    struct batch b = comb(500);
    struct plan p = must_make(&b, 2);
    struct err e = {0};

    (void)state;
    /* about half the depth on each rank; what rank 1 fetches has no gaps */
    assert_true(p.work.slices >= 500 * 500 / 5);
    assert_true(p.work.slices <= 500 * 500 / 2);
    plan_free(&p);
    batch_free(&b);
    b = comb(5000);
    assert_int_equal(make(&b, 2, &p, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "4194304 attention slices"));
    batch_free(&b);
}

static void bad_options(void **state)
{
    static const struct {
        struct plan_options o;
        const char *says;
    } bad[] = {
        {{.cp = -1, .owned_ms = -1}, "cp: -1"},
        {{.cp = 65, .owned_ms = -1}, "cp: 65"},
        {{.cp = 2, .ep = -2, .owned_ms = -1}, "ep: -2"},
        {{.cp = 2, .tp = -1, .owned_ms = -1}, "tp: -1"},
        {{.cp = 2, .cut_rows = 6, .owned_ms = -1}, "cut: 6 is not in"},
        {{.cp = 2, .cut_rows = -1, .owned_ms = -1}, "cut: -1"},
        {{.cp = 1, .cut_rows = 1, .owned_ms = -1}, "cut: a cut needs cp"},
        {{.cp = 2, .gdn_cut_rows = 9, .owned_ms = -1}, "gdn cut: 9"},
    };
    const int64_t n = 5;
    struct batch b;
    struct plan p;
    struct err e;
    size_t i;

    (void)state;
    assert_int_equal(batch_from_lengths(&n, 1, &b, &e), ERR_OK);
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(plan_make(&moe35, &b, &bad[i].o, &p, &e), ERR_USAGE);
        if (strstr(e.text, bad[i].says) == NULL) fail_msg("%s", e.text);
    }
    batch_free(&b);
}

/* More ranks than tokens: the rest stay empty and every stage is there. */
static void more_ranks_than_tokens(void **state)
{
    int64_t n, cp;

    (void)state;
    for (n = 1; n <= 9; n++)
        for (cp = 1; cp <= 64; cp = cp == 1 ? 2 : cp * 2) {
            struct batch b;
            struct plan p;
            struct err e;
            int64_t r, rows = 0, gdn = 0;
            assert_int_equal(batch_from_lengths(&n, 1, &b, &e), ERR_OK);
            p = must_make(&b, cp);
            for (r = 0; r < cp; r++) {
                rows += p.rank[r].attention_rows;
                gdn += p.rank[r].gdn_rows;
                assert_int_equal(p.rank[r].n_stage, p.rounds + 1);
            }
            assert_int_equal(rows, n);
            assert_int_equal(gdn, n);
            if (cp == 1) assert_int_equal(p.rounds, 0);
            plan_free(&p);
            batch_free(&b);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_do_not_count),
        cmocka_unit_test(a_deep_path),
        cmocka_unit_test(a_wide_star),
        cmocka_unit_test(combs),
        cmocka_unit_test(bad_options),
        cmocka_unit_test(more_ranks_than_tokens),
    };
    return cmocka_run_group_tests(tests, moe35_load, moe35_free);
}
