/*
** test_step_hf.c - random small models of every family against Hugging Face
** transformers and torch's autograd (tests/golden/hf): losses, the gradient
** of every adapter, losses and adapters after Adam steps; forests with
** shared prefixes, several targets at a fork, and the same over two and four
** ranks.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hf_case.h"
#include "model/weights_map.h"
#include "sweep.h"

#define CASES "tests/golden/hf/cases.jsonl"
#define TORCH_F32 "tests/golden/hf/f32.jsonl"

/* Relative: of the first loss, later ones, gradients and adapters to their
** tensor's norm. Adam turns a gradient near zero into a step of full size, so
** that in f32 later losses of a few models leave by more than rounding. */
struct limits { double loss, later, grad, adapter; };

static const struct limits f64_limits = {1e-12, 2e-12, 1e-12, 1e-10};
static const struct limits bf16_limits = {2e-2, 0, 0.1, 0};
static const struct limits f32_limits = {3e-7, 1e-3, 3e-4, 0.1};

/* ---- fingerprints -------------------------------------------------------- */

struct print { double norm, dot; };

static void add_print(struct print *f, const struct tensor *t,
                      const char *name, int64_t first)
{
    uint64_t stream = random_stream(name);
    int64_t i, n = t->m.rows * t->m.cols;

    for (i = 0; i < n; i++) {
        double x = t->b == NULL ? 0 : world_value(t, i);

        f->norm += x * x;
        f->dot += x * random_value(1, stream, (uint64_t)(first + i), 1, 0);
    }
}

/* Of one adapter tensor; routed ones lie on the ranks in parts. */
static struct print print_of(const struct session *x, const struct param *p,
                             bool grad)
{
    bool routed = p->site == SITE_EXPERT_UP || p->site == SITE_EXPERT_DOWN;
    int64_t ranks = routed ? x->run.ep : 1, q;
    struct print f = {0, 0};
    char name[256], full[260];

    stored_full_name(x->r[0].s->m, p->layer, p->tensor, name,
                     sizeof name);
    snprintf(full, sizeof full, "%s#", name);
    for (q = 0; q < ranks; q++) {
        const struct adapter *a = &x->r[q].s->lw[p->layer].site[p->site];
        const struct tensor *t = p->role == PARAM_LORA_A
            ? grad ? &a->grad_a : &a->a : grad ? &a->grad_b : &a->b;

        add_print(&f, t, full, q * p->count);
    }
    f.norm = sqrt(f.norm);
    return f;
}

/* Tensors compared, and those of bf16 that were beyond the limit: a small
** model has some whose gradient is the difference of larger numbers. */
static int64_t n_print, n_beyond;

static bool near(struct print got, double norm, double dot, double limit)
{
    return fabs(got.norm - norm) <= limit * norm + 1e-300
        && fabs(got.dot - dot) <= limit * norm + 1e-300;
}

static void compare_prints(const struct hf_case *c, const struct session *x,
                           const char *key, bool grad, double limit)
{
    struct js list = hf_get(c, key);
    struct param_list l;
    struct err e;
    int64_t i, n = 0;

    world_need(param_list_make(&c->w.m, x->run.ep, c->rank, &l, &e), &e);
    for (i = 0; i < l.n; i++) {
        struct js want = js_item(&list, n);
        double norm, dot;
        struct print got;

        if (l.p[i].role == PARAM_BASE) continue;
        n++;
        norm = hf_number(&want, 0);
        dot = hf_number(&want, 1);
        got = print_of(x, &l.p[i], grad);
        n_print++;
        n_beyond += !near(got, norm, dot, limit);
        if (!near(got, norm, dot, limit) && x->run.act != DT_BF16)
            fail_msg("%s cp%d ep%d: %s, layer %d %s: off by %g and %g, limit "
                     "%g", c->name, (int)x->run.cp, (int)x->run.ep, key,
                     (int)l.p[i].layer, l.p[i].tensor,
                     fabs(got.norm / norm - 1), fabs(got.dot - dot) / norm,
                     limit);
    }
    assert_int_equal(n, js_size(&list));
    param_list_free(&l);
}

/* ---- a case -------------------------------------------------------------- */

/* The largest error of losses 1 to 5 in f32 of a case of qwen3_moe. */
static struct moe_error {
    uint64_t seed;
    double worst;
} moe_error[64];
static int n_moe_error;

