/* Layouts the published planner makes, or an independent implementation of
** its description: planner.md sections 7, 8 and 10. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/config.h"

#define EP1 0.00067633152
#define EP2 0.00029884416

static struct model moe35, dense27, moe30;

static struct plan make(const struct model *m, const struct batch *b,
                        struct plan_options o)
{
    struct plan p;
    struct err e = {0};

    if (plan_make(m, b, &o, &p, &e) != ERR_OK) fail_msg("%s", e.text);
    return p;
}

static struct batch lengths(const int64_t *len, int64_t n)
{
    struct batch b;
    struct err e = {0};

    if (batch_from_lengths(len, n, &b, &e) != ERR_OK) fail_msg("%s", e.text);
    return b;
}

static void assert_rows(const struct plan *p, int64_t a0, int64_t a1,
                        int64_t g0, int64_t g1)
{
    if (p->rank[0].attention_rows != a0 || p->rank[1].attention_rows != a1 ||
        p->rank[0].gdn_rows != g0 || p->rank[1].gdn_rows != g1)
        fail_msg("%ld tokens: attention %ld,%ld gdn %ld,%ld, not %ld,%ld "
                 "%ld,%ld", (long)p->tokens, (long)p->rank[0].attention_rows,
                 (long)p->rank[1].attention_rows, (long)p->rank[0].gdn_rows,
                 (long)p->rank[1].gdn_rows, (long)a0, (long)a1, (long)g0,
                 (long)g1);
}

static void assert_near(double x, double want, double eps)
{
    if (!(fabs(x - want) <= eps)) fail_msg("%.9f is not %.9f", x, want);
}

/* ---- one causal sequence, CP2, 35B -------------------------------------- */

struct row {
    int64_t n, chunk, count;
    int64_t attention[3];       /* rank 0's rows at owned 0, EP1, EP2 */
    int64_t gdn;
    double score;               /* at EP1 */
};

static const struct row regression[] = {
    {1, 1, 1, {0, 0, 0}, 0, 1.034648},
    {28, 14, 2, {14, 14, 14}, 28, 5.057717},
    {29, 14, 3, {28, 28, 28}, 29, 5.042923},
    {511, 255, 3, {510, 510, 510}, 511, 5.042950},
    {1024, 512, 2, {512, 512, 512}, 1024, 5.661738},
    {2047, 512, 4, {1536, 1536, 1536}, 2047, 5.730073},
    {4096, 512, 8, {3584, 3584, 3584}, 4096, 5.939226},
    {8191, 512, 16, {7168, 6144, 6656}, 4096, 10.069743},
    {16384, 512, 32, {12288, 11264, 11776}, 8192, 24.118614},
    {65536, 512, 128, {47104, 46080, 46592}, 32768, 238.983319},
    {81920, 512, 160, {58880, 57856, 58368}, 40960, 361.037815},
    {96794, 640, 152, {69760, 68480, 69120}, 48384, 494.463808},
};

static void single_sequences(void **state)
{
    static const double owned[] = {0, EP1, EP2};
    size_t i, k;

    (void)state;
    for (i = 0; i < sizeof regression / sizeof regression[0]; i++) {
        const struct row *r = &regression[i];
        struct batch b = lengths(&r->n, 1);
        for (k = 0; k < 3; k++) {
            struct plan p = make(&moe35, &b, (struct plan_options){
                .cp = 2, .profile = PLAN_NEW, .owned_ms = owned[k]});
            assert_rows(&p, r->attention[k], r->n - r->attention[k], r->gdn,
                        r->n - r->gdn);
            assert_int_equal(p.chunk, r->chunk);
            assert_int_equal(p.chunks, r->count);
            assert_int_equal(p.rounds, 1);
            assert_int_equal(p.chained, r->n >= 8191);
            if (k == 1) assert_near(p.score_ms, r->score, 1e-6);
            plan_free(&p);
        }
        batch_free(&b);
    }
}

/* The owned cost follows from the model's shape and EP. */
static void owned_cost_from_shape(void **state)
{
    struct plan_options o = {.cp = 2, .ep = 1, .tp = 1, .profile = PLAN_NEW,
                             .owned_ms = -1};
    struct plan_config c;

    (void)state;
    plan_configure(&moe35, &o, &c);
    assert_near(c.attention.owned, EP1, 1e-12);
    o.ep = 2;
    plan_configure(&moe35, &o, &c);
    assert_near(c.attention.owned, EP2, 1e-12);
    o.profile = PLAN_OLD;
    plan_configure(&moe35, &o, &c);
    assert_true(c.attention.owned == 0);
}

