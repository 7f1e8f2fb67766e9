/*
** kept-rank against measured peaks: from nothing to two percent over, never
** under, where it says so.
*/
#include "measured_help.h"

static int64_t raw(struct cell *c, enum wave_kind wave)
{
    struct price_facts f = cell_facts(c);
    struct estimate *x = malloc(sizeof *x);
    struct err e;
    int64_t bytes, sum = 0;
    int i;

    f.mode.wave = wave;
    if (price_kept_rank(&f, x, &e) != ERR_OK) fail_msg("%s", e.text);
    assert_true(x->supported);
    for (i = 0; i < CAT_COUNT; i++) sum += x->term[i];
    assert_int_equal(sum, x->raw);
    bytes = x->raw;
    free(x);
    return bytes;
}

/* Percent over (under: negative) of a measured peak; counts. */
static double over(const char *id, const char *what, int64_t bytes,
                   int64_t measured, int *outside)
{
    double percent = 100.0 * (double)(bytes - measured) / (double)measured;

    if (bytes < measured || percent > 2.0) {
        print_error("%s %s: %.4f %%\n", id, what, percent);
        ++*outside;
    }
    return percent;
}

/* One rank a token, 1,000 rows and more, no first shape, no whole layers
** recomputed. */
static bool is_bound(const struct cell *c)
{
    return c->cp == 1 && c->geometry.experts == 0 && c->packed >= 1000 &&
           !c->first_shape && c->recompute != RECOMPUTE_FULL;
}

static void test_bounds(void **state)
{
    struct csv_table *t;
    struct err e;
    int64_t i;
    int n = 0, outside = 0;

    (void)state;
    if (csv_load(MEASURED, 0, &t, &e) != ERR_OK) fail_msg("%s", e.text);
    for (i = 0; i < csv_rows(t); i++) {
        struct cell c;
        cell_read(t, i, &c);
        if (is_bound(&c)) {
            n++;
            over(c.id, "forward", raw(&c, WAVE_HIDDEN), c.warm, &outside);
            over(c.id, "backward", raw(&c, WAVE_HIDDEN_LOSS), c.warm_backward,
                 &outside);
        }
        model_free(&c.geometry);
    }
    assert_int_equal(n, 55);
    assert_int_equal(outside, 0);
    csv_table_free(t);
}

/* Whole layers recomputed: forward within 0.05 %, backward within 0.1. */
static void test_full(void **state)
{
    static const char *const id[] = {"M011", "M012", "M013", "M020", "M022"};
    struct csv_table *t;
    struct err e;
    int64_t i;
    size_t k, n = 0;

    (void)state;
    if (csv_load(MEASURED, 0, &t, &e) != ERR_OK) fail_msg("%s", e.text);
    for (i = 0; i < csv_rows(t); i++) {
        struct cell c;
        cell_read(t, i, &c);
        for (k = 0; k < sizeof id / sizeof id[0]; k++) {
            int64_t forward, backward;
            if (strcmp(c.id, id[k]) != 0) continue;
            n++;
            forward = raw(&c, WAVE_HIDDEN) - c.warm;
            backward = raw(&c, WAVE_HIDDEN_LOSS) - c.warm_backward;
            assert_true(2000 * llabs(forward) <= c.warm);
            assert_true(1000 * llabs(backward) <= c.warm_backward);
        }
        model_free(&c.geometry);
    }
    assert_int_equal(n, sizeof id / sizeof id[0]);
    csv_table_free(t);
}

static void read_cell(const char *id, struct csv_table **t, struct cell *c)
{
    struct err e;
    int64_t i;

    if (csv_load(MEASURED, 0, t, &e) != ERR_OK) fail_msg("%s", e.text);
    for (i = 0; i < csv_rows(*t); i++)
        if (strcmp(cell_text(*t, i, "id"), id) == 0) cell_read(*t, i, c);
}

/* None less selective: the LSE of 16 layers, as measured. */
static void test_core_attention(void **state)
{
    struct csv_table *t;
    struct cell none, again;

    (void)state;
    read_cell("M016", &t, &none);
    again = none;
    again.recompute = RECOMPUTE_SELECTIVE;
    again.modules = MODULE_CORE_ATTN;
    assert_int_equal(raw(&none, WAVE_HIDDEN) - raw(&again, WAVE_HIDDEN),
                     16 * 96 * 2048);
    model_free(&none.geometry);
    csv_table_free(t);
}

