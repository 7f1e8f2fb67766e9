/*
** attention.cu - attention over slices with an online softmax (model.md
** 2.2.4): a block holds a tile of stacked query rows and walks over the keys
** of the slices that reach into it. Also the lists of slices per tile.
**
** Keys have two places in shared memory: while a tile of them is worked on,
** its values and the next keys are on their way.
*/
#include "attention.cuh"

#include <cstring>

/* ---- slices and tiles ---------------------------------------------------- */

int attn_check(const struct slice *s, int64_t n, int64_t q_rows,
               int64_t k_rows, struct err *e)
{
    for (int64_t i = 0; i < n; i++)
        if (s[i].q < 0 || s[i].n_q < 0 || s[i].k < 0 || s[i].n_k < 0 ||
            s[i].q > q_rows - s[i].n_q || s[i].k > k_rows - s[i].n_k ||
            (i > 0 && s[i].q < s[i - 1].q))
            return err_set(e, ERR_RUN, "cuda attention: slices leave the "
                           "stage's rows or do not ascend in q");
    return ERR_OK;
}

int attn_shape_of(int64_t heads, int64_t kv_heads, int64_t q_cols, int rows,
                  struct attn_shape *s, struct err *e)
{
    if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0 ||
        kv_heads > 65535 || heads / kv_heads > rows || q_cols % heads != 0 ||
        q_cols / heads > 256)
        return err_set(e, ERR_RUN, "cuda attention: %lld heads of %lld "
                       "columns on %lld key heads (at most 256 columns a "
                       "head, %d heads a key head, 65535 key heads)",
                       (long long)heads, (long long)q_cols,
                       (long long)kv_heads, rows);
    s->heads = static_cast<int>(heads);
    s->kv = static_cast<int>(kv_heads);
    s->rep = s->heads / s->kv;
    s->d = static_cast<int>(q_cols / heads);
    s->tokens = rows / s->rep;
    return ERR_OK;
}

/* Tiles [*from, *to) that the slice reaches into. */
static void reach(const struct slice *s, int64_t size, bool keys,
                  int64_t *from, int64_t *to)
{
    int64_t first = keys ? s->k : s->q, n = keys ? s->n_k : s->n_q;
    bool none = s->n_k == 0 || s->n_q == 0;

    *from = first / size;
    *to = none ? *from : (first + n + size - 1) / size;
}

static int64_t reached(const struct slice *s, int64_t n, int64_t size,
                       bool keys)
{
    int64_t total = 0, from, to;

    for (int64_t i = 0; i < n; i++) {
        reach(&s[i], size, keys, &from, &to);
        total += to - from;
    }
    return total;
}

static size_t start_bytes(int64_t rows, int64_t size)
{
    return static_cast<size_t>((rows + size - 1) / size + 1) * 4;
}

size_t attn_room(const struct slice *s, int64_t n, int64_t rows, int64_t size,
                 bool keys)
{
    return CU_ROOM(start_bytes(rows, size)) +
           CU_ROOM(reached(s, n, size, keys) * 4);
}

const struct slice *attn_slices(struct cu *c, const struct slice *s,
                                int64_t n)
{
    size_t bytes = static_cast<size_t>(n) * sizeof *s;
    void *at, *host = cu_meta_host(c, bytes, &at);

    if (bytes > 0) memcpy(host, s, bytes);
    return static_cast<const struct slice *>(at);
}

