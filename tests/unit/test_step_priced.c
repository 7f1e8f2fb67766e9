/*
** per-rank-any against the dry device: waves of 20 thousand to 546 thousand
** tokens and of 64 to 5,000, cold and warm, at CP2, CP4 and CP8 with every EP
** that divides it. None may be under. What it is over by is printed.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "price/price.h"
#include "step_cases.h"
#include "sweep.h"

static struct err err;

static void need(int rc)
{
    if (rc != ERR_OK) fail_msg("%s", err.text);
}

#define WIDE 6      /* percent */

/* What a set of waves may be over by, and what they are. */
struct bars {
    double percent;
    int64_t bytes;          /* or so many, where the percent is less */
    double error[4096];
    int n, wide;            /* waves over by more than the percent */
};

struct wave_case {
    const char *name;
    const struct batch *b;
    int64_t layers, cp, ep, rank;
    const char *model;
};

static void price(const struct wave_case *c, const struct model *m,
                  const struct plan *p, bool cold, struct estimate *x)
{
    struct price_facts f;

    need(price_facts_from_plan(m, p, c->ep, c->rank, &f, &err));
    f.cold = cold;
    f.head_rows = p->tokens;
    if (cold) need(price_facts_all_pending(&f, &err));
    need(price_per_rank_any(&f, x, &err));
    price_facts_free(&f);
}

/* The most-loaded rank's peaks of a cold and a warm wave. */
static void run(const struct wave_case *c, const struct model *m,
                const struct plan *p, int64_t peak[2])
{
    int64_t r, w;

    peak[0] = peak[1] = 0;
    for (r = 0; r < c->cp; r++) {
        struct step_config s = case_config(m, p, r, c->ep);
        struct step_result got;
        struct dry_rank d;

        s.lora_rank = c->rank;
        s.head_rows = p->rank[r].attention_rows;
        need(dry_rank_open(&d, &s, false, &err));
        for (w = 0; w < 2; w++) {
            need(step_wave(d.step, w, NULL, &got, &err));
            if ((int64_t)got.peak.allocated > peak[w])
                peak[w] = (int64_t)got.peak.allocated;
        }
        dry_rank_close(&d);
    }
}

