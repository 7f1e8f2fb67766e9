/*
** attention.cu - attention over slices with an online softmax (model.md
** 2.2.4): a block holds a tile of stacked query rows and walks over the keys
** of the slices that reach into it. Also the lists of slices per tile.
**
** Values are on their way while the scores of a tile are made, the next keys
** while its values are worked on.
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

/* A warp has 16 of a tile's stacked rows. In bf16 the weights stay in its
** registers, where the second product takes them from. In f32 they go through
** shared memory, and where heads are wide two warps share 16 rows: each takes
** half of a tile's keys and half of the output's columns. */
template <typename T, int D> struct forward_size {
    static constexpr bool KEEPS = sizeof(T) == 2;
    static constexpr int PARTS = !KEEPS && D > 128 ? 2 : 1;
    static constexpr int ROWS = KEEPS ? 128 : 64;
    static constexpr int THREADS = ROWS * 2 * PARTS;
    static constexpr int BK = KEEPS ? 64 : D > 128 ? 16 : 32;
    static constexpr int LD = tile_ld<T, D>, LP = tile_ld<T, BK>;
    static constexpr int NK = BK / 8 / PARTS, NO = D / 8 / PARTS;
    static constexpr int SHARED = static_cast<int>(sizeof(T)) *
        ((ROWS + 2 * BK) * LD + (KEEPS ? 0 : ROWS * LP)) + 2 * ROWS * 4;
};

struct forward_args {
    cu_view out, lse, q, k, v;
    attn_shape s;
    attn_lists at;
    float scale;
};

/* The block's shared memory, and which rows, keys and columns are mine. */
template <typename T> struct forward_tile {
    T *q, *k, *v, *p;
    float *top;                 /* [2][ROWS] */
    int part, row;              /* row g of the warp's; the other is + 8 */
};

/* What a thread holds of its two rows. */
template <typename T, int D> struct forward_rows {
    float o[forward_size<T, D>::NO][4];     /* sums of e^(s - m) v */
    float m[2], l[2];           /* running maximum; my sum of e^(s - m) */
};

/* The token of one of my rows, -1: no row. (Not kept: registers are short.) */
template <typename T>
static __device__ __forceinline__ int token_of(const forward_args &a,
                                               const forward_tile<T> &x,
                                               int first, int h)
{
    int at = (x.row + 8 * h) / a.s.rep;

    return at < a.s.tokens && first + at < a.q.rows ? first + at : -1;
}

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
            *x = expf(*x - shift);
            sum += *x;
        }
    *l = *l * fade + sum;
    *m = top;
    return fade;
}

/* A tile's weights as the second product takes them: in registers, or rows of
** shared memory. */
template <typename T, int D> struct forward_weights {
    void *none;
};
template <int D> struct forward_weights<bf16, D> {
    uint32_t a[forward_size<bf16, D>::BK / 16][4];
};

template <int D, int NK>
static __device__ __forceinline__ void keep(const forward_tile<bf16> &, int,
                                            const float (&s)[NK][4],
                                            forward_weights<bf16, D> &p)
{
    UNROLL for (int j = 0; j < NK; j++)
        UNROLL for (int h = 0; h < 2; h++)
            p.a[j / 2][j % 2 * 2 + h] = mma_pack(s[j][2 * h], s[j][2 * h + 1]);
}
template <int D, int NK>
static __device__ __forceinline__ void keep(const forward_tile<float> &x,
                                            int first, const float (&s)[NK][4],
                                            forward_weights<float, D> &)
{
    constexpr int LP = forward_size<float, D>::LP;

    UNROLL for (int j = 0; j < NK; j++)
        UNROLL for (int i = 0; i < 4; i++)
            x.p[(x.row + i / 2 * 8) * LP + first + 8 * j + i % 2] = s[j][i];
}

