/*
** The estimators of retained activations: every estimate printed beside a
** measured peak, the values of retained.md 6, and what must hold of any.
*/
#include <stdio.h>

#include "measured_help.h"

static int64_t admitted(const struct price_facts *f, const char *name)
{
    const struct price_estimator *p = price_find(name);
    struct estimate *x = malloc(sizeof *x);
    int64_t bytes, sum = 0;
    struct err e;
    int c;

    assert_non_null(p);
    if (p->price(f, x, &e) != ERR_OK) fail_msg("%s", e.text);
    assert_true(x->supported && x->priced);
    assert_string_equal(x->name, name);
    for (c = 0; c < CAT_COUNT; c++) {
        assert_true(x->term[c] >= 0);
        sum += x->term[c];
    }
    assert_int_equal(sum, x->raw);
    bytes = x->admitted;
    free(x);
    return bytes;
}

/* Which version printed a series (retained.md 6). */
static const char *version_of(const struct cell *c)
{
    static const char *const of[][2] = {
        {"A", "retained-flat"}, {"B", "retained-split6"},
        {"before_segment_states", "retained-parts64"},
        {"segment_state_negative_control", "retained-parts64"},
        {"eager_control", "retained-parts64"},
        {"cold_workspace_negative_control", "retained-parts"},
        {"unfused_negative_control", "retained-split4"},
        {"final", "retained-states"}, {"CP", "retained-rank"},
    };
    size_t i;

    if (c->recompute == RECOMPUTE_FULL) return "heuristic";
    for (i = 0; i < sizeof of / sizeof of[0]; i++)
        if (strcmp(of[i][0], c->series) == 0) return of[i][1];
    fail_msg("%s: series %s", c->id, c->series);
    return "";
}

static void test_printed_with_peaks(void **state)
{
    struct csv_table *t;
    struct err e;
    int64_t i, right = 0;

    (void)state;
    if (csv_load(MEASURED, 0, &t, &e) != ERR_OK) fail_msg("%s", e.text);
    assert_int_equal(csv_rows(t), 126);
    for (i = 0; i < csv_rows(t); i++) {
        struct cell c;
        struct price_facts f;
        int64_t bytes;

        cell_read(t, i, &c);
        f = cell_facts(&c);
        bytes = admitted(&f, version_of(&c));
        if (bytes != c.estimate)
            print_error("%s: %s: %lld, printed %lld\n", c.id, version_of(&c),
                        (long long)bytes, (long long)c.estimate);
        right += bytes == c.estimate;
        model_free(&c.geometry);
    }
    assert_int_equal(right, 126);
    csv_table_free(t);
}

/* ---- the table of retained.md 6 ------------------------------------------ */

enum { COLUMNS = 10 };

/* Cells of a table's row, blanks cut; returns how many. */
static int split(char *line, char *cell[COLUMNS])
{
    int i, n = 0;

    while (n < COLUMNS && (line = strchr(line, '|')) != NULL) {
        *line++ = '\0';
        cell[n++] = line;
    }
    if (n == COLUMNS && strchr(cell[n - 1], '|') != NULL)
        *strchr(cell[n - 1], '|') = '\0';
    for (i = 0; i < n; i++) {
        size_t len;
        cell[i] += strspn(cell[i], " ");
        for (len = strlen(cell[i]); len > 0 && cell[i][len - 1] == ' '; )
            cell[i][--len] = '\0';
    }
    return n;
}

/* "1,234" */
static int64_t number(const char *text)
{
    int64_t n = 0;

    for (; *text != '\0'; text++)
        if (*text != ',') n = 10 * n + (*text - '0');
    return n;
}

static const char *model_name(const char *text)
{
    return strcmp(text, "27B") == 0 ? "Qwen3.6-27B"
           : strcmp(text, "9B") == 0 ? "Qwen3.5-9B"
           : strcmp(text, "4B") == 0 ? "Qwen3.5-4B"
           : strcmp(text, "35B") == 0 ? "Qwen3.5-35B-A3B" : "Qwen3-1.7B";
}

static unsigned modules_of(const char *recompute)
{
    return MODULE_CORE_ATTN | (strstr(recompute, "mlp") ? MODULE_MLP : 0)
           | (strstr(recompute, "moe") ? MODULE_MOE : 0);
}

