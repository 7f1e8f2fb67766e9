/*
** The step on the cpu device: ranks, cuts and expert groups change nothing
** but the order of sums; gradients are those of the loss; dry takes and
** frees the same memory in the same order.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "step_world.h"

static const int64_t lone[] = {-1, -1, -1};
static const int64_t lone_tokens[] = {1, 66, 72};
/* A root with two children, one that forks again, and a lone one. */
static const int64_t forks[] = {-1, 0, 0, -1, 3, 3, 4, -1};
static const int64_t fork_tokens[] = {67, 5, 2, 6, 3, 7, 4, 1};

static struct world hybrid, forked;

static int setup(void **state)
{
    (void)state;
    world_new(&hybrid, world_hybrid, lone, lone_tokens, 3);
    world_new(&forked, world_hybrid, forks, fork_tokens, 8);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_free(&hybrid);
    world_free(&forked);
    return 0;
}

static void close_to(const struct world *w, const struct run *run,
                     const struct outcome *want)
{
    struct outcome o;
    double d;

    world_run(w, run, &o);
    d = world_distance(&o, want);
    if (!(fabs(o.loss - want->loss) < 1e-12) || !(d < 1e-10))
        fail_msg("cp %d, ep %d, cut %d: loss off by %g, gradients by %g",
                 (int)run->cp, (int)run->ep, (int)run->cut,
                 o.loss - want->loss, d);
    outcome_free(&o);
}

static void splits(const struct world *w, const int64_t *cut, size_t n)
{
    struct run run = {.cp = 1, .ep = 1, .lora = 4, .act = DT_F64, .waves = 1};
    struct outcome want;
    size_t i;

    world_run(w, &run, &want);
    run.cp = 2;
    for (i = 0; i < n; i++) {
        run.cut = cut[i];
        run.ep = 1 + (int64_t)(i % 2);
        close_to(w, &run, &want);
    }
    outcome_free(&want);
}

/* Every EP that divides CP: groups of ranks that share the experts among
** them, and between groups the same experts. */
static void shapes(const struct world *w)
{
    struct run run = {.cp = 1, .ep = 1, .lora = 4, .act = DT_F64, .waves = 1};
    struct outcome want;

    world_run(w, &run, &want);
    for (run.cp = 2; run.cp <= 8; run.cp += run.cp < 4 ? 1 : 2)
        for (run.ep = 1; run.ep <= run.cp; run.ep++)
            if (run.cp % run.ep == 0 && w->m.experts % run.ep == 0)
                close_to(w, &run, &want);
    outcome_free(&want);
}

static void test_shapes(void **state)
{
    (void)state;
    shapes(&hybrid);
    shapes(&forked);
}

/* Cuts at 1, 3, 64 and 65 rows of a sequence, and between two; expert groups
** in turn. */
static void test_splits(void **state)
{
    static const int64_t cut[] = {0, 1, 2, 4, 65, 66, 67, 131};

    (void)state;
    splits(&hybrid, cut, sizeof cut / sizeof cut[0]);
}

/* Inside a shared prefix, at its end, inside and between children. */
static void test_splits_of_trees(void **state)
{
    static const int64_t cut[] = {0, 0, 3, 64, 65, 67, 70, 82};

    (void)state;
    splits(&forked, cut, sizeof cut / sizeof cut[0]);
}

/* ---- derivatives -------------------------------------------------------- */

/* Moves an adapter's A and B by h along direction. */
static void move(struct adapter *a, const double *dir, double h)
{
    int64_t i, na = a->a.m.rows * a->a.m.cols;
    int64_t nb = a->b.m.rows * a->b.m.cols;

    for (i = 0; i < na; i++) ((double *)a->a.m.p)[i] += h * dir[i];
    for (i = 0; i < nb; i++) ((double *)a->b.m.p)[i] += h * dir[na + i];
}

