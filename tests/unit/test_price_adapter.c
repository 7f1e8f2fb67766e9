/*
** Adapter gradients: the walk, several groups against brute force over their
** orders, the pairing of each rank with its own floor.
*/
#include "price_help.h"
#include "price/internal.h"

#define MIB ((int64_t)1 << 20)

/* A wave of groups over one rank (CP1), rows[] each: a boundary is 4,096 bytes
** a row. */
struct wave {
    struct model m;
    struct price_group g[5];
    int64_t rows[5], pending[65];
    struct price_facts f;
};

static void make_wave(struct wave *w, int64_t layers, int64_t n)
{
    int64_t i;

    memset(w, 0, sizeof *w);
    w->m = help_model(QWEN36, layers);
    for (i = 0; i < n; i++) {
        w->g[i] = (struct price_group){
            .grad = true, .slot = "policy", .attention_rows = &w->rows[i],
            .gdn_rows = &w->rows[i], .routed_rows = -1,
        };
    }
    w->f = help_facts(&w->m, w->g, n, 1, 1);
    w->f.pending = w->pending;
}

/* One group of that many rows. */
static int64_t alone(const int64_t *pending, int64_t rows, int64_t layers)
{
    struct wave w;
    int64_t extra;

    make_wave(&w, layers, 1);
    w.rows[0] = rows;
    memcpy(w.pending, pending, (size_t)(layers + 1) * sizeof *pending);
    extra = price_walk_groups(&w.f, -1).extra;
    model_free(&w.m);
    return extra;
}

/* The same bytes in every layer. */
static int64_t uniform(int64_t bytes, int64_t rows, int64_t layers)
{
    int64_t pending[65] = {0}, i;

    for (i = 0; i < layers; i++) pending[i] = bytes;
    return alone(pending, rows, layers);
}

/* rows 45 and 49 of pricing.md 12 */
static void test_walk(void **state)
{
    int64_t ragged[] = {0, 100 * 4096, 0, 100 * 4096, 5 * 4096};

    (void)state;
    assert_int_equal(uniform(23 * 4096, 4, 4), 80 * 4096);
    assert_int_equal(uniform(3 * 4096, 10, 4), 3 * 4096);
    assert_int_equal(alone(ragged, 60, 4), 105 * 4096);
    assert_int_equal(uniform(23 * MIB, 67, 40), 953987072);
    assert_int_equal(uniform(23 * MIB, 33, 40), 959418368);
    assert_int_equal(uniform(0, 1, 2), 0);
}

/* ---- several groups ------------------------------------------------------ */

static bool trains(const struct wave *w, int64_t g)
{
    return strcmp(w->g[g].slot, PRICE_BASE_SLOT) != 0;
}

/* The wave's backward in one order: what is live beyond the boundaries that
** all groups hold when it begins. */
static int64_t run_order(const struct wave *w, const int64_t *order)
{
    int64_t layers = w->m.layers, live = 0, peak = 0, k, i;

    for (k = 0; k < w->f.n_group; k++) {
        int64_t g = order[k], row = w->rows[g] * 4096;
        bool adds = trains(w, g);
        for (i = 0; i < k; i++)     /* a slot's gradients appear once */
            adds = adds && strcmp(w->g[order[i]].slot, w->g[g].slot) != 0;
        if (adds) live += w->pending[layers];
        peak = live > peak ? live : peak;
        for (i = layers - 1; i >= 0; i--) {
            if (adds) live += w->pending[i];
            peak = live > peak ? live : peak;
            live -= row;
        }
    }
    return peak;
}

static int64_t worst_order(const struct wave *w, int64_t *order, int64_t from)
{
    int64_t worst = 0, i, t, n = w->f.n_group;

    if (from == n) return run_order(w, order);
    for (i = from; i < n; i++) {
        t = order[from], order[from] = order[i], order[i] = t;
        t = worst_order(w, order, from + 1);
        worst = t > worst ? t : worst;
        t = order[from], order[from] = order[i], order[i] = t;
    }
    return worst;
}

/* Any order of up to five groups of one to three slots, base groups among
** them: the closed form is the worst of them.
** PEAKPROOF_SEED replays. */
static void test_order_of_groups(void **state)
{
    uint64_t seed = help_seed(), s = seed;
    int round;

    (void)state;
    for (round = 0; round < 300; round++) {
        int64_t order[5] = {0, 1, 2, 3, 4}, i;
        struct wave w;
        make_wave(&w, 1 + help_below(&s, 8), 1 + help_below(&s, 5));
        for (i = 0; i <= w.m.layers; i++)
            w.pending[i] = help_below(&s, 3) * help_below(&s, 400) * 4096;
        for (i = 0; i < w.f.n_group; i++) {
            w.rows[i] = 1 + help_below(&s, 300);
            w.g[i].slot[0] = (char)('a' + help_below(&s, 3));
            w.g[i].slot[1] = '\0';
            if (help_below(&s, 4) == 0) strcpy(w.g[i].slot, PRICE_BASE_SLOT);
        }
        if (price_walk_groups(&w.f, -1).extra != worst_order(&w, order, 0))
            fail_msg("seed %llu, round %d", (unsigned long long)seed, round);
        model_free(&w.m);
    }
}

