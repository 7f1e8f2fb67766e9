/*
** What per-rank-any makes of routing: pairs as stated, even shares, and the
** quantile of a stated spread, held against drawn loads.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "batch/routing.h"
#include "price/any.h"
#include "sweep.h"

static struct err err;

static void need(int rc)
{
    if (rc != ERR_OK) fail_msg("%s", err.text);
}

struct world {
    struct model m;
    struct batch b;
    struct plan p;
    struct price_facts f;
};

static void open_world(struct world *w, int64_t cp, int64_t ep)
{
    static const int64_t lengths[] = {30000, 20000, 10000};
    struct plan_options o = {.cp = cp, .ep = ep, .tp = 1,
                             .profile = PLAN_NEW, .owned_ms = -1};

    need(model_load("lua/models/Qwen3.6-35B-A3B.json", 0, &w->m, &err));
    need(batch_from_lengths(lengths, 3, &w->b, &err));
    need(plan_make(&w->m, &w->b, &o, &w->p, &err));
    need(price_facts_from_plan(&w->m, &w->p, ep, 8, &w->f, &err));
}

static void close_world(struct world *w)
{
    price_facts_free(&w->f);
    plan_free(&w->p);
    batch_free(&w->b);
    model_free(&w->m);
}

static int64_t raw_of(const struct price_facts *f)
{
    struct estimate *x = malloc(sizeof *x);
    int64_t raw;

    need(price_per_rank_any(f, x, &err));
    assert_true(x->supported);
    raw = x->raw;
    free(x);
    return raw;
}

/* What all ranks fetch in a stage others have sent; who knows it is charged no
** more than who only knows what is fetched. */
static void test_sent(void **state)
{
    static const int64_t cp[] = {2, 4, 8};
    int64_t i, r, v, all = 0;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct world w;
        struct price_group *g;
        int64_t *sent, raw;

        open_world(&w, cp[i], 1);
        g = &w.f.group[0];
        for (v = 0; v < g->n_sent; v++) {
            int64_t rows = 0;
            for (r = 0; r < cp[i]; r++)
                rows += (g->stage[r][v].local ? 0 : g->stage[r][v].k)
                        - g->sent_rows[r * g->n_sent + v];
            assert_int_equal(rows, 0);
        }
        for (v = 0; v < cp[i] * g->n_sent; v++) all += g->sent_rows[v];
        raw = raw_of(&w.f);
        sent = g->sent_rows;
        g->sent_rows = NULL;
        assert_true(raw <= raw_of(&w.f));
        g->sent_rows = sent;
        close_world(&w);
    }
    assert_true(all > 0);
}

/* Some rank in some layer is over the quantile in no more waves than are left
** to chance, and the bound is not idle: it is within a third of the largest
** deviation that 500 waves have. */
static void test_quantile(void **state)
{
    static const struct { int64_t ep; double cv; } c[] = {
        {2, 0.5}, {2, 1}, {4, 1}, {4, 2}, {8, 1}, {8, 4}
    };
    enum { ALL = sizeof c / sizeof *c };
    int i, step = ALL / sweep(ALL, 2);

    (void)state;
    for (i = 0; i < ALL; i += step) {
        struct world w;
        struct routing r = {.kind = ROUTING_CV, .cv = c[i].cv};
        double x, most = 0, even = 1 / (double)c[i].ep;
        int64_t over = 0, l, k, got[8];

        open_world(&w, c[i].ep, c[i].ep);
        x = (double)price_share_quantile(&w.f, c[i].cv) / 1e9;
        for (r.seed = 0; r.seed < 500; r.seed++) {
            bool beyond = false;
            for (l = 0; l < w.m.layers; l++) {
                need(routing_received(&r, 0, l, 256, c[i].ep, 0, 10000000,
                                      got, &err));
                for (k = 0; k < c[i].ep; k++) {
                    double s = (double)got[k] / 1e7;
                    most = s > most ? s : most;
                    beyond |= s > x;
                }
            }
            over += beyond;
        }
        assert_true(over <= 10);        /* 5 are expected at most */
        assert_true((x - even) < 4.0 / 3 * (most - even));
        close_world(&w);
    }
}

/* A share of 1 is all there is, one of 0 the even share. */
static void test_pairs(void **state)
{
    struct world w;
    int64_t l, all;

    (void)state;
    open_world(&w, 4, 2);
    l = 3;
    all = price_group_pairs(&w.f, 0, 2, w.m.kind[l]);
    assert_int_equal(all, 8 * (w.p.rank[2].attention_rows
                               + w.p.rank[3].attention_rows));
    assert_int_equal(price_pairs_of(&w.f, 0, 2, l, 0), (all + 1) / 2);
    assert_int_equal(price_pairs_of(&w.f, 0, 2, l, 1000000000), all);
    assert_int_equal(price_pairs_of(&w.f, 0, 2, l, 600000000),
                     (all * 6 + 9) / 10);
    close_world(&w);
}

/* More pairs in the last layer cost more; in the first, no more than there
** are boundaries above it. */
static void test_layers(void **state)
{
    struct world w;
    int64_t even, hot, n, *pairs, r, l;

    (void)state;
    open_world(&w, 2, 2);
    n = w.m.layers;
    even = raw_of(&w.f);
    pairs = calloc((size_t)(2 * n), sizeof *pairs);
    for (r = 0; r < 2; r++)
        for (l = 0; l < n; l++)
            pairs[r * n + l] = price_pairs_of(&w.f, 0, r, l, 0);
    w.f.group[0].routed_pairs = pairs;
    assert_int_equal(raw_of(&w.f), even);
    pairs[0] += 1000;
    assert_int_equal(raw_of(&w.f), even);
    for (r = 0; r < 2; r++)
        for (l = n - 2; l < n; l++) pairs[r * n + l] += 1000;
    hot = raw_of(&w.f);
    /* 9,728 elements of bf16 a pair, and its adapters' and weight's */
    assert_true(hot >= even + 1000 * 2 * 9728 && hot < even + 22000000);
    w.f.group[0].routed_pairs = NULL;
    w.f.load_cv = 1;
    assert_true(raw_of(&w.f) > even);
    free(pairs);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sent),
        cmocka_unit_test(test_quantile), cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
