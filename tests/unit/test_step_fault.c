/* The n-th host allocation fails, for every n: ERR_RUN, nothing leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fault.h"
#include "step/executor_check.h"
#include "step_world.h"

static struct world world;
static struct plan plan;

static int setup(void **state)
{
    static const int64_t parent[] = {-1, 0, 0}, tokens[] = {40, 9, 20};
    struct plan_options o = {.cp = 2, .ep = 2, .tp = 1, .profile = PLAN_NEW,
                             .owned_ms = -1, .cut_rows = 30};
    struct err e;

    (void)state;
    world_new(&world, world_hybrid, parent, tokens, 3);
    world_need(plan_make(&world.m, &world.b, &o, &plan, &e), &e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    plan_free(&plan);
    world_free(&world);
    return 0;
}

/* A rank's step on dry, from nothing to nothing. */
static int dry_life(const struct step_config *c, struct err *e)
{
    struct dev_options o = {.act = DT_F32};
    struct mem_config mc = {0};
    struct step_result res;
    struct step *s = NULL;
    struct mem *m = NULL;
    struct dev *d;
    int rc = dev_dry.open(&o, &d, e);

    if (rc != ERR_OK) return rc;
    rc = mem_new(&mc, d->source, &m, e);
    if (rc == ERR_OK) rc = step_new(c, d, m, NULL, &s, e);
    if (rc == ERR_OK) rc = step_wave(s, 0, NULL, &res, e);
    step_free(s);
    mem_free_all(m);
    d->ops->close(d);
    return rc;
}

static void test_step(void **state)
{
    static const struct routing even = {.kind = ROUTING_BALANCED};
    struct run run = {.cp = 2, .ep = 2, .lora = 2};
    struct step_config c = world_config(&world, &run, &plan, 1);
    struct err e;
    size_t n = 0;
    int rc;

    (void)state;
    c.routing = &even;
    do {
        fault_set(++n);
        rc = dry_life(&c, &e);
        if (fault_reached()) assert_int_equal(rc, ERR_RUN);
    } while (fault_reached());
    assert_int_equal(rc, ERR_OK);
    assert_true(n > 20);
    fault_set(0);
}

static void test_executor_records(void **state)
{
    struct stage st = {.local = true, .q = 5, .k = 5, .q_len = 128,
                       .k_len = 128};
    int64_t bytes;
    struct err e;
    size_t n = 0;
    int rc;

    (void)state;
    do {
        fault_set(++n);
        rc = executor_records(&world.m, &st, 1, 7, 16, 8, &bytes, &e);
        if (fault_reached()) assert_int_equal(rc, ERR_RUN);
    } while (fault_reached());
    assert_int_equal(rc, ERR_OK);
    fault_set(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_executor_records),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
