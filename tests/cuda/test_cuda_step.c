/*
** test_cuda_step.c - the whole step on the emulated cuda device: the losses
** and gradients of the cpu device, for one rank and several, with forks and
** with cuts; the allocations of the dry device, one by one.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../emu/control.h"
#include "../unit/step_world.h"

extern const struct dev_ops cu_ops;

/* A root with two children, one that forks again, and a lone one. */
static const int64_t forks[] = {-1, 0, 0, -1, 3, 3, 4, -1};
static const int64_t fork_tokens[] = {67, 5, 2, 6, 3, 7, 4, 1};
static const int64_t few_tokens[] = {7, 5, 2, 6, 3, 7, 4, 1};

static struct world forked, small;

static int setup(void **state)
{
    (void)state;
    world_new(&forked, world_hybrid, forks, fork_tokens, 8);
    world_new(&small, world_small, forks, few_tokens, 8);
    emu_set_order(EMU_SHUFFLED, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_free(&forked);
    world_free(&small);
    return 0;
}

static double value_of(double x)
{
    return isnan(x) ? 1e9 : fabs(x);
}

/* Routes are replayed: a tie decided otherwise is no error. f32: model.md
** section 6, rows 11 to 13. */
static void test_losses(void **state)
{
    static const struct run runs[] = {
        {.cp = 1, .ep = 1, .lora = 4}, {.cp = 2, .ep = 1, .lora = 4},
        {.cp = 2, .ep = 2, .lora = 4, .cut = 70}, {.cp = 4, .ep = 2, .lora = 4},
        {.cp = 8, .ep = 4, .lora = 4},
    };
    static const struct world *const worlds[] = {&forked, &small, &forked,
                                                 &small, &forked};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct run run = runs[i];
        const struct world *w = worlds[i];
        struct outcome want, got;
        int64_t r;

        run.act = DT_F32;
        run.waves = 1;
        run.forced = true;
        world_run(w, &run, &want);
        run.device = &cu_ops;
        world_run(w, &run, &got);
        if (!(value_of(got.loss - want.loss) < 1e-5))
            fail_msg("run %zu: loss %.9g, not %.9g", i, got.loss, want.loss);
        if (!(world_distance(&got, &want) < 1e-4))
            fail_msg("run %zu: gradients off by %g", i,
                     world_distance(&got, &want));
        for (r = 0; r < run.cp; r++) {
            assert_int_equal(got.stats[r].events, want.stats[r].events);
            assert_int_equal(got.stats[r].fingerprint,
                             want.stats[r].fingerprint);
        }
        outcome_free(&want);
        outcome_free(&got);
    }
    assert_int_equal(emu_held_bytes(), 0);
    assert_int_equal(emu_open_handles(), 0);
}

static double cosine(const struct outcome *a, const struct outcome *b)
{
    double ab = 0, aa = 0, bb = 0;
    int64_t i;

    assert_int_equal(a->n_grad, b->n_grad);
    for (i = 0; i < a->n_grad; i++) {
        ab += a->grad[i] * b->grad[i];
        aa += a->grad[i] * a->grad[i];
        bb += b->grad[i] * b->grad[i];
    }
    return ab / sqrt(aa * bb);
}

/* bf16 rounds every tensor between operators, on either device: the gradient
** of this small model turns by some degrees away from f32's. The cuda device
** must not turn it further than the cpu device does. */
static void test_bf16(void **state)
{
    struct run run = {.cp = 1, .ep = 1, .lora = 4, .act = DT_F32, .waves = 1,
                      .forced = true};
    struct outcome f32, cpu, cuda;
    double near, far;

    (void)state;
    world_run(&forked, &run, &f32);
    run.act = DT_BF16;
    world_run(&forked, &run, &cpu);
    run.device = &cu_ops;
    world_run(&forked, &run, &cuda);
    assert_true(value_of(cuda.loss / cpu.loss - 1) < 1e-2);
    near = cosine(&cuda, &f32);
    far = cosine(&cpu, &f32);
    if (!(near > far - 0.005))
        fail_msg("cosine with f32: cuda %.6f, cpu %.6f", near, far);
    outcome_free(&f32);
    outcome_free(&cpu);
    outcome_free(&cuda);
}

/* ---- the same sequence of events on dry --------------------------------- */

static struct routing recorded(const struct world *w, const struct run *run,
                               const struct outcome *o)
{
    struct routing r = {.kind = ROUTING_HISTOGRAM, .waves = run->waves,
                        .layers = w->m.layers, .ranks = run->cp,
                        .experts = w->m.experts};
    int64_t l, q, per_rank = w->m.experts / run->ep;
    int64_t n = r.waves * r.layers;

    r.rows = calloc((size_t)(n * r.ranks * r.experts), sizeof *r.rows);
    if (r.rows == NULL) abort();
    for (l = 0; l < n; l++)
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
    step_free(s);
    mem_free_all(m);
    d->ops->close(d);
}

/* Chosen routes, two waves, an optimizer. */
static void test_dry_is_the_same(void **state)
{
    struct run run = {.cp = 2, .ep = 2, .lora = 4, .act = DT_F32, .waves = 2,
                      .learning_rate = 1e-3, .device = &cu_ops};
    struct plan_options po = {.cp = 2, .ep = 2, .tp = 1,
                              .profile = PLAN_NEW, .owned_ms = -1};
    struct outcome o;
    struct routing routing;
    struct plan p = {0};
    struct err e;
    int64_t rank;

    (void)state;
    world_run(&small, &run, &o);
    routing = recorded(&small, &run, &o);
    world_need(plan_make(&small.m, &small.b, &po, &p, &e), &e);
    for (rank = 0; rank < run.cp; rank++)
        dry_rank(&small, &run, &p, &routing, &o, rank);
    plan_free(&p);
    free(routing.rows);
    outcome_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses), cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_dry_is_the_same),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
