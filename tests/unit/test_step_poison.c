/*
** What is kept is read. Between a layer's recompute and its backward every
** live tensor of the recompute is filled with NaN, one at a time: loss or
** gradients must change, or the backward refuse it (an index out of range).
** Likewise the boundaries. What may be filled unnoticed stands in a list,
** with the reason why it is held, and every entry of the list is met.
**
** The wave is the real one: wave.c is compiled into this test with its calls
** of the layer's recompute and backward led through here.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "step_world.h"

static void hook_restore(struct step *s, struct mat x,
                         struct layer_saved *l);
static struct tensor hook_backward(struct step *s, struct mat x,
                                   struct layer_saved *l, struct tensor *dy);

#define layer_restore hook_restore
#define layer_backward hook_backward
#include "step/wave.c"
#undef layer_restore
#undef layer_backward

/* ---- what is held, and to fill one of it -------------------------------- */

enum { MAX_KEPT = 128 };

struct kept { const char *op; enum category category; void *p; size_t n; };

/* What to do in a rank's wave. */
static struct {
    int64_t rank, layer;
    int fill;               /* which of the kept tensors; -1: none */
    bool boundary;          /* fill the layer's boundary instead */
    struct kept kept[MAX_KEPT];     /* as found */
    int n;
} plan_;

/* Live tensors of this layer's recompute, from the allocator's events. */
static void find_kept(const struct step *s)
{
    uint64_t n, i;
    const struct mem_event *t = mem_trace(s->mem, &n);
    bool *freed = calloc((size_t)n + 1, sizeof *freed);

    if (freed == NULL) abort();
    plan_.n = 0;
    for (i = 0; i < n; i++)
        if (t[i].is_free) freed[t[i].alloc] = true;
    for (i = 0; i < n; i++) {
        if (t[i].is_free || freed[i] || t[i].layer != s->layer ||
            t[i].phase != PHASE_RECOMPUTE ||
            t[i].category == CAT_WORKSPACE) continue;
        assert_true(plan_.n < MAX_KEPT);
        plan_.kept[plan_.n++] = (struct kept){
            t[i].op, (enum category)t[i].category,
            (void *)(uintptr_t)t[i].addr, (size_t)t[i].bytes};
    }
    free(freed);
}

static bool is_here(const struct step *s)
{
    return s->rc == ERR_OK && s->c.rank == plan_.rank &&
           s->layer == plan_.layer;
}

static void hook_restore(struct step *s, struct mat x,
                         struct layer_saved *l)
{
    if (is_here(s) && plan_.boundary)
        memset(x.p, 0xFF, (size_t)(x.rows * x.cols * dtype_bytes(x.t)));
    layer_restore(s, x, l);
}

/* All bits set: NaN of every float type, -1 of integers. */
static struct tensor hook_backward(struct step *s, struct mat x,
                                   struct layer_saved *l, struct tensor *dy)
{
    if (is_here(s)) {
        find_kept(s);
        if (plan_.fill >= 0 && plan_.fill < plan_.n)
            memset(plan_.kept[plan_.fill].p, 0xFF,
                   plan_.kept[plan_.fill].n);
    }
    return layer_backward(s, x, l, dy);
}

/* ---- one wave ----------------------------------------------------------- */

static void *wave_main(void *arg)
{
    struct world_rank *r = arg;
    const struct world *w = r->all->w;
    struct step_data d = {.ids = w->ids, .target = w->target,
                          .weight = w->weight, .forced = w->forced};

    r->rc = step_wave(r->s, 0, &d, &r->res, &r->e);
    return NULL;
}

/* Loss and gradients of a first wave; false when it was refused. */
static bool wave(const struct world *w, const struct run *run,
                 struct outcome *o)
{
    struct session *x = world_open(w, run);
    bool good = true;
    int64_t i;

    memset(o, 0, sizeof *o);
    for (i = 0; i < run->cp; i++)
        pthread_create(&x->r[i].thread, NULL, wave_main, &x->r[i]);
    for (i = 0; i < run->cp; i++) pthread_join(x->r[i].thread, NULL);
    for (i = 0; i < run->cp; i++) good = good && x->r[i].rc == ERR_OK;
    o->loss = x->r[0].res.loss;
    if (good) take_gradients(x, o);
    world_close(x);
    return good;
}

