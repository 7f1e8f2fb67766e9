/*
** bench_device.cu - times of the kernels at the full model's shapes, beside
** what this GPU can do: the rate of a plain copy and of a cuBLAS product in
** bf16, both measured here.
**
** usage: bench-device [rows]    (default 16384; a multiple of 64)
**
** Prints CSV: kernel, milliseconds (median of 5), gigabytes it must move at
** least, what part of the copy rate that makes, tera-operations of its
** products, what part of the cuBLAS rate that makes. A kernel is near one of
** the two rates or far from both.
*/
#include "cu.cuh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern const struct dev_ops cu_ops;

namespace {

constexpr int repeats = 5;

struct bench {
    struct dev *d;
    struct cu *c;
    struct err e;
    double copy_rate, product_rate;     /* bytes, operations a second */
};

[[noreturn]] void stop(const char *what, const char *why)
{
    fprintf(stderr, "bench-device: %s: %s\n", what, why);
    exit(1);
}

void check(cudaError_t rc, const char *what)
{
    if (rc != cudaSuccess) stop(what, cudaGetErrorString(rc));
}

/* A matrix of small random numbers, or zeros where scale is 0. */
struct mat matrix(struct bench *b, int64_t rows, int64_t cols, enum dtype t,
                  double scale)
{
    size_t n = static_cast<size_t>(rows * cols * dtype_bytes(t));
    struct mat m = {nullptr, rows, cols, cols, t};

    check(cudaMalloc(&m.p, n + 256), "cudaMalloc");
    check(cudaMemsetAsync(m.p, 0, n + 256, b->c->stream), "cudaMemset");
    if (scale != 0) {
        struct k_random a = {};
        a.x = m;
        a.seed = 1;
        a.stream = static_cast<uint64_t>(rows + cols);
        a.scale = scale;
        if (b->d->k->random(b->d, &a, &b->e) != ERR_OK)
            stop("random", b->e.text);
    }
    return m;
}

struct mat act(struct bench *b, int64_t rows, int64_t cols)
{
    return matrix(b, rows, cols, DT_BF16, 0.5);
}

struct mat acc(struct bench *b, int64_t rows, int64_t cols, double scale)
{
    return matrix(b, rows, cols, DT_F32, scale);
}

double bytes_of(const struct mat &m)
{
    return static_cast<double>(m.rows) * static_cast<double>(m.cols) *
           static_cast<double>(dtype_bytes(m.t));
}

void release(std::initializer_list<struct mat> all)
{
    for (const struct mat &m : all) cudaFree(m.p);
}

/* Seconds of one call: the median, after one that warms up. */
template <typename F> double seconds(struct bench *b, const char *name, F f)
{
    float ms[repeats];
    cudaEvent_t from, to;

    check(cudaEventCreate(&from), name);
    check(cudaEventCreate(&to), name);
    for (int i = -1; i < repeats; i++) {
        check(cudaEventRecord(from, b->c->stream), name);
        if (f() != ERR_OK) stop(name, b->e.text);
        check(cudaEventRecord(to, b->c->stream), name);
        check(cudaEventSynchronize(to), name);
        if (i >= 0) check(cudaEventElapsedTime(&ms[i], from, to), name);
    }
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    std::sort(ms, ms + repeats);
    return static_cast<double>(ms[repeats / 2]) / 1e3;
}

void report(const struct bench *b, const char *name, double s, double bytes,
            double operations)
{
    printf("%s,%.4f,%.4f,%.3f,%.4f,%.3f\n", name, s * 1e3, bytes / 1e9,
           bytes / s / b->copy_rate, operations / 1e12,
           b->product_rate > 0 ? operations / s / b->product_rate : 0);
    fflush(stdout);
}

/* ---- what the GPU can do ------------------------------------------------ */

void measure_copy(struct bench *b, int64_t rows)
{
    struct mat x = act(b, rows, 16384), y = act(b, rows, 16384);
    size_t n = static_cast<size_t>(bytes_of(x));
    double s = seconds(b, "copy", [&] {
        check(cudaMemcpyAsync(y.p, x.p, n, cudaMemcpyDeviceToDevice,
                              b->c->stream), "copy");
        return ERR_OK;
    });

    b->copy_rate = 2 * static_cast<double>(n) / s;
    report(b, "copy", s, 2 * static_cast<double>(n), 0);
    release({x, y});
}

void time_gemm(struct bench *b, const char *name, int64_t m, int64_t n,
               int64_t k, bool sets_rate)
{
    struct mat x = act(b, m, k), w = act(b, n, k), y = act(b, m, n);
    struct k_gemm a = {};
    double work = 2.0 * static_cast<double>(m) * static_cast<double>(n) *
                  static_cast<double>(k);
    double s;

    a.c = y;
    a.a = x;
    a.b = w;
    a.trans_b = true;
    a.alpha = 1;
    s = seconds(b, name, [&] { return b->d->k->gemm(b->d, &a, &b->e); });
    if (sets_rate) b->product_rate = work / s;
    report(b, name, s, bytes_of(x) + bytes_of(w) + bytes_of(y), work);
    release({x, w, y});
}

/* ---- kernels ------------------------------------------------------------ */

void time_norms(struct bench *b, int64_t rows)
{
    struct mat x = act(b, rows, 2048), y = act(b, rows, 2048);
    struct mat dy = act(b, rows, 2048), w = act(b, 1, 2048);
    struct mat rstd = acc(b, rows, 1, 0);
    struct k_rms_norm f = {y, x, w, rstd, 1e-6, true};
    struct k_rms_norm_bwd g = {y, dy, x, w, rstd, true, false};

    report(b, "rms_norm", seconds(b, "rms_norm", [&] {
        return b->d->k->rms_norm(b->d, &f, &b->e);
    }), 2 * bytes_of(x), 0);
    report(b, "rms_norm_bwd", seconds(b, "rms_norm_bwd", [&] {
        return b->d->k->rms_norm_bwd(b->d, &g, &b->e);
    }), 3 * bytes_of(x), 0);
    release({x, y, dy, w, rstd});
}

void time_swiglu(struct bench *b, int64_t rows)
{
    struct mat gu = act(b, rows * 8, 1024), out = act(b, rows * 8, 512);
    struct mat dgu = act(b, rows * 8, 1024);
    struct mat weight = acc(b, rows * 8, 1, 0.5);
    struct mat dweight = acc(b, rows * 8, 1, 0);
    struct k_swiglu f = {out, gu, weight};
    struct k_swiglu_bwd g = {dgu, dweight, out, gu, weight};

    report(b, "swiglu", seconds(b, "swiglu", [&] {
        return b->d->k->swiglu(b->d, &f, &b->e);
    }), bytes_of(gu) + bytes_of(out), 0);
    report(b, "swiglu_bwd", seconds(b, "swiglu_bwd", [&] {
        return b->d->k->swiglu_bwd(b->d, &g, &b->e);
    }), 2 * bytes_of(gu) + bytes_of(out), 0);
    release({gu, out, dgu, weight, dweight});
}

void time_conv(struct bench *b, int64_t rows)
{
    struct mat x = act(b, rows, 8192), y = act(b, rows, 8192);
    struct mat dx = act(b, rows, 8192), w = act(b, 8192, 4);
    struct dev_piece piece = {0, rows, -1, -1};
    struct k_conv f = {};
    struct k_conv_bwd g = {};

    f.y = y, f.x = x, f.w = w, f.piece = &piece, f.n_piece = 1;
    g.dx = dx, g.dy = y, g.x = x, g.w = w, g.piece = &piece, g.n_piece = 1;
    report(b, "conv", seconds(b, "conv", [&] {
        return b->d->k->conv(b->d, &f, &b->e);
    }), 2 * bytes_of(x), 0);
    report(b, "conv_bwd", seconds(b, "conv_bwd", [&] {
        return b->d->k->conv_bwd(b->d, &g, &b->e);
    }), 3 * bytes_of(x), 0);
    release({x, y, dx, w});
}

/* One causal sequence; half of the products are masked away. */
void time_attention(struct bench *b, int64_t rows)
{
    const int64_t heads = 16, kv = 2, dim = 256;
    struct mat q = act(b, rows, heads * dim), out = act(b, rows, heads * dim);
    struct mat k = act(b, rows, kv * dim), v = act(b, rows, kv * dim);
    struct mat lse = acc(b, rows, heads, 0), dout = act(b, rows, heads * dim);
    struct mat dq = act(b, rows, heads * dim);
    struct mat dk = acc(b, rows, kv * dim, 0), dv = acc(b, rows, kv * dim, 0);
    struct slice all = {};
    struct k_attention f = {};
    struct k_attention_bwd g = {};
    double pairs = static_cast<double>(rows) * static_cast<double>(rows) / 2;
    double work = 2 * pairs * static_cast<double>(heads * dim);

    all.n_q = all.n_k = rows;
    all.causal = true;
    f.out = out, f.lse = lse, f.q = q, f.k = k, f.v = v;
    f.heads = heads, f.kv_heads = kv, f.scale = 0.0625;
    f.slice = &all, f.n_slice = 1;
    g.dq = dq, g.dk = dk, g.dv = dv, g.q = q, g.k = k, g.v = v, g.out = out;
    g.lse = lse, g.dout = dout, g.heads = heads, g.kv_heads = kv;
    g.scale = 0.0625, g.slice = &all, g.n_slice = 1;
    report(b, "attention", seconds(b, "attention", [&] {
        return b->d->k->attention(b->d, &f, &b->e);
    }), 2 * bytes_of(q) + 2 * bytes_of(k), 2 * work);
    report(b, "attention_bwd", seconds(b, "attention_bwd", [&] {
        return b->d->k->attention_bwd(b->d, &g, &b->e);
    }), 4 * bytes_of(q) + 6 * bytes_of(k), 5 * work);
    release({q, out, k, v, lse, dout, dq, dk, dv});
}

void time_delta(struct bench *b, int64_t rows)
{
    const int64_t heads = 32, dim = 128, wide = heads * dim;
    const int64_t state = heads * dim * dim, chunks = rows / 64;
    struct mat q = act(b, rows, wide), k = act(b, rows, wide);
    struct mat v = act(b, rows, wide), o = act(b, rows, wide);
    struct mat g = acc(b, rows, heads, 0), beta = acc(b, rows, heads, 0.3);
    struct mat g_cum = acc(b, rows, heads, 0), x = act(b, rows, heads * 64);
    struct mat w = act(b, rows, wide), u = act(b, rows, wide);
    struct mat v_new = act(b, rows, wide), h = act(b, chunks, state);
    struct mat dq = act(b, rows, wide), dk = act(b, rows, wide);
    struct mat dv = act(b, rows, wide), dg = acc(b, rows, heads, 0);
    struct mat dbeta = acc(b, rows, heads, 0), dw = act(b, rows, wide);
    struct mat du = act(b, rows, wide), dh = act(b, chunks, state);
    struct mat states = acc(b, 1, state, 0), dstates = acc(b, 1, state, 0);
    struct dev_piece piece = {0, rows, -1, -1};
    struct k_l2_norm n = {};
    struct k_delta f = {o, states, g_cum, x, q, k, v, g, beta, w, u, v_new,
                        h, heads, dim, dim, 0.0884, &piece, 1};
    struct k_delta_bwd r = {dq, dk, dv, dg, dbeta, dstates, o, states, g_cum,
                            x, q, k, v, beta, w, u, v_new, h, dw, du, dh,
                            heads, dim, dim, 0.0884, &piece, 1};
    struct mat rnorm = acc(b, rows * heads, 1, 0);
    /* a chunk's products, a row and head: with k k^T and q k^T, the inverse
    ** on keys and values, states in and out */
    double work = static_cast<double>(rows * heads) *
                  (4 * 2.0 * 64 * 128 + 3 * 2.0 * 128 * 128);

    n.x = n.y = {k.p, rows * heads, dim, dim, DT_BF16};
    n.rnorm = rnorm;
    n.eps = 1e-6;
    if (b->d->k->l2_norm(b->d, &n, &b->e) != ERR_OK)
        stop("l2_norm", b->e.text);
    report(b, "delta", seconds(b, "delta", [&] {
        return b->d->k->delta(b->d, &f, &b->e);
    }), 4 * bytes_of(q), work);
    report(b, "delta_bwd", seconds(b, "delta_bwd", [&] {
        return b->d->k->delta_bwd(b->d, &r, &b->e);
    }), 8 * bytes_of(q), 3 * work);
    release({q, k, v, o, g, beta, g_cum, x, w, u, v_new, h, dq, dk, dv, dg,
             dbeta, dw, du, dh, states, dstates, rnorm});
}

/* 128 experts with the same rows each: fc1 of the routed part (1024 wide),
** and its adapter (8). */
void time_experts(struct bench *b, const char *name, int64_t rows,
                  int64_t wide)
{
    const int64_t n = 128, each = rows * 4 / n, total = each * n;
    struct mat x = act(b, total, 2048), y = act(b, total, wide);
    struct mat w = act(b, n * wide, 2048);
    int64_t *offset = new int64_t[n + 1];
    struct k_group_gemm a = {};

    for (int64_t i = 0; i <= n; i++) offset[i] = i * each;
    a.form = GROUP_NT, a.c = y, a.a = x, a.w = w, a.w_rows = wide;
    a.offset = offset, a.n_group = n, a.alpha = 1;
    report(b, name, seconds(b, name, [&] {
        return b->d->k->group_gemm(b->d, &a, &b->e);
    }), bytes_of(x) + bytes_of(y) + bytes_of(w),
        2.0 * static_cast<double>(total * wide) * 2048);
    delete[] offset;
    release({x, y, w});
}

/* The router's backward: f32 gradients of 256 logits times bf16 weights. */
void time_router(struct bench *b, int64_t rows)
{
    struct mat g = acc(b, rows, 256, 0.5), w = act(b, 256, 2048);
    struct mat y = act(b, rows, 2048);
    struct k_gemm a = {};

    a.c = y, a.a = g, a.b = w, a.alpha = 1, a.beta = 1;
    report(b, "gemm_router_bwd", seconds(b, "gemm_router_bwd", [&] {
        return b->d->k->gemm(b->d, &a, &b->e);
    }), bytes_of(g) + bytes_of(w) + 2 * bytes_of(y),
        2.0 * static_cast<double>(rows) * 256 * 2048);
    release({g, w, y});
}

/* The first cols columns of a matrix. */
struct mat columns(struct mat m, int64_t cols)
{
    m.cols = cols;
    return m;
}

void time_moves(struct bench *b, int64_t rows)
{
    struct mat x = act(b, rows, 8192), y = act(b, rows, 8192);
    struct mat f = acc(b, rows, 32, 0.5), g = acc(b, rows, 32, 0);
    struct k_add add = {y, x, x};
    struct k_copy wide = {columns(y, 4096), columns(x, 4096)};
    struct k_copy narrow = {columns(g, 16), columns(f, 16)};
    struct k_repeat_heads rep = {y, columns(x, 4096), 2, 128};

    report(b, "add", seconds(b, "add", [&] {
        return b->d->k->add(b->d, &add, &b->e);
    }), 3 * bytes_of(x), 0);
    report(b, "copy_columns", seconds(b, "copy_columns", [&] {
        return b->d->k->copy(b->d, &wide, &b->e);
    }), bytes_of(x), 0);
    report(b, "copy_narrow", seconds(b, "copy_narrow", [&] {
        return b->d->k->copy(b->d, &narrow, &b->e);
    }), bytes_of(f), 0);
    report(b, "repeat_heads", seconds(b, "repeat_heads", [&] {
        return b->d->k->repeat_heads(b->d, &rep, &b->e);
    }), 1.5 * bytes_of(y), 0);
    release({x, y, f, g});
}

void run(struct bench *b, int64_t rows)
{
    int64_t m = std::min<int64_t>(rows, 8192);

    printf("kernel,ms,GB,of_copy_rate,Tops,of_cublas_rate\n");
    measure_copy(b, m);
    time_gemm(b, "cublas_square", m, m, m, true);
    time_gemm(b, "gemm_qkv", rows, 9216, 2048, false);
    time_gemm(b, "gemm_lora", rows, 8, 2048, false);
    time_experts(b, "group_gemm", rows, 1024);
    time_experts(b, "group_gemm_lora", rows, 8);
    time_router(b, rows);
    time_attention(b, rows);
    time_delta(b, rows);
    time_conv(b, rows);
    time_norms(b, rows);
    time_swiglu(b, rows);
    time_moves(b, rows);
}

}  // namespace

int main(int argc, char **argv)
{
    struct dev_options o = {};
    struct bench b = {};
    int64_t rows = argc > 1 ? atoll(argv[1]) : 16384;
    int rc;

    if (rows < 64 || rows % 64 != 0 || rows > (1 << 20))
        stop("rows", "must be a multiple of 64, at most 1048576");
    o.act = DT_BF16;
    rc = cu_ops.open(&o, &b.d, &b.e);
    if (rc != ERR_OK) {
        fprintf(stderr, "bench-device: %s\n", b.e.text);
        return rc;
    }
    b.c = cu_of(b.d);
    run(&b, rows);
    cu_ops.close(b.d);
    return 0;
}
