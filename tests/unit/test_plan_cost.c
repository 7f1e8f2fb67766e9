/* The cost model: attention scores against a plain one that walks tokens and
** chunk pairs, GDN scores against worked examples (planner.md 7.9, 8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/gdn.h"
#include "plan_draw.h"
#include "plan_moe35.h"

#define MAX_TOKENS 96
#define MAX_CHUNKS MAX_TOKENS

static void assert_near(double x, double want, double eps)
{
    if (!(fabs(x - want) <= eps))
        fail_msg("PEAKPROOF_SEED=%llu: %.12g is not %.12g",
                 (unsigned long long)seed, x, want);
}

/* ---- a plain scorer: planner.md 4 line by line -------------------------- */

struct naive {
    const struct attention_config *c;
    const struct chunks *chunks;
    const struct layout *l;
    int64_t cp;
    double pairs[MAX_CHUNKS][MAX_CHUNKS];
};

static void count_pairs(struct naive *n, const struct batch *b)
{
    int64_t q, k;

    memset(n->pairs, 0, sizeof n->pairs);
    for (q = 0; q < b->tokens; q++)
        for (k = 0; k < b->tokens; k++)
            n->pairs[chunk_of(n->chunks, q)][chunk_of(n->chunks, k)] +=
                visible(b, q, k);
}

/* Rows and runs of the chunks in a mask. */
static void stats(const struct naive *n, const bool *mask, int64_t *rows,
                  int64_t *ranges)
{
    int64_t j;

    for (j = 0; j < n->chunks->n; j++) {
        if (!mask[j]) continue;
        *rows += chunk_rows(n->chunks, j);
        *ranges += j == 0 || !mask[j - 1];
    }
}

/* Chunks of owner s in round v (-1: any) that rank r's queries see. */
static void key_mask(const struct naive *n, int64_t r, int64_t s, int64_t v,
                     bool *mask)
{
    int64_t i, j;

    for (j = 0; j < n->chunks->n; j++) {
        mask[j] = false;
        if (n->l->owner[j] != s || (v >= 0 && n->l->round[j] != v)) continue;
        for (i = 0; i < n->chunks->n; i++)
            mask[j] = mask[j] || (n->l->owner[i] == r && n->pairs[i][j] > 0);
    }
}

/* pairs, q and q_ranges of rank r's queries with the keys of a mask. */
static void query_load(const struct naive *n, int64_t r, const bool *keys,
                       struct stage_load *load)
{
    bool q[MAX_CHUNKS] = {false};
    int64_t i, j;

    for (i = 0; i < n->chunks->n; i++)
        for (j = 0; j < n->chunks->n; j++)
            if (n->l->owner[i] == r && keys[j] && n->pairs[i][j] > 0) {
                q[i] = true;
                load->pairs += n->pairs[i][j];
            }
    stats(n, q, &load->q, &load->q_ranges);
}

static bool round_load(const struct naive *n, int64_t r, int64_t v,
                      struct stage_load *load, int64_t *rows, int64_t *ranges)
{
    bool keys[MAX_CHUNKS] = {false}, sent[MAX_CHUNKS] = {false};
    bool mask[MAX_CHUNKS];
    int64_t s, j, send = 0, send_ranges = 0;

    *load = (struct stage_load){0};
    for (s = 0; s < n->cp; s++) {
        if (s == r) continue;
        key_mask(n, r, s, v, mask);
        stats(n, mask, &load->k, &load->k_ranges);
        for (j = 0; j < n->chunks->n; j++) keys[j] = keys[j] || mask[j];
        key_mask(n, s, r, v, mask);
        stats(n, mask, &send, &send_ranges);
        for (j = 0; j < n->chunks->n; j++) sent[j] = sent[j] || mask[j];
    }
    query_load(n, r, keys, load);
    stats(n, sent, &send, &send_ranges);
    *rows = send > load->k ? send : load->k;
    *ranges = send_ranges > load->k_ranges ? send_ranges : load->k_ranges;
    return load->pairs > 0 || load->k > 0 || load->k_ranges > 0;
}

