/*
** The step in every mode on the cpu device: what is kept and what runs again
** changes neither loss nor gradients, and dry takes and frees the same memory
** in the same order. The loss of hidden waves is held against its numbers.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "step_world.h"

/* A dense member with two groups of keys, and one of full attention. */
static const char dense_hybrid[] =
    "{\"model_type\":\"qwen3_5\",\"tie_word_embeddings\":false,"
    "\"text_config\":{\"model_type\":\"qwen3_5_text\","
    "\"hidden_size\":32,\"num_hidden_layers\":4,"
    "\"full_attention_interval\":4,\"attn_output_gate\":true,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,"
    "\"partial_rotary_factor\":0.25,\"rope_parameters\":"
    "{\"rope_theta\":10000000,\"partial_rotary_factor\":0.25},"
    "\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,"
    "\"linear_key_head_dim\":16,\"linear_value_head_dim\":16,"
    "\"linear_conv_kernel_dim\":4,\"intermediate_size\":48,"
    "\"vocab_size\":256,\"max_position_embeddings\":4096,"
    "\"rms_norm_eps\":1e-06,\"hidden_act\":\"silu\","
    "\"tie_word_embeddings\":false}}";
static const char dense_attention[] =
    "{\"model_type\":\"qwen3\",\"hidden_size\":32,\"num_hidden_layers\":3,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,"
    "\"rope_theta\":1000000,\"intermediate_size\":48,\"vocab_size\":256,"
    "\"max_position_embeddings\":4096,\"rms_norm_eps\":1e-06,"
    "\"hidden_act\":\"silu\",\"tie_word_embeddings\":false}";

/* A root of more than a chunk whose children fork again, one of less than a
** chunk, and a lone one. */
static const int64_t parent[] = {-1, 0, 0, -1, 3, 3, 4, -1};
static const int64_t tokens[] = {67, 5, 2, 6, 3, 70, 4, 1};

static const struct { const char *name, *config; } model[] = {
    {"experts", world_hybrid}, {"dense hybrid", dense_hybrid},
    {"dense attention", dense_attention},
};
#define MODELS (sizeof model / sizeof model[0])

/* experts: 1 with experts only, -1 without only. */
static const struct { struct mode mode; int experts; } modes[] = {
    {{.recompute = RECOMPUTE_NONE}, 0},
    {{.recompute = RECOMPUTE_NONE, .eager = true}, 0},
    {{.recompute = RECOMPUTE_FULL, .eager = true}, 0},
    {{.recompute = RECOMPUTE_SELECTIVE, .modules = MODULE_CORE_ATTN}, 0},
    {{.recompute = RECOMPUTE_SELECTIVE, .modules = MODULE_MLP}, -1},
    {{.recompute = RECOMPUTE_SELECTIVE,
      .modules = MODULE_CORE_ATTN + MODULE_MLP}, -1},
    {{.recompute = RECOMPUTE_SELECTIVE, .modules = MODULE_MOE}, 1},
    {{.recompute = RECOMPUTE_SELECTIVE, .eager = true,
      .modules = MODULE_CORE_ATTN + MODULE_MOE}, 1},
};
#define MODES (sizeof modes / sizeof modes[0])

/* ---- the same numbers --------------------------------------------------- */

static void same_numbers(const struct world *w, const char *name,
                         const struct run *run, const struct outcome *want,
                         size_t i)
{
    struct outcome o;
    double d;

    world_run(w, run, &o);
    d = world_distance(&o, want);
    if (!(fabs(o.loss - want->loss) < 1e-12) || !(d < 1e-10))
        fail_msg("%s, mode %zu, wave %s, cp %d: loss off by %g, gradients "
                 "by %g", name, i, mode_wave_words[run->mode.wave],
                 (int)run->cp, o.loss - want->loss, d);
    outcome_free(&o);
}

static void all_modes(const struct world *w, const char *name,
                      enum wave_kind wave, int64_t cp)
{
    struct run run = {.cp = cp, .ep = 1, .lora = 4, .act = DT_F64,
                      .waves = 2, .mode.wave = wave};
    struct outcome want;
    size_t i;

