/*
** Ranks as threads: small waves that a race detector can follow, and a rank
** that fails at any of its exchanges, which ends the others at once.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "step_world.h"

/* A root of 20 rows that forks, and a lone sequence. */
static const int64_t fork[] = {-1, 0, 0, -1}, fork_tokens[] = {20, 3, 9, 8};

/* Two waves with an optimizer on two ranks and on four: losses as on one. */
static void test_ranks(void **state)
{
    static const struct { int64_t cp, ep; } shape[] = {{2, 1}, {2, 2}, {4, 4}};
    struct run run = {.cp = 1, .ep = 1, .lora = 2, .act = DT_F64,
                      .waves = 2, .learning_rate = 1e-3, .forced = true};
    struct outcome want, got;
    struct world w;
    size_t i;

    (void)state;
    world_new(&w, world_hybrid, fork, fork_tokens, 4);
    world_run(&w, &run, &want);
    for (i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        run.cp = shape[i].cp;
        run.ep = shape[i].ep;
        world_run(&w, &run, &got);
        if (!(fabs(got.loss - want.loss) < 1e-9))
            fail_msg("cp %d, ep %d: loss %.12g, not %.12g", (int)run.cp,
                     (int)run.ep, got.loss, want.loss);
        outcome_free(&got);
    }
    outcome_free(&want);
    world_free(&w);
}

/* ---- a rank that fails -------------------------------------------------- */

/* A communicator that fails at its n-th exchange. */
struct failing {
    struct comm comm;           /* first, so that it can be taken for one */
    struct comm *inner;
    int64_t left;
};

static bool fails(struct comm *c, struct err *e)
{
    struct failing *f = (struct failing *)c;

    if (f->left-- > 0) return false;
    err_set(e, ERR_RUN, "planted");
    return true;
}

static struct comm *inner(struct comm *c)
{
    return ((struct failing *)c)->inner;
}

static int all_to_all(struct comm *c, struct dev *d, const char *what,
                      const struct comm_part *send,
                      const struct comm_part *recv, struct err *e)
{
    return fails(c, e) ? ERR_RUN : inner(c)->ops->all_to_all(
        inner(c), d, what, send, recv, e);
}

static int all_reduce(struct comm *c, struct dev *d, const char *what,
                      struct mat x, int every, struct err *e)
{
    return fails(c, e) ? ERR_RUN : inner(c)->ops->all_reduce(
        inner(c), d, what, x, every, e);
}

static int gather_counts(struct comm *c, const char *what,
                         const int64_t *mine, int64_t n, int64_t *all,
                         struct err *e)
{
    return fails(c, e) ? ERR_RUN : inner(c)->ops->gather_counts(
        inner(c), what, mine, n, all, e);
}

static void fail_abort(struct comm *c, const char *why)
{
    inner(c)->ops->abort(inner(c), why);
}

static void fail_close(struct comm *c)
{
    inner(c)->ops->close(inner(c));
}

static const struct comm_ops failing_ops = {
    .name = "failing", .all_to_all = all_to_all, .all_reduce = all_reduce,
    .gather_counts = gather_counts, .abort = fail_abort, .close = fail_close
};

static void *wave_main(void *arg)
{
    struct world_rank *r = arg;
    const struct world *w = r->all->w;
    struct step_data d = {.ids = w->ids, .target = w->target,
                          .weight = w->weight};

    r->rc = step_wave(r->s, 0, &d, &r->res, &r->e);
    return NULL;
}

/* Rank 1 fails at its n-th exchange; false when it has no so many. */
static bool fails_at(const struct world *w, int64_t n)
{
    struct run run = {.cp = 2, .ep = 2, .lora = 2, .act = DT_F32};
    struct session *x = world_open(w, &run);
    struct failing f = {{&failing_ops, 1, 2}, x->r[1].comm, n};
    bool failed;
    int i;

    x->r[1].s->comm = &f.comm;
    for (i = 0; i < 2; i++)
        pthread_create(&x->r[i].thread, NULL, wave_main, &x->r[i]);
    for (i = 0; i < 2; i++) pthread_join(x->r[i].thread, NULL);
    failed = x->r[1].rc != ERR_OK;
    assert_int_equal(x->r[0].rc, x->r[1].rc);
    if (failed) {
        assert_int_equal(x->r[1].rc, ERR_RUN);
        assert_string_equal(x->r[1].e.text, "planted");
        if (strstr(x->r[0].e.text, "rank 1") == NULL ||
            strstr(x->r[0].e.text, "planted") == NULL)
            fail_msg("exchange %d: rank 0 says \"%s\"", (int)n,
                     x->r[0].e.text);
    }
    world_close(x);
    return failed;
}

static void test_every_exchange_fails(void **state)
{
    static const int64_t parent[] = {-1}, tokens[] = {9};
    struct world w;
    int64_t n = 0;

    (void)state;
    world_new(&w, world_small, parent, tokens, 1);
    while (fails_at(&w, n)) assert_true(++n < 10000);
    assert_true(n > 20);
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_every_exchange_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