static double naive_direction(const struct naive *n, int64_t r, bool backward)
{
    double stage[PLAN_MAX_ROUNDS], comm[PLAN_MAX_ROUNDS];
    double local = 0, t, done = 0;
    struct stage_load load = {0};
    int64_t v, rows, ranges, w = 0, i;
    bool own[MAX_CHUNKS];

    key_mask(n, r, r, -1, own);
    query_load(n, r, own, &load);
    stats(n, own, &load.k, &load.k_ranges);
    if (load.pairs > 0) local = plan_stage_cost(n->c, backward, false, &load);
    for (v = 0; v < n->l->rounds; v++) {
        if (!round_load(n, r, v, &load, &rows, &ranges)) continue;
        stage[w] = plan_stage_cost(n->c, backward, true, &load);
        comm[w++] = plan_comm_cost(n->c, backward ? n->c->reduce : n->c->fetch,
                                   rows, ranges);
    }
    if (!backward) {
        double ready = w > 0 ? comm[0] : 0;
        for (t = local, i = 0; i < w; i++) {
            double start = fmax(t, ready);
            if (i + 1 < w) ready = start + comm[i + 1];
            t = start + stage[i];
        }
        return t;
    }
    for (t = 0, i = 0; i < w; i++) {
        t += stage[i];
        done = fmax(done, t + comm[i]);
    }
    return fmax(t + local, done);
}

static double naive_rank(const struct naive *n, int64_t r)
{
    int64_t own = 0, j;

    for (j = 0; j < n->chunks->n; j++)
        if (n->l->owner[j] == r) own += chunk_rows(n->chunks, j);
    return naive_direction(n, r, false) + naive_direction(n, r, true)
         + (double)own * n->c->owned;
}

/* ---- random layouts ----------------------------------------------------- */

static struct batch random_batch(void)
{
    int64_t parent[12], tokens[12], n = pick(1, 12), i;
    struct batch b;
    struct err e;

    for (i = 0; i < n; i++) {
        parent[i] = pick(-1, i - 1);
        tokens[i] = pick(1, 8);
    }
    assert_int_equal(batch_from_tree(parent, tokens, n, &b, &e), ERR_OK);
    return b;
}

static void one_score(struct naive *n)
{
    struct batch b = random_batch();
    struct plan_options o = {.cp = pick(1, 6), .ep = 1, .tp = 1,
                             .owned_ms = -1,
                             .profile = pick(0, 1) ? PLAN_NEW : PLAN_OLD};
    uint8_t owner[MAX_CHUNKS], round[MAX_CHUNKS];
    double ms[PLAN_MAX_RANKS];
    struct layout l = {owner, round, 1, 0};
    struct arena a = ARENA_INIT;
    struct plan_work work = {0};
    struct plan_config c;
    struct chunks chunks = {0};
    struct search s;
    int64_t j, r;

    plan_configure(&moe35, &o, &c);
    c.attention.chunk = pick(1, 9);
    c.attention.block = 1;
    c.attention.fetch = (double)pick(0, 3) * 0.1;
    assert_true(chunks_cut(&c.attention, b.tokens, o.cp, &a, &chunks));
    assert_true(chunks_count_pairs(&chunks, &b, &a, &work));
    assert_true(search_init(&s, &c.attention, &chunks, o.cp, &a, &work));
    search_set_rounds(&s, &l, pick(1, PLAN_MAX_ROUNDS));
    for (j = 0; j < chunks.n; j++)
        owner[j] = (uint8_t)(j > 0 && pick(0, 1) ? owner[j - 1]
                                                 : pick(0, o.cp - 1));
    *n = (struct naive){.c = &c.attention, .chunks = &chunks, .l = &l,
                        .cp = o.cp};
    count_pairs(n, &b);
    for (j = 0; j < chunks.n; j++)
        for (r = 0; r < chunks.n; r++)
            assert_true((double)pairs_in(&chunks, j, j + 1, r, r + 1) ==
                        n->pairs[j][r]);
    search_score(&s, &l, ms);
    for (r = 0; r < o.cp; r++) assert_near(ms[r], naive_rank(n, r), 1e-9);
    arena_free(&a);
    batch_free(&b);
}

