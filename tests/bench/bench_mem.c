/*
** bench_mem.c - how many events (one mem_alloc or one mem_release) the
** allocator handles a second on one core: a training step's pattern with a
** few hundred live blocks, with and without a trace, and a churn among 10^6
** live blocks with some 10^5 free ones between them. Best of five.
*/
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mem/mem.h"

enum { RUNS = 5, WAVES = 60, LAYERS = 40, CHURN = 1000000 };

struct op {
    uint32_t slot;
    uint64_t bytes;         /* 0: the slot is released */
};

struct script {
    struct op *op;
    size_t n, cap;
    uint32_t slots;
};

static uint64_t rng_state = 1;

static uint64_t rng(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return rng_state;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_mem: %s\n", what);
    exit(1);
}

static void put(struct script *s, uint32_t slot, uint64_t bytes)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 4096;
        s->op = realloc(s->op, s->cap * sizeof *s->op);
        if (s->op == NULL) die("out of memory");
    }
    s->op[s->n++] = (struct op){slot, bytes};
    if (slot >= s->slots) s->slots = slot + 1;
}

/* A layer's tensors: n are taken, each after the last few of their kind were
** let go, as chains of operators do; sizes follow rows and width. */
static void put_layer(struct script *s, uint32_t base, int n, uint64_t rows)
{
    static const uint64_t width[] = {4096, 4096, 16384, 8192, 64, 4, 1024,
                                     24576, 2, 512, 4096, 2048};
    int kept = 0;

    for (int i = 0; i < n; i++) {
        uint64_t w = width[rng() % (sizeof width / sizeof *width)];

        put(s, base + (uint32_t)i, w * rows + rng() % 512);
        if (i - kept > 6 + (int)(rng() % 24))
            put(s, base + (uint32_t)kept++, 0);
    }
    while (kept < n) put(s, base + (uint32_t)kept++, 0);
}

/* One wave: boundaries stay from forward to backward, and each backward
** leaves two small gradients until the end. */
static struct script training_step(void)
{
    struct script s = {0};
    uint64_t rows = 50000;
    uint32_t base = 3 * LAYERS;

    for (uint32_t l = 0; l < LAYERS; l++) {
        put(&s, l, rows * 4096);
        put_layer(&s, base, 60, rows);
    }
    for (uint32_t l = LAYERS; l-- > 0;) {
        put_layer(&s, base, 100, rows);
        put(&s, LAYERS + 2 * l, 40000 + rng() % 4096);
        put(&s, LAYERS + 2 * l + 1, 600000 + rng() % 65536);
        put(&s, l, 0);
    }
    for (uint32_t l = LAYERS; l < 3 * LAYERS; l++) put(&s, l, 0);
    return s;
}

static struct mem *new_mem(struct mem_dry_source *dry, bool trace)
{
    struct mem_config c = {.trace = trace};
    struct mem *m;
    struct err e;

    if (mem_new(&c, mem_dry_source(dry, 0), &m, &e) != ERR_OK) die(e.text);
    return m;
}

static void replay(struct mem *m, const struct script *s,
                   struct mem_block **slot)
{
    struct mem_tag tag = {CAT_OTHER, PHASE_FORWARD, 3, "bench.op"};
    struct err e;

    for (size_t i = 0; i < s->n; i++) {
        const struct op *o = &s->op[i];

        tag.category = (uint8_t)(o->slot % CAT_ROUNDING);
        if (o->bytes == 0)
            mem_release(m, slot[o->slot]);
        else if (mem_alloc(m, o->bytes, tag, &slot[o->slot], &e) != ERR_OK)
            die(e.text);
    }
}

static void report(const char *name, double best, uint64_t events)
{
    printf("%-28s %10.2f million events/s\n", name,
           (double)events / best * 1e-6);
}

static void bench_step(const char *name, bool trace)
{
    struct script s = training_step();
    struct mem_block **slot = calloc(s.slots, sizeof *slot);
    double best = 1e9;

    if (slot == NULL) die("out of memory");
    for (int run = 0; run < RUNS; run++) {
        struct mem_dry_source dry;
        struct mem *m = new_mem(&dry, trace);
        double t = now();

        for (int w = 0; w < WAVES; w++) replay(m, &s, slot);
        t = now() - t;
        if (t < best) best = t;
        mem_free_all(m);
    }
    report(name, best, (uint64_t)s.n * WAVES);
    free(slot);
    free(s.op);
}

static uint64_t churn_bytes(void)
{
    return 512 * (1 + rng() % 4096);
}

static void churn(struct mem *m, struct mem_block **slot, int n)
{
    struct mem_tag tag = {CAT_OTHER, PHASE_NONE, -1, "bench.churn"};
    struct err e;

    for (int i = 0; i < n; i++) {
        size_t at = rng() % CHURN;

        mem_release(m, slot[at]);
        if (mem_alloc(m, churn_bytes(), tag, &slot[at], &e) != ERR_OK)
            die(e.text);
    }
}

static void bench_churn(void)
{
    struct mem_block **slot = calloc(CHURN, sizeof *slot);
    struct mem_dry_source dry;
    struct mem *m = new_mem(&dry, false);
    struct mem_tag tag = {CAT_OTHER, PHASE_NONE, -1, "bench.churn"};
    struct err e;
    double best = 1e9;

    if (slot == NULL) die("out of memory");
    for (size_t i = 0; i < CHURN; i++)
        if (mem_alloc(m, churn_bytes(), tag, &slot[i], &e) != ERR_OK)
            die(e.text);
    churn(m, slot, CHURN);
    for (int run = 0; run < RUNS; run++) {
        double t = now();

        churn(m, slot, CHURN / 4);
        t = now() - t;
        if (t < best) best = t;
    }
    report("10^6 live blocks", best, CHURN / 2);
    mem_free_all(m);
    free(slot);
}

int main(void)
{
    bench_step("training step", false);
    bench_step("training step, traced", true);
    bench_churn();
    return 0;
}
