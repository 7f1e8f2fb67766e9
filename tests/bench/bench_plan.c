/*
** bench_plan.c - how long planning takes on one core: both layouts, all
** ranks, stages, pieces and exchanges of one wave. Single sequences from 10
** thousand to 10 million tokens show that tokens do not matter; the real
** waves show what segments cost. Best and median of many.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "plan/cache.h"

enum { RUNS = 201 };

#define DATA "lua/data/tau-airline-"

static void die(const struct err *e)
{
    fprintf(stderr, "bench_plan: %s\n", e->text);
    exit(1);
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

static void measure(const char *name, const struct model *m,
                    const struct batch *b, int64_t cp)
{
    struct plan_options o = {.cp = cp, .profile = PLAN_NEW, .owned_ms = -1};
    double us[RUNS];
    struct plan_work w = {0};
    struct err e;
    int i;

    for (i = 0; i < RUNS; i++) {
        struct plan p;
        double start = now_us();
        if (plan_make(m, b, &o, &p, &e) != ERR_OK) die(&e);
        us[i] = now_us() - start;
        w = p.work;
        plan_free(&p);
    }
    qsort(us, RUNS, sizeof *us, compare);
    printf("%-16s cp%-2" PRId64 " %9" PRId64 " %8" PRId64 " %9.1f %9.1f %7"
           PRId64 " %6" PRId64 " %6" PRId64 " %6" PRId64 " %6" PRId64 "\n",
           name, cp, b->tokens, b->n_seg, us[0], us[RUNS / 2], w.cells,
           w.scores, w.chain_scores, w.slices, w.allocations);
}

/* The same plan, asked for again. */
static void measure_cached(const char *name, const struct model *m,
                           const struct batch *b)
{
    struct plan_options o = {.cp = 2, .profile = PLAN_NEW, .owned_ms = -1};
    struct plan_cache *c;
    const struct plan *p;
    double us[RUNS];
    struct err e;
    int i;

    if (plan_cache_new(64, &c, &e) != ERR_OK ||
        plan_cache_get(c, m, b, &o, &p, &e) != ERR_OK)
        die(&e);
    for (i = 0; i < RUNS; i++) {
        double start = now_us();
        if (plan_cache_get(c, m, b, &o, &p, &e) != ERR_OK) die(&e);
        us[i] = now_us() - start;
    }
    qsort(us, RUNS, sizeof *us, compare);
    printf("%-16s cp2  %9" PRId64 " %8" PRId64 " %9.1f %9.1f (cached)\n",
           name, b->tokens, b->n_seg, us[0], us[RUNS / 2]);
    plan_cache_free(c);
}

static void single(const struct model *m, int64_t tokens)
{
    struct batch b;
    struct err e;

    if (batch_from_lengths(&tokens, 1, &b, &e) != ERR_OK) die(&e);
    measure("one sequence", m, &b, 2);
    batch_free(&b);
}

static void real(const struct model *m, const char *name, int64_t n)
{
    struct corpus *c;
    struct batch b;
    struct err e;
    int64_t *pick, i, cp;

    if (corpus_load(DATA "sequences.csv", DATA "prefix-tree.csv", &c, &e) !=
        ERR_OK)
        die(&e);
    if (n == 0) n = corpus_count(c);
    pick = calloc((size_t)n, sizeof *pick);
    if (pick == NULL) exit(1);
    for (i = 0; i < n; i++) pick[i] = i;
    if (corpus_batch(c, pick, n, &b, &e) != ERR_OK) die(&e);
    for (cp = 2; cp <= 8; cp *= 2) measure(name, m, &b, cp);
    measure_cached(name, m, &b);
    batch_free(&b);
    corpus_free(c);
    free(pick);
}

int main(void)
{
    struct model m;
    struct err e;
    int64_t tokens;

    if (model_load("lua/models/Qwen3.6-35B-A3B.json", 0, &m, &e) != ERR_OK)
        die(&e);
    printf("%-16s %-4s %9s %8s %9s %9s %7s %6s %6s %6s %6s\n", "batch", "",
           "tokens", "segments", "best us", "median us", "cells", "scores",
           "chains", "slices", "allocs");
    for (tokens = 10000; tokens <= 10000000; tokens *= 10) single(&m, tokens);
    real(&m, "real wave", 23);
    real(&m, "whole real tree", 0);
    model_free(&m);
    return 0;
}