static void scores_match_the_plain_scorer(void **state)
{
    const char *replay = getenv("PEAKPROOF_SEED");
    struct naive *n = malloc(sizeof *n);
    int64_t i;

    (void)state;
    assert_non_null(n);
    for (i = 0; i < 2000; i++) {
        seed = replay != NULL ? strtoull(replay, NULL, 10)
                              : 0xc057000u + (uint64_t)i;
        rng_state = seed;
        one_score(n);
    }
    free(n);
}

/* ---- constants ---------------------------------------------------------- */

/* planner.md 4: exactly four numbers tell the profiles apart. */
static void constants_of_the_profiles(void **state)
{
    struct plan_options o = {.cp = 2, .ep = 1, .tp = 1, .owned_ms = -1,
                             .profile = PLAN_OLD};
    struct plan_config old, new;
    struct attention_config *a = &old.attention, *b = &new.attention;

    (void)state;
    plan_configure(&moe35, &o, &old);
    o.profile = PLAN_NEW;
    plan_configure(&moe35, &o, &new);
    assert_true(a->fetch == 0.000287151 && a->reduce == 0.000287151);
    assert_true(b->fetch == 0.00003 && b->reduce == 0.00003);
    assert_true(a->host == 0 && b->host == 1.2);
    assert_true(a->owned == 0 && b->owned > 0);
    assert_true(a->stage == 0.287151 && a->comm == 0.143576);
    assert_true(a->range == 0.11486 && a->merge == 0.00011486);
    assert_true(a->forward.local == 4.5944e-8);
    assert_true(a->forward.remote == 4.8816e-8);
    assert_true(a->backward.local == 1.37832e-7);
    assert_true(a->backward.remote == 1.49318e-7);
    assert_true(a->floor_rows == 4096 && a->floor_pairs == 4e6);
    assert_true(a->underfill == 0.287151 && a->probe_gain == 1.0);
    assert_true(a->block == 128 && a->chunk == 512);
    assert_true(a->budget_base == 128 && a->budget_per_rank == 16);
    a->fetch = b->fetch;
    a->reduce = b->reduce;
    a->host = b->host;
    a->owned = b->owned;
    a->start_by_rows = b->start_by_rows;
    a->adjacent = b->adjacent;
    assert_memory_equal(&a->block, &b->block, 4 * sizeof a->block);
    assert_true(a->stage == b->stage && a->comm == b->comm &&
                a->range == b->range && a->merge == b->merge &&
                a->underfill == b->underfill &&
                a->forward.remote == b->forward.remote);
}

