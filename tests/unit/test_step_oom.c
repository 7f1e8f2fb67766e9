/* One of two ranks runs out of memory: both end, with its name, at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "failing_source.h"
#include "step_world.h"

struct rank {
    const struct world *w;
    struct step_config c;
    struct comm *comm;
    struct failing f;
    pthread_t thread;
    int rc;
    struct err e;
};

/* From opening the device to closing it, whatever happens between. */
static void *rank_life(void *arg)
{
    struct rank *r = arg;
    struct step_data data = {.ids = r->w->ids, .target = r->w->target,
                             .weight = r->w->weight};
    struct dev_options o = {.act = DT_F32, .rank = (int)r->c.rank};
    struct mem_config mc = {0};
    struct step_result res;
    struct step *s = NULL;
    struct dev *d;
    struct mem *m;

    world_need(dev_cpu.open(&o, &d, &r->e), &r->e);
    r->f.inner = d->source;
    d->source = (struct mem_source){&r->f, failing_get, failing_put};
    world_need(mem_new(&mc, d->source, &m, &r->e), &r->e);
    r->rc = step_new(&r->c, d, m, r->comm, &s, &r->e);
    if (r->rc == ERR_OK) r->rc = step_wave(s, 0, &data, &res, &r->e);
    step_free(s);
    mem_free_all(m);
    d->ops->close(d);
    return NULL;
}

/* Rank 1 gets n segments; true when that was enough. */
static bool enough(const struct world *w, const struct plan *p,
                   const struct run *run, int64_t n)
{
    struct rank r[2] = {{.f = {.left = INT64_MAX}}, {.f = {.left = n}}};
    struct comm *comm[2];
    struct err e;
    int i;

    world_need(comm_local(2, WORLD_DEADLINE_MS, comm, &e), &e);
    for (i = 0; i < 2; i++) {
        r[i].w = w;
        r[i].c = world_config(w, run, p, i);
        r[i].comm = comm[i];
        pthread_create(&r[i].thread, NULL, rank_life, &r[i]);
    }
    for (i = 0; i < 2; i++) pthread_join(r[i].thread, NULL);
    for (i = 0; i < 2; i++) comm[i]->ops->close(comm[i]);
    for (i = 0; i < 2; i++) assert_int_equal(r[i].f.live, 0);
    if (r[1].rc == ERR_OK && r[0].rc == ERR_OK) return true;
    assert_int_equal(r[1].rc, ERR_OOM);
    assert_int_equal(r[0].rc, ERR_RUN);
    if (strstr(r[0].e.text, "rank 1") == NULL)
        fail_msg("segment %d: rank 0 says \"%s\"", (int)n, r[0].e.text);
    return false;
}

static void test_one_rank_fails(void **state)
{
    static const int64_t parent[] = {-1, -1}, tokens[] = {40, 9};
    struct run run = {.cp = 2, .ep = 2, .lora = 2};
    struct plan_options o = {.cp = 2, .ep = 2, .tp = 1, .profile = PLAN_NEW,
                             .owned_ms = -1, .cut_rows = 30};
    struct plan p = {0};
    struct world w;
    struct err e;
    int64_t n = 0;

    (void)state;
    world_new(&w, world_hybrid, parent, tokens, 2);
    world_need(plan_make(&w.m, &w.b, &o, &p, &e), &e);
    while (!enough(&w, &p, &run, n)) assert_true(++n < 1000);
    assert_true(n >= 8);
    plan_free(&p);
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
