/*
** test_report_sections.c - sections of cases that only the runs of our own
** scenarios have, to the byte: what a GPU decides, random routers, drawn
** waves. The figures are made up; each case has its own.
*/
#include "golden_text.h"
#include "report/doc/render.h"
#include "report/figures.h"
#include "report/sections/sections.h"
#include "report/sections/sweep.h"
#include "report_fixture.h"

#define GOLDEN "tests/golden/report/"

struct folder {
    char *dir;
    struct record *record;
    struct record_set *set;
    struct figures published;
};

static void put(const char *dir, const char *name, const char *text)
{
    char path[200];
    struct err e;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(file_write(path, text, strlen(text), &e), ERR_OK);
}

static void begin(struct folder *f)
{
    struct err e;

    memset(f, 0, sizeof *f);
    f->dir = fixture_dir();
    assert_int_equal(record_open(f->dir, RECORD_REPLACE, &fixture_info,
                                 &f->record, &e), ERR_OK);
}

static void add(struct folder *f, struct fixture *x)
{
    struct err e;

    x->kase.n_tensor = 0;
    if (fixture_add(f->record, x, &e) != ERR_OK) fail_msg("%s", e.text);
}

/* A section of the folder's dry cases, beside these published figures. */
static void compare(struct folder *f, void (*section)(struct view *),
                    const char *name)
{
    const enum picture_state drawn[PICTURE_COUNT] = {PICTURE_DRAWN};
    struct doc d = {0};
    struct view v = {.d = &d, .published = &f->published, .picture = drawn};
    struct buf text = BUF_INIT;
    char golden[100], *figures = fixture_dir();
    struct err e;

    assert_int_equal(record_close(f->record, true, &e), ERR_OK);
    put(figures, "figures.csv", "key,value,unit,source\n"
        "error.real-40.after.cold,18.2,%,a\nerror.real-40.after.warm,18.4,%,a\n"
        "error.random-8.after.cold,26.6,%,a\nmargin,1.10,,b\n"
        "full_stack.ep1.min,0.9,%,c\nfull_stack.ep1.max,2.0,%,c\n"
        "full_stack.ep2.max,13.4,%,c\nfull_stack.under,0,,c\n");
    put(figures, "inventory.csv",
        "layer_kind,operator,per,bytes,what\n");
    if (figures_load(figures, &f->published, &e) != ERR_OK)
        fail_msg("%s", e.text);
    if (record_read(f->dir, &f->set, &e) != ERR_OK) fail_msg("%s", e.text);
    v.set = f->set;
    assert_int_equal(view_open(&v, "dry", &e), ERR_OK);
    section(&v);
    assert_false(d.failed);
    render_md(&d, &text);
    snprintf(golden, sizeof golden, GOLDEN "section-%s.md", name);
    golden_text(&text, golden);
    buf_free(&text);
    doc_free(&d);
    view_close(&v);
    record_set_free(f->set);
    figures_free(&f->published);
    fixture_remove(f->dir);
    fixture_remove(figures);
}

/* The estimate after is percent of the most-loaded rank's peak. */
static void set_error(struct fixture *x, double percent)
{
    int64_t peak = (int64_t)x->rank[0][1].peak.allocated;
    int64_t more = (int64_t)((double)peak * (1 + percent / 100))
                   - x->estimate[1].raw;

    x->estimate[1].term[CAT_BOUNDARIES] += more;
    x->estimate[1].raw += more;
    x->estimate[1].admitted = x->estimate[1].raw / 10 * 11;
}

/* ---- what only a GPU can decide ------------------------------------------ */

/* Waves of lengths and of sequences, as built and with a choice; with the
** choice two of the three are under at EP1. */
static void add_stack(struct folder *f)
{
    static const struct {
        const char *otherwise;
        int64_t ep;
        double error[3];
    } k[] = {
        {"", 1, {1.5, 0.25, 3}}, {"", 2, {4, 5, 6}},
        {"rounded", 1, {-0.5, -2, 1}}, {"router-state", 2, {0, 2, 8}},
    };
    struct fixture x;
    char name[64];
    int64_t i;
    size_t j;

    for (j = 0; j < sizeof k / sizeof *k; j++)
        for (i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "stack.%s%d.%d.ep%d",
                     i == 2 ? "seq-" : "", (int)i, (int)j, (int)k[j].ep);
            fixture_case(&x, "sensitivity", name, 100000000 + i * 1000);
            x.kase.ep = k[j].ep;
            x.kase.otherwise = k[j].otherwise;
            x.kase.tokens = 2047 + 1000 * i;
            set_error(&x, k[j].error[i]);
            add(f, &x);
        }
}