static bool differs(const struct outcome *a, const struct outcome *b)
{
    return a->loss != b->loss || a->n_grad != b->n_grad ||
           memcmp(a->grad, b->grad, (size_t)a->n_grad * sizeof *a->grad) != 0;
}

static bool noticed(const struct world *w, const struct run *run,
                    const struct outcome *base)
{
    struct outcome o;
    bool yes = !wave(w, run, &o) || differs(&o, base);

    outcome_free(&o);
    return yes;
}

/* ---- what is held and not read ------------------------------------------ */

static struct { const char *op, *why; bool met; } unread[] = {
    {"gdn.mask", "the framework fills the rows of padding by it; ours have "
     "none", false},
    {"gdn.rate", "the framework multiplies by it; our kernel makes it of the "
     "weight again", false},
    {"gdn.conv.segment", "where a row lies the framework's convolution looks "
     "up; ours is told by pieces", false},
    {"gdn.conv.place", "likewise", false},
    {"attention.rotary", "rotated queries and keys are what the stages copy "
     "from; they read the copies", false},
    {"attention.stage_lse_natural", "the traced kernel returns a second "
     "log-sum-exp, which the merge reads in the forward", false},
    {"attention.q_gather", "the input of the padding", false},
    {"attention.kv_fetch", "the input of the padding", false},
    {"router.scores", "where the chosen weights are normalised their gradient "
     "needs only them", false},
    {"router.map", "the traced router returns it beside the indices", false},
    {"moe.pair_weight", "with one expert group a copy sorted by expert is "
     "read", false},
};

static bool may_be_unread(const char *op)
{
    size_t i;

    for (i = 0; i < sizeof unread / sizeof unread[0]; i++)
        if (strcmp(unread[i].op, op) == 0) return unread[i].met = true;
    return false;
}

static int tapes;           /* merge tapes that were filled */

static int check_layer(const struct world *w, const struct run *run,
                       int64_t rank, int64_t layer)
{
    struct outcome base;
    int i, n, bad = 0;

    plan_.rank = rank;
    plan_.layer = layer;
    plan_.fill = -1;
    plan_.boundary = false;
    assert_true(wave(w, run, &base));
    n = plan_.n;
    assert_true(n > 20);
    for (i = 0; i < n; i++) {
        const char *op = plan_.kept[i].op;

        plan_.fill = i;
        tapes += strstr(op, "tape") != NULL;
        if (noticed(w, run, &base)) continue;
        if (may_be_unread(op)) continue;
        print_error("layer %d of rank %d: nothing reads %s (%zu bytes)\n",
                    (int)layer, (int)rank, op, plan_.kept[i].n);
        bad++;
    }
    plan_.fill = -1;
    plan_.boundary = true;
    assert_true(noticed(w, run, &base));
    outcome_free(&base);
    return bad;
}

static const int64_t fork[] = {-1, 0, 0, -1}, fork_tokens[] = {20, 3, 9, 8};

static void check_world(const struct run *run, int64_t ranks)
{
    char json[sizeof world_small], *layers;
    struct world w;
    int64_t rank;
    int bad = 0;

    /* twice the layers, so that the gradients of both inputs are used */
    memcpy(json, world_small, sizeof json);
    layers = strstr(json, "_layers\":2");
    assert_non_null(layers);
    layers[9] = '4';
    world_new(&w, json, fork, fork_tokens, 4);
    for (rank = 0; rank < ranks; rank++) {
        bad += check_layer(&w, run, rank, 2);   /* GDN */
        bad += check_layer(&w, run, rank, 1);   /* attention */
    }
    world_free(&w);
    assert_int_equal(bad, 0);
}

static void test_one_rank(void **state)
{
    struct run run = {.cp = 1, .ep = 1, .lora = 2, .act = DT_F32,
                      .forced = true, .trace = true};

    (void)state;
    check_world(&run, 1);
}

static void test_two_ranks(void **state)
{
    struct run run = {.cp = 2, .ep = 2, .lora = 2, .act = DT_F32,
                      .forced = true, .trace = true, .cut = 22};

    (void)state;
    check_world(&run, 2);
}

static void test_list(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof unread / sizeof unread[0]; i++)
        if (!unread[i].met)
            fail_msg("%s is read, or not there (\"%s\")", unread[i].op,
                     unread[i].why);
    assert_true(tapes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank), cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