/* A counting sort: ends of the lists first, which become their starts while
** the slices are laid down from the last to the first. */
void attn_tiles(struct cu *c, const struct slice *s, int64_t n, int64_t rows,
                int64_t size, bool keys, struct attn_lists *out)
{
    size_t bytes = start_bytes(rows, size);
    int64_t tiles = static_cast<int64_t>(bytes / 4) - 1, from, to;
    void *at;
    int32_t *start = static_cast<int32_t *>(cu_meta_host(c, bytes, &at));

    out->start = static_cast<const int32_t *>(at);
    bytes = static_cast<size_t>(reached(s, n, size, keys)) * 4;
    int32_t *list = static_cast<int32_t *>(cu_meta_host(c, bytes, &at));
    out->list = static_cast<const int32_t *>(at);
    for (int64_t t = 0; t <= tiles; t++) start[t] = 0;
    for (int64_t i = 0; i < n; i++) {
        reach(&s[i], size, keys, &from, &to);
        for (int64_t t = from; t < to; t++) start[t]++;
    }
    for (int64_t t = 1; t <= tiles; t++) start[t] += start[t - 1];
    for (int64_t i = n - 1; i >= 0; i--) {
        reach(&s[i], size, keys, &from, &to);
        for (int64_t t = from; t < to; t++)
            list[--start[t]] = static_cast<int32_t>(i);
    }
}

/* ---- forward ------------------------------------------------------------- */

/* A block has 4 x PARTS warps: 16 rows a warp, and where heads are wide two
** warps share 16 rows: each takes half of a tile's keys and half of the
** output's columns. */
constexpr int ROWS = 64;        /* stacked rows of a tile */

template <typename T, int D> struct forward_size {
    static constexpr int PARTS = D > 128 ? 2 : 1, THREADS = 128 * PARTS;
    static constexpr int BK = sizeof(T) == 2 ? 64 : D > 128 ? 16 : 32;
    static constexpr int LD = tile_ld<T, D>, LP = tile_ld<T, BK>;
    static constexpr int NK = BK / 8 / PARTS, NO = D / 8 / PARTS;
    static constexpr int SHARED = static_cast<int>(sizeof(T)) *
        ((ROWS + 3 * BK) * LD + ROWS * LP) + 2 * ROWS * 4;
};

struct forward_args {
    cu_view out, lse, q, k, v;
    attn_shape s;
    attn_lists at;
    float scale;
};

/* The block's shared memory, and which rows, keys and columns are mine. */
template <typename T> struct forward_tile {
    T *q, *k, *next, *v, *p;    /* k is worked on, next on its way */
    float *top;                 /* [2][ROWS] */
    int part, row;              /* row g of the warp's; the other is + 8 */
};

/* What a thread holds of its two rows. */
template <typename T, int D> struct forward_rows {
    float o[forward_size<T, D>::NO][4];     /* sums of e^(s - m) v */
    float m[2], l[2];           /* running maximum; my sum of e^(s - m) */
    int64_t token[2];           /* -1: no row */
};

/* The tile's largest score in each of my rows; scores of keys that are not
** seen become -inf. first: the number of my first key. */
template <int NT>
static __device__ __forceinline__ float largest(float (&s)[NT][4], int h,
                                                int first, int seen,
                                                float scale)
{
    float top = -INFINITY;

    UNROLL for (int j = 0; j < NT; j++)
        UNROLL for (int i = 0; i < 2; i++) {
            float *x = &s[j][2 * h + i];
            *x = first + 8 * j + i < seen ? *x * scale : -INFINITY;
            top = fmaxf(top, *x);
        }
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    return fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
}

/* Scores of one row become weights under its new maximum; returns what
** multiplies what was summed before. */
template <int NT>
static __device__ __forceinline__ float softmax_row(float (&s)[NT][4], int h,
                                                    int first, int seen,
                                                    float top, float *m,
                                                    float *l)
{
    float sum = 0;

    top = fmaxf(top, *m);
    /* all scores -inf: any shift will do, but inf - inf must not make NaNs */
    float shift = top == -INFINITY ? 0.0f : top;
    float fade = expf(*m - shift);
    UNROLL for (int j = 0; j < NT; j++)
        UNROLL for (int i = 0; i < 2; i++) {
            float *x = &s[j][2 * h + i];
            *x = first + 8 * j + i < seen ? expf(*x - shift) : 0.0f;
            sum += *x;
        }
    *l = *l * fade + tile_row_sum(sum);
    *m = top;
    return fade;
}

