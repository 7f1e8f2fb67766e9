/*
** A case of lua/scenarios/tiny-cpu.lua on the cpu device, for tests of
** src/run.
*/
#ifndef TESTS_RUN_BENCH_H
#define TESTS_RUN_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "run/ranks.h"

static atomic_int interrupt;
static struct scenario *tiny;

static inline int setup(void **state)
{
    struct scenario_limits limits = {0};
    struct err e;

    (void)state;
    return scenario_load("lua/scenarios/tiny-cpu.lua", "lua", NULL, 0,
                         &limits, &tiny, &e);
}

static inline int teardown(void **state)
{
    (void)state;
    scenario_free(tiny);
    return 0;
}

static inline int64_t case_of(const char *name)
{
    int64_t i = 0;

    while (i < tiny->n_case && strcmp(tiny->kase[i].name, name) != 0) i++;
    assert_true(i < tiny->n_case);
    return i;
}

struct bench {
    struct run_context x;
    struct run_work w;
    struct scenario_case c;     /* a copy to change */
    struct plan plan;
};

static inline void bench_open(struct bench *b, const char *name)
{
    struct plan_options o = {.tp = 1, .profile = PLAN_NEW, .owned_ms = -1};
    struct err e;

    memset(b, 0, sizeof *b);
    b->x = (struct run_context){.device = "cpu", .ops = &dev_cpu,
                                .interrupt = &interrupt};
    b->c = tiny->kase[case_of(name)];
    b->w.x = &b->x;
    b->w.s = tiny;
    b->w.c = &b->c;
    o.cp = b->c.cp;
    o.ep = b->c.ep;
    assert_int_equal(model_load(b->c.model_path, 0, &b->w.model, &e), 0);
    assert_int_equal(plan_make(&b->w.model, &b->c.batch, &o, &b->plan, &e),
                     0);
    b->w.plan = &b->plan;
}

static inline void bench_close(struct bench *b)
{
    plan_free(&b->plan);
    model_free(&b->w.model);
}

#endif
