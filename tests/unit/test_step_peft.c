/*
** test_step_peft.c - adapters and Adam's moments to a folder and back: a run
** that goes on from a folder is the run that never stopped, to the bit, on
** any number of ranks; and what is refused.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "safetensors.h"
#include "step_world.h"

#define RATE 0.01
enum { RANK = 2, FIRST = 3, ALL = 5 };

/* ---- all experts of a session ------------------------------------------- */

struct all { struct param_list list; double **value[PEFT_PARTS]; };

static double *take(const struct session *x, const struct param *own,
                    int64_t count, enum step_adapter what)
{
    double *v = malloc((size_t)count * sizeof *v);
    int64_t q;
    struct err e;

    for (q = 0; q < count / own->count; q++)
        world_need(step_adapter_get(x->r[q].s, own, what, v + q * own->count,
                                    &e), &e);
    return v;
}

static void all_take(const struct session *x, struct all *a)
{
    struct param_list own;
    struct err e;
    int64_t i;
    int k;

    world_need(param_list_make(&x->w->m, 1, RANK, &a->list, &e), &e);
    world_need(param_list_make(&x->w->m, x->run.ep, RANK, &own, &e), &e);
    for (k = 0; k < PEFT_PARTS; k++) {
        a->value[k] = calloc((size_t)a->list.n, sizeof *a->value[k]);
        for (i = 0; i < own.n; i++)
            if (own.p[i].role != PARAM_BASE)
                a->value[k][i] = take(x, &own.p[i], a->list.p[i].count,
                                      (enum step_adapter)k);
    }
    param_list_free(&own);
}

static void all_free(struct all *a)
{
    int64_t i;
    int k;

    for (k = 0; k < PEFT_PARTS; k++) {
        for (i = 0; i < a->list.n; i++) free(a->value[k][i]);
        free(a->value[k]);
    }
    param_list_free(&a->list);
}

static void all_same(const struct all *a, const struct all *b)
{
    int64_t i;
    int k;

    for (k = 0; k < PEFT_PARTS; k++)
        for (i = 0; i < a->list.n; i++)
            if (a->value[k][i] != NULL &&
                memcmp(a->value[k][i], b->value[k][i],
                       (size_t)a->list.p[i].count * sizeof(double)) != 0)
                fail_msg("part %d of layer %d %s differs", k,
                         (int)a->list.p[i].layer, a->list.p[i].tensor);
}

static void save(const struct session *x, const char *dir)
{
    enum checkpoint_type t = x->run.act == DT_F64 ? CKPT_F64
        : x->run.act == DT_F32 ? CKPT_F32 : CKPT_BF16;
    struct all a;
    struct peft_source s = {
        .m = &x->w->m, .list = &a.list, .rank = RANK, .alpha = 32,
        .base = "tiny", .type = t,
        .moments = t == CKPT_F64 ? CKPT_F64 : CKPT_F32,
    };
    struct err e;

    all_take(x, &a);
    memcpy((void *)s.value, a.value, sizeof a.value);
    s.step = step_adam_steps(x->r[0].s);
    world_need(peft_save(dir, &s, &e), &e);
    all_free(&a);
}

/* ---- going on ------------------------------------------------------------ */

static void train(const struct world *w, struct run r, int64_t waves,
                  const char *out, struct all *a)
{
    struct session *x = world_open(w, &r);

    while (waves-- > 0) world_wave(x);
    if (out != NULL) save(x, out);
    all_take(x, a);
    world_close(x);
}

static void goes_on(const char *json, struct run r)
{
    static const int64_t parent[] = {-1, 0, 0}, tokens[] = {9, 4, 6};
    struct all whole, first, rest;
    struct peft *f = NULL;
    char *dir = st_folder();
    struct world w;
    struct err e;

    world_new(&w, json, parent, tokens, 3);
    r.lora = RANK;
    r.learning_rate = RATE;
    train(&w, r, ALL, NULL, &whole);
    train(&w, r, FIRST, dir, &first);
    world_need(peft_open(dir, &w.m, RANK, 32, &f, &e), &e);
    assert_true(peft_has_moments(f));
    assert_int_equal(peft_step(f), FIRST);
    r.adapters = f;
    train(&w, r, 0, NULL, &rest);
    all_same(&rest, &first);
    all_free(&rest);
    train(&w, r, ALL - FIRST, NULL, &rest);
    all_same(&rest, &whole);
    all_free(&whole);
    all_free(&first);
    all_free(&rest);
    peft_close(f);
    world_free(&w);
    st_remove(dir);
}

static void test_goes_on(void **state)
{
    (void)state;
    goes_on(world_small, (struct run){.cp = 1, .ep = 1, .act = DT_F64});
    goes_on(world_small, (struct run){.cp = 2, .ep = 2, .act = DT_F32});
    goes_on(world_small, (struct run){.cp = 2, .ep = 2, .act = DT_BF16});
    goes_on(world_fused, (struct run){.cp = 1, .ep = 1, .act = DT_F64});
    goes_on(world_fused, (struct run){.cp = 2, .ep = 2, .act = DT_F32});
}

/* ---- folders of others --------------------------------------------------- */

#define AT "base_model.model.model.language_model.layers."
#define PLAIN "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":32}"

