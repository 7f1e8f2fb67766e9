/*
** test_dev_threads.c - ranks are threads, each with a device of its own:
** several at once compute the same bits as one alone.
*/
#include "dev_fixture.h"

#include <pthread.h>

enum { RANKS = 4, ROUNDS = 3, T = 150, HEADS = 4, D = 16, W = HEADS * D };

/* What one rank computes; the inputs are the same for all. */
struct rank {
    struct fix f;
    struct mat q, k, v, g, beta, out, lse, dq, dk, dv, o, g_cum, x, c;
};

static void rank_open(struct rank *r)
{
    struct fix *f = &r->f;

    fix_open(f, DT_F32);
    r->q = fix_in(f, "q", T, W, 1, 0);
    r->k = fix_in(f, "k", T, W, 0.25, 0);
    r->v = fix_in(f, "v", T, W, 1, 0);
    r->g = fix_in_acc(f, "g", T, HEADS, 0.1, -0.1);
    r->beta = fix_in_acc(f, "beta", T, HEADS, 0.5, 0.5);
    r->out = fix_act(f, T, W);
    r->lse = fix_acc(f, T, HEADS);
    r->dq = fix_act(f, T, W);
    r->dk = fix_acc(f, T, W);
    r->dv = fix_acc(f, T, W);
    r->o = fix_act(f, T, W);
    r->g_cum = fix_acc(f, T, HEADS);
    r->x = fix_act(f, T, HEADS * 64);
    r->c = fix_act(f, T, T);
}

/* No assertion here: cmocka's belong to the first thread. */
static void *rank_run(void *arg)
{
    static const struct slice s = {0, T, 0, T, 0, true};
    static const struct dev_piece p = {0, T, -1, -1};
    struct rank *r = arg;
    struct fix *f = &r->f;
    int i, rc = 0;

    for (i = 0; i < ROUNDS; i++) {
        rc |= CALL_RC(f, attention, .out = r->out, .lse = r->lse, .q = r->q,
                      .k = r->k, .v = r->v, .heads = HEADS, .kv_heads = HEADS,
                      .scale = 0.25, .slice = &s, .n_slice = 1);
        rc |= CALL_RC(f, attention_bwd, .dq = r->dq, .dk = r->dk, .dv = r->dv,
                      .q = r->q, .k = r->k, .v = r->v, .out = r->out,
                      .lse = r->lse, .dout = r->v, .heads = HEADS,
                      .kv_heads = HEADS, .scale = 0.25, .slice = &s,
                      .n_slice = 1);
        rc |= CALL_RC(f, delta, .o = r->o, .g_cum = r->g_cum, .x = r->x,
                      .q = r->q, .k = r->k, .v = r->v, .g = r->g,
                      .beta = r->beta, .heads = HEADS, .k_dim = D, .v_dim = D,
                      .scale = 0.25, .piece = &p, .n_piece = 1);
        rc |= CALL_RC(f, gemm, .c = r->c, .a = r->q, .b = r->k,
                      .trans_b = true, .alpha = 1);
    }
    return rc == ERR_OK ? r : NULL;
}

static void test_ranks(void **state)
{
    struct rank *rank = calloc(RANKS + 1, sizeof *rank), *one;
    pthread_t thread[RANKS];
    void *done;
    int i;

    (void)state;
    assert_non_null(rank);
    one = &rank[RANKS];
    for (i = 0; i <= RANKS; i++) rank_open(&rank[i]);
    assert_ptr_equal(rank_run(one), one);
    for (i = 0; i < RANKS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, rank_run, &rank[i]),
                         0);
    for (i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_join(thread[i], &done), 0);
        assert_ptr_equal(done, &rank[i]);
        fix_equal("out", rank[i].out, one->out);
        fix_equal("dq", rank[i].dq, one->dq);
        fix_equal("dk", rank[i].dk, one->dk);
        fix_equal("o", rank[i].o, one->o);
        fix_equal("c", rank[i].c, one->c);
    }
    for (i = 0; i <= RANKS; i++) fix_close(&rank[i].f);
    free(rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranks)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