/* Scores of the tile to weights in shared memory, where then the values are
** too. */
template <typename T, int D>
static __device__ __forceinline__ void weights(const forward_args &a,
                                               const forward_tile<T> &x,
                                               const int seen[2],
                                               forward_rows<T, D> &w,
                                               float fade[2])
{
    using size = forward_size<T, D>;
    constexpr int NK = size::NK, LD = size::LD;
    int first = 8 * NK * x.part + static_cast<int>(threadIdx.x) % 4 * 2;
    float s[NK][4], top[2];

    tile_zero(s);
    tile_product<false, true>(s, x.q + x.row / 16 * 16 * LD, LD,
                              x.k + 8 * NK * x.part * LD, LD, D, 1, NK);
    UNROLL for (int h = 0; h < 2; h++)
        top[h] = largest(s, h, first, seen[h], a.scale);
    if (size::PARTS > 1) {
        if (threadIdx.x % 4 == 0)
            for (int h = 0; h < 2; h++)
                x.top[x.part * ROWS + x.row + 8 * h] = top[h];
        __syncthreads();
        UNROLL for (int h = 0; h < 2; h++)
            top[h] = fmaxf(x.top[x.row + 8 * h],
                           x.top[ROWS + x.row + 8 * h]);
    }
    UNROLL for (int h = 0; h < 2; h++) {
        fade[h] = softmax_row(s, h, first, seen[h], top[h], &w.m[h], &w.l[h]);
        UNROLL for (int j = 0; j < NK; j++)
            UNROLL for (int i = 0; i < 2; i++)
                tile_put(x.p + (x.row + 8 * h) * size::LP + first + 8 * j + i,
                         s[j][2 * h + i]);
    }
    tile_wait_first();
    __syncthreads();
}

/* The warp's rows against one tile of keys, of which its rows see the first
** seen. Rows that see none are left alone: the values may be another
** sequence's, and 0 times NaN is NaN. */
template <typename T, int D>
static __device__ __forceinline__ void forward_step(const forward_args &a,
                                                    const forward_tile<T> &x,
                                                    const int seen[2],
                                                    forward_rows<T, D> &w)
{
    using size = forward_size<T, D>;
    constexpr int GROUP = size::NO < 4 ? size::NO : 4;
    float fade[2];

    weights<T, D>(a, x, seen, w, fade);
    UNROLL for (int j = 0; j < size::NO; j += GROUP) {
        float part[GROUP][4];

        tile_zero(part);
        tile_product<false, false>(
            part, x.p + x.row / 16 * 16 * size::LP, size::LP,
            x.v + 8 * (size::NO * x.part + j), size::LD, size::BK, 1, GROUP);
        UNROLL for (int i = 0; i < GROUP * 4; i++) {
            int h = i % 4 / 2;
            float *o = &w.o[j + i / 4][i % 4];
            if (seen[h] > 0) *o = fade[h] * *o + part[i / 4][i % 4];
        }
    }
}

/* Keys or values [k0, k0 + BK) of a slice, of which there are all: a group of
** loads, empty where k0 is past the last. */
template <int BK, int D, typename T>
static __device__ __forceinline__ void fetch(T *to, const cu_view &v,
                                             const struct slice &s, int kv,
                                             int d, int k0, int all)
{
    int64_t row = s.k + k0, col = int64_t{kv} * d;
    int n = all - k0;

    if (n > 0)
        tile_load<D>(to, BK, v, d, [&](int r) -> int64_t {
            return r < n ? (row + r) * v.ld + col : -1;
        });
    tile_close();
}