static void test_records(void **state)
{
    int64_t kept[2] = {2048 * 20608, 2048 * 20608}, bytes[2];
    struct estimate *x = malloc(sizeof *x);
    struct csv_table *t;
    struct price_facts f;
    struct cell c;
    struct err e;
    int i;

    (void)state;
    read_cell("M151", &t, &c);
    f = cell_facts(&c);
    assert_int_equal(price_kept_rank(&f, x, &e), ERR_OK);
    assert_true(!x->supported);
    assert_non_null(strstr(x->reason, "neither stages nor"));
    c.group.attention_retained = kept;
    for (i = 0; i < 2; i++) {
        assert_int_equal(price_kept_rank(&f, x, &e), ERR_OK);
        bytes[i] = x->raw;
        f.mode.recompute = RECOMPUTE_SELECTIVE;
        f.mode.modules = MODULE_CORE_ATTN;
    }
    assert_int_equal(bytes[0] - bytes[1], 337641472);
    model_free(&c.geometry);
    csv_table_free(t);
    free(x);
}

static void test_order(void **state)
{
    struct csv_table *t;
    struct cell c;
    int64_t none, again, mlp, full;

    (void)state;
    read_cell("M038", &t, &c);
    none = raw(&c, WAVE_HIDDEN);
    assert_true(raw(&c, WAVE_HIDDEN_LOSS) >= none);
    c.recompute = RECOMPUTE_SELECTIVE;
    c.modules = MODULE_CORE_ATTN;
    again = raw(&c, WAVE_HIDDEN);
    c.modules |= MODULE_MLP;
    mlp = raw(&c, WAVE_HIDDEN);
    c.recompute = RECOMPUTE_FULL;
    full = raw(&c, WAVE_HIDDEN);
    assert_true(none > again && again > mlp && mlp > full);
    c.packed += 4;
    c.rank_rows += 4;
    assert_true(raw(&c, WAVE_HIDDEN) > full);
    model_free(&c.geometry);
    csv_table_free(t);
}

static void test_refused(void **state)
{
    struct estimate *x = malloc(sizeof *x);
    struct csv_table *t;
    struct price_facts f;
    struct cell c;
    struct err e;

    (void)state;
    read_cell("M071", &t, &c);
    f = cell_facts(&c);
    assert_int_equal(price_kept_rank(&f, x, &e), ERR_OK);
    assert_true(!x->supported && !x->priced);
    assert_non_null(strstr(x->reason, "mixture of experts"));
    f.pp = 2;
    assert_int_equal(price_kept_rank(&f, x, &e), ERR_OK);
    assert_non_null(strstr(x->reason, "PP2"));
    model_free(&c.geometry);
    c.geometry = help_model("lua/models/Qwen3.6-27B.json", 0);
    f.pp = 1;
    f.tp = 1;
    c.geometry.ffn = MODEL_MAX_WIDTH;
    f.packed_rows = PRICE_MAX_ROWS;
    assert_int_equal(price_kept_rank(&f, x, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "do not fit 64-bit"));
    model_free(&c.geometry);
    csv_table_free(t);
    free(x);
}

/* As many rows as facts can have, of the widest MLP: bytes beyond 64 bits are
** told, and nothing of them overflows on the way. */
static void test_too_big(void **state)
{
    struct price_group *group = calloc(PRICE_MAX_GROUPS, sizeof *group);
    struct model m = help_model("lua/models/Qwen3-1.7B.json", 2);
    struct estimate *x = malloc(sizeof *x);
    int64_t rows = PRICE_MAX_ROWS, i;
    struct price_facts f;
    struct err e;

    (void)state;
    price_facts_init(&f);
    m.ffn = MODEL_MAX_WIDTH;
    f.model = &m;
    f.mode.recompute = RECOMPUTE_NONE;
    f.mode.eager = true;        /* three tensors of it, not one */
    f.group = group;
    f.n_group = PRICE_MAX_GROUPS;
    for (i = 0; i < f.n_group; i++)
        group[i] = (struct price_group){
            .grad = true, .slot = "policy", .attention_rows = &rows,
            .gdn_rows = &rows, .routed_rows = -1,
        };
    assert_int_equal(price_kept_rank(&f, x, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "do not fit 64-bit"));
    model_free(&m);
    free(group);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_core_attention),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_big),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