/* Peaks that grow with the share: the implied one lies between 1.04 and 1.06
** for real-40; random-8 begins above it. */
static void add_shares(struct folder *f)
{
    static const char *const cell[] = {"real-40", "random-8"};
    struct fixture x;
    char name[64];
    int share, i;

    for (i = 0; i < 2; i++)
        for (share = 1000; share <= 1060; share += 20) {
            snprintf(name, sizeof name, "share.%s.%d", cell[i], share);
            fixture_case(&x, "sensitivity", name,
                         360000000 + (share - 1000) * 100000);
            set_error(&x, i == 0 ? 9 : 13);
            add(f, &x);
        }
    fixture_case(&x, "sensitivity", "hidden.real-40", 361000000);
    x.rank[0][1].peak.by[CAT_OUTPUTS] = 396468224;
    x.rank[0][1].peak.allocated += 396468224;
    add(f, &x);
}

static void test_sensitivity(void **state)
{
    struct folder f;

    (void)state;
    begin(&f);
    add_stack(&f);
    add_shares(&f);
    compare(&f, sec_sensitivity, "sensitivity");
}

/* ---- random routers ------------------------------------------------------ */

/* Three seeds of one kind, one of another; one case is of another shape. */
static void random_cases(struct folder *f, int64_t unit)
{
    static const char *const name[] = {
        "random-8.megatron-seed-1", "random-8.megatron-seed-2",
        "random-8.huggingface-seed-1", "random-8.megatron-seed-3",
        "random-4.megatron-seed-1"};
    struct fixture x;
    int i;

    fixture_case(&x, "pr-accuracy", "random-8", 520000000);
    fixture_publish(&x, 26.5, 26.6);
    x.kase.layers = 8;
    add(f, &x);
    fixture_case(&x, "pr-accuracy", "random-40", 740000000);
    fixture_publish(&x, 19.7, 18.8);
    add(f, &x);
    for (i = 0; i < 5; i++) {
        fixture_case(&x, "random-weights", name[i],
                     unit + i * i * 1000000);
        x.kase.layers = i == 4 ? 4 : 8;
        add(f, &x);
    }
}

static void test_random(void **state)
{
    struct folder f;

    (void)state;
    begin(&f);
    random_cases(&f, 450000000);        /* none reaches the implied peak */
    compare(&f, sec_random, "random");
    begin(&f);
    random_cases(&f, 800000000);
    compare(&f, sec_random, "random-reached");
}

/* ---- what knowing of routing is worth ------------------------------------ */

/* Three cases whose price knows less, each otherwise; one that has no such
** variants, and a scenario without. */
static void test_knowledge(void **state)
{
    static const char *const knows[] = {"per-rank-any/no-allowance",
                                        "per-rank-any/quantile",
                                        "per-rank-any/last-histogram"};
    struct folder f;
    struct fixture x;
    char name[16];
    int i, k;

    (void)state;
    begin(&f);
    for (i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "k-%d", i);
        fixture_case(&x, i < 4 ? "drift" : "other", name, 50000000);
        strcpy(x.estimate[1].name, "per-rank-any");
        x.estimate[1].n_rank = 0;
        set_error(&x, 1.5 * i - 1);
        x.wave[0].n_variant = x.wave[1].n_variant = i < 3 ? 3 : 0;
        for (k = 0; k < 3; k++)
            x.variant[k] = (struct record_variant){knows[k],
                x.estimate[1].raw + 20000000 * (k - i)};
        if (i == 1) x.wave[0].n_variant = 2;    /* no last wave */
        add(&f, &x);
    }
    compare(&f, sec_knowledge, "knowledge");
}