/* The facts that a row of the table states. */
static int64_t price_row(char *cell[COLUMNS])
{
    int64_t rows[2] = {number(cell[5]), 0};
    struct price_group g = {.grad = true, .attention_rows = rows,
                            .gdn_rows = rows, .routed_rows = -1};
    char path[64], name[32];
    struct model m;
    struct price_facts f;
    int64_t bytes;

    snprintf(path, sizeof path, "lua/models/%s.json", model_name(cell[1]));
    snprintf(name, sizeof name, "%s%s", strcmp(cell[0], "heuristic") == 0
             ? "" : "retained-", cell[0]);
    m = help_model(path, 0);
    f = help_facts(&m, &g, 1, number(cell[3]), 1);
    f.tp = number(cell[2]);
    f.mode.recompute = cell[4][0] == 'f' ? RECOMPUTE_FULL
                       : cell[4][0] == 'n' ? RECOMPUTE_NONE
                                           : RECOMPUTE_SELECTIVE;
    if (cell[4][0] == 's') f.mode.modules = modules_of(cell[4]);
    if (cell[6][0] != '\0') f.rank_rows = number(cell[6]);
    f.segments = number(cell[8]);
    f.output_bytes = 2 * number(cell[7]) * m.hidden;
    bytes = admitted(&f, name);
    model_free(&m);
    return bytes;
}

static void test_printed_table(void **state)
{
    FILE *text = fopen("src/price/retained.md", "r");
    char line[256], *cell[COLUMNS];
    int seen = 0;

    (void)state;
    assert_non_null(text);
    while (fgets(line, sizeof line, text) != NULL) {
        if (split(line, cell) != COLUMNS || number(cell[2]) < 1 ||
            strchr("0123456789", cell[2][0]) == NULL)
            continue;
        if (price_row(cell) != number(cell[9]))
            fail_msg("%s %s tp %s %s %s: %lld, printed %s", cell[0], cell[1],
                     cell[2], cell[4], cell[5], (long long)price_row(cell),
                     cell[9]);
        seen++;
    }
    fclose(text);
    assert_int_equal(seen, 103);
}

/* ---- derived values ------------------------------------------------------ */

struct derived {
    struct model m;
    int64_t rows[2];
    struct price_group group;
    struct price_facts f;
};

/* 27B, selective, one segment, as many outputs as rows. */
static void derive(struct derived *d, const char *path, int64_t tp,
                   int64_t rows)
{
    d->m = help_model(path, 0);
    d->rows[0] = rows;
    d->rows[1] = 0;
    d->group = (struct price_group){.grad = true, .attention_rows = d->rows,
                                    .gdn_rows = d->rows, .routed_rows = -1};
    d->f = help_facts(&d->m, &d->group, 1, 1, 1);
    d->f.tp = tp;
    d->f.mode.recompute = RECOMPUTE_SELECTIVE;
    d->f.mode.modules = MODULE_CORE_ATTN;
    d->f.output_bytes = 2 * rows * d->m.hidden;
}

#define BIG "lua/models/Qwen3.6-27B.json"

static void test_derived_tp(void **state)
{
    static const int64_t want[][3] = {
        {1, 2048, 37123981312}, {2, 2048, 21563224883},
        {4, 2048, 12306451660}, {8, 2048, 8582356992},
        {4, 4096, 24454414336},
    };
    struct derived d;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof want / sizeof want[0]; i++) {
        derive(&d, BIG, want[i][0], want[i][1]);
        assert_int_equal(admitted(&d.f, PRICE_RETAINED_STATES), want[i][2]);
        model_free(&d.m);
    }
}

/* One setting of the TP4 cell of 4,096 rows at a time. */
static void test_derived_settings(void **state)
{
    const char *states = PRICE_RETAINED_STATES;
    struct derived d;

    (void)state;
    derive(&d, BIG, 4, 4096);
    d.f.mode.recompute = RECOMPUTE_NONE;
    d.f.mode.modules = MODULE_MLP;
    assert_int_equal(admitted(&d.f, states), 24454414336);
    d.f.mode.recompute = RECOMPUTE_SELECTIVE;
    assert_int_equal(admitted(&d.f, states), 13409134182);
    d.m.layers = 1;
    d.m.kind[0] = LAYER_ATTENTION;
    assert_int_equal(admitted(&d.f, states), 479828377);
    model_free(&d.m);
    derive(&d, BIG, 4, 4096);
    d.f.mode.recompute = RECOMPUTE_FULL;
    assert_int_equal(admitted(&d.f, states), 784334848);
    d.f.mode.recompute = RECOMPUTE_SELECTIVE;
    d.group.grad = false;
    assert_int_equal(admitted(&d.f, states), 784334848);
    model_free(&d.m);
    derive(&d, BIG, 4, 4096);
    d.f.sequence_parallel = 0;
    assert_int_equal(admitted(&d.f, states), 27407204352);
    d.f.sequence_parallel = 1;
    d.f.swiglu_widths = 5;
    assert_int_equal(admitted(&d.f, states), 29474157363);
    d.f.swiglu_widths = 7;
    assert_int_equal(admitted(&d.f, states), 34493900390);
    d.f.swiglu_widths = 0;
    d.f.segments = 16;
    assert_int_equal(admitted(&d.f, states), 25724452864);
    model_free(&d.m);
}

