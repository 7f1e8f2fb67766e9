/*
** bench_price.c - what a price takes: every estimator of the program on one
** wave of 97,000 tokens at CP2 and CP8, from facts; and the price that a
** planner acts on, with its plan made anew or from a cache.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "price/cache.h"

enum { RUNS = 2001 };

static void need(int rc, const struct err *e)
{
    if (rc == ERR_OK) return;
    fprintf(stderr, "%s\n", e->text);
    exit(1);
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* bar: microseconds at most; 0: none. */
static void tell(const char *what, int64_t cp, double *us, double bar)
{
    qsort(us, RUNS, sizeof *us, compare);
    printf("%-28s cp%" PRId64 " %9.1f %9.1f", what, cp, us[0], us[RUNS / 2]);
    if (bar > 0)
        printf(" %6.0f at most: %.2f of it", bar, us[0] / bar);
    putchar('\n');
}

static void price(const struct model *m, const struct plan *p,
                  struct estimate *x)
{
    struct price_facts f;
    struct err e;
    double us[RUNS];
    int i, k;

    need(price_facts_from_plan(m, p, p->cp, 8, &f, &e), &e);
    need(price_facts_all_pending(&f, &e), &e);
    f.cold = true;
    f.head_rows = p->tokens;
    for (k = 0; k < PRICE_RECOMPUTING; k++) {
        for (i = 0; i < RUNS; i++) {
            double start = now_us();
            need(price_estimators[k].price(&f, x, &e), &e);
            us[i] = now_us() - start;
        }
        tell(price_estimators[k].name, p->cp, us, p->cp == 8 ? 50 : 0);
    }
    price_facts_free(&f);
}

/* The planner meets a batch again: layouts from the cache, and then the price
** made anew, or from a cache too. */
static void planned(const struct model *m, struct plan_cache *c,
                    const struct batch *b, const struct plan_options *o,
                    struct estimate *x)
{
    struct price_facts f;
    const struct plan *p;
    double us[RUNS];
    struct err e;
    int i;

    for (i = 0; i < RUNS; i++) {
        double start = now_us();
        need(plan_cache_get(c, m, b, o, &p, &e), &e);
        need(price_facts_from_plan(m, p, o->ep, 8, &f, &e), &e);
        need(price_per_rank_any(&f, x, &e), &e);
        price_facts_free(&f);
        us[i] = now_us() - start;
    }
    tell("cached plan, and its price", o->cp, us, 0);
}

static void cached(const struct model *m, const struct batch *b,
                   const struct plan_options *o)
{
    struct price_ask ask = {price_find(PRICE_PER_RANK_ANY), 8, -1, true};
    const struct estimate *x;
    const struct plan *p;
    struct price_cache *c;
    double us[RUNS];
    struct err e;
    int i;

    need(price_cache_new(m, 8, &c, &e), &e);
    for (i = 0; i < RUNS; i++) {
        double start = now_us();
        need(price_cache_get(c, b, o, &ask, &p, &x, &e), &e);
        us[i] = now_us() - start;
    }
    price_cache_free(c);
    tell("cached plan and price", o->cp, us, 5);
}

/* Both made, as for a batch that was never seen. */
static void fresh(const struct model *m, const struct batch *b,
                  const struct plan_options *o)
{
    struct price_ask ask = {price_find(PRICE_PER_RANK_ANY), 8, -1, true};
    const struct estimate *x;
    const struct plan *p;
    struct price_cache *c;
    double us[RUNS];
    struct err e;
    int i;

    for (i = 0; i < RUNS; i++) {
        double start;
        need(price_cache_new(m, 1, &c, &e), &e);
        start = now_us();
        need(price_cache_get(c, b, o, &ask, &p, &x, &e), &e);
        us[i] = now_us() - start;
        price_cache_free(c);
    }
    tell("plan and price", o->cp, us, 100);
}

int main(void)
{
    static const int64_t lengths[] = {60000, 20000, 10000, 7000};
    struct estimate *x = malloc(sizeof *x);
    struct plan_cache *c;
    struct model m;
    struct batch b;
    struct err e;
    int64_t cp;

    if (x == NULL) return 1;
    need(model_load("lua/models/Qwen3.6-35B-A3B.json", 0, &m, &e), &e);
    need(batch_from_lengths(lengths, 4, &b, &e), &e);
    need(plan_cache_new(8, &c, &e), &e);
    printf("%-28s %3s %9s %9s\n", "price, 97,000 tokens", "", "best us",
           "median us");
    for (cp = 2; cp <= 8; cp *= 4) {
        struct plan_options o = {.cp = cp, .ep = cp, .tp = 1,
                                 .profile = PLAN_NEW, .owned_ms = -1};
        const struct plan *p;

        need(plan_cache_get(c, &m, &b, &o, &p, &e), &e);
        price(&m, p, x);
        planned(&m, c, &b, &o, x);
        fresh(&m, &b, &o);
        cached(&m, &b, &o);
    }
    plan_cache_free(c);
    batch_free(&b);
    model_free(&m);
    free(x);
    return 0;
}