static void put(const char *dir, const char *name, const int64_t dim[2])
{
    struct st file = {BUF_INIT, BUF_INIT};
    float x[256];
    int i;

    for (i = 0; i < 256; i++) x[i] = (float)(i + 1) / 256;
    if (name != NULL) {
        char b[200];

        snprintf(b, sizeof b, "%s.lora_A.weight", name);
        st_tensor(&file, b, dim, 2);
        st_f32(&file, x, dim[0] * dim[1]);
        snprintf(b, sizeof b, "%s.lora_B.weight", name);
        st_tensor(&file, b, (const int64_t[2]){dim[1], dim[0]}, 2);
        st_f32(&file, x, dim[0] * dim[1]);
        st_save(&file, dir, "adapter_model.safetensors");
    } else {
        st_raw(dir, "adapter_model.safetensors", "{}", -1, "", 0);
    }
}

/* One projection of two: what the folder leaves out is zero. */
static void test_some(void **state)
{
    static const int64_t parent[] = {-1}, tokens[] = {9}, dim[2] = {2, 16};
    struct run r = {.cp = 1, .ep = 1, .act = DT_F64, .lora = RANK,
                    .learning_rate = RATE};
    struct session *x;
    struct peft *f = NULL;
    char *dir = st_folder();
    struct world w;
    struct err e;

    (void)state;
    world_new(&w, world_small, parent, tokens, 1);
    st_write(dir, PEFT_CONFIG, PLAIN, sizeof PLAIN - 1);
    put(dir, AT "1.self_attn.o_proj", dim);
    world_need(peft_open(dir, &w.m, RANK, 32, &f, &e), &e);
    assert_true(!peft_has_moments(f));
    r.adapters = f;
    x = world_open(&w, &r);
    world_wave(x);
    assert_true(world_value(&x->r[0].s->lw[1].site[SITE_O].b, 3)
                != 4.0 / 256);
    assert_true(fabs(world_value(&x->r[0].s->lw[1].site[SITE_O].a, 3)
                     - 4.0 / 256) < 2 * RATE);
    assert_true(world_value(&x->r[0].s->lw[1].site[SITE_Q].a, 3) == 0);
    assert_true(world_value(&x->r[0].s->lw[0].site[SITE_EXPERT_UP].b, 3)
                == 0);
    world_close(x);
    peft_close(f);
    world_free(&w);
    st_remove(dir);
}

static void test_refused(void **state)
{
    static const struct { const char *config, *name, *text; } bad[] = {
        {"{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":32}", NULL,
         PEFT_CONFIG ": r: is 4, but the case has lora_rank 2 (set lora_rank "
         "= 4)"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":16}", NULL,
         "lora_alpha: is 16, but the case has lora_alpha 32"},
        {"{\"peft_type\":\"IA3\",\"r\":2,\"lora_alpha\":32}", NULL,
         "peft_type: must be \"LORA\""},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":32,\"use_dora\":true}",
         NULL, "use_dora: plain LoRA"},
        {"{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":32,"
         "\"rank_pattern\":{\"q_proj\":4}}", NULL, "rank_pattern.q_proj"},
        {"{\"peft_type\":\"LORA\",\"r\":2}", NULL, "lora_alpha: missing"},
        {"[]", NULL, PEFT_CONFIG},
        {PLAIN, NULL, "holds no adapter"},
        {PLAIN, AT "1.self_attn.x_proj", "x_proj.lora_A.weight belongs to no "
         "adapted projection of tiny"},
        {PLAIN, AT "0.self_attn.o_proj", "belongs to no adapted"},
        {PLAIN, AT "0.mlp.experts.0.up_proj", "belongs to no adapted"},
    };
    static const int64_t parent[] = {-1}, tokens[] = {9}, dim[2] = {2, 16};
    struct world w;
    size_t i;

    (void)state;
    world_new(&w, world_small, parent, tokens, 1);
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *dir = st_folder();
        struct peft *f = NULL;
        struct err e = {0};

        st_write(dir, PEFT_CONFIG, bad[i].config, strlen(bad[i].config));
        put(dir, bad[i].name, dim);
        assert_int_equal(peft_open(dir, &w.m, RANK, 32, &f, &e), ERR_INPUT);
        if (strstr(e.text, bad[i].text) == NULL)
            fail_msg("expected \"%s\", got \"%s\"", bad[i].text, e.text);
        assert_null(f);
        st_remove(dir);
    }
    world_free(&w);
}

/* Another shape is found when it is read. */
static void test_shape(void **state)
{
    static const int64_t dim[2] = {2, 17};
    static const int64_t parent[] = {-1}, tokens[] = {9};
    struct param_list l;
    struct peft *f = NULL;
    char *dir = st_folder();
    double x[1024];
    struct world w;
    struct err e;
    int64_t i;

    (void)state;
    world_new(&w, world_small, parent, tokens, 1);
    st_write(dir, PEFT_CONFIG, PLAIN, sizeof PLAIN - 1);
    put(dir, AT "1.self_attn.o_proj", dim);
    world_need(peft_open(dir, &w.m, RANK, 32, &f, &e), &e);
    world_need(param_list_make(&w.m, 1, RANK, &l, &e), &e);
    for (i = 0; i < l.n; i++)
        if (l.p[i].site == SITE_O && l.p[i].role == PARAM_LORA_A) break;
    assert_int_equal(peft_read(f, &l.p[i], 0, PEFT_VALUE, x, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "has shape [2, 17], the model needs "
                           "[2, 16]"));
    param_list_free(&l);
    peft_close(f);
    world_free(&w);
    st_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_on), cmocka_unit_test(test_some),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_shape),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