static void test_derived_geometry(void **state)
{
    struct derived d;
    int64_t i;

    (void)state;
    derive(&d, BIG, 4, 4096);
    d.m.attn_gate = false;
    assert_int_equal(admitted(&d.f, PRICE_RETAINED_STATES), 24011495833);
    d.m.attn_gate = true;
    for (i = 0; i < d.m.layers; i++) d.m.kind[i] = LAYER_GDN;
    assert_int_equal(admitted(&d.f, PRICE_RETAINED_STATES), 24888646041);
    for (i = 0; i < d.m.layers; i++) d.m.kind[i] = LAYER_ATTENTION;
    assert_int_equal(admitted(&d.f, PRICE_RETAINED_STATES), 23151719219);
    model_free(&d.m);
    derive(&d, BIG, 8, 4096);
    d.m.kv_heads = 8;
    d.m.head_dim = 256;
    assert_int_equal(admitted(&d.f, PRICE_RETAINED_STATES), 15295340544);
    model_free(&d.m);
}

static void test_derived_ranks(void **state)
{
    struct derived d;

    (void)state;
    derive(&d, BIG, 2, 0);
    d.f.cp = 2;
    d.rows[0] = 3073;       /* rounded up to the multiple of tp */
    d.rows[1] = 4097 - 3073;
    d.f.output_bytes = 2 * 4097 * d.m.hidden;
    assert_int_equal(price_rank_rows(&d.f), 3074);
    assert_int_equal(price_packed_rows(&d.f), 4098);
    assert_int_equal(admitted(&d.f, PRICE_RETAINED_RANK), 32301750272);
    model_free(&d.m);
    derive(&d, "lua/models/Qwen3.5-35B-A3B.json", 1, 2048);
    d.f.cp = 2;
    d.rows[1] = 2048;
    d.f.segments = 2;
    d.f.output_bytes = 2 * 4096 * d.m.hidden;
    assert_int_equal(admitted(&d.f, PRICE_RETAINED_RANK), 37442328985);
    d.f.mode.modules |= MODULE_MOE;
    assert_int_equal(admitted(&d.f, PRICE_RETAINED_RANK), 17649408409);
    d.f.mode.recompute = RECOMPUTE_FULL;
    assert_int_equal(admitted(&d.f, PRICE_RETAINED_RANK), 295279001);
    d.f.packed_rows = 0;
    d.f.output_bytes = 123;
    assert_int_equal(admitted(&d.f, PRICE_RETAINED_RANK), 123);
    model_free(&d.m);
}

/* ---- what holds of any facts --------------------------------------------- */

static void test_monotone(void **state)
{
    struct derived d;
    int64_t tp, before, bytes, more;

    (void)state;
    derive(&d, BIG, 1, 3000);
    before = INT64_MAX;
    for (tp = 1; tp <= 4; tp *= 2, before = bytes) {    /* 4 kv groups */
        d.f.tp = tp;
        bytes = admitted(&d.f, PRICE_RETAINED_STATES);
        assert_true(bytes < before);
        d.rows[0]++;
        more = admitted(&d.f, PRICE_RETAINED_STATES);
        assert_true(more >= bytes);
        d.f.segments = 2;
        assert_true(admitted(&d.f, PRICE_RETAINED_STATES) > more);
        d.f.segments = -1;
        d.f.mode.modules |= MODULE_MLP;
        assert_true(admitted(&d.f, PRICE_RETAINED_STATES) < more);
        d.f.mode.modules &= ~(unsigned)MODULE_MLP;
        d.rows[0]--;
    }
    d.m.layers--;
    assert_true(admitted(&d.f, PRICE_RETAINED_STATES) < before);
    d.m.layers++;
    model_free(&d.m);
}

static void test_refused(void **state)
{
    const char *const name[] = {"heuristic", "retained-states",
                                "retained-rank", "retained-flat"};
    struct estimate *x = malloc(sizeof *x);
    struct derived d;
    struct err e;
    size_t i;

    (void)state;
    derive(&d, BIG, 1, 3000);
    d.f.pp = 2;
    for (i = 0; i < sizeof name / sizeof name[0]; i++) {
        assert_int_equal(price_find(name[i])->price(&d.f, x, &e), ERR_OK);
        assert_true(!x->supported && !x->priced);
        assert_string_equal(x->reason, "PP2: only PP1 is priced");
    }
    d.f.pp = 1;
    d.f.packed_rows = PRICE_MAX_ROWS;   /* 2^36 x 2^24 B x 11 */
    assert_int_equal(price_retained_states(&d.f, x, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "do not fit 64-bit"));
    d.f.packed_rows = -1;
    d.f.mode.modules = MODULE_MOE;
    assert_int_equal(price_retained_states(&d.f, x, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "recompute_modules"));
    assert_null(price_find("retained"));
    model_free(&d.m);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printed_with_peaks),
        cmocka_unit_test(test_printed_table),
        cmocka_unit_test(test_derived_tp),
        cmocka_unit_test(test_derived_settings),
        cmocka_unit_test(test_derived_geometry),
        cmocka_unit_test(test_derived_ranks),
        cmocka_unit_test(test_monotone),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