    world_run(w, &run, &want);
    assert_true(want.loss > 0);
    for (i = 0; i < MODES; i++) {
        if (modes[i].experts == 1 && w->m.experts == 0) continue;
        if (modes[i].experts == -1 && w->m.experts > 0) continue;
        run.mode = modes[i].mode;
        run.mode.wave = wave;
        same_numbers(w, name, &run, &want, i);
    }
    outcome_free(&want);
}

static void test_numbers(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < MODELS; i++) {
        struct world w;

        world_new(&w, model[i].config, parent, tokens, 8);
        all_modes(&w, model[i].name, WAVE_TRAIN, 1);
        all_modes(&w, model[i].name, WAVE_TRAIN, 2);
        all_modes(&w, model[i].name, WAVE_HIDDEN_LOSS, 1);
        world_free(&w);
    }
}

/* ---- the same events on dry --------------------------------------------- */

static void dry_same(const struct world *w, const struct run *run,
                     const struct plan *p, const struct outcome *want,
                     const char *name, size_t mode)
{
    static const struct routing balanced = {.kind = ROUTING_BALANCED};
    struct step_config c = world_config(w, run, p, 0);
    struct dev_options o = {.act = run->act};
    struct mem_config mc = {0};
    struct step_result res;
    struct mem_stats st;
    struct step *s = NULL;
    struct dev *d;
    struct mem *m;
    struct err e;
    int64_t i;

    c.routing = &balanced;
    world_need(dev_dry.open(&o, &d, &e), &e);
    world_need(mem_new(&mc, d->source, &m, &e), &e);
    world_need(step_new(&c, d, m, NULL, &s, &e), &e);
    for (i = 0; i < run->waves; i++)
        world_need(step_wave(s, i, NULL, &res, &e), &e);
    mem_stats(m, &st);
    if (st.fingerprint != want->stats[0].fingerprint ||
        st.events != want->stats[0].events)
        fail_msg("%s, mode %zu, wave %s: other events", name, mode,
                 mode_wave_words[run->mode.wave]);
    assert_int_equal(res.peak.allocated, want->res[0].peak.allocated);
    assert_int_equal(res.retained_bytes, want->res[0].retained_bytes);
    assert_int_equal(res.start_bytes, want->res[0].start_bytes);
    step_free(s);
    mem_free_all(m);
    d->ops->close(d);
}

static void dry_modes(const struct world *w, const char *name,
                      enum wave_kind wave, enum dtype act)
{
    struct run run = {.cp = 1, .ep = 1, .lora = 4, .act = act, .waves = 2};
    struct plan_options po = {.cp = 1, .ep = 1, .tp = 1, .profile = PLAN_NEW,
                              .owned_ms = -1};
    struct plan p = {0};
    struct outcome o;
    struct err e;
    size_t i;

    world_need(plan_make(&w->m, &w->b, &po, &p, &e), &e);
    for (i = 0; i < MODES; i++) {
        if (modes[i].experts == 1 && w->m.experts == 0) continue;
        if (modes[i].experts == -1 && w->m.experts > 0) continue;
        run.mode = modes[i].mode;
        run.mode.wave = wave;
        run.mode.no_grad = wave == WAVE_HIDDEN && i % 2 == 0;
        world_run(w, &run, &o);
        dry_same(w, &run, &p, &o, name, i);
        outcome_free(&o);
    }
    plan_free(&p);
}

static void test_dry(void **state)
{
    static const enum dtype act[] = {DT_F64, DT_F32, DT_BF16};
    size_t i;

    (void)state;
    for (i = 0; i < MODELS; i++) {
        struct world w;

        world_new(&w, model[i].config, parent, tokens, 8);
        dry_modes(&w, model[i].name, WAVE_TRAIN, act[i]);
        dry_modes(&w, model[i].name, WAVE_HIDDEN, act[(i + 1) % 3]);
        dry_modes(&w, model[i].name, WAVE_HIDDEN_LOSS, act[(i + 2) % 3]);
        world_free(&w);
    }
}

/* ---- tensor parallelism within context parallelism ---------------------- */