/* part += the weights times n-tiles of values from column col on. */
template <int D, int NT>
static __device__ __forceinline__ void take(const forward_tile<bf16> &x,
                                            const forward_weights<bf16, D> &p,
                                            int col, float (&part)[NT][4])
{
    tile_product_held(part, p.a, x.v + col, forward_size<bf16, D>::LD);
}
template <int D, int NT>
static __device__ __forceinline__ void take(const forward_tile<float> &x,
                                            const forward_weights<float, D> &,
                                            int col, float (&part)[NT][4])
{
    using size = forward_size<float, D>;

    tile_product<false, false>(part, x.p + x.row / 16 * 16 * size::LP,
                               size::LP, x.v + col, size::LD, size::BK, 1, NT);
}

/* Scores of the tile to weights; then the values are there. */
template <typename T, int D>
static __device__ __forceinline__ void weights(const forward_args &a,
                                               const forward_tile<T> &x,
                                               const int seen[2],
                                               forward_rows<T, D> &w,
                                               float fade[2],
                                               forward_weights<T, D> &p)
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
                x.top[x.part * size::ROWS + x.row + 8 * h] = top[h];
        __syncthreads();
        UNROLL for (int h = 0; h < 2; h++)
            top[h] = fmaxf(x.top[x.row + 8 * h],
                           x.top[size::ROWS + x.row + 8 * h]);
    }
    UNROLL for (int h = 0; h < 2; h++)
        fade[h] = softmax_row(s, h, top[h], &w.m[h], &w.l[h]);
    keep(x, first, s, p);
    tile_wait();
    __syncthreads();
}

/* What the tile's values add to the warp's rows, which see its first seen
** keys. Rows that see none are left alone: the values may be another
** sequence's, and 0 times NaN is NaN. */
template <typename T, int D>
static __device__ __forceinline__ void add_values(
    const forward_tile<T> &x, const forward_weights<T, D> &p,
    const int seen[2], const float fade[2], forward_rows<T, D> &w)
{
    using size = forward_size<T, D>;
    constexpr int GROUP = size::NO < 4 ? size::NO : 4;

    UNROLL for (int j = 0; j < size::NO; j += GROUP) {
        float part[GROUP][4];

        tile_zero(part);
        take(x, p, 8 * (size::NO * x.part + j), part);
        __syncwarp();
        UNROLL for (int i = 0; i < GROUP * 4; i++) {
            int h = i % 4 / 2;
            float *o = &w.o[j + i / 4][i % 4];
            if (seen[h] > 0) *o = fade[h] * *o + part[i / 4][i % 4];
        }
    }
}

/* Keys or values from row on, of which n are left. (Rows are 32 bits: what
** is not in registers is spilled.) */
template <int BK, int D, typename T>
static __device__ __forceinline__ void fetch(T *to, const cu_view &v, int kv,
                                             int d, int row, int n)
{
    int col = kv * d;

    if (n > 0)
        tile_load<D>(to, BK, v, d, [&](int r) -> int64_t {
            return r < n ? (row + r) * v.ld + col : -1;
        }, tile_even<T>(v, col));
}

template <typename T, int D>
static __device__ __forceinline__ void forward_slice(
    const forward_args &a, const struct slice &s, int first, int kv,
    const forward_tile<T> &x, forward_rows<T, D> &w)
{
    constexpr int BK = forward_size<T, D>::BK;
    int64_t last = first + a.s.tokens < s.q + s.n_q ? first + a.s.tokens
                                                    : s.q + s.n_q;
    int keys = keys_seen(s, last - 1), row = static_cast<int>(s.k);
    int seen[2] = {keys_seen(s, token_of(a, x, first, 0)),
                   keys_seen(s, token_of(a, x, first, 1))};

    fetch<BK, D>(x.k, a.k, kv, a.s.d, row, keys);
    NO_UNROLL for (; keys > 0; keys -= BK, row += BK) {
        forward_weights<T, D> p;
        float fade[2];

        tile_wait();
        __syncthreads();        /* the keys are there, the values used */
        fetch<BK, D>(x.v, a.v, kv, a.s.d, row, keys);
        weights<T, D>(a, x, seen, w, fade, p);
        fetch<BK, D>(x.k, a.k, kv, a.s.d, row + BK, keys - BK);
        add_values<T, D>(x, p, seen, fade, w);
        seen[0] -= BK;
        seen[1] -= BK;
    }
}