/* row 47: a base group adds nothing to the policy's 114 (in rows' bytes) */
static void test_base_group(void **state)
{
    struct wave w;
    int64_t i;

    (void)state;
    make_wave(&w, 4, 2);
    for (i = 0; i < 4; i++) w.pending[i] = 30 * 4096;
    w.rows[0] = 2;
    w.rows[1] = 40;
    strcpy(w.g[1].slot, PRICE_BASE_SLOT);
    assert_int_equal(price_walk_groups(&w.f, -1).extra, 114 * 4096);
    w.f.n_group = 1;
    assert_int_equal(price_walk_groups(&w.f, -1).extra, 114 * 4096);
    /* at the policy's head nothing is there yet; at another trained group's
    ** head the policy's 120 less 8 freed rows may be */
    assert_int_equal(price_walk_groups(&w.f, -1).at_head, 0);
    strcpy(w.g[1].slot, "other");
    w.f.n_group = 2;
    assert_int_equal(price_walk_groups(&w.f, -1).at_head, 112 * 4096);
    model_free(&w.m);
}

/* pricing.md 8: the same group twice in one slot, and in two. */
static void test_one_slot_once(void **state)
{
    int64_t rows[2] = {1500, 1500};
    struct model m = help_model(QWEN36, 40);
    struct price_group g[2];
    struct price_facts f;
    struct err e;
    int i;

    (void)state;
    for (i = 0; i < 2; i++)
        g[i] = (struct price_group){
            .grad = true, .slot = "policy", .attention_rows = rows,
            .gdn_rows = rows, .routed_rows = -1,
        };
    f = help_facts(&m, g, 2, 2, 1);
    assert_int_equal(price_facts_all_pending(&f, &e), 0);
    assert_int_equal(price_walk_groups(&f, 0).extra,
                     price_walk_groups(&(struct price_facts){
                         .model = f.model, .cp = 2, .ep = 1, .lora_rank = 8,
                         .pending = f.pending, .group = g, .n_group = 1},
                         0).extra);
    strcpy(g[1].slot, "other");
    assert_true(price_walk_groups(&f, 0).extra > 941916160);
    free(f.pending);
    model_free(&m);
}

/* per-rank-any: after a small group of its slot all gradients are there when a
** large one begins its backward; after one of another slot, both slots'. */
static void test_group_after_group(void **state)
{
    int64_t large[2] = {60000, 60000}, small[2] = {500, 500}, all = 0, i;
    int64_t kept[2] = {0, 0};
    struct model m = help_model(QWEN36, 40);
    struct price_group g[2];
    struct price_facts f;
    struct estimate *x = calloc(3, sizeof *x);
    struct err e;

    (void)state;
    assert_non_null(x);
    for (i = 0; i < 2; i++)
        g[i] = (struct price_group){
            .grad = true, .slot = "policy", .routed_rows = -1,
            .attention_rows = i == 0 ? large : small,
            .gdn_rows = i == 0 ? large : small, .attention_retained = kept,
        };
    f = help_facts(&m, g, 2, 2, 1);
    assert_int_equal(price_facts_all_pending(&f, &e), 0);
    for (i = 0; i <= m.layers; i++) all += price_pending(&f, 0)[i];
    for (i = 0; i < 3; i++) {
        f.n_group = i == 0 ? 1 : 2;
        if (i == 2) strcpy(g[1].slot, "other");
        if (price_per_rank_any(&f, &x[i], &e) != ERR_OK) fail_msg("%s", e.text);
        assert_true(x[i].supported);
    }
    /* alone it has its last layer's, four blocks that may keep a MiB each */
    all -= all / m.layers;
    assert_in_range(x[1].raw - x[0].raw, all - (4 << 20), all + (4 << 20));
    assert_true(x[2].raw - x[1].raw > all / m.layers);
    free(x);
    free(f.pending);
    model_free(&m);
}