template <typename T, int D>
static __device__ __forceinline__ void forward_slice(
    const forward_args &a, const struct slice &s, int64_t first, int kv,
    forward_tile<T> &x, forward_rows<T, D> &w)
{
    constexpr int BK = forward_size<T, D>::BK;
    int64_t last = first + a.s.tokens < s.q + s.n_q ? first + a.s.tokens
                                                    : s.q + s.n_q;
    int keys = keys_seen(s, last - 1);
    int all[2] = {keys_seen(s, w.token[0]), keys_seen(s, w.token[1])};

    fetch<BK, D>(x.k, a.k, s, kv, a.s.d, 0, keys);
    NO_UNROLL for (int k0 = 0; k0 < keys; k0 += BK) {
        int seen[2] = {all[0] - k0, all[1] - k0};
        T *done = x.k;

        tile_wait();
        __syncthreads();        /* the keys are there, the values used */
        fetch<BK, D>(x.v, a.v, s, kv, a.s.d, k0, keys);
        fetch<BK, D>(x.next, a.k, s, kv, a.s.d, k0 + BK, keys);
        forward_step<T, D>(a, x, seen, w);
        x.k = x.next;
        x.next = done;
    }
}

/* Divides by the sums; rows that saw nothing get 0 and -inf. */
template <typename T, int D>
static __device__ __forceinline__ void forward_end(const forward_args &a,
                                                   const forward_tile<T> &x,
                                                   int kv,
                                                   forward_rows<T, D> &w)
{
    using size = forward_size<T, D>;
    int first = 8 * size::NO * x.part + static_cast<int>(threadIdx.x) % 4 * 2;

    tile_wait();            /* where there was no key, the queries are still */
    if (size::PARTS > 1) {
        __syncthreads();
        if (threadIdx.x % 4 == 0)
            for (int h = 0; h < 2; h++)
                x.top[x.part * ROWS + x.row + 8 * h] = w.l[h];
        __syncthreads();
        UNROLL for (int h = 0; h < 2; h++)
            w.l[h] = x.top[x.row + 8 * h] + x.top[ROWS + x.row + 8 * h];
    }
    UNROLL for (int h = 0; h < 2; h++) {
        int head = kv * a.s.rep + (x.row + 8 * h) % a.s.rep;
        bool none = w.l[h] == 0.0f;
        float part = none ? 0.0f : 1.0f / w.l[h];

        if (w.token[h] < 0) continue;
        UNROLL for (int j = 0; j < size::NO; j++)
            UNROLL for (int i = 0; i < 2; i++)
                if (first + 8 * j + i < a.s.d)
                    cu_put(a.out, w.token[h],
                           head * a.s.d + first + 8 * j + i,
                           none ? 0.0f : w.o[j][2 * h + i] * part);
        if (x.part == 0 && threadIdx.x % 4 == 0)
            cu_put(a.lse, w.token[h], head,
                   none ? -INFINITY : w.m[h] + logf(w.l[h]));
    }
}

template <typename T, int D>
static __global__ void __launch_bounds__(forward_size<T, D>::THREADS, 1)
attention_forward(forward_args a)
{
    using size = forward_size<T, D>;
    DYNAMIC_SHARED(T, room);
    /* long rows first: causal tiles at the end take longest */
    int tile = static_cast<int>(gridDim.x - 1 - blockIdx.x);
    int kv = static_cast<int>(blockIdx.y), rep = a.s.rep;
    int warp = static_cast<int>(threadIdx.x) / 32;
    int64_t first = int64_t{tile} * a.s.tokens;
    int64_t end = first + a.s.tokens < a.q.rows ? first + a.s.tokens
                                                : a.q.rows;
    forward_tile<T> x;
    forward_rows<T, D> w;

    x.q = room;
    x.k = x.q + ROWS * size::LD;
    x.next = x.k + size::BK * size::LD;
    x.v = x.next + size::BK * size::LD;
    x.p = x.v + size::BK * size::LD;
    x.top = reinterpret_cast<float *>(x.p + ROWS * size::LP);
    x.part = warp / 4;
    x.row = warp % 4 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
    tile_zero(w.o);
    UNROLL for (int h = 0; h < 2; h++) {
        int64_t t = first + (x.row + 8 * h) / rep;
        w.m[h] = -INFINITY;
        w.l[h] = 0.0f;
        w.token[h] = t < end ? t : -1;
    }
    tile_load<D>(x.q, ROWS, a.q, a.s.d, [&](int r) -> int64_t {
        return first + r / rep < end
            ? (first + r / rep) * a.q.ld + int64_t{kv * rep + r % rep} * a.s.d
            : -1;
    });
    for (int i = a.at.start[tile]; i < a.at.start[tile + 1]; i++)
        forward_slice<T, D>(a, a.at.slice[a.at.list[i]], first, kv, x, w);
    forward_end<T, D>(a, x, kv, w);
}

