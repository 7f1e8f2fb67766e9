/*
** bench_script.c - how long scenarios take to load on one core, batches
** included, and what an endless loop costs before it is ended. Best of many.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "script/scenario.h"

enum { RUNS = 21 };

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void measure(const char *name)
{
    const struct scenario_limits limits = {0};
    double best = 1e30;
    int64_t cases = 0;
    char path[128];

    snprintf(path, sizeof path, "lua/scenarios/%s.lua", name);
    for (int i = 0; i < RUNS; i++) {
        struct scenario *s;
        struct err e;
        double start = now_ms(), ms;
        if (scenario_load(path, "lua", NULL, 0, &limits, &s, &e) != ERR_OK) {
            fprintf(stderr, "bench_script: %s\n", e.text);
            exit(1);
        }
        ms = now_ms() - start;
        cases = s->n_case;
        scenario_free(s);
        if (ms < best) best = ms;
    }
    printf("%-16s %6" PRId64 " %9.3f\n", name, cases, best);
}

static void measure_loop(void)
{
    const struct scenario_limits limits = {0};
    char path[] = "/tmp/peakproof-bench-XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    struct scenario *s;
    struct err e;
    double start;

    if (f == NULL || fputs("while true do end", f) < 0 || fclose(f) != 0)
        exit(1);
    start = now_ms();
    if (scenario_load(path, "lua", NULL, 0, &limits, &s, &e) != ERR_INPUT)
        exit(1);
    printf("%-16s %6s %9.3f\n", "endless loop", "", now_ms() - start);
    remove(path);
}

int main(void)
{
    printf("scenario          cases        ms\n");
    measure("pr-accuracy");
    measure("routing");
    measure("full-stack");
    measure("real-waves");
    measure_loop();
    return 0;
}