/* planner.md 7.3, at the sizes the rates were measured at. */
static void constants_of_the_delta_net(void **state)
{
    struct plan_options o = {.cp = 2, .ep = 1, .tp = 1, .owned_ms = -1,
                             .profile = PLAN_OLD};
    struct plan_config old, new;
    struct gdn_config *a = &old.gdn, *b = &new.gdn;
    struct model m = moe35;

    (void)state;
    plan_configure(&m, &o, &old);
    o.profile = PLAN_NEW;
    plan_configure(&m, &o, &new);
    assert_true(a->gate == 4 && b->gate == 2);
    assert_true(a->local_rate == 1500 && a->chain_rate == 1400);
    assert_true(a->local_launch == 0.2 && a->chain_launch == 0.2);
    assert_true(b->local_launch == 2.2 && b->chain_launch == 2.2);
    assert_true(a->segment_launch == 0.005 && a->scan == 2 && b->scan == 2.8);
    assert_near(a->summary, 4194304 * 8 / 80e6, 1e-12);
    assert_true(b->summary == 0 && a->summary_rate == 320);
    assert_true(a->scan_rate == 15 && b->scan_rate == 3.5);
    assert_near(a->parent_state, 2146304 / 458.5e6, 1e-6);
    assert_true(a->dense_rate == 0);
    assert_near(b->dense_rate, 771.8, 0.1);
    m.hidden = 2560;
    plan_configure(&m, &o, &new);
    assert_near(b->dense_rate, 617.5, 0.1);
    m.hidden = 5120;
    m.v_heads = 48;
    plan_configure(&m, &o, &new);
    assert_near(b->dense_rate, 224.5, 0.1);
    assert_near(b->local_rate, 1500 * pow(2.0 / 3, 0.75), 1e-9);
}

/* ---- GDN ---------------------------------------------------------------- */

/* Scores of nothing chained and of set, for an attention layout that cuts
** the rows at these starts, one chunk a rank. */
static void gdn_scores(const struct model *m, enum plan_profile profile,
                       const struct batch *b, const int64_t *start, int64_t n,
                       const uint8_t *owner, int64_t cp, uint64_t set,
                       double *plain, double *chained)
{
    struct plan_options o = {.cp = cp, .ep = 1, .tp = 1, .profile = profile,
                             .owned_ms = -1};
    uint8_t round[8] = {0}, own[8];
    struct layout l = {own, round, 1, 0};
    struct arena a = ARENA_INIT;
    struct plan_work work = {0};
    struct ownership held;
    struct plan_config c;
    int64_t starts[9];
    struct chunks chunks = {.n = n, .start = starts};
    uint64_t bits = 0;
    struct chain_set s = {.bits = &bits};
    struct gdn g;

    memcpy(starts, start, (size_t)(n + 1) * sizeof *starts);
    memcpy(own, owner, (size_t)n);
    plan_configure(m, &o, &c);
    assert_true(ownership_make(&chunks, &l, cp, &a, &held));
    assert_true(plan_gdn_init(&g, &c.gdn, b, &chunks, &l, &held, &a, &work));
    *plain = plan_gdn_score(&g, &s);
    bits = set;
    *chained = plan_gdn_score(&g, &s);
    arena_free(&a);
}

static const uint8_t two[] = {0, 0, 0, 1};

static void the_short_sequence(void **state)
{
    static const int64_t n = 2047, start[] = {0, 512, 1024, 1536, 2047};
    struct batch b;
    struct err e;
    double plain, chained;

    (void)state;
    assert_int_equal(batch_from_lengths(&n, 1, &b, &e), ERR_OK);
    gdn_scores(&moe35, PLAN_OLD, &b, start, 4, two, 2, 1, &plain, &chained);
    assert_near(plain, 1.58835, 1e-5);
    assert_near(chained, 3.43938, 1e-5);
    gdn_scores(&moe35, PLAN_NEW, &b, start, 4, two, 2, 1, &plain, &chained);
    assert_near(plain, 6.24044, 1e-5);
    assert_near(chained, 7.36568, 1e-5);
    batch_free(&b);
}

/* Case 4: 27B, a prefix and two branches; chaining the root gains 0.4. */
static void the_dense_pair(void **state)
{
    static const int64_t parent[] = {-1, 0, 0}, tokens[] = {1228, 2868, 2868};
    static const int64_t start[] = {0, 4096, 6964};
    static const uint8_t owner[] = {0, 1};
    struct model m;
    struct batch b;
    struct err e;
    double plain, chained;

    (void)state;
    assert_int_equal(model_load("lua/models/Qwen3.6-27B.json", 0, &m, &e), 0);
    assert_int_equal(batch_from_tree(parent, tokens, 3, &b, &e), ERR_OK);
    gdn_scores(&m, PLAN_NEW, &b, start, 2, owner, 2, 1, &plain, &chained);
    assert_near(plain, 26.891, 5e-4);
    assert_near(chained, 26.490, 5e-4);
    batch_free(&b);
    model_free(&m);
}

