/*
** test_plan_fault.c - every host allocation fails once while sequences and
** their tree are read, a wave is packed, planned, kept and printed.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fault.h"
#include "plan/cache.h"
#include "plan/exact.h"
#include "plan_moe35.h"

#define DATA "lua/data/tau-airline-"

static int plan_one(struct corpus *c, const int64_t *pick, int64_t n,
                    enum plan_profile profile, struct err *e)
{
    struct plan_options o = {.cp = 3, .profile = profile, .owned_ms = -1};
    struct plan_cache *cache = NULL;
    const struct plan *p;
    struct batch b = {0};
    int rc = corpus_batch(c, pick, n, &b, e);

    if (rc == ERR_OK) rc = plan_cache_new(2, &cache, e);
    if (rc == ERR_OK) rc = plan_cache_get(cache, &moe35, &b, &o, &p, e);
    if (rc == ERR_OK) rc = plan_cache_get(cache, &moe35, &b, &o, &p, e);
    plan_cache_free(cache);
    batch_free(&b);
    return rc;
}

static int run(enum plan_profile profile, struct err *e)
{
    int64_t pick[40], *first = NULL, waves, i;
    struct corpus *c = NULL;
    char *tree = NULL;
    int rc = corpus_find_tree(DATA "sequences.csv", &tree, e);

    if (rc == ERR_OK)
        rc = corpus_load(DATA "sequences.csv", tree, &c, e);
    free(tree);
    for (i = 0; i < 40; i++) pick[i] = i;
    if (rc == ERR_OK) rc = corpus_pack(c, pick, 40, 97000, &first, &waves, e);
    if (rc == ERR_OK) rc = plan_one(c, pick, first[1], profile, e);
    free(first);
    corpus_free(c);
    return rc;
}

static void every_allocation_fails_once(void **state)
{
    enum plan_profile profile;
    struct err e;
    size_t n;

    (void)state;
    for (profile = PLAN_OLD; profile <= PLAN_NEW; profile++) {
        for (n = 1;; n++) {
            int rc;
            fault_set(n);
            rc = run(profile, &e);
            if (!fault_reached()) {
                assert_int_equal(rc, ERR_OK);
                break;
            }
            assert_int_equal(rc, ERR_RUN);
            assert_string_equal(e.text, "out of host memory");
        }
        assert_in_range(n, 20, 2000);
    }
}

/* Lists too long for a block that is there already, so that each asks for
** memory of its own: the owners of many chunks, by many ranks. */
static void ownership_says_so(void **state)
{
    enum { CHUNKS = 5000 };
    static int64_t start[CHUNKS + 1];
    static uint8_t owner[CHUNKS], round[CHUNKS];
    const struct chunks c = {.n = CHUNKS, .start = start};
    const struct layout l = {.owner = owner, .round = round, .rounds = 1};
    struct ownership o;
    bool made = false;
    size_t n;
    int64_t i;

    (void)state;
    for (i = 0; i <= CHUNKS; i++) start[i] = i;
    for (i = 0; i < CHUNKS; i++) owner[i] = (uint8_t)(i % 2);
    for (n = 1; !made; n++) {
        struct arena a = ARENA_INIT;

        fault_set(n);
        made = ownership_make(&c, &l, CHUNKS, &a, &o);
        assert_int_equal(made, !fault_reached());
        if (made) assert_int_equal(o.n_region, CHUNKS);
        arena_free(&a);
    }
    assert_in_range(n, 6, 12);
}

static int load(void **state)
{
    fault_set(0);
    return moe35_load(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails_once),
        cmocka_unit_test(ownership_says_so),
    };
    return cmocka_run_group_tests(tests, load, moe35_free);
}