static void hold(const struct wave_case *c, struct bars *bars)
{
    struct plan_options o = {.cp = c->cp, .ep = c->ep, .tp = 1,
                             .profile = PLAN_NEW, .owned_ms = -1};
    struct estimate *x = malloc(sizeof *x);
    struct model m;
    struct plan p;
    int64_t peak[2], over;
    int w;

    case_model(c->model, c->layers, &m);
    need(plan_make(&m, c->b, &o, &p, &err));
    run(c, &m, &p, peak);
    for (w = 0; w < 2; w++) {
        price(c, &m, &p, w == 0, x);
        over = x->raw - peak[w];
        bars->error[bars->n] = 100.0 * (double)over / (double)peak[w];
        if (over < 0 || (bars->error[bars->n] > bars->percent
                         && over > bars->bytes))
            fail_msg("%s, %d layers, cp %d, ep %d, rank %d, %s: %lld of "
                     "%lld B (%+.3f %%)", c->name, (int)c->layers,
                     (int)c->cp, (int)c->ep, (int)c->rank,
                     w == 0 ? "cold" : "warm", (long long)over,
                     (long long)peak[w], bars->error[bars->n]);
        bars->wide += bars->error[bars->n] > WIDE;
        bars->n++;
    }
    plan_free(&p);
    model_free(&m);
    free(x);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void tell(const char *what, struct bars *b)
{
    qsort(b->error, (size_t)b->n, sizeof *b->error, by_value);
    printf("%s: %d waves, raw error in percent %+.2f / %+.2f / %+.2f "
           "(least, median, most), %d over by more than %d\n", what, b->n,
           b->error[0], b->error[b->n / 2], b->error[b->n - 1], b->wide,
           WIDE);
}

/* ---- long waves ---------------------------------------------------------- */

enum { SHAPES = 9 };
static const struct { int64_t cp, ep; } shape[SHAPES] = {
    {2, 1}, {2, 2}, {4, 1}, {4, 2}, {4, 4}, {8, 1}, {8, 2}, {8, 4}, {8, 8}
};

static uint64_t next(uint64_t *s)
{
    return *s = *s * 6364136223846793005u + 1442695040888963407u;
}

/* n sequences of about tokens in all; n 0: a tree of a prefix and three
** children that fork again. */
static void draw(int n, int64_t tokens, bool equal, struct batch *out)
{
    static const int64_t parent[] = {-1, 0, 0, 0, 1, 1, 2, 2, 3};
    int64_t length[32];
    uint64_t s = 7;
    int i, k = n == 0 ? 9 : n;

    for (i = 0; i < k; i++) {
        int64_t even = tokens / k;
        length[i] = equal ? even : even / 2 + (int64_t)((next(&s) >> 33)
                                                        % (uint64_t)even);
    }
    if (n == 0)
        need(batch_from_tree(parent, length, 9, out, &err));
    else
        need(batch_from_lengths(length, n, out, &err));
}

static void hold_row(int k, const struct batch *b, const char *name,
                     struct bars *bars)
{
    struct wave_case c = {name, b, 40, shape[k].cp, shape[k].ep, 8,
                          CASE_MODEL};

    hold(&c, bars);
}

static void real_waves(int k, struct bars *bars)
{
    static const char file[] = "lua/data/tau-airline-sequences.csv";
    int64_t pick[256], n = 23, i;
    struct corpus *corpus;
    struct batch b;
    char *tree;

    need(corpus_find_tree(file, &tree, &err));
    need(corpus_load(file, tree, &corpus, &err));
    for (i = 0; i < corpus_count(corpus) && i < 256; i++) pick[i] = i;
    for (; n <= i; n = n < i ? i : i + 1) {
        need(corpus_batch(corpus, pick, n, &b, &err));
        hold_row(k, &b, n == i ? "all of tau-airline" : "23 of tau-airline",
                 bars);
        batch_free(&b);
    }
    corpus_free(corpus);
    free(tree);
}

static void test_long_waves(void **state)
{
    static const int64_t tokens[] = {20000, 48000, 97000, 130000, 210000,
                                     546000};
    static const struct { int n; bool equal; const char *name; } form[] = {
        {1, true, "one sequence"}, {16, true, "16 sequences"},
        {24, false, "24 sequences"}, {0, false, "a tree"}
    };
    struct batch b;
    int k, t, i, sizes = sweep(6, 2);

    (void)state;
    for (k = 0; k < SHAPES; k++) {
        struct bars bars = {.percent = 3};
        char name[64];

        for (t = 0; t < sizes; t++)
            for (i = 0; i < 4; i++) {
                draw(form[i].n, tokens[t], form[i].equal, &b);
                snprintf(name, sizeof name, "%s of %d", form[i].name,
                         (int)tokens[t]);
                hold_row(k, &b, name, &bars);
                batch_free(&b);
            }
        real_waves(k, &bars);
        snprintf(name, sizeof name, "CP%d EP%d", (int)shape[k].cp,
                 (int)shape[k].ep);
        tell(name, &bars);
    }
}

/* ---- short waves --------------------------------------------------------- */

/* A wave that needs little memory keeps what the allocator's blocks leave
** over, of which there is no telling how much. None is to be more than 6 %
** over; so many are. */
static void test_short_waves(void **state)
{
    static const int64_t tokens[] = {64, 100, 150, 200, 333, 512, 700, 1000,
                                     1500, 2047, 3000, 4100, 5000, 4500};
    static const int64_t layers[] = {4, 8, 40}, rank[] = {1, 8};
    static struct bars bars = {.percent = 8, .bytes = 40000000};
    struct batch b;
    int t, l, k, r, sizes = sweep(14, 3);

    (void)state;
    for (t = 0; t < sizes; t++) {
        draw(1, tokens[t], true, &b);
        for (l = 0; l < 3; l++)
            for (k = 0; k < 6; k++)
                for (r = 0; r < 2; r++) {
                    struct wave_case c = {"short", &b, layers[l],
                                          shape[k + (k > 3)].cp,
                                          shape[k + (k > 3)].ep, rank[r],
                                          CASE_MODEL};
                    hold(&c, &bars);
                }
        batch_free(&b);
    }
    tell("64 to 5,000 tokens", &bars);
    assert_int_equal(bars.n, 72 * sizes);
    if (sizes == 14) assert_int_equal(bars.wide, 39);
}

/* Where no tensor of a layer is larger than 1 MiB but those that geometry and
** adapters make, what the gradients of the experts keep is that of segments of
** their own, and holes have the grain of all sizes. */
static void test_regular_waves(void **state)
{
    static const int64_t layers[] = {4, 12, 32, 48};
    static const struct { int64_t cp, ep, rank; } s[] = {
        {8, 1, 16}, {8, 2, 32}, {8, 1, 8}, {8, 4, 32}, {8, 2, 8}, {4, 4, 16},
        {8, 8, 32}
    };
    static struct bars bars = {.percent = 2.5, .bytes = 2500000};
    struct batch b;
    int k, l;

    (void)state;
    draw(1, 78, true, &b);
    for (k = 0; k < 7; k++)
        for (l = 0; l < 4; l++) {
            struct wave_case c = {"regular", &b, layers[l], s[k].cp, s[k].ep,
                                  s[k].rank,
                                  "lua/models/Qwen3-30B-A3B.json"};
            hold(&c, &bars);
        }
    batch_free(&b);
    tell("78 tokens", &bars);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_waves),
        cmocka_unit_test(test_short_waves),
        cmocka_unit_test(test_regular_waves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
