/*
** test_report_plots.c - data and script of the pictures that no folder of
** test_report_golden.c has, to the byte: what packed waves gain, losses, the
** timeline of a wave. Names are such as gnuplot would take for its own.
*/
#include <unistd.h>

#include "golden_text.h"
#include "report/plots/plot.h"
#include "report_fixture.h"

#define GOLDEN "tests/golden/report/"

static void compare(struct plot *p, const char *name)
{
    struct buf both = BUF_INIT;
    char golden[100];

    buf_printf(&both, "%s\n%s", buf_text(&p->dat), buf_text(&p->gp));
    snprintf(golden, sizeof golden, GOLDEN "%s.plot", name);
    golden_text(&both, golden);
    buf_free(&both);
    plot_free(p);
}

static struct plot new_plot(const char *name)
{
    return (struct plot){name, BUF_INIT, BUF_INIT};
}

/* Two waves at EP1, one over and one under; one at EP2 and one of another
** scenario, which have no place in it. */
static struct record_set *packed(char *dir)
{
    static const struct { const char *scenario, *name; int64_t ep; } k[] = {
        {"real-waves", "pack-0", 1}, {"real-waves", "pack-0.ep2", 2},
        {"other", "pack", 1}, {"real-waves", "a`b\"c_d", 1},
    };
    struct record *r = NULL;
    struct record_set *set = NULL;
    struct fixture f;
    struct err e;
    int i;

    assert_int_equal(record_open(dir, RECORD_REPLACE, &fixture_info, &r, &e),
                     ERR_OK);
    for (i = 0; i < 4; i++) {
        fixture_case(&f, k[i].scenario, k[i].name, 360000000);
        f.kase.ep = k[i].ep;
        f.kase.tokens = 90000 + i;
        f.kase.n_tensor = 0;
        if (i == 3) {
            f.estimate[1].term[CAT_BOUNDARIES] -= 9000000000;
            f.estimate[1].raw -= 9000000000;
        }
        assert_int_equal(fixture_add(r, &f, &e), ERR_OK);
    }
    assert_int_equal(record_close(r, true, &e), ERR_OK);
    if (record_read(dir, &set, &e) != ERR_OK) fail_msg("%s", e.text);
    return set;
}

static void test_change(void **state)
{
    char *dir = fixture_dir();
    struct record_set *set = packed(dir);
    struct view v = {.set = set};
    struct plot p = new_plot("change");
    struct err e;

    (void)state;
    assert_int_equal(view_open(&v, "dry", &e), ERR_OK);
    assert_true(plot_change(&v, &p));
    compare(&p, "change");
    v.n_case = 0;
    assert_false(plot_change(&v, &p));
    view_close(&v);
    record_set_free(set);
    fixture_remove(dir);
}

/* The first six cases that have three waves. */
static void test_losses(void **state)
{
    static const char *const name[] = {"a", "`b`", "c", "d_e", "f", "g", "h",
                                       "i"};
    static const struct record_loss loss[] = {
        {0, true, 2.5}, {1, false, 1.25}, {2, false, 0.0000014}};
    struct record_found c[8];
    const struct record_found *list[8];
    struct view v = {.kase = list, .n_case = 8};
    struct plot p = new_plot("losses");
    int i;

    (void)state;
    memset(c, 0, sizeof c);
    for (i = 0; i < 8; i++) {
        c[i].shape.name = name[i];
        c[i].loss = loss;
        c[i].n_loss = i == 2 ? 2 : 3;
        list[i] = &c[i];
    }
    assert_true(plot_losses(&v, &p));
    compare(&p, "losses");
    v.kase = &list[2];
    v.n_case = 1;
    assert_false(plot_losses(&v, &p));
}

