/* A step that streams: one layer's weights at a time, and nothing else
** changed. That its numbers are those of a step that holds all weights is
** tests/cli/route.t's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "step_cases.h"

static bool is_weight(const struct mem_event *x)
{
    return strcmp(x->op, "weights") == 0 || strcmp(x->op, "adapters") == 0;
}

/* Walks the events: never may weights of two layers be there at once. Returns
** the most bytes of weights, those outside the layers included. */
static int64_t most_weights(const struct mem_event *x, uint64_t n)
{
    int64_t live = 0, most = 0, in_layers = 0;
    int layer = -1;
    uint64_t i;

    for (i = 0; i < n; i++) {
        int64_t bytes = (int64_t)x[i].bytes * (x[i].is_free ? -1 : 1);
        if (!is_weight(&x[i])) continue;
        live += bytes;
        if (live > most) most = live;
        if (x[i].layer < 0) continue;
        assert_true(in_layers == 0 || x[i].layer == layer);
        layer = x[i].layer;
        in_layers += bytes;
    }
    assert_int_equal(in_layers, 0);
    return most;
}

/* Bytes outside the layers that a hidden wave reads, and of the largest
** layer. */
static int64_t expected(const struct model *m)
{
    struct param_list l;
    int64_t outside = 0, most = 0, *layer = calloc(64, sizeof *layer), i;
    struct err e;

    case_need(param_list_make(m, 2, 8, &l, &e), &e);
    for (i = 0; i < l.n; i++) {
        if (l.p[i].layer >= 0) layer[l.p[i].layer] += l.p[i].bytes;
        else if (strcmp(l.p[i].tensor, "lm_head.weight") != 0)
            outside += l.p[i].bytes;
    }
    for (i = 0; i < m->layers; i++)
        if (layer[i] > most) most = layer[i];
    param_list_free(&l);
    free(layer);
    return outside + most;
}

static void run_streamed(struct step_config *c, int code)
{
    struct dry_rank r;
    struct step_result res;
    const struct mem_event *trace;
    struct err e;
    uint64_t n;

    assert_int_equal(dry_rank_open(&r, c, true, &e), code);
    if (code == ERR_OK) {
        case_need(step_wave(r.step, 0, NULL, &res, &e), &e);
        trace = mem_trace(r.mem, &n);
        assert_int_equal(most_weights(trace, n), expected(c->model));
    }
    dry_rank_close(&r);
}

static void test_one_layer(void **state)
{
    struct model m;
    struct plan p;
    struct step_config c;

    (void)state;
    case_model(CASE_MODEL, 40, &m);
    case_plan(&layout_cases[0], &p);
    c = case_config(&m, &p, 0, 2);
    c.stream = true;
    run_streamed(&c, ERR_INPUT);        /* a training wave needs them again */
    c.mode.wave = WAVE_HIDDEN;
    run_streamed(&c, ERR_INPUT);
    c.mode.no_grad = true;
    run_streamed(&c, ERR_OK);
    plan_free(&p);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_layer)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
