/*
** Does it fit: what the simulation grants runs, batches a little smaller run
** too (but for narrow holes, which are counted), the first failure it names
** does not, and a limit of what it says is needed is enough. PEAKPROOF_SEED
** replays.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/num.h"
#include "base/random.h"
#include "fit/grant.h"
#include "fit/trial.h"
#include "sweep.h"

enum { SHAPES = 12, SMALLER = 20 };

static int64_t below(uint64_t *s, int64_t n)
{
    return (int64_t)(random_next(s) % (uint64_t)n);
}

static void random_shape(uint64_t *s, struct shape *out)
{
    static const int64_t cp[] = {1, 2, 2, 4};
    int64_t length[4], n = 1 + below(s, 4), i;
    struct err e;

    memset(out, 0, sizeof *out);
    assert_int_equal(model_load("lua/models/Qwen3.6-35B-A3B.json",
                                2 + below(s, 6), &out->model, &e), 0);
    for (i = 0; i < n; i++) length[i] = 500 + below(s, 9000);
    assert_int_equal(batch_from_lengths(length, n, &out->batch, &e), 0);
    out->options = (struct plan_options){
        .cp = cp[below(s, 4)], .tp = 1, .profile = PLAN_NEW, .owned_ms = -1
    };
    out->options.ep = below(s, 2) ? out->options.cp : 1;
    out->lora_rank = 8;
    out->head_rows = -1;
    out->routing = (struct routing){.kind = ROUTING_CV, .seed = 7,
                                    .cv = (double)below(s, 3) / 2};
}

/* A run of all ranks and waves. */
static bool runs(const struct shape *s, int64_t limit, int64_t tokens)
{
    struct ground all = {0};
    struct err e;
    bool fits;

    assert_int_equal(trial_ground(s, limit, tokens, &all, &fits, &e), 0);
    return fits;
}

static int holes;       /* of shapes * SMALLER batches below what is granted */

static void check_shape(uint64_t *s, const struct shape *x, int round,
                        unsigned long long seed)
{
    struct simulated at;
    struct grant g;
    struct err e;
    int64_t limit, i;
    bool fits;

    assert_int_equal(simulate(x, &x->batch, 1, &at, &e), 0);
    assert_false(at.fits);
    limit = at.needed;
    assert_int_equal(simulate_fits(x, &x->batch, limit, &fits, &e), 0);
    assert_true(fits);
    limit += below(s, 3000) * 1000000;
    assert_int_equal(grant_tokens(x, limit, x->batch.tokens, &g, &e), 0);
    if (g.tokens < x->batch.n_seg)
        fail_msg("seed %llu, round %d: nothing is granted", seed, round);
    for (i = 0; i <= SMALLER; i++) {
        int64_t n = g.tokens - (i == 0 ? 0 : below(s, g.tokens / 100 + 1));
        fits = runs(x, limit, n);
        if (!fits && i == 0)
            fail_msg("seed %llu, round %d: %lld granted tokens do not fit",
                     seed, round, (long long)n);
        holes += !fits;
    }
    assert_true(g.failure > g.tokens);
    assert_false(runs(x, limit, g.failure));
}

static void test_granted_runs(void **state)
{
    const char *env = getenv("PEAKPROOF_SEED");
    unsigned long long seed = env ? strtoull(env, NULL, 10) : 20261129;
    uint64_t s = seed;
    int round, shapes = sweep(SHAPES, 4);

    (void)state;
    for (round = 0; round < shapes; round++) {
        struct shape x;
        random_shape(&s, &x);
        check_shape(&s, &x, round, seed);
        model_free(&x.model);
        batch_free(&x.batch);
    }
    print_message("seed %llu: %d of %d smaller batches do not fit\n", seed,
                  holes, shapes * SMALLER);
    assert_true(holes * 50 <= shapes * SMALLER);
}

/* On a desk, where weights lie already, a trial is what it is on its own,
** whatever ran there before: also one that ran out of memory. */
static void test_desk(void **state)
{
    struct ranks_desk desk = {NULL, NULL, NULL, NULL};
    struct ground g = {0};
    struct simulated at;
    struct trial one = {0}, other = {0}, alone = {0};
    struct shape s;
    struct err e;
    bool fits;
    int64_t i, n, yes = 0;

    (void)state;
    random_shape(&(uint64_t){11}, &s);
    s.options.cp = s.options.ep = 2;
    assert_int_equal(simulate(&s, &s.batch, 0, &at, &e), 0);
    assert_int_equal(trial_ground(&s, at.needed, s.batch.tokens, &g, &fits,
                                  &e), 0);
    assert_true(fits);
    for (i = 0; i < 20; i++) {
        n = s.batch.tokens * (i % 2 == 0 ? 98 + 3 * i : 101 - i) / 100;
        assert_int_equal(trial_run(&s, at.needed, n, &g, NULL, &one, &e), 0);
        assert_int_equal(trial_run(&s, at.needed, n, &g, &desk, &other, &e),
                         0);
        assert_int_equal(one.fits, other.fits);
        assert_memory_equal(one.decisions, other.decisions,
                            sizeof one.decisions);
        yes += one.fits;
        /* a rank that runs alone decides what it does among the others */
        alone.ranks = UINT64_C(1) << i % 2;
        assert_int_equal(trial_run(&s, at.needed, n, &g, &desk, &alone, &e),
                         0);
        if (!one.fits) continue;
        assert_true(alone.fits && one.decisions[0] != 0);
        assert_true(alone.decisions[i % 2] == one.decisions[i % 2]);
        assert_true(alone.decisions[1 - i % 2] == 0);
    }
    assert_true(yes > 4 && yes < 16);
    ranks_desk_close(&desk);
    /* weights alone do not fit: nothing is kept, and nothing lost */
    for (i = 0; i < 2; i++) {
        assert_int_equal(trial_run(&s, 1 << 30, 100, &g, &desk, &one, &e), 0);
        assert_false(one.fits);
        assert_null(desk.dev);
    }
    ranks_desk_close(&desk);
    model_free(&s.model);
    batch_free(&s.batch);
}