/* What is too long begins where the cases differ, and loses its middle. */
static void test_names(void **state)
{
    static const struct { size_t most; const char *name[3], *out[3]; } k[] = {
        {20, {"one", "two.a-name-of-twenty", "three"},
         {"one", "two.a-name-of-twenty", "three"}},
        {19, {"one", "two.a-name-of-twenty", "three"},
         {"one", "two.a-na..of-twenty", "three"}},
        {12, {"long.words.a-1", "long.words.a-2", "long.words.b-12345"},
         {"..a-1", "..a-2", "..b-12345"}},
        {12, {"long.words.a", "long.words.a-22222222222", "long.words.b"},
         {"..a", "..a-22..2222", "..b"}},
        {12, {"alike-in-all", "alike-in-all", "alike-in-all.b"},
         {"..all", "..all", "..all.b"}},
    };
    struct record_found c[3];
    const struct record_found *list[3] = {&c[0], &c[1], &c[2]};
    char name[3][PLOT_NAME];
    size_t i, j, longest;

    (void)state;
    for (i = 0; i < sizeof k / sizeof *k; i++) {
        for (j = 0; j < 3; j++) c[j].shape.name = k[i].name[j];
        longest = plot_names(list, 3, k[i].most, name);
        assert_true(longest <= k[i].most);
        for (j = 0; j < 3; j++) assert_string_equal(name[j], k[i].out[j]);
    }
    c[0].shape.name = "alone-and-too-long";
    assert_int_equal(plot_names(list, 1, 10, name), 10);
    assert_string_equal(name[0], "alon..long");
    c[0].shape.name = "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9";
    assert_int_equal(plot_names(list, 1, 9, name), 9);
    assert_string_equal(name[0], "\xc3\xa9?..\xc3\xa9\xc3\xa9");
}

/* Three points, each category its own number, the peak at one of them. */
static void fill(struct timeline *t, int peak)
{
    int i, k;

    memset(t, 0, sizeof *t);
    t->n_point = 3;
    t->events = 240;
    t->head = 100;
    t->backward = 120;
    for (i = 0; i < 3; i++) {
        t->point[i].event = 10 + 100 * i;
        for (k = 0; k < CAT_COUNT; k++)
            t->point[i].by[k] = (int64_t)1000000 << (k % 9) << i;
    }
    t->peak.event = (uint64_t)t->point[peak].event;
    t->peak.allocated = 3456789012;
    t->peak.tag = (struct mem_tag){CAT_HEAD, PHASE_HEAD, -1, "head.logits"};
}

static void test_timeline(void **state)
{
    char *dir = fixture_dir();
    struct record_set *set = packed(dir);
    struct timeline *t = malloc(sizeof *t);
    struct plot p = new_plot("t");

    (void)state;
    assert_non_null(t);
    fill(t, 0);
    plot_timeline(&set->kase[3], 1, 1, t, "t", &p);
    compare(&p, "timeline");
    fill(t, 2);                 /* on the right; no head, in a layer */
    t->head = -1;
    t->peak.tag = (struct mem_tag){CAT_GDN, PHASE_BACKWARD, 7, "gdn.o"};
    p = new_plot("t");
    plot_timeline(&set->kase[0], 0, 0, t, "t", &p);
    compare(&p, "timeline-right");
    free(t);
    record_set_free(set);
    fixture_remove(dir);
}

/* Memory may fail before a plot has its name, and at any time later. */
static void test_not_whole(void **state)
{
    char *dir = fixture_dir();
    struct plot p = new_plot(NULL);
    struct err e;

    (void)state;
    p.gp.failed = true;
    assert_int_equal(plot_save(dir, &p, &e), ERR_RUN);
    p.name = "half";
    assert_int_equal(plot_save(dir, &p, &e), ERR_RUN);
    p.gp.failed = false;
    p.dat.failed = true;
    assert_int_equal(plot_save(dir, &p, &e), ERR_RUN);
    assert_int_equal(rmdir(dir), 0);    /* there is nothing in it */
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_change), cmocka_unit_test(test_not_whole),
        cmocka_unit_test(test_names), cmocka_unit_test(test_losses),
        cmocka_unit_test(test_timeline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