/* planner.md 7.9: scores of the cut that wins, and 2,047 tokens in both
** profiles. */
static void the_published_short_sequence(void **state)
{
    static const double want[] = {5.3845, 5.5372, 5.7301};
    static const double owned[] = {0, EP2, EP1};
    const int64_t n = 2047;
    struct batch b = lengths(&n, 1);
    struct plan p;
    size_t i;

    (void)state;
    for (i = 0; i < 3; i++) {
        p = make(&moe35, &b, (struct plan_options){
            .cp = 2, .profile = PLAN_NEW, .owned_ms = owned[i]});
        assert_rows(&p, 1536, 511, 2047, 0);
        assert_near(p.score_ms, want[i], 5e-5);
        plan_free(&p);
    }
    p = make(&moe35, &b, (struct plan_options){
        .cp = 2, .profile = PLAN_OLD, .owned_ms = -1});
    assert_rows(&p, 1536, 511, 2047, 0);
    assert_int_equal(p.rounds, 1);
    plan_free(&p);
    batch_free(&b);
}

/* ---- several roots ------------------------------------------------------ */

static void independent_roots(void **state)
{
    static const int64_t a[] = {900, 700, 500};
    static const int64_t b[] = {2048, 1536, 1024, 512};
    static const int64_t c[] = {1, 2, 3, 4, 5, 6, 7};
    static const struct {
        const int64_t *len;
        int64_t n;
        double owned;
        int64_t rows[4];
    } set[] = {
        {a, 3, 0, {2048, 52, 900, 1200}},
        {a, 3, EP2, {2048, 52, 900, 1200}},
        {a, 3, EP1, {2048, 52, 900, 1200}},
        {b, 4, 0, {2048, 3072, 2560, 2560}},
        {b, 4, 0.000299, {3584, 1536, 2560, 2560}},
        {b, 4, EP1, {3584, 1536, 2560, 2560}},
        {c, 7, 0, {14, 14, 16, 12}},
        {c, 7, EP1, {14, 14, 16, 12}},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof set / sizeof set[0]; i++) {
        struct batch w = lengths(set[i].len, set[i].n);
        struct plan p = make(&moe35, &w, (struct plan_options){
            .cp = 2, .profile = PLAN_NEW, .owned_ms = set[i].owned});
        assert_rows(&p, set[i].rows[0], set[i].rows[1], set[i].rows[2],
                    set[i].rows[3]);
        plan_free(&p);
        batch_free(&w);
    }
}

/* The reconstruction of the published random batch: rank 1 has a local stage
** and a partial-query one. */
static void the_random_batch(void **state)
{
    static const int64_t len[] = {21248, 21248, 21248, 21248, 21376,
                                  20877, 20877, 20877, 20877, 20877};
    struct batch b = lengths(len, 10);
    int64_t ep;

    (void)state;
    for (ep = 1; ep <= 2; ep++) {
        struct plan p = make(&moe35, &b, (struct plan_options){
            .cp = 2, .ep = ep, .profile = PLAN_NEW, .owned_ms = -1});
        const struct stage *s = p.rank[1].stage;
        assert_rows(&p, 105600, 105153, 105626, 105127);
        assert_int_equal(p.chunk, 1408);
        assert_int_equal(p.chunks, 150);
        assert_int_equal(p.rounds, 1);
        assert_int_equal(p.rank[1].n_stage, 2);
        assert_int_equal(s[0].q, 105153);
        assert_int_equal(s[0].q_len, 105216);
        assert_int_equal(s[0].k_len, 105216);
        assert_true(s[0].q_full && s[0].k_full);
        assert_int_equal(s[1].q, 768);
        assert_int_equal(s[1].k, 20608);
        assert_int_equal(s[1].q_len, 768);
        assert_int_equal(s[1].k_len, 20608);
        assert_false(s[1].q_full);
        s = p.rank[0].stage;
        assert_int_equal(s[0].q, 105600);
        assert_int_equal(s[0].q_len, 105600);
        assert_int_equal(s[1].q, 0);
        assert_int_equal(s[1].k_len, 0);
        assert_false(s[1].q_full);
        plan_free(&p);
    }
    batch_free(&b);
}

/* ---- real conversations ------------------------------------------------- */

static struct batch real(int64_t n)
{
    struct corpus *c = NULL;
    struct batch b;
    struct err e = {0};
    int64_t pick[200], i;

    if (corpus_load("lua/data/tau-airline-sequences.csv",
                    "lua/data/tau-airline-prefix-tree.csv", &c, &e) != ERR_OK)
        fail_msg("%s", e.text);
    for (i = 0; i < n; i++) pick[i] = i;
    if (corpus_batch(c, pick, n, &b, &e) != ERR_OK) fail_msg("%s", e.text);
    corpus_free(c);
    return b;
}