/* Where trials are left, all is known of the hundredth below what is granted,
** from fewer of them than it has numbers. */
static void test_nothing_lies_between(void **state)
{
    static const int64_t ep[] = {1, 2, 1}, cp[] = {2, 2, 4};
    int64_t length = 23000, limit, n;
    int i;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct simulated at;
        struct shape s;
        struct grant g;
        struct err e;

        random_shape(&(uint64_t){3}, &s);
        batch_free(&s.batch);
        assert_int_equal(batch_from_lengths(&length, 1, &s.batch, &e), 0);
        s.options.cp = cp[i];
        s.options.ep = ep[i];
        s.routing.cv = 0;
        assert_int_equal(simulate(&s, &s.batch, 0, &at, &e), 0);
        limit = at.needed;
        assert_int_equal(grant_tokens(&s, limit, length, &g, &e), 0);
        assert_true(g.trials >= GRANT_TRIALS && g.trials < g.tokens / 100);
        for (n = g.tokens - g.tokens / 100; n <= g.tokens; n++)
            if (!runs(&s, limit, n))
                fail_msg("%d: %lld of %lld tokens do not fit", i,
                         (long long)n, (long long)g.tokens);
        model_free(&s.model);
        batch_free(&s.batch);
    }
}

/* A shape whose ranks take very different amounts. */
static void uneven_shape(struct shape *out)
{
    static const int64_t length[] = {90000, 40000};
    struct err e;

    memset(out, 0, sizeof *out);
    assert_int_equal(model_load("lua/models/Qwen3.6-35B-A3B.json", 4,
                                &out->model, &e), 0);
    assert_int_equal(batch_from_lengths(length, 2, &out->batch, &e), 0);
    out->options = (struct plan_options){.cp = 8, .ep = 1, .tp = 1,
                                         .profile = PLAN_NEW, .owned_ms = -1};
    out->lora_rank = 8;
    out->head_rows = -1;
    out->routing = (struct routing){.kind = ROUTING_BALANCED, .seed = 1};
}

/* A trial runs fewer ranks and waves, and says what a run of all of them says:
** always where it does not fit. */
static void test_trial_is_a_run(void **state)
{
    struct shape s;
    struct ground g = {0}, w = {.whole = true};
    struct simulated at;
    struct err e;
    struct trial t = {0}, u = {0};
    bool fits, whole, waves;
    int64_t limit, n, all, differ = 0, yes = 0, no = 0;

    (void)state;
    uneven_shape(&s);
    assert_int_equal(simulate(&s, &s.batch, 0, &at, &e), 0);
    assert_int_equal(trial_ground(&s, at.needed, 130000, &g, &fits, &e), 0);
    assert_int_equal(trial_ground(&s, at.needed, 130000, &w, &fits, &e), 0);
    assert_true(w.whole && w.events > g.events);
    limit = at.needed / 100 * 96;   /* giving back what is cached helps */
    assert_true(fits);
    all = (int64_t)PLAN_MAX_RANKS;
    for (n = 0; n < 8; n++) all = num_min(all, g.rank[n].took * 10 / g.most);
    assert_true(all < 9);           /* some rank is left out */
    for (n = 128000; n <= 136000; n += 199) {
        assert_int_equal(trial_run(&s, limit, n, &g, NULL, &t, &e), 0);
        assert_int_equal(trial_run(&s, limit, n, &w, NULL, &u, &e), 0);
        whole = runs(&s, limit, n);
        fits = t.fits;
        waves = u.fits;
        if (!fits) assert_false(waves);     /* it ran less of the same */
        if (!waves) assert_false(whole);
        differ += fits != whole;
        yes += whole;
        no += !whole;
    }
    print_message("%d fit, %d do not\n", (int)yes, (int)no);
    assert_true(yes > 5 && no > 5);
    assert_true(differ <= 1);
    model_free(&s.model);
    batch_free(&s.batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trial_is_a_run),
        cmocka_unit_test(test_desk),
        cmocka_unit_test(test_nothing_lies_between),
        cmocka_unit_test(test_granted_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
