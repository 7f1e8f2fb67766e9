/*
** test_step_golden.c - the step against torch's autograd in f64
** (tests/golden/ops/model.py): one layer of each kind, and the four-layer
** model of model.md 6 on three packed sequences and on a forked tree;
** outputs, loss, input gradients and the gradient of every adapter.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "golden.h"
#include "base/random.h"
#include "model/weights_map.h"
#include "step_world.h"

#define MODEL "tests/golden/ops/model.bin"
#define LAYERS "tests/golden/ops/layers.bin"

static struct golden golden, layers;

static const struct golden_array *find_in(const struct golden *g,
                                          const char *part, const char *what)
{
    char name[320];

    snprintf(name, sizeof name, "%s/%s", part, what);
    return golden_find(g, name, -1);
}

static const struct golden_array *find(const char *batch, const char *what)
{
    return find_in(&golden, batch, what);
}

/* ---- the batch of a golden run ------------------------------------------- */

static void world_golden(struct world *w, const char *batch)
{
    const struct golden_array *forest = find(batch, "forest");
    const struct golden_array *ids = find(batch, "ids");
    const struct golden_array *target = find(batch, "target");
    const struct golden_array *weight = find(batch, "weight");
    const struct golden_array *routes = find(batch, "routes");
    int64_t parent[16], tokens[16], n = forest->count / 2, i;

    assert_true(n <= 16);
    for (i = 0; i < n; i++) {
        parent[i] = golden_i64(forest, 2 * i);
        tokens[i] = golden_i64(forest, 2 * i + 1);
    }
    world_new(w, world_hybrid, parent, tokens, n);
    assert_int_equal(w->b.tokens, ids->count);
    for (i = 0; i < ids->count; i++) {
        w->ids[i] = (int32_t)golden_i64(ids, i);
        w->target[i] = (int32_t)golden_i64(target, i);
        w->weight[i] = golden_f64(weight, i);
    }
    assert_int_equal(w->m.layers * w->b.tokens * w->m.top_k, routes->count);
    for (i = 0; i < routes->count; i++)
        w->forced[i] = golden_i64(routes, i);
}

/* ---- gradients by name --------------------------------------------------- */

/* Squares of the difference and of the golden values. */
struct gap { double top, low; };

static void add_gap(struct gap *g, const struct golden_array *want,
                    int64_t first, const struct tensor *t)
{
    int64_t i, n = t->m.rows * t->m.cols;

    assert_true(t->b != NULL);
    for (i = 0; i < n; i++) {
        double x = world_value(t, i), y = golden_f64(want, first + i);
        g->top += (x - y) * (x - y);
        g->low += y * y;
    }
}

static void check_gap(struct gap g, const char *part, const char *what,
                      double limit)
{
    double off = sqrt(g.top / g.low);

    if (!(off < limit))
        fail_msg("%s of %s: off by %g, limit %g", what, part, off, limit);
}

/* One adapter's gradient; routed ones lie on the ranks in parts. */
static void compare_param(const struct session *x, const struct golden *file,
                          const char *part, const struct param *p,
                          double limit)
{
    bool routed = p->site == SITE_EXPERT_UP || p->site == SITE_EXPERT_DOWN;
    int64_t ranks = routed ? x->run.ep : 1, q;
    const struct golden_array *want;
    struct gap g = {0, 0};
    char name[256];

    stored_full_name(x->r[0].s->m, p->layer, p->tensor, name,
                     sizeof name);
    want = find_in(file, part, name);
    assert_int_equal(want->count, p->count * ranks);
    for (q = 0; q < ranks; q++) {
        const struct adapter *a
            = &x->r[q].s->lw[p->layer].site[p->site];
        add_gap(&g, want, q * p->count,
                p->role == PARAM_LORA_A ? &a->grad_a : &a->grad_b);
    }
    check_gap(g, part, name, limit);
}

/* Those of one layer, or of all (layer -1); returns how many. */
static int64_t compare_adapters(const struct session *x,
                                const struct golden *file, const char *part,
                                int64_t layer, double limit)
{
    struct param_list list;
    struct err e;
    int64_t i, n = 0;

    world_need(param_list_make(&x->w->m, x->run.ep, x->run.lora, &list, &e),
               &e);
    for (i = 0; i < list.n; i++) {
        const struct param *p = &list.p[i];
        if (p->role == PARAM_BASE) continue;
        if (layer >= 0 && p->layer != layer) continue;
        compare_param(x, file, part, p, limit);
        n++;
    }
    param_list_free(&list);
    return n;
}

/* 3 + 5 sites in a GDN layer, 4 + 5 in an attention layer, A and B. */
enum { GDN_ADAPTERS = 16, ATTENTION_ADAPTERS = 18 };