/* Cases 14 and 18, on a model like the 35B with hidden 2,560. */
static void four_ranks(void **state)
{
    static const int64_t n = 8192, long_n = 12500;
    static const int64_t even[] = {0, 2048, 4096, 6144, 8192};
    static const int64_t long_even[] = {0, 3072, 6144, 9216, 12500};
    static const uint8_t owner[] = {0, 1, 2, 3};
    struct model m = moe35;
    struct batch b;
    struct err e;
    double plain, chained;

    (void)state;
    m.hidden = 2560;
    assert_int_equal(batch_from_lengths(&n, 1, &b, &e), ERR_OK);
    gdn_scores(&m, PLAN_NEW, &b, even, 4, owner, 4, 1, &plain, &chained);
    assert_true(plain - chained > 2);
    gdn_scores(&m, PLAN_OLD, &b, even, 4, owner, 4, 1, &plain, &chained);
    assert_true(plain - chained <= 4);
    batch_free(&b);
    assert_int_equal(batch_from_lengths(&long_n, 1, &b, &e), ERR_OK);
    gdn_scores(&m, PLAN_OLD, &b, long_even, 4, owner, 4, 1, &plain, &chained);
    assert_true(plain - chained > 3.8 - 0.05 && plain - chained < 4.2 + 0.05);
    batch_free(&b);
}

/* Lengths from which one sequence is chained, old delta-net constants under
** the new attention layout (planner.md 7.9), by steps of 64. */
static void old_chain_thresholds(void **state)
{
    static const struct {
        double owned;
        int64_t hidden, v_heads, from;
        enum plan_profile gdn;
    } set[] = {
        {0.00067633152, 2048, 32, 20736, PLAN_OLD},
        {0.00029884416, 2048, 32, 20864, PLAN_OLD},
        {0, 2048, 32, 20992, PLAN_OLD},
        {0.00067633152, 2560, 32, 20736, PLAN_OLD},
        {0.00067633152, 5120, 48, 15616, PLAN_OLD},
        {0.00067633152, 2560, 32, 4608, PLAN_NEW},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof set / sizeof set[0]; i++) {
        struct plan_options o = {.cp = 2, .ep = 1, .tp = 1,
                                 .owned_ms = set[i].owned};
        struct plan_config c, gdn;
        struct model m = moe35;
        int64_t n;
        m.hidden = set[i].hidden;
        m.v_heads = set[i].v_heads;
        o.profile = set[i].gdn;
        plan_configure(&m, &o, &gdn);
        o.profile = PLAN_NEW;
        plan_configure(&m, &o, &c);
        c.gdn = gdn.gdn;
        for (n = set[i].from - 64; n <= set[i].from; n += 64) {
            struct batch b;
            struct plan p;
            struct err e;
            assert_int_equal(batch_from_lengths(&n, 1, &b, &e), ERR_OK);
            assert_int_equal(plan_make_with(&b, &o, &c, &p, &e), ERR_OK);
            if (p.chained != (n == set[i].from))
                fail_msg("set %d: %ld tokens: chained %d", (int)i, (long)n,
                         p.chained);
            plan_free(&p);
            batch_free(&b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_match_the_plain_scorer),
        cmocka_unit_test(constants_of_the_profiles),
        cmocka_unit_test(constants_of_the_delta_net),
        cmocka_unit_test(the_short_sequence),
        cmocka_unit_test(the_dense_pair),
        cmocka_unit_test(four_ranks),
        cmocka_unit_test(old_chain_thresholds),
    };
    return cmocka_run_group_tests(tests, moe35_load, moe35_free);
}