static void a_real_wave(void **state)
{
    static const int64_t rows[] = {52480, 53120}, keys[] = {6981, 7621};
    struct batch b = real(23);
    int64_t ep;

    (void)state;
    for (ep = 1; ep <= 2; ep++) {
        struct plan p = make(&moe35, &b, (struct plan_options){
            .cp = 2, .ep = ep, .profile = PLAN_NEW, .owned_ms = -1});
        assert_rows(&p, rows[ep - 1], 96904 - rows[ep - 1], 47915, 48989);
        assert_int_equal(p.chunk, 640);
        assert_int_equal(p.chunks, 152);
        assert_int_equal(p.rounds, 1);
        assert_true(p.chained);
        assert_true(p.rank[1].stage[1].q_full);
        assert_int_equal(p.rank[1].stage[1].k, keys[ep - 1]);
        plan_free(&p);
    }
    batch_free(&b);
}

static void the_whole_tree(void **state)
{
    struct batch b = real(200);
    struct plan p = make(&moe35, &b, (struct plan_options){
        .cp = 2, .ep = 1, .profile = PLAN_NEW, .owned_ms = -1});

    (void)state;
    assert_int_equal(p.tokens, 545543);
    assert_int_equal(p.chunk, 3456);
    assert_int_equal(p.chunks, 158);
    /* our own figures: a change in them must be meant */
    assert_rows(&p, 279936, 265607, 277902, 267641);
    plan_free(&p);
    batch_free(&b);
}

/* planner.md 8, case 4: 4,096 + 4,096 tokens that share 1,228. */
static void a_dense_pair(void **state)
{
    static const int64_t parent[] = {-1, 0, 0}, tokens[] = {1228, 2868, 2868};
    struct batch b;
    struct plan p;
    struct err e;

    (void)state;
    assert_int_equal(batch_from_tree(parent, tokens, 3, &b, &e), ERR_OK);
    p = make(&dense27, &b, (struct plan_options){
        .cp = 2, .profile = PLAN_NEW, .owned_ms = 0.0033});
    assert_rows(&p, 4096, 2868, 4096, 2868);
    assert_false(p.chained);
    plan_free(&p);
    p = make(&dense27, &b, (struct plan_options){
        .cp = 2, .profile = PLAN_OLD, .owned_ms = -1});
    assert_int_equal(p.rank[0].attention_rows, 4608);
    assert_int_equal(p.rank[1].attention_rows, 2356);
    plan_free(&p);
    batch_free(&b);
}

/* ---- chunks of 512, CP2 and CP4 ----------------------------------------- */

static int64_t most_chunks(const struct plan *p)
{
    int64_t i, most = 0;

    for (i = 0; i < p->cp; i++)
        if (p->rank[i].attention_rows > most)
            most = p->rank[i].attention_rows;
    return (most + 511) / 512;
}

static struct plan causal(int64_t chunks, int64_t cp, enum plan_profile old,
                          double owned)
{
    static struct batch b;
    int64_t n = chunks * 512;

    batch_free(&b);
    b = lengths(&n, 1);
    return make(&moe35, &b, (struct plan_options){
        .cp = cp, .profile = old, .owned_ms = owned});
}

static void forty_eight_chunks(void **state)
{
    static const struct { double owned; int64_t chunks; double score; } two[] =
    {
        {0, 35, 35.229517}, {0.0003, 34, 39.356303}, {EP1, 33, 44.320811},
        {1.0, 24, 0},
    };
    static const int64_t four[] = {24, 10, 8, 6};
    struct plan p;
    size_t i;

    (void)state;
    for (i = 0; i < 4; i++) {
        p = causal(48, 2, PLAN_NEW, two[i].owned);
        assert_int_equal(p.rank[0].attention_rows, two[i].chunks * 512);
        if (two[i].score > 0) assert_near(p.score_ms, two[i].score, 1e-6);
        plan_free(&p);
    }
    p = causal(48, 4, PLAN_OLD, -1);
    assert_true(p.rounds > 1);
    assert_int_equal(p.rounds, 2);
    for (i = 0; i < 4; i++)
        assert_int_equal(p.rank[i].attention_rows, four[i] * 512);
    plan_free(&p);
    p = causal(48, 4, PLAN_NEW, 0);
    assert_int_equal(p.rounds, 1);
    for (i = 0; i < 4; i++)
        assert_int_equal(p.rank[i].attention_rows, four[i] * 512);
    plan_free(&p);
    p = causal(48, 4, PLAN_NEW, 1.0);
    assert_true(most_chunks(&p) <= 13);
    plan_free(&p);
    p = causal(48, 4, PLAN_NEW, 0.0033);
    assert_true(most_chunks(&p) < 24);
    plan_free(&p);
}

/* Case 9: every rank keeps exactly one range, none is empty. */
static void one_range_a_rank(void **state)
{
    static const double owned[] = {0, 0.0008, 0.0046};
    int64_t chunks, cp, k, r;

    (void)state;
    for (chunks = 4; chunks <= 60; chunks++)
        for (cp = 2; cp <= 4; cp += 2)
            for (k = 0; k < 3; k++) {
                struct plan p = causal(chunks, cp, PLAN_NEW, owned[k]);
                for (r = 0; r < cp; r++)
                    assert_int_equal(p.rank[r].n_attention, 1);
                plan_free(&p);
            }
}