/* ---- many cases ---------------------------------------------------------- */

/* Sixty-four, twenty-five of them under, by two categories; twelve ran out
** of memory. Errors fall and rise, so that the lowest come in no order. */
static void many_cases(struct folder *f)
{
    struct fixture x;
    char name[16];
    int i;

    for (i = 0; i < 64; i++) {
        struct record_rank *rank = &x.rank[0][1];
        int64_t more = 1000 * (i + 1);

        snprintf(name, sizeof name, "m-%02d", i);
        fixture_case(&x, "many", name, 50000000);
        x.kase.ep = 1;
        x.kase.tokens = 1000 + 7 * i;
        x.kase.n_wave = 1;
        rank->peak.tag.layer = (int16_t)(i % 3 - 1);
        set_error(&x, (i * 7 % 64 - 30) * 0.25);
        rank->peak.by[i % 3 ? CAT_GDN : CAT_WORKSPACE] += more;
        rank->peak.allocated += (uint64_t)more;
        if (i % 5 == 4) {
            x.wave[0].n_rank = 0;
            x.wave[0].status = x.kase.status = STATUS_OOM;
            x.wave[0].note = x.kase.note = i == 4 ? NULL : "rank 0: 80 GB";
        }
        add(f, &x);
    }
}

static void test_many(void **state)
{
    struct folder f;

    (void)state;
    begin(&f);
    many_cases(&f);
    compare(&f, sec_stack, "stack");
    begin(&f);
    many_cases(&f);
    compare(&f, sec_cases, "cases");
}

/* ---- drawn waves --------------------------------------------------------- */

/* Fourteen of sums alone, twelve of them under; one out of memory, two that
** failed and one with wrong numbers, which is counted with these. */
static void test_sweep(void **state)
{
    struct folder f;
    struct fixture x;
    char name[16];
    int i;

    (void)state;
    begin(&f);
    for (i = 0; i < 18; i++) {
        static const enum record_status end[] = {
            STATUS_OOM, STATUS_ERROR, STATUS_ERROR, STATUS_WRONG
        };

        snprintf(name, sizeof name, "w-%d", i);
        fixture_case(&x, "drawn", name, 50000000 + i * 1000000);
        x.kase.totals = true;
        x.kase.tokens = 1000 + 7 * i;
        x.kase.n_wave = 1;
        x.rank[0][1].peak.tag.layer = (int16_t)(i % 3 - 1);
        set_error(&x, i * i * 0.5 - 65);
        if (i >= 14) {
            x.wave[0].n_rank = 0;
            x.wave[0].status = x.kase.status = end[i - 14];
            x.wave[0].note = x.kase.note = "rank 0: 80 GB";
        }
        add(&f, &x);
    }
    compare(&f, sec_sweep, "sweep");
}

/* How many runs of totals the section tells of. */
static void count_sweeps(struct view *v)
{
    struct doc d = {0}, *page = v->d;
    struct buf text = BUF_INIT;
    const char *at;
    int n = 0;

    v->d = &d;
    sec_sweep(v);
    v->d = page;
    render_md(&d, &text);
    for (at = buf_text(&text); (at = strstr(at, ": 1 cases, ")) != NULL; at++)
        n++;
    doc_para(page, "%d runs", n);
    buf_free(&text);
    doc_free(&d);
}

/* More scenarios than a reader is likely to run into one folder. */
static void test_many_sweeps(void **state)
{
    struct folder f;
    struct fixture x;
    char name[24];
    int i;

    (void)state;
    begin(&f);
    for (i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "drawn-%d", i);
        fixture_case(&x, name, "w", 50000000);
        x.kase.totals = true;
        x.kase.n_wave = 1;
        add(&f, &x);
    }
    compare(&f, count_sweeps, "sweeps");
}

/* ---- names without a limit ----------------------------------------------- */

enum { MANY_NAMES = 70 };

