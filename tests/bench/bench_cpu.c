/*
** bench_cpu.c - how fast the cpu device computes beside OpenBLAS sgemm in
** the same run, one thread, 2,048 rows and the head sizes of
** Qwen3.6-35B-A3B: useful operations a second over those of a square sgemm.
** Useful means what the formulas of model.md need: causal scores and the
** triangles of the delta rule count half, what backward rebuilds does not
** count. Processor time, the better of two in f32. Two ranks at once: their
** wall time against that of one, 2.0 being two whole cores.
*/
#include <cblas.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dev/dev.h"
#include "base/random.h"

enum { ROWS = 2048, HIDDEN = 2048, RANK = 8 };

static int runs = 2;            /* the quickest counts */
static struct dev *dev;
static struct err err;

static double clock_of(clockid_t c)
{
    struct timespec t;

    clock_gettime(c, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void)
{
    return clock_of(CLOCK_PROCESS_CPUTIME_ID);
}

static void run(int rc)
{
    if (rc == ERR_OK) return;
    fprintf(stderr, "bench_cpu: %s\n", err.text);
    exit(rc);
}
#define RUN(name, ...)                                                      \
    run(dev->k->name(dev, &(struct k_##name){__VA_ARGS__}, &err))

/* A new matrix of random numbers, never freed. */
static struct mat fresh(int64_t rows, int64_t cols, enum dtype t,
                        double scale, double offset)
{
    static uint64_t stream;
    struct mat m = {malloc((size_t)(rows * cols * dtype_bytes(t))), rows,
                    cols, cols, t};

    if (m.p == NULL) exit(1);
    RUN(random, .x = m, .seed = 1, .stream = ++stream, .scale = scale,
        .offset = offset);
    return m;
}

static struct mat act(int64_t rows, int64_t cols, double scale)
{
    return fresh(rows, cols, dev->act, scale, 0);
}

static struct mat acc(int64_t rows, int64_t cols)
{
    return fresh(rows, cols, dev->acc, 1, 0);
}

/* Seconds of the quickest run. */
static double best_of(void (*f)(void *), void *arg)
{
    double best = 1e9;
    int i;

    for (i = 0; i < runs; i++) {
        double t = now();
        f(arg);
        t = now() - t;
        if (t < best) best = t;
    }
    return best;
}

/* ---- the yardstick ------------------------------------------------------ */

struct square { int n; float *a, *b, *c; };

static void run_square(void *arg)
{
    struct square *s = arg;

    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, s->n, s->n, s->n,
                1, s->a, s->n, s->b, s->n, 0, s->c, s->n);
}

static double sgemm_rate(void)
{
    const int64_t n = 2048;
    struct square s = {(int)n, fresh(n, n, DT_F32, 1, 0).p,
                       fresh(n, n, DT_F32, 1, 0).p,
                       fresh(n, n, DT_F32, 1, 0).p};

    return 2.0 * (double)(n * n * n) / best_of(run_square, &s);
}

/* ---- a dense layer: norm, adapted projection, SwiGLU, and back ---------- */

struct dense {
    struct mat x, w, n, rstd, y, a, b, h, act, dact, dy, dh, dn, dx, da, db;
};
#define DENSE_OUT 4096

static void run_dense(void *arg)
{
    struct dense *s = arg;
    double scale = 4;

    RUN(rms_norm, .y = s->n, .x = s->x, .w = s->w, .rstd = s->rstd,
        .eps = 1e-6, .zero_centred = true);
    RUN(gemm, .c = s->y, .a = s->n, .b = s->dx, .trans_b = true, .alpha = 1);
    RUN(gemm, .c = s->h, .a = s->n, .b = s->a, .trans_b = true, .alpha = 1);
    RUN(gemm, .c = s->y, .a = s->h, .b = s->b, .trans_b = true,
        .alpha = scale, .beta = 1);
    RUN(swiglu, .out = s->act, .gu = s->y);
    RUN(swiglu_bwd, .dgu = s->dy, .dout = s->dact, .gu = s->y);
    RUN(gemm, .c = s->db, .a = s->dy, .b = s->h, .trans_a = true,
        .alpha = scale);
    RUN(gemm, .c = s->dh, .a = s->dy, .b = s->b, .alpha = scale);
    RUN(gemm, .c = s->da, .a = s->dh, .b = s->n, .trans_a = true, .alpha = 1);
    RUN(gemm, .c = s->dn, .a = s->dy, .b = s->dx, .alpha = 1);
    RUN(gemm, .c = s->dn, .a = s->dh, .b = s->a, .alpha = 1, .beta = 1);
    RUN(rms_norm_bwd, .dx = s->n, .dy = s->dn, .x = s->x, .w = s->w,
        .rstd = s->rstd, .zero_centred = true);
}

static double dense_rate(void)
{
    const int64_t out = DENSE_OUT, t = ROWS, h = HIDDEN;
    struct dense s = {
        .x = act(t, h, 1), .w = act(1, h, 1), .n = act(t, h, 1),
        .rstd = acc(t, 1), .y = act(t, out, 1), .a = act(RANK, h, 0.02),
        .b = act(out, RANK, 0.02), .h = act(t, RANK, 1),
        .act = act(t, out / 2, 1), .dact = act(t, out / 2, 1),
        .dy = act(t, out, 1), .dh = act(t, RANK, 1), .dn = act(t, h, 1),
        .dx = act(out, h, 0.02),    /* the weight */
        .da = act(RANK, h, 1), .db = act(out, RANK, 1)
    };
    double flops = 2.0 * (double)t * (2.0 * (double)(h * out)
                                      + 3.0 * RANK * (double)(h + out));

    return flops / best_of(run_dense, &s);
}

/* ---- attention ---------------------------------------------------------- */

struct attn {
    struct mat q, k, v, out, lse, dout, dq, dk, dv;
    struct slice slice;
};
enum { HEADS = 16, KV_HEADS = 2, HEAD = 256 };

static void run_attention(void *arg)
{
    struct attn *s = arg;

    RUN(attention, .out = s->out, .lse = s->lse, .q = s->q, .k = s->k,
        .v = s->v, .heads = HEADS, .kv_heads = KV_HEADS, .scale = 1.0 / 16,
        .slice = &s->slice, .n_slice = 1);
    RUN(attention_bwd, .dq = s->dq, .dk = s->dk, .dv = s->dv, .q = s->q,
        .k = s->k, .v = s->v, .out = s->out, .lse = s->lse, .dout = s->dout,
        .heads = HEADS, .kv_heads = KV_HEADS, .scale = 1.0 / 16,
        .slice = &s->slice, .n_slice = 1);
}

static struct attn attention_new(int64_t t)
{
    const int64_t q = HEADS * HEAD, kv = KV_HEADS * HEAD;

    return (struct attn){
        act(t, q, 1), act(t, kv, 1), act(t, kv, 1), act(t, q, 1),
        acc(t, HEADS), act(t, q, 1), act(t, q, 1), acc(t, kv), acc(t, kv),
        {0, t, 0, t, 0, true}
    };
}

static double attention_rate(void)
{
    const int64_t t = ROWS;
    struct attn s = attention_new(t);
    /* forward two products a visible pair, backward four */
    double flops = 6 * 2.0 * HEAD * HEADS * (double)(t * (t + 1) / 2);

    return flops / best_of(run_attention, &s);
}

/* ---- the delta rule ----------------------------------------------------- */

struct delta {
    struct mat q, k, v, g, beta, o, g_cum, x, d_o, dq, dk, dv, dg, dbeta;
    struct mat states, dstates;
    struct dev_piece piece;
};
enum { GDN_HEADS = 32, GDN_DIM = 128 };

static void run_delta(void *arg)
{
    struct delta *s = arg;

    RUN(delta, .o = s->o, .states = s->states, .g_cum = s->g_cum, .x = s->x,
        .q = s->q, .k = s->k, .v = s->v, .g = s->g, .beta = s->beta,
        .heads = GDN_HEADS, .k_dim = GDN_DIM, .v_dim = GDN_DIM,
        .scale = 0.088, .piece = &s->piece, .n_piece = 1);
    RUN(delta_bwd, .dq = s->dq, .dk = s->dk, .dv = s->dv, .dg = s->dg,
        .dbeta = s->dbeta, .dstates = s->dstates, .d_o = s->d_o,
        .states = s->states, .g_cum = s->g_cum, .x = s->x, .q = s->q,
        .k = s->k, .v = s->v, .beta = s->beta, .heads = GDN_HEADS,
        .k_dim = GDN_DIM, .v_dim = GDN_DIM, .scale = 0.088,
        .piece = &s->piece, .n_piece = 1);
}

static double delta_rate(void)
{
    const int64_t t = ROWS, w = GDN_HEADS * GDN_DIM, c = 64;
    struct delta s = {
        act(t, w, 0.15), act(t, w, 0.15), act(t, w, 1),
        fresh(t, GDN_HEADS, dev->acc, 0.1, -0.1),
        fresh(t, GDN_HEADS, dev->acc, 0.4, 0.5), act(t, w, 1),
        acc(t, GDN_HEADS), act(t, GDN_HEADS * c, 1), act(t, w, 1),
        act(t, w, 1), act(t, w, 1), act(t, w, 1), acc(t, GDN_HEADS),
        acc(t, GDN_HEADS), acc(2, w * GDN_DIM), acc(2, w * GDN_DIM),
        {0, t, 0, 1}
    };
    /* a chunk's products: with the state (C K V), triangular (C C K / 2) and
    ** the inverse (C C C / 6); backward without what it rebuilds */
    double full = (double)(c * GDN_DIM * GDN_DIM);
    double half = (double)(c * c * GDN_DIM) / 2;
    double forward = 3 * full + 4 * half + (double)(c * c * c) / 6;
    double backward = 6 * full + 8 * half;
    double chunks = (double)(t / c * GDN_HEADS);

    return 2 * chunks * (forward + backward) / best_of(run_delta, &s);
}

/* ---- two ranks ----------------------------------------------------------- */

struct rank {
    struct dev *d;
    struct attn work;
    pthread_t thread;
};

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct attn *s = &r->work;
    struct err e;

    r->d->k->attention(r->d, &(struct k_attention){
        .out = s->out, .lse = s->lse, .q = s->q, .k = s->k, .v = s->v,
        .heads = HEADS, .kv_heads = KV_HEADS, .scale = 1.0 / 16,
        .slice = &s->slice, .n_slice = 1}, &e);
    return NULL;
}

/* Wall seconds of n ranks at once. */
static double ranks_time(struct rank *r, int n)
{
    double t = clock_of(CLOCK_MONOTONIC);
    int i;

    for (i = 0; i < n; i++)
        if (pthread_create(&r[i].thread, NULL, run_rank, &r[i]) != 0) exit(1);
    for (i = 0; i < n; i++) pthread_join(r[i].thread, NULL);
    return clock_of(CLOCK_MONOTONIC) - t;
}

static void two_ranks(void)
{
    struct dev_options o = {.act = DT_F32};
    struct rank r[2];
    double one;
    int i;

    for (i = 0; i < 2; i++) {
        run(dev_cpu.open(&o, &r[i].d, &err));
        r[i].work = attention_new(1024);
    }
    ranks_time(r, 1);
    one = ranks_time(r, 1);
    printf("%-34s %7.2f x the work of one in the same time\n",
           "two ranks, attention, f32", 2 * one / ranks_time(r, 2));
    for (i = 0; i < 2; i++) dev_cpu.close(r[i].d);
}

static void line(const char *what, double rate, double sgemm, int bar)
{
    printf("%-34s %7.1f GFLOP/s %5.1f %% of sgemm", what, rate / 1e9,
           100 * rate / sgemm);
    if (bar > 0) printf(" (bar: %d %%)", bar);
    printf("\n");
}

static void open_device(enum dtype t)
{
    struct dev_options o = {.act = t};

    run(dev_cpu.open(&o, &dev, &err));
}

int main(void)
{
    double sgemm;

    open_device(DT_F32);
    printf("OpenBLAS core: %s\n", openblas_get_corename());
    sgemm = sgemm_rate();
    line("sgemm 2048 x 2048 x 2048", sgemm, sgemm, 0);
    line("dense layer, f32", dense_rate(), sgemm, 70);
    line("attention forward+backward, f32", attention_rate(), sgemm, 35);
    line("delta rule forward+backward, f32", delta_rate(), sgemm, 20);
    two_ranks();
    dev_cpu.close(dev);
    open_device(DT_BF16);
    runs = 1;
    line("dense layer, bf16", dense_rate(), sgemm, 0);
    line("attention forward+backward, bf16", attention_rate(), sgemm, 0);
    line("delta rule forward+backward, bf16", delta_rate(), sgemm, 0);
    dev_cpu.close(dev);
    return 0;
}