/* An adapter against its gradients g, A's before B's; returns how many. */
static int64_t check_derivative(struct session *x, struct adapter *a,
                                const double *g, const char *what)
{
    int64_t i, n = a->a.m.rows * a->a.m.cols + a->b.m.rows * a->b.m.cols;
    double *dir = calloc((size_t)n, sizeof *dir);
    double want = 0, got, norm = 0;
    uint64_t s = 2463534242;

    for (i = 0; i < n; i++) {
        dir[i] = (double)(world_random(&s) % 2001) / 1000 - 1;
        want += dir[i] * g[i];
        norm += g[i] * g[i];
    }
    move(a, dir, 1e-5);
    got = world_wave(x);
    move(a, dir, -2e-5);
    got = (got - world_wave(x)) / 2e-5;
    move(a, dir, 1e-5);
    if (!(fabs(got - want) <= 1e-6 * sqrt(norm) + 1e-9))
        fail_msg("%s: derivative %.12g, gradient %.12g", what, got, want);
    free(dir);
    return n;
}

/* Along every adapter of a GDN layer and of the attention layer above it.
** Routes are replayed: at a flip the loss jumps. */
static void test_derivatives(void **state)
{
    struct run run = {.cp = 1, .ep = 1, .lora = 4, .act = DT_F64,
                      .forced = true};
    struct session *x = world_open(&forked, &run);
    struct outcome base = {0};
    const double *g;
    int layer, site, n = 0;
    char what[64];

    (void)state;
    world_wave(x);
    take_gradients(x, &base);
    g = base.grad;
    for (layer = 0; layer < 4; layer++)
        for (site = 0; site < SITE_COUNT; site++) {
            struct adapter *a = &x->r[0].s->lw[layer].site[site];

            if (a->a.b == NULL) continue;
            snprintf(what, sizeof what, "layer %d site %d", layer, site);
            if (layer >= 2) {
                g += check_derivative(x, a, g, what);
                n++;
            } else {
                g += a->a.m.rows * a->a.m.cols + a->b.m.rows * a->b.m.cols;
            }
        }
    assert_int_equal(n, 4 + 3 + 2 * 5);
    assert_int_equal(g - base.grad, base.n_grad);
    outcome_free(&base);
    world_close(x);
}

/* ---- warm waves --------------------------------------------------------- */

/* Without an optimizer a second wave finds the same loss and gradients. */
static void test_warm_repeats(void **state)
{
    struct run run = {.cp = 2, .ep = 2, .lora = 4, .act = DT_F64, .waves = 1};
    struct outcome once, twice;

    (void)state;
    world_run(&forked, &run, &once);
    run.waves = 2;
    world_run(&forked, &run, &twice);
    assert_true(once.loss == twice.loss);
    assert_true(world_distance(&twice, &once) < 1e-14);
    outcome_free(&once);
    outcome_free(&twice);
}

/* With one, the loss falls, and two ranks stay together. */
static void test_training(void **state)
{
    struct run run = {.cp = 1, .ep = 1, .lora = 4, .act = DT_F64,
                      .learning_rate = 1e-3};
    struct session *one = world_open(&forked, &run), *two;
    double first = 0, a = 0, b = 0;
    int i;

    (void)state;
    run.cp = run.ep = 2;
    two = world_open(&forked, &run);
    for (i = 0; i < 5; i++) {
        a = world_wave(one);
        b = world_wave(two);
        assert_true(fabs(a - b) < 1e-9);
        if (i == 0) first = a;
    }
    assert_true(a < 0.99 * first);
    world_close(one);
    world_close(two);
}

/* ---- the same sequence of events on dry --------------------------------- */