/* A row's columns of a thread, of which n are left. */
template <typename U, int NT>
static __device__ __forceinline__ void put_row(U *to, int n, int h,
                                               const float (&o)[NT][4],
                                               float part, bool none)
{
    UNROLL for (int j = 0; j < NT; j++)
        UNROLL for (int i = 0; i < 2; i++)
            if (8 * j + i < n)
                tile_put(to + 8 * j + i, none ? 0.0f : o[j][2 * h + i] * part);
}

/* Divides by the sums; rows that saw nothing get 0 and -inf. */
template <typename T, int D>
static __device__ __forceinline__ void forward_end(const forward_args &a,
                                                   const forward_tile<T> &x,
                                                   int from, int kv,
                                                   forward_rows<T, D> &w)
{
    using size = forward_size<T, D>;
    int first = 8 * size::NO * x.part + static_cast<int>(threadIdx.x) % 4 * 2;

    tile_wait();            /* where there was no key, the queries are still */
    UNROLL for (int h = 0; h < 2; h++) w.l[h] = tile_row_sum(w.l[h]);
    if (size::PARTS > 1) {
        __syncthreads();
        if (threadIdx.x % 4 == 0)
            for (int h = 0; h < 2; h++)
                x.top[x.part * size::ROWS + x.row + 8 * h] = w.l[h];
        __syncthreads();
        UNROLL for (int h = 0; h < 2; h++)
            w.l[h] = x.top[x.row + 8 * h] + x.top[size::ROWS + x.row + 8 * h];
    }
    UNROLL for (int h = 0; h < 2; h++) {
        int token = token_of(a, x, from, h);
        int head = kv * a.s.rep + (x.row + 8 * h) % a.s.rep;
        bool none = w.l[h] == 0.0f;
        float part = none ? 0.0f : 1.0f / w.l[h];

        if (token < 0) continue;
        int64_t to = token * a.out.ld + head * a.s.d + first;
        int n = a.s.d - first;
        if (a.out.t == DT_BF16)
            put_row(static_cast<bf16 *>(a.out.p) + to, n, h, w.o, part, none);
        else
            put_row(static_cast<float *>(a.out.p) + to, n, h, w.o, part, none);
        if (x.part == 0 && threadIdx.x % 4 == 0)
            cu_put(a.lse, token, head,
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
    int first = tile * a.s.tokens;
    int end = first + a.s.tokens < a.q.rows ? first + a.s.tokens : a.q.rows;
    forward_tile<T> x;
    forward_rows<T, D> w;

    x.q = room;
    x.k = x.q + size::ROWS * size::LD;
    x.v = x.k + size::BK * size::LD;
    x.p = x.v + size::BK * size::LD;
    x.top = reinterpret_cast<float *>(
        x.p + (size::KEEPS ? 0 : size::ROWS * size::LP));
    x.part = warp / (size::ROWS / 16);
    x.row = warp % (size::ROWS / 16) * 16 +
            static_cast<int>(threadIdx.x) % 32 / 4;
    tile_zero(w.o);
    UNROLL for (int h = 0; h < 2; h++) {
        w.m[h] = -INFINITY;
        w.l[h] = 0.0f;
    }
    tile_load<D>(x.q, size::ROWS, a.q, a.s.d, [&](int r) -> int64_t {
        return first + r / rep < end
            ? int64_t{first + r / rep} * a.q.ld + (kv * rep + r % rep) * a.s.d
            : -1;
    }, tile_even<T>(a.q, a.s.d));
    for (int i = a.at.start[tile]; i < a.at.start[tile + 1]; i++)
        forward_slice<T, D>(a, a.at.slice[a.at.list[i]], first, kv, x, w);
    forward_end<T, D>(a, x, first, kv, w);
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
    bool bf = k->q.t == DT_BF16 && k->k.t == DT_BF16 && k->v.t == DT_BF16;
    int rc = attn_shape_of(k->heads, k->kv_heads, k->q.cols,
                           bf ? forward_size<bf16, 16>::ROWS
                              : forward_size<float, 16>::ROWS, &a.s, e);

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
    return bf ? launch_wide<bf16>(c, a, e) : launch_wide<float>(c, a, e);
}