/* ---- costs -------------------------------------------------------------- */

static void stage_costs(void **state)
{
    struct plan_options o = {.cp = 2, .ep = 1, .tp = 1, .profile = PLAN_NEW,
                             .owned_ms = -1};
    struct stage_load l = {1e6, 4096, 4096, 1, 1}, none = {0, 0, 0, 0, 0};
    static const struct { struct stage_load load; double underfill; } k[] = {
        {{1e6, 4096, 4096, 1, 1}, 0.75}, {{8e6, 1024, 9999, 1, 3}, 0.75},
        {{8e6, 9999, 1024, 2, 1}, 0.75}, {{4e6, 4096, 4096, 1, 1}, 0},
        {{0, 10, 0, 1, 0}, 1}, {{0, 0, 10, 0, 1}, 1}, {{5, 0, 0, 0, 0}, 1}
    };
    struct plan_config c;
    double host;
    size_t i;
    int back;

    (void)state;
    plan_configure(&moe35, &o, &c);
    host = c.attention.host;
    for (back = 0; back < 2; back++) {
        double remote = plan_stage_cost(&c.attention, back, true, &l);
        double local = plan_stage_cost(&c.attention, back, false, &l);
        c.attention.host = 0;
        assert_near(remote - plan_stage_cost(&c.attention, back, true, &l),
                    host, 1e-12);
        c.attention.host = host;
        assert_true(local < remote);
    }
    /* an empty remote stage pays no underfill */
    assert_near(plan_stage_cost(&c.attention, false, true, &none),
                0.287151 + 1.2, 1e-12);
    for (i = 0; i < sizeof k / sizeof *k; i++)
        assert_near(plan_stage_cost(&c.attention, false, true, &k[i].load),
                    0.287151 * (1 + k[i].underfill) + 1.2
                    + k[i].load.pairs * c.attention.forward.remote
                    + (double)k[i].load.q * 0.00011486
                    + (double)(k[i].load.q_ranges + k[i].load.k_ranges)
                      * 0.11486, 1e-12);
    assert_true(plan_comm_cost(&c.attention, 1, 0, 0) == 0);
    assert_near(plan_comm_cost(&c.attention, 0.00003, 1536, 1), 0.304516,
                1e-9);
}

/* Lengths from which a single sequence is chained at CP2, by steps of 64. */
static void chain_thresholds(void **state)
{
    static const struct {
        double owned;
        enum plan_profile profile;
        const struct model *model;
        int64_t from;
    } set[] = {
        {EP1, PLAN_NEW, &moe35, 5376},
        {EP2, PLAN_NEW, &moe35, 5504},
        {0, PLAN_NEW, &moe35, 5504},
        {EP1, PLAN_NEW, &dense27, 2048},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof set / sizeof set[0]; i++) {
        int64_t n;
        for (n = set[i].from - 64; n <= set[i].from; n += 64) {
            struct batch b = lengths(&n, 1);
            struct plan p = make(set[i].model, &b, (struct plan_options){
                .cp = 2, .profile = set[i].profile, .owned_ms = set[i].owned});
            if (p.chained != (n == set[i].from))
                fail_msg("set %d: %ld tokens: chained %d", (int)i, (long)n,
                         p.chained);
            plan_free(&p);
            batch_free(&b);
        }
    }
}

static void load_model(const char *name, struct model *m)
{
    struct err e = {0};

    if (model_load(name, 0, m, &e) != ERR_OK) fail_msg("%s", e.text);
}

static int load_models(void **state)
{
    (void)state;
    load_model("lua/models/Qwen3.6-35B-A3B.json", &moe35);
    load_model("lua/models/Qwen3.6-27B.json", &dense27);
    load_model("lua/models/Qwen3-30B-A3B.json", &moe30);
    return 0;
}

static int free_models(void **state)
{
    (void)state;
    model_free(&moe35);
    model_free(&dense27);
    model_free(&moe30);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_sequences),
        cmocka_unit_test(owned_cost_from_shape),
        cmocka_unit_test(the_published_short_sequence),
        cmocka_unit_test(independent_roots),
        cmocka_unit_test(the_random_batch),
        cmocka_unit_test(a_real_wave),
        cmocka_unit_test(the_whole_tree),
        cmocka_unit_test(a_dense_pair),
        cmocka_unit_test(forty_eight_chunks),
        cmocka_unit_test(one_range_a_rank),
        cmocka_unit_test(stage_costs),
        cmocka_unit_test(chain_thresholds),
    };
    return cmocka_run_group_tests(tests, load_models, free_models);
}