static void note_error(const struct hf_case *c, double error)
{
    struct moe_error *m = moe_error + n_moe_error - 1;

    if (n_moe_error == 0 || m->seed != c->w.seed) {
        assert_true(n_moe_error < 64);
        m = moe_error + n_moe_error++;
        *m = (struct moe_error){c->w.seed, 0};
    }
    m->worst = fmax(m->worst, error);
}

static void check_loss(const struct hf_case *c, const struct run *r,
                       int64_t step, double got, double limit)
{
    struct js losses = hf_get(c, "losses");
    double want = hf_number(&losses, step);

    if (!(fabs(got / want - 1) < limit))
        fail_msg("%s cp%d ep%d: loss of step %d is %.15g, not %.15g",
                 c->name, (int)r->cp, (int)r->ep, (int)step, got, want);
    if (r->act == DT_F32 && step >= 1 && step <= 5 &&
        strncmp(c->name, "qwen3_moe ", 10) == 0)
        note_error(c, fabs(got / want - 1));
}

static void replay(const struct hf_case *c, struct run r, struct limits lim)
{
    struct session *x;
    int64_t step;

    r.lora = c->rank;
    r.learning_rate = c->rate;
    x = world_open(&c->w, &r);
    check_loss(c, &r, 0, world_wave(x), lim.loss);
    compare_prints(c, x, "gradients", true, lim.grad);
    for (step = 1; step < c->steps; step++)
        check_loss(c, &r, step, world_wave(x), lim.later);
    compare_prints(c, x, "adapters", false, lim.adapter);
    check_loss(c, &r, c->steps, world_wave(x), lim.later);
    world_close(x);
}

/* Ranks over which this case can be split. */
static struct run split(const struct hf_case *c, int64_t cp, bool experts)
{
    int64_t n = c->w.m.experts;
    struct run r = {.cp = cp, .ep = experts && n > 0 && n % cp == 0 ? cp : 1};

    r.cut = cp == 2 && c->w.b.tokens > 4 ? c->w.b.tokens / 3 : 0;
    return r;
}

/* Cases number from, from + every, ... */
static void some_cases(int (*f)(struct hf_case *c), int from, int every,
                       int at_least)
{
    char *line = NULL;
    size_t cap = 0;
    int n = 0, i;
    FILE *in = fopen(CASES, "r");

    if (in == NULL) fail_msg("%s: cannot be opened (run from the top)", CASES);
    for (i = 0; getline(&line, &cap, in) > 0; i++) {
        struct hf_case c;

        if (i % every != from) continue;
        hf_open(&c, line);
        n += f(&c);
        hf_close(&c);
    }
    free(line);
    fclose(in);
    if (n < at_least) fail_msg("%d cases, not %d", n, at_least);
}

static void each_case(int (*f)(struct hf_case *c), int at_least)
{
    some_cases(f, 0, 1, at_least);
}

/* With sanitizers a third of them, another in each test. */
static void most_cases(int (*f)(struct hf_case *c), int test, int at_least)
{
    int every = sweep(1, 3);

    some_cases(f, test % every, every, at_least / every);
}

static int run_f64(struct hf_case *c)
{
    struct run r = split(c, 1, false);

    r.act = DT_F64;
    replay(c, r, f64_limits);
    return 1;
}

static int run_split(struct hf_case *c)
{
    struct run r = split(c, 2, c->w.seed % 2 == 0);

    if (c->w.b.tokens < 8) return 0;
    r.act = DT_F64;
    replay(c, r, f64_limits);
    if (c->w.seed % 4 != 0 || c->w.b.tokens < 40) return 1;
    r = split(c, 4, true);
    r.act = DT_F64;
    replay(c, r, f64_limits);
    return 1;
}

static int run_f32(struct hf_case *c)
{
    struct run r = split(c, 1, false);

    r.act = DT_F32;
    replay(c, r, f32_limits);
    return 1;
}