/* ---- launch -------------------------------------------------------------- */

template <typename T, int D>
static int launch(struct cu *c, const forward_args &a, struct err *e)
{
    using size = forward_size<T, D>;
    static_assert(size::SHARED <= CU_SHARED_MAX, "too much shared memory");
    auto *kernel = attention_forward<T, D>;
    unsigned tiles, kv = static_cast<unsigned>(a.s.kv);
    int rc = cu_grid(a.q.rows, a.s.tokens, &tiles, e);

    if (rc != ERR_OK) return rc;
    CU_TRY(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, size::SHARED));
    LAUNCH(kernel, dim3(tiles, kv), size::THREADS, size::SHARED, c->stream, a);
    CU_LAUNCHED();
    return ERR_OK;
}

template <typename T>
static int launch_wide(struct cu *c, const forward_args &a, struct err *e)
{
    if (a.s.d <= 16) return launch<T, 16>(c, a, e);
    if (a.s.d <= 64) return launch<T, 64>(c, a, e);
    if (a.s.d <= 128) return launch<T, 128>(c, a, e);
    return launch<T, 256>(c, a, e);
}

int cu_attention(struct dev *d, const struct k_attention *k, struct err *e)
{
    struct cu *c = cu_of(d);
    int64_t rows = k->q.rows, n = k->n_slice;
    forward_args a = {};
    int rc = attn_shape_of(k->heads, k->kv_heads, k->q.cols, ROWS, &a.s, e);

    if (rc != ERR_OK) return rc;
    int64_t kv_cols = int64_t{a.s.kv} * a.s.d;
    rc = cu_view_of(&k->q, rows, -1, "q", &a.q, e);
    if (rc == ERR_OK)
        rc = cu_view_of(&k->out, rows, a.q.cols, "out", &a.out, e);
    if (rc == ERR_OK)
        rc = cu_view_of(&k->lse, rows, a.s.heads, "lse", &a.lse, e);
    if (rc == ERR_OK) rc = cu_view_of(&k->k, -1, kv_cols, "k", &a.k, e);
    if (rc == ERR_OK) rc = cu_view_of(&k->v, a.k.rows, kv_cols, "v", &a.v, e);
    if (rc == ERR_OK) rc = attn_check(k->slice, n, rows, a.k.rows, e);
    if (rc != ERR_OK || rows == 0) return rc;
    rc = cu_meta_begin(c, CU_ROOM(n * int64_t{sizeof(struct slice)}) +
                       attn_room(k->slice, n, rows, a.s.tokens, false), e);
    if (rc != ERR_OK) return rc;
    a.at.slice = attn_slices(c, k->slice, n);
    attn_tiles(c, k->slice, n, rows, a.s.tokens, false, &a.at);
    rc = cu_meta_send(c, e);
    if (rc != ERR_OK) return rc;
    a.scale = static_cast<float>(k->scale);
    if (a.q.t == DT_BF16 && a.k.t == DT_BF16 && a.v.t == DT_BF16)
        return launch_wide<bf16>(c, a, e);
    return launch_wide<float>(c, a, e);
}