/* How many names the page and its tables have. */
static void count_names(struct view *v)
{
    struct sweep *g;
    struct doc d = {0}, *page = v->d;
    struct buf text = BUF_INIT;
    const char *at;
    int n = sweep_find(v, &g), kinds = 0;

    doc_para(page, "%d estimators, the last is %s", v->n_estimator,
             v->estimator[v->n_estimator - 1]);
    doc_para(page, "%d sweep, %s", n, n > 0 ? g[0].scenario : "none");
    free(g);
    v->d = &d;
    sec_timing(v);
    v->d = page;
    render_md(&d, &text);
    for (at = buf_text(&text); (at = strstr(at, "`kind-")) != NULL; at++)
        kinds++;
    doc_para(page, "%d kinds of times", kinds);
    buf_free(&text);
    doc_free(&d);
}

/* As many scenarios, estimators and kinds of times; the last scenario is the
** one with waves of different sizes. */
static void test_many_names(void **state)
{
    struct folder f;
    struct fixture x;
    struct estimate mine;
    struct record_timing time;
    char name[24], source[24], what[24];
    int i;

    (void)state;
    begin(&f);
    for (i = 0; i < MANY_NAMES + 5; i++) {
        snprintf(name, sizeof name, "w-%d", i);
        snprintf(source, sizeof source, "mine-%d", i % MANY_NAMES);
        snprintf(what, sizeof what, "kind-%d", i % MANY_NAMES);
        fixture_case(&x, i < MANY_NAMES ? name : "last", name, 50000000);
        fixture_estimate(&mine, source, 50000000, false);
        time = (struct record_timing){-1, what, 1000};
        x.kase.n_wave = 1;
        x.kase.tokens = 1000 + i;
        x.wave[0].estimate = &mine;
        x.wave[0].n_estimate = 1;
        x.wave[0].n_variant = 0;
        x.wave[0].timing = &time;
        x.wave[0].n_timing = 1;
        add(&f, &x);
    }
    compare(&f, count_names, "names");
}

/* How many operators the layer's tables have. */
static void count_operators(struct view *v)
{
    struct doc d = {0}, *page = v->d;
    struct buf text = BUF_INIT;
    const char *at;
    int n = 0;

    v->d = &d;
    sec_inventory(v);
    v->d = page;
    render_md(&d, &text);
    for (at = buf_text(&text); (at = strstr(at, "`op-")) != NULL; at++) n++;
    doc_para(page, "%d operators", n);
    buf_free(&text);
    doc_free(&d);
}

/* As many tensors of a layer that are kept, of as many operators, every one
** twice. */
static void test_many_operators(void **state)
{
    enum { OPERATORS = 200 };
    static struct record_tensor tensor[2 * OPERATORS];
    static char name[OPERATORS][16];
    struct folder f;
    struct fixture x;
    struct err e;
    int i;

    (void)state;
    begin(&f);
    fixture_case(&x, "mine", "wide", 50000000);
    for (i = 0; i < 2 * OPERATORS; i++) {
        snprintf(name[i % OPERATORS], sizeof *name, "op-%d", i % OPERATORS);
        tensor[i] = x.tensor[0];
        tensor[i].op = name[i % OPERATORS];
    }
    x.kase.tensor = tensor;
    x.kase.n_tensor = 2 * OPERATORS;
    if (fixture_add(f.record, &x, &e) != ERR_OK) fail_msg("%s", e.text);
    compare(&f, count_operators, "operators");
}

/* ---- other routings ------------------------------------------------------ */

/* A published case under twenty-five routings: more than the section has room
** for, which it says. */
static void test_fidelity(void **state)
{
    struct folder f;
    struct fixture x;
    char name[16], routing[24];
    int i;

    (void)state;
    begin(&f);
    for (i = 0; i < 26; i++) {
        snprintf(name, sizeof name, "v-%02d", i);
        snprintf(routing, sizeof routing, "cv 1 seed %d", i);
        fixture_case(&x, "routing", name, 50000000);
        x.kase.routing = i == 0 ? "balanced" : routing;
        if (i == 0) x.kase.published_before_cold = -3.1;
        if (i == 0) x.kase.published_after_cold = 18.2;
        add(&f, &x);
    }
    compare(&f, sec_fidelity, "fidelity");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sensitivity),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_knowledge),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_many_sweeps),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_many_operators),
        cmocka_unit_test(test_fidelity),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