/* Pairs received, as a histogram in which each rank sends its own to its
** first expert. */
static struct routing recorded(const struct world *w, const struct run *run,
                               const struct outcome *o)
{
    struct routing r = {.kind = ROUTING_HISTOGRAM, .waves = run->waves,
                        .layers = w->m.layers, .ranks = run->cp,
                        .experts = w->m.experts};
    int64_t l, q, per_rank = w->m.experts / run->ep;
    int64_t n = r.waves * r.layers;

    r.rows = calloc((size_t)(n * r.ranks * r.experts), sizeof *r.rows);
    for (l = 0; r.rows != NULL && l < n; l++)   /* of one wave, then more */
        for (q = 0; q < run->cp; q++)
            r.rows[(l * r.ranks + q) * r.experts + q % run->ep * per_rank] =
                o->received[l * run->cp + q];
    return r;
}

static void dry_rank(const struct world *w, const struct run *run,
                     const struct plan *p, const struct routing *routing,
                     const struct outcome *want, int64_t rank)
{
    struct step_config c = world_config(w, run, p, rank);
    struct dev_options o = {.act = run->act};
    struct mem_config mc = {0};
    struct mem_stats st;
    struct step_result res;
    struct step *s = NULL;
    struct dev *d;
    struct mem *m;
    struct err e;
    int64_t i;

    c.routing = routing;
    world_need(dev_dry.open(&o, &d, &e), &e);
    world_need(mem_new(&mc, d->source, &m, &e), &e);
    world_need(step_new(&c, d, m, NULL, &s, &e), &e);
    for (i = 0; i < run->waves; i++)
        world_need(step_wave(s, i, NULL, &res, &e), &e);
    mem_stats(m, &st);
    assert_int_equal(st.events, want->stats[rank].events);
    assert_int_equal(st.fingerprint, want->stats[rank].fingerprint);
    assert_int_equal(st.allocated_peak, want->stats[rank].allocated_peak);
    assert_int_equal(res.peak.allocated, want->res[rank].peak.allocated);
    assert_memory_equal(res.peak.by, want->res[rank].peak.by,
                        sizeof res.peak.by);
    assert_int_equal(res.records_bytes, want->res[rank].records_bytes);
    assert_int_equal(res.hybridep_bytes, want->res[rank].hybridep_bytes);
    step_free(s);
    mem_free_all(m);
    d->ops->close(d);
}

static void test_dry_is_the_same(void **state)
{
    static const struct run runs[] = {
        {.cp = 1, .ep = 1, .lora = 4}, {.cp = 2, .ep = 1, .lora = 8},
        {.cp = 2, .ep = 2, .lora = 1}, {.cp = 2, .ep = 2, .lora = 0},
        {.cp = 2, .ep = 2, .lora = 8, .cut = 1}, {.cp = 4, .ep = 4, .lora = 4},
        {.cp = 4, .ep = 2, .lora = 8}, {.cp = 8, .ep = 4, .lora = 1},
        {.cp = 8, .ep = 2, .lora = 8, .learning_rate = 1e-3},
        {.cp = 2, .ep = 2, .lora = 8, .learning_rate = 1e-3},
    };
    static const enum dtype act[] = {DT_F64, DT_F32, DT_BF16};
    size_t i;
    int64_t rank;

    (void)state;
    for (i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct run run = runs[i];
        struct plan_options po = {.cp = run.cp, .ep = run.ep, .tp = 1,
                                  .profile = PLAN_NEW, .owned_ms = -1,
                                  .cut_rows = run.cut};
        struct outcome o;
        struct routing routing;
        struct plan p = {0};
        struct err e;

        run.act = act[i % 3];
        run.waves = 2;
        world_run(&forked, &run, &o);
        routing = recorded(&forked, &run, &o);
        world_need(plan_make(&forked.m, &forked.b, &po, &p, &e), &e);
        for (rank = 0; rank < run.cp; rank++)
            dry_rank(&forked, &run, &p, &routing, &o, rank);
        plan_free(&p);
        free(routing.rows);
        outcome_free(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_splits_of_trees),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_derivatives),
        cmocka_unit_test(test_warm_repeats),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_dry_is_the_same),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