/* The routes of an f64 run, for the replay to take. */
static void take_routes(struct hf_case *c)
{
    struct run r = {.cp = 1, .ep = 1, .act = DT_F64, .lora = c->rank,
                    .dump = true};
    struct session *x = world_open(&c->w, &r);
    const struct step_dump *d;
    int64_t layer, i, k = c->w.m.top_k, n = c->w.b.tokens;
    double sum = 0, loss = world_wave(x);

    d = step_dumped(x->r[0].s);
    for (i = 0; i < d->n_label; i++)
        sum += d->label[i].weight * d->label_loss[i];
    if (!(fabs(sum / loss - 1) < 1e-12)) fail_msg("%s: row losses", c->name);
    for (layer = 0; layer < c->w.m.layers; layer++)
        for (i = 0; i < n; i++)
            memcpy(c->w.forced
                   + (layer * n + d->row[c->w.m.kind[layer]][i]) * k,
                   d->route + (layer * d->route_rows + i) * k,
                   (size_t)k * sizeof *c->w.forced);
    world_close(x);
}

/* bf16 with the routes of f64, one wave. */
static int run_bf16(struct hf_case *c)
{
    struct run r = {.cp = 1, .ep = 1, .act = DT_BF16, .lora = c->rank};
    struct session *x;

    take_routes(c);
    r.forced = c->w.m.experts > 0;
    x = world_open(&c->w, &r);
    check_loss(c, &r, 0, world_wave(x), bf16_limits.loss);
    compare_prints(c, x, "gradients", true, bf16_limits.grad);
    world_close(x);
    return 1;
}

static void test_bf16(void **state)
{
    (void)state;
    n_print = n_beyond = 0;
    each_case(run_bf16, 100);
    assert_true(n_print > 1000 && n_beyond * 8 < n_print);
}

static void test_f64(void **state)
{
    (void)state;
    most_cases(run_f64, 0, 100);
}

static void test_split(void **state)
{
    (void)state;
    most_cases(run_split, 1, 80);
}

/* The same losses in torch's own f32: their largest error. */
static double torch_error(struct hf_case *c, const char *line)
{
    struct js want = hf_get(c, "losses"), got;
    json_t *root;
    struct err e;
    double worst = 0;
    struct js top;
    int64_t i, seed;

    world_need(js_parse(line, strlen(line), TORCH_F32, &root, &e), &e);
    top = js_top(root, TORCH_F32);
    world_need(js_need_int(&top, "seed", 0, INT32_MAX, &seed, &e), &e);
    if ((uint64_t)seed != c->w.seed) fail_msg("%s: torch's are of %lld",
                                              c->name, (long long)seed);
    world_need(js_need(&top, "losses", &got, &e), &e);
    for (i = 1; i <= 5; i++)
        worst = fmax(worst, fabs(hf_number(&got, i) / hf_number(&want, i)
                                 - 1));
    json_decref(root);
    return worst;
}

static FILE *torch_lines;
static int n_near, n_torch_near;

static int compare_f32(struct hf_case *c)
{
    const struct moe_error *m = moe_error;
    char *line = NULL;
    size_t cap = 0;
    double torch;

    if (strncmp(c->name, "qwen3_moe ", 10) != 0) return 0;
    while (m->seed != c->w.seed) m++;
    assert_true(getline(&line, &cap, torch_lines) > 0);
    torch = torch_error(c, line);
    n_near += m->worst < 5e-8;
    n_torch_near += torch < 5e-8;
    if (m->worst > fmax(5e-8, 20 * torch))
        fail_msg("%s: off by %g, torch's f32 by %g", c->name, m->worst,
                 torch);
    free(line);
    return 1;
}

/* Five losses of Qwen3-MoE within 5e-8 of f64, or where torch's own f32 is
** not that near either: Adam turns a gradient near its epsilon, of a size that
** f32 does not know, into a step (in seed 19 one of 5e-9 in a tensor of norm
** 0.86), so that the factor is one of chance and machine. With 1 - beta2 of a
** rounded beta2 all were 5e-7 to 3e-6 off. */
static void test_f32(void **state)
{
    (void)state;
    n_moe_error = n_near = n_torch_near = 0;
    each_case(run_f32, 100);
    torch_lines = fopen(TORCH_F32, "r");
    assert_non_null(torch_lines);
    each_case(compare_f32, n_moe_error);
    fclose(torch_lines);
    print_message("within 5e-8: %d of %d cases, torch's f32 %d\n", n_near,
                  n_moe_error, n_torch_near);
    assert_true(n_moe_error >= 16 && 2 * n_near > n_moe_error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f64), cmocka_unit_test(test_split),
        cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