static void check(const char *batch, struct run run, double limit)
{
    double want = golden_f64(find(batch, "loss"), 0), loss;
    struct session *x;
    struct world w;

    world_golden(&w, batch);
    x = world_open(&w, &run);
    loss = world_wave(x);
    if (!(fabs(loss / want - 1) < limit))
        fail_msg("loss of %s is %.12f, not %.12f", batch, loss, want);
    assert_int_equal(compare_adapters(x, &golden, batch, -1, limit),
                     3 * GDN_ADAPTERS + ATTENTION_ADAPTERS);
    world_close(x);
    world_free(&w);
}

/* ---- one layer ----------------------------------------------------------- */

/* Rows of random numbers, those of the golden script. */
static struct tensor layer_input(struct step *s, const char *part,
                                 const char *what)
{
    struct tensor t = ten_act(s, CAT_OTHER, "golden input",
                              s->rp->attention_rows, s->m->hidden);
    char name[64];

    snprintf(name, sizeof name, "%s/%s", part, what);
    RUN(s, random, .x = t.m, .seed = 7, .stream = random_stream(name),
        .scale = 1);
    return t;
}

static void check_layer(const char *part, int64_t layer, enum dtype act,
                        double limit)
{
    struct run run = {.cp = 1, .ep = 1, .lora = 4, .act = act};
    struct layer_saved saved = {.entry = {NULL, {0}}};
    struct gap y = {0, 0}, dx = {0, 0};
    struct tensor in, dy, out, result;
    struct session *x;
    struct step_data d;
    struct world w;
    struct step *s;
    struct err e;

    world_golden(&w, "packed");
    x = world_open(&w, &run);
    s = x->r[0].s;
    d = (struct step_data){.ids = w.ids, .target = w.target,
                           .weight = w.weight};
    s->e = &e;
    s->data = &d;
    inputs_make(s);
    s->layer = layer;
    in = layer_input(s, part, "x");
    dy = layer_input(s, part, "dy");
    result = layer_forward(s, in.m, &saved,
                           (struct mode_keep){true, true, true});
    add_gap(&y, find_in(&layers, part, "y"), 0, &result);
    ten_free(s, &result);
    out = layer_backward(s, in.m, &saved, &dy);
    add_gap(&dx, find_in(&layers, part, "dx"), 0, &out);
    world_need((int)s->rc, &e);
    check_gap(y, part, "y", limit);
    check_gap(dx, part, "dx", limit);
    assert_int_equal(compare_adapters(x, &layers, part, layer, limit),
                     layer == 3 ? ATTENTION_ADAPTERS : GDN_ADAPTERS);
    ten_free(s, &in);
    ten_free(s, &out);
    inputs_free(s);
    world_close(x);
    world_free(&w);
}

/* ---- tests --------------------------------------------------------------- */

#define RUN_OF(type, ...) \
    (struct run){.lora = 4, .act = type, .waves = 1, __VA_ARGS__}

static void test_layers(void **state)
{
    (void)state;
    check_layer("gdn", 0, DT_F64, 1e-10);
    check_layer("attention", 3, DT_F64, 1e-10);
    check_layer("gdn", 0, DT_F32, 1e-5);
    check_layer("attention", 3, DT_F32, 1e-5);
}

static void test_f64(void **state)
{
    (void)state;
    check("packed", RUN_OF(DT_F64, .cp = 1, .ep = 1), 1e-10);
    check("tree", RUN_OF(DT_F64, .cp = 1, .ep = 1), 1e-10);
    check("packed", RUN_OF(DT_F64, .cp = 1, .ep = 1, .forced = true), 1e-10);
}

/* Cut inside the longest sequence; inside the tree's first parent. */
static void test_two_ranks(void **state)
{
    (void)state;
    check("packed", RUN_OF(DT_F64, .cp = 2, .ep = 2, .cut = 100), 1e-10);
    check("tree", RUN_OF(DT_F64, .cp = 2, .ep = 1, .cut = 65), 1e-10);
    check("tree", RUN_OF(DT_F64, .cp = 2, .ep = 2, .cut = 171), 1e-10);
}

static void test_f32(void **state)
{
    (void)state;
    check("packed", RUN_OF(DT_F32, .cp = 1, .ep = 1, .forced = true), 1e-4);
    check("tree", RUN_OF(DT_F32, .cp = 2, .ep = 2, .cut = 65), 1e-4);
}

static int open_golden(void **state)
{
    (void)state;
    golden_open(&golden, MODEL);
    golden_open(&layers, LAYERS);
    return 0;
}

static int close_golden(void **state)
{
    (void)state;
    golden_free(&golden);
    golden_free(&layers);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers), cmocka_unit_test(test_f64),
        cmocka_unit_test(test_two_ranks), cmocka_unit_test(test_f32)
    };

    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