/* Requested bytes at the peak of the rank's second wave. */
static int64_t dry_peak(const struct world *w, const struct run *run,
                        const struct plan *p, int64_t rank)
{
    static const struct routing balanced = {.kind = ROUTING_BALANCED};
    struct step_config c = world_config(w, run, p, rank);
    struct dev_options o = {.act = run->act};
    struct mem_config mc = {0};
    struct step_result res[2];
    struct step *s = NULL;
    struct dev *d;
    struct mem *m;
    struct err e;
    int64_t i;

    c.routing = &balanced;
    world_need(dev_dry.open(&o, &d, &e), &e);
    world_need(mem_new(&mc, d->source, &m, &e), &e);
    world_need(step_new(&c, d, m, NULL, &s, &e), &e);
    for (i = 0; i < 2; i++)
        world_need(step_wave(s, i, NULL, &res[i], &e), &e);
    step_free(s);
    mem_free_all(m);
    d->ops->close(d);
    return (int64_t)res[1].peak.requested;
}

/* Layers of the delta net change a rank's rows, of which a tensor-parallel
** rank has its share: less than all, and no less than half of two. */
static void split_modes(const struct world *w, const char *name,
                        enum wave_kind wave)
{
    struct run run = {.cp = 2, .ep = 1, .lora = 4, .act = DT_BF16,
                      .waves = 2};
    struct plan_options po = {.cp = 2, .ep = 1, .tp = 1,
                              .profile = PLAN_NEW, .owned_ms = -1};
    struct plan p = {0};
    struct err e;
    size_t i;
    int64_t r;

    world_need(plan_make(&w->m, &w->b, &po, &p, &e), &e);
    for (i = 0; i < MODES; i++)
        for (r = 0; r < 2; r++) {
            int64_t one, two;

            if (modes[i].experts == 1 && w->m.experts == 0) continue;
            if (modes[i].experts == -1 && w->m.experts > 0) continue;
            run.mode = modes[i].mode;
            run.mode.wave = wave;
            one = dry_peak(w, &run, &p, r);
            run.mode.tp = 2;
            two = dry_peak(w, &run, &p, r);
            if (two >= one || 2 * two < one)
                fail_msg("%s, mode %zu, rank %d: %lld B, of two %lld B",
                         name, i, (int)r, (long long)one, (long long)two);
        }
    plan_free(&p);
}

static void test_dry_split(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < MODELS; i++) {
        struct world w;

        world_new(&w, model[i].config, parent, tokens, 8);
        split_modes(&w, model[i].name, WAVE_HIDDEN);
        split_modes(&w, model[i].name, WAVE_HIDDEN_LOSS);
        world_free(&w);
    }
}

/* ---- the loss of hidden states ------------------------------------------ */

/* Moves all adapters along their gradient by h: how the loss follows. */
static double moved(struct session *x, const struct outcome *g, double h)
{
    const double *at = g->grad;
    int64_t l, i;
    int site;

    for (l = 0; l < x->w->m.layers; l++)
        for (site = 0; site < SITE_COUNT; site++) {
            struct adapter *a = &x->r[0].s->lw[l].site[site];

            if (a->a.b == NULL) continue;
            for (i = 0; i < a->a.m.rows * a->a.m.cols; i++)
                ((double *)a->a.m.p)[i] += h * *at++;
            for (i = 0; i < a->b.m.rows * a->b.m.cols; i++)
                ((double *)a->b.m.p)[i] += h * *at++;
        }
    return world_wave(x);
}

static void test_hidden_derivative(void **state)
{
    size_t i;

    (void)state;
    for (i = 1; i < MODELS; i++) {
        struct run run = {.cp = 1, .ep = 1, .lora = 4, .act = DT_F64,
                          .mode.wave = WAVE_HIDDEN_LOSS};
        struct outcome base = {0};
        double norm = 0, got, h = 1e-6;
        struct session *x;
        struct world w;
        int64_t j;

        world_new(&w, model[i].config, parent, tokens, 8);
        x = world_open(&w, &run);
        world_wave(x);
        take_gradients(x, &base);
        for (j = 0; j < base.n_grad; j++)
            norm += base.grad[j] * base.grad[j];
        got = moved(x, &base, h);
        got = (got - moved(x, &base, -2 * h)) / (2 * h);
        if (!(fabs(got / norm - 1) < 1e-6))
            fail_msg("%s: derivative %.12g, gradient %.12g", model[i].name,
                     got, norm);
        outcome_free(&base);
        world_close(x);
        world_free(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_dry),
        cmocka_unit_test(test_dry_split),
        cmocka_unit_test(test_hidden_derivative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