/* per-rank-any does not know in which order groups come: with the peak in a
** layer (many of them) and in the head (few), two of them of one slot. */
static void test_any_order_of_groups(void **state)
{
    static const int order[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {2, 0, 1}};
    static const char *const slot[] = {"policy", "policy", "other"};
    int64_t rows[3][2] = {{900, 700}, {2000, 2100}, {500, 1}}, kept[2] = {0, 0};
    struct estimate *x = calloc(4, sizeof *x);
    struct err e;
    size_t i, k;
    int layers;

    (void)state;
    assert_non_null(x);
    for (layers = 2; layers <= 40; layers += 38) {
        struct model m = help_model(QWEN36, layers);

        for (i = 0; i < 4; i++) {
            struct price_group g[3];
            struct price_facts f;

            for (k = 0; k < 3; k++)
                g[k] = (struct price_group){
                    .grad = true, .routed_rows = -1,
                    .attention_rows = rows[order[i][k]],
                    .gdn_rows = rows[order[i][k]],
                    .attention_retained = kept};
            for (k = 0; k < 3; k++)
                strcpy(g[k].slot, slot[order[i][k]]);
            f = help_facts(&m, g, 3, 2, 1);
            f.head_rows = 2000;
            assert_int_equal(price_facts_all_pending(&f, &e), 0);
            if (price_per_rank_any(&f, &x[i], &e) != ERR_OK)
                fail_msg("%s", e.text);
            if (!x[i].supported) fail_msg("%s", x[i].reason);
            assert_int_equal(x[i].raw, x[0].raw);
            assert_int_equal(x[i].head_binds, layers == 2);
            free(f.pending);
        }
        model_free(&m);
    }
    free(x);
}

/* Lists that no reader has looked at: the facts', and a slot's own. */
static void test_bad_lists(void **state)
{
    int64_t own[3] = {0, 0, 4096};
    struct estimate *x = malloc(sizeof *x);
    struct wave w;
    struct err e;

    (void)state;
    make_wave(&w, 2, 2);
    w.rows[0] = w.rows[1] = 60;
    w.pending[1] = -1;
    assert_int_equal(price_per_rank_any(&w.f, x, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "adapter_pending[1]: must be"));
    w.pending[1] = 4096;
    w.g[1].pending = own;
    assert_int_equal(price_per_rank_any(&w.f, x, &e), ERR_OK);
    own[2] = -4096;
    assert_int_equal(price_per_rank_any(&w.f, x, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "adapter_pending.policy[2]: must be"));
    model_free(&w.m);
    free(x);
}

/* ---- ranks --------------------------------------------------------------- */

/* row 51: each rank walks its own layouts */
static void test_ranks_walk_apart(void **state)
{
    struct model m = help_model(QWEN36, 0);
    struct two_ranks t = {.attention = {400, 240}, .gdn = {160, 320}};
    struct price_group g = help_group(&t, true);
    struct price_facts f = help_facts(&m, &g, 1, 2, 1);
    int64_t pending[41] = {0}, i;

    (void)state;
    for (i = 0; i < 40; i++) pending[i] = 300 * 4096;
    f.pending = pending;
    assert_int_equal(price_walk_groups(&f, 0).extra, 4915200);
    assert_int_equal(price_walk_groups(&f, 1).extra, 4423680);
    assert_int_equal(uniform(300 * 4096, 280, 40), 4423680);
    model_free(&m);
}

/* One sequence of 2,047 tokens: rank 1 holds no GDN rows, so its extra is
** almost every adapter gradient, beside a floor far below rank 0's. */
static void test_pairing(void **state)
{
    struct two_ranks t = {
        .attention = {1536, 511}, .gdn = {2047, 0}, .n_stage = {1, 2},
        .at = {{{.local = true, .q_full = true, .k_full = true, .q = 1536,
                 .k = 1536, .q_len = 1536, .k_len = 1536}},
               {{.local = true, .q_full = true, .k_full = true, .q = 511,
                 .k = 511, .q_len = 512, .k_len = 512},
                {.q_full = true, .q = 511, .k = 1536, .q_len = 512,
                 .k_len = 1536}}},
    };
    struct model m = help_model(QWEN36, 0);
    struct price_group g = help_group(&t, true);
    struct price_facts f = help_facts(&m, &g, 1, 2, 1);
    struct estimate *paired, *unpaired;

    (void)state;
    f.cold = true;
    help_pending(&f);
    paired = help_price(&f, true, PRICE_AS_IS);
    unpaired = help_price(&f, true, PRICE_UNPAIRED);
    /* all gradients, less the boundaries above layer 0 */
    assert_int_equal(paired->rank[0].adapter_extra,
                     941916160 - (19 * 1536 + 20 * 2047) * 4096);
    assert_int_equal(paired->rank[1].adapter_extra,
                     941916160 - (19 * 511 + 20) * 4096);
    assert_int_equal(paired->adapter_unpaired, 902066176);
    assert_int_equal(paired->adapter_paired, 654688256);
    assert_int_equal(unpaired->raw - paired->raw,
                     paired->adapter_unpaired - paired->adapter_paired);
    assert_int_equal(paired->term[CAT_ADAPTER_GRADIENTS],
                     paired->adapter_paired);
    free(paired);
    free(unpaired);
    free(f.pending);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_order_of_groups),
        cmocka_unit_test(test_base_group),
        cmocka_unit_test(test_one_slot_once),
        cmocka_unit_test(test_group_after_group),
        cmocka_unit_test(test_any_order_of_groups),
        cmocka_unit_test(test_bad_lists),
        cmocka_unit_test(test_ranks_walk_apart),
        cmocka_unit_test(test_pairing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
