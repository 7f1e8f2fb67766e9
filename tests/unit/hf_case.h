/*
** hf_case.h - a line of tests/golden/hf/cases.jsonl as a world to run.
*/
#ifndef TESTS_UNIT_HF_CASE_H
#define TESTS_UNIT_HF_CASE_H

#include <jansson.h>

#include "base/json.h"
#include "base/random.h"
#include "step_world.h"

#define HF_SEGMENTS 16

struct hf_case {
    json_t *root;           /* owned */
    char name[64];          /* family and seed */
    struct world w;
    int64_t rank, steps;    /* of adapters; Adam's */
    double rate, margin;
};

static inline struct js hf_get(const struct hf_case *c, const char *key)
{
    struct js top = js_top(c->root, c->name), at;
    struct err e;

    world_need(js_need(&top, key, &at, &e), &e);
    return at;
}

static inline double hf_number(const struct js *array, int64_t i)
{
    struct js at = js_item(array, i);
    struct err e;
    double x = 0;

    world_need(js_double(&at, &x, &e), &e);
    return x;
}

/* Packed rows are labelled as reference.py does: every row whose prefix goes
** on, but for a fifth; where it forks only if the case has several. */
static inline void hf_label(struct hf_case *c, bool several)
{
    struct world *w = &c->w;
    uint64_t weights = random_stream("weights"), mask = random_stream("mask");
    int64_t i, row, n = w->b.tokens;

    w->more = malloc((size_t)n * sizeof *w->more);
    for (i = 0; i < w->b.n_seg; i++) {
        const struct segment *g = &w->b.seg[i];
        int64_t end = g->start + g->tokens, at, kids = 0, k;

        for (row = g->start; row < end; row++) {
            w->target[row] = -1;
            w->weight[row] = 0;
            if (random_bits(w->seed, mask, (uint64_t)row) % 5 == 0) continue;
            if (row + 1 < end) {
                w->target[row] = w->ids[row + 1];
                w->weight[row] = random_value(w->seed, weights,
                                              (uint64_t)row, 0.5, 1)
                                 / (double)n;
                continue;
            }
            for (at = i + 1; at < g->next; at = w->b.seg[at].next) kids++;
            if (kids == 0 || (kids > 1 && !several)) continue;
            for (at = i + 1, k = 0; at < g->next;
                 at = w->b.seg[at].next, k++) {
                int32_t t = w->ids[w->b.seg[at].start];
                double x = random_value(w->seed, weights,
                                        (uint64_t)(k * n + row), 0.5, 1)
                           / (double)n;
                if (k == 0) {
                    w->target[row] = t;
                    w->weight[row] = x;
                } else {
                    w->more[w->n_more++] = (struct step_label){row, t, x};
                }
            }
        }
    }
}

static inline void hf_open(struct hf_case *c, const char *line)
{
    struct js forest, top;
    int64_t parent[HF_SEGMENTS], tokens[HF_SEGMENTS], n, i, seed = 0;
    const char *family = "";
    uint64_t stream = random_stream("tokens");
    char *config;
    struct err e;
    bool several = false;

    memset(c, 0, sizeof *c);
    world_need(js_parse(line, strlen(line), "cases.jsonl", &c->root, &e), &e);
    top = js_top(c->root, "cases.jsonl");
    world_need(js_need_string(&top, "family", &family, &e), &e);
    world_need(js_need_int(&top, "seed", 0, INT64_MAX, &seed, &e), &e);
    world_need(js_need_int(&top, "rank", 1, 64, &c->rank, &e), &e);
    world_need(js_need_double(&top, "rate", &c->rate, &e), &e);
    world_need(js_need_double(&top, "margin", &c->margin, &e), &e);
    world_need(js_need_bool(&top, "several", &several, &e), &e);
    snprintf(c->name, sizeof c->name, "%s %d", family, (int)seed);
    forest = hf_get(c, "forest");
    n = js_size(&forest);
    if (n > HF_SEGMENTS) abort();
    for (i = 0; i < n; i++) {
        struct js s = js_item(&forest, i);
        parent[i] = (int64_t)hf_number(&s, 0);
        tokens[i] = (int64_t)hf_number(&s, 1);
    }
    forest = hf_get(c, "losses");
    c->steps = js_size(&forest) - 1;
    config = json_dumps(json_object_get(c->root, "config"), 0);
    world_new(&c->w, config, parent, tokens, n);
    free(config);
    c->w.seed = (uint64_t)seed;
    for (i = 0; i < c->w.b.tokens; i++)
        c->w.ids[i] = (int32_t)(random_bits(c->w.seed, stream, (uint64_t)i)
                                % (uint64_t)c->w.m.vocab);
    hf_label(c, several);
}

static inline void hf_close(struct hf_case *c)
{
    world_free(&c->w);
    json_decref(c->root);
}

#endif
