/*
** attention_bwd.cu - gradients of attention from the saved lse (model.md
** 3.6). Weights are rebuilt tile by tile, twice: once by blocks of query rows
** for dq, once by blocks of keys for dk and dv, so that every sum has one
** owner and one order and nothing is added atomically.
**
** A block's 8 warps are ROWS / 16 groups; the warps of a group share 16 rows
** of every product and take its n-tiles in turn.
*/
#include "attention.cuh"

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;

template <typename T, int D> struct back_size {
    static constexpr int ROWS = sizeof(T) == 2 ? 64 : 32;   /* both sides */
    static constexpr int GROUPS = ROWS / 16, PARTS = WARPS / GROUPS;
    static constexpr int LD = tile_ld<T, D>, LS = tile_ld<T, ROWS>;
    static constexpr int NS = ROWS / 8 / PARTS;     /* n-tiles of scores */
    static constexpr int NO = (D / 8 + PARTS - 1) / PARTS;
    static constexpr int GROUP = NO < 4 ? NO : 4;
    static constexpr int SHARED = static_cast<int>(sizeof(T)) *
        (4 * ROWS * LD + 2 * ROWS * LS) + 5 * ROWS * 4;
};

struct back_args {
    cu_view dq, dk, dv, q, k, v, out, lse, dout, dlse;
    attn_shape s;
    attn_lists at;
    float *delta;               /* [rows][heads]: dout . out - dlse */
    float scale;
};

/* A stacked row: -1 for none, the column where its head begins. */
struct stacked { int token, col; };

/* The block's shared memory and my place in it. */
template <typename T> struct back_tile {
    T *q, *d_o, *k, *v, *p, *ds;
    float *lse, *delta;
    int *seen;                  /* keys of the tile that a row sees */
    struct stacked *at;
    int group, part, row, col;  /* row, column in a 16 x 8 tile: + 8, + 1 */
};

template <typename T, int D>
static __device__ __forceinline__ back_tile<T> share_out(T *room)
{
    using size = back_size<T, D>;
    constexpr int N = size::ROWS * size::LD;
    int warp = static_cast<int>(threadIdx.x) / 32;
    int lane = static_cast<int>(threadIdx.x) % 32;
    back_tile<T> x;

    x.q = room;
    x.d_o = room + N;
    x.k = room + 2 * N;
    x.v = room + 3 * N;
    x.p = room + 4 * N;
    x.ds = x.p + size::ROWS * size::LS;
    x.lse = reinterpret_cast<float *>(x.ds + size::ROWS * size::LS);
    x.delta = x.lse + size::ROWS;
    x.seen = reinterpret_cast<int *>(x.delta + size::ROWS);
    x.at = reinterpret_cast<stacked *>(x.seen + size::ROWS);
    x.group = warp % size::GROUPS;
    x.part = warp / size::GROUPS;
    x.row = 16 * x.group + lane / 4;
    x.col = lane % 4 * 2;
    return x;
}

/* ---- delta --------------------------------------------------------------- */

static __global__ void attention_delta(back_args a)
{
    int lane = static_cast<int>(threadIdx.x) % 32;
    int64_t n = int64_t{a.q.rows} * a.s.heads;

    for (int64_t i = int64_t{blockIdx.x} * WARPS + threadIdx.x / 32; i < n;
         i += int64_t{gridDim.x} * WARPS) {
        int64_t r = i / a.s.heads, h = i % a.s.heads;
        float sum = 0;

        for (int64_t c = h * a.s.d + lane; c < (h + 1) * a.s.d; c += 32)
            sum += cu_get(a.dout, r, c) * cu_get(a.out, r, c);
        sum = cu_warp_sum(sum);
        if (a.dlse.p != nullptr) sum -= cu_get(a.dlse, r, h);
        if (lane == 0) a.delta[i] = sum;
    }
}

/* ---- tiles --------------------------------------------------------------- */

/* Stacked query rows of tokens [first, end), with a barrier between what says
** which are empty and the rest. A row without keys (lse -inf) may hold
** anything, so it is cleared: 0 times NaN is NaN. seen(token): how many keys
** of the tile its rows see. */
template <typename T, int D, typename Seen>
static __device__ __forceinline__ void load_queries(const back_args &a,
                                                    const back_tile<T> &x,
                                                    int kv, int64_t first,
                                                    int64_t end, Seen seen)
{
    constexpr int ROWS = back_size<T, D>::ROWS;
    int rep = a.s.rep;
    auto at = [&](int r, int64_t ld) -> int64_t {
        stacked s = x.at[r];

        return s.token < 0 ? -1 : s.token * ld + s.col;
    };

    for (int r = static_cast<int>(threadIdx.x); r < ROWS; r += THREADS) {
        int64_t t = first + r / rep, h = kv * rep + r % rep;

        float lse = t < end ? cu_get(a.lse, t, h) : -INFINITY;

        x.lse[r] = lse;
        x.seen[r] = lse == -INFINITY ? 0 : seen(t);
        x.at[r] = {lse == -INFINITY ? -1 : static_cast<int>(t),
                   static_cast<int>(h) * a.s.d};
        x.delta[r] = t < end ? a.delta[t * a.s.heads + h] : 0.0f;
    }
    __syncthreads();
    tile_load<D>(x.q, ROWS, a.q, a.s.d,
                 [&](int r) -> int64_t { return at(r, a.q.ld); },
                 tile_even<T>(a.q, a.s.d));
    tile_load<D>(x.d_o, ROWS, a.dout, a.s.d,
                 [&](int r) -> int64_t { return at(r, a.dout.ld); },
                 tile_even<T>(a.dout, a.s.d));
    tile_wait();
}

/* Rows [row, row + n) of one head of the keys or the values. */
template <typename T, int D>
static __device__ __forceinline__ void load_head(T *to, const cu_view &v,
                                                 int kv, int d, int64_t row,
                                                 int64_t n)
{
    int64_t col = int64_t{kv} * d;

    tile_load<D>(to, back_size<T, D>::ROWS, v, d, [&](int r) -> int64_t {
        return r < n ? (row + r) * v.ld + col : -1;
    }, tile_even<T>(v, col));
}

/* acc += A B for the group's 16 rows of A [ROWS][ROWS] and B [ROWS][D], on
** those of my two rows that count: where A has zeros B may still hold
** another sequence's NaN. */
template <typename T, int D>
static __device__ __forceinline__ void add_product(
    float (&acc)[back_size<T, D>::NO][4], const back_tile<T> &x, const T *a,
    const T *b, const bool counts[2])
{
    using size = back_size<T, D>;
    constexpr int GROUP = size::GROUP;
    /* (a number that the compiler knows, where all warps have as many) */
    int mine = D / 8 % size::PARTS == 0
        ? size::NO : tile_share(D / 8, x.part, size::PARTS);

    UNROLL for (int j = 0; j < size::NO; j += GROUP) {
        float part[GROUP][4];

        tile_zero(part);
        tile_product<false, false>(
            part, a + 16 * x.group * size::LS, size::LS,
            b + 8 * (x.part + j * size::PARTS), size::LD, size::ROWS,
            size::PARTS, mine - j);
        UNROLL for (int i = 0; i < GROUP * 4; i++)
            if (j + i / 4 < size::NO && counts[i % 4 / 2])
                acc[j + i / 4][i % 4] += part[i / 4][i % 4];
    }
}

/* ---- dq ------------------------------------------------------------------ */

/* ds = p (dp - delta) of the tile, to shared memory. */
template <typename T, int D>
static __device__ __forceinline__ void score_slopes(const back_args &a,
                                                    const back_tile<T> &x,
                                                    const int seen[2])
{
    using size = back_size<T, D>;
    constexpr int NS = size::NS, LD = size::LD, STEP = size::PARTS;
    float lse[2] = {x.lse[x.row], x.lse[x.row + 8]};
    float delta[2] = {x.delta[x.row], x.delta[x.row + 8]};
    float s[NS][4], dp[NS][4];

    tile_zero(s);
    tile_zero(dp);
    tile_product<false, true>(s, x.q + 16 * x.group * LD, LD,
                              x.k + 8 * x.part * LD, LD, D, STEP, NS);
    tile_product<false, true>(dp, x.d_o + 16 * x.group * LD, LD,
                              x.v + 8 * x.part * LD, LD, D, STEP, NS);
    UNROLL for (int j = 0; j < NS; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int row = x.row + i / 2 * 8;
            int key = 8 * (x.part + j * STEP) + x.col + i % 2;
            float ds = expf(s[j][i] * a.scale - lse[i / 2]) *
                       (dp[j][i] - delta[i / 2]);

            tile_put(x.ds + row * size::LS + key,
                     key < seen[i / 2] ? ds : 0.0f);
        }
}

template <typename T, int D>
static __device__ __forceinline__ void dq_slice(
    const back_args &a, const struct slice &s, int64_t first, int kv,
    const back_tile<T> &x, float (&acc)[back_size<T, D>::NO][4])
{
    constexpr int ROWS = back_size<T, D>::ROWS;
    int64_t last = first + a.s.tokens < s.q + s.n_q ? first + a.s.tokens
                                                    : s.q + s.n_q;
    int keys = keys_seen(s, last - 1), all[2];

    __syncthreads();
    UNROLL for (int h = 0; h < 2; h++) {
        int row = x.row + 8 * h;
        bool none = row >= a.s.tokens * a.s.rep || x.lse[row] == -INFINITY;
        all[h] = none ? 0 : keys_seen(s, first + row / a.s.rep);
    }
    load_head<T, D>(x.v, a.v, kv, a.s.d, s.k, keys);
    NO_UNROLL for (int k0 = 0; k0 < keys; k0 += ROWS) {
        int seen[2] = {all[0] - k0, all[1] - k0};
        bool counts[2] = {seen[0] > 0, seen[1] > 0};

        __syncthreads();
        load_head<T, D>(x.k, a.k, kv, a.s.d, s.k + k0, keys - k0);
        tile_wait();
        __syncthreads();
        score_slopes<T, D>(a, x, seen);
        __syncthreads();
        /* the values are used: the next are on their way meanwhile */
        if (k0 + ROWS < keys)
            load_head<T, D>(x.v, a.v, kv, a.s.d, s.k + k0 + ROWS,
                            keys - k0 - ROWS);
        add_product<T, D>(acc, x, x.ds, x.k, counts);
    }
}

template <typename T, int D>
static __global__ void __launch_bounds__(THREADS, 1)
attention_dq(back_args a)
{
    using size = back_size<T, D>;
    DYNAMIC_SHARED(T, room);
    int tile = static_cast<int>(gridDim.x - 1 - blockIdx.x);
    int kv = static_cast<int>(blockIdx.y), rep = a.s.rep;
    int64_t first = int64_t{tile} * a.s.tokens;
    int64_t end = first + a.s.tokens < a.q.rows ? first + a.s.tokens
                                                : a.q.rows;
    back_tile<T> x = share_out<T, D>(room);
    float acc[size::NO][4];

    tile_zero(acc);
    load_queries<T, D>(a, x, kv, first, end, [](int64_t) { return 0; });
    for (int i = a.at.start[tile]; i < a.at.start[tile + 1]; i++)
        dq_slice<T, D>(a, a.at.slice[a.at.list[i]], first, kv, x, acc);
    UNROLL for (int j = 0; j < size::NO; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int row = x.row + i / 2 * 8;
            int c = 8 * (x.part + j * size::PARTS) + x.col + i % 2;

            if (first + row / rep < end && c < a.s.d)
                cu_put(a.dq, first + row / rep,
                       (kv * rep + row % rep) * a.s.d + c,
                       acc[j][i] * a.scale);
        }
}

/* ---- dk and dv ----------------------------------------------------------- */

/* The transposes of p and ds, rows keys, to shared memory. The slice begins at
** key from of the tile. */
template <typename T, int D>
static __device__ __forceinline__ void key_slopes(const back_args &a,
                                                  const back_tile<T> &x,
                                                  int from)
{
    using size = back_size<T, D>;
    constexpr int NS = size::NS, LD = size::LD, STEP = size::PARTS;
    float w[NS][4], dp[NS][4];

    tile_zero(w);
    tile_zero(dp);
    tile_product<false, true>(w, x.k + 16 * x.group * LD, LD,
                              x.q + 8 * x.part * LD, LD, D, STEP, NS);
    tile_product<false, true>(dp, x.v + 16 * x.group * LD, LD,
                              x.d_o + 8 * x.part * LD, LD, D, STEP, NS);
    UNROLL for (int j = 0; j < NS; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int key = x.row + i / 2 * 8;
            int q = 8 * (x.part + j * STEP) + x.col + i % 2;
            bool is = key >= from && key < x.seen[q];
            float p = expf(w[j][i] * a.scale - x.lse[q]);
            float ds = p * (dp[j][i] - x.delta[q]);

            tile_put(x.p + key * size::LS + q, is ? p : 0.0f);
            tile_put(x.ds + key * size::LS + q, is ? ds : 0.0f);
        }
}

/* What the queries of a slice add to keys [k0, k0 + ROWS). */
template <typename T, int D>
static __device__ __forceinline__ void dkv_slice(
    const back_args &a, const struct slice &s, int64_t k0, int kv,
    const back_tile<T> &x, float (&dk)[back_size<T, D>::NO][4],
    float (&dv)[back_size<T, D>::NO][4])
{
    int64_t first = k0 - s.k, end = s.q + s.n_q;
    bool counts[2];

    UNROLL for (int h = 0; h < 2; h++) {
        int64_t k = first + x.row + 8 * h;
        counts[h] = k >= 0 && k < s.n_k;
    }
    NO_UNROLL for (int64_t r = first_row(s, first < 0 ? 0 : first); r < end;
                   r += a.s.tokens) {
        int64_t to = r + a.s.tokens < end ? r + a.s.tokens : end;

        __syncthreads();
        load_queries<T, D>(a, x, kv, r, to, [&](int64_t t) {
            return static_cast<int>(keys_seen(s, t) - first);
        });
        __syncthreads();
        key_slopes<T, D>(a, x, first < 0 ? static_cast<int>(-first) : 0);
        __syncthreads();
        add_product<T, D>(dv, x, x.p, x.d_o, counts);
        add_product<T, D>(dk, x, x.ds, x.q, counts);
    }
}

template <typename T, int D>
static __global__ void __launch_bounds__(THREADS, 1)
attention_dkv(back_args a)
{
    using size = back_size<T, D>;
    DYNAMIC_SHARED(T, room);
    int tile = static_cast<int>(blockIdx.x), kv = static_cast<int>(blockIdx.y);
    int64_t k0 = int64_t{tile} * size::ROWS;
    int n = a.k.rows - k0 < size::ROWS ? static_cast<int>(a.k.rows - k0)
                                       : size::ROWS;
    back_tile<T> x = share_out<T, D>(room);
    float dk[size::NO][4], dv[size::NO][4];

    tile_zero(dk);
    tile_zero(dv);
    load_head<T, D>(x.k, a.k, kv, a.s.d, k0, n);
    load_head<T, D>(x.v, a.v, kv, a.s.d, k0, n);
    tile_wait();
    for (int i = a.at.start[tile]; i < a.at.start[tile + 1]; i++)
        dkv_slice<T, D>(a, a.at.slice[a.at.list[i]], k0, kv, x, dk, dv);
    UNROLL for (int j = 0; j < size::NO; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int row = x.row + i / 2 * 8;
            int c = 8 * (x.part + j * size::PARTS) + x.col + i % 2;

            if (row >= n || c >= a.s.d) continue;
            cu_put(a.dk, k0 + row, kv * a.s.d + c, dk[j][i] * a.scale);
            cu_put(a.dv, k0 + row, kv * a.s.d + c, dv[j][i]);
        }
}

/* ---- launches ------------------------------------------------------------ */

template <typename T, int D>
static int launch(struct cu *c, back_args &a, const attn_lists &by_key,
                  struct err *e)
{
    using size = back_size<T, D>;
    static_assert(size::SHARED <= CU_SHARED_MAX, "too much shared memory");
    auto *dq = attention_dq<T, D>;
    auto *dkv = attention_dkv<T, D>;
    unsigned q_tiles, k_tiles, kv = static_cast<unsigned>(a.s.kv);
    int rc = cu_grid(a.q.rows, a.s.tokens, &q_tiles, e);

    if (rc == ERR_OK) rc = cu_grid(a.k.rows, size::ROWS, &k_tiles, e);
    if (rc != ERR_OK) return rc;
    CU_TRY(cudaFuncSetAttribute(
        dq, cudaFuncAttributeMaxDynamicSharedMemorySize, size::SHARED));
    CU_TRY(cudaFuncSetAttribute(
        dkv, cudaFuncAttributeMaxDynamicSharedMemorySize, size::SHARED));
    if (a.q.rows > 0) {
        LAUNCH(dq, dim3(q_tiles, kv), THREADS, size::SHARED, c->stream, a);
        CU_LAUNCHED();
    }
    a.at = by_key;
    if (a.k.rows > 0) {
        LAUNCH(dkv, dim3(k_tiles, kv), THREADS, size::SHARED, c->stream, a);
        CU_LAUNCHED();
    }
    return ERR_OK;
}

/* Lists of slices, delta, then the two kernels. */
template <typename T>
static int run(struct cu *c, const struct k_attention_bwd *k, back_args &a,
               struct err *e)
{
    constexpr int ROWS = back_size<T, 16>::ROWS;    /* one for all widths */
    const struct slice *s = k->slice;
    int64_t n = k->n_slice, keys = a.k.rows, rows = a.q.rows;
    int64_t deltas = rows * a.s.heads;
    attn_lists by_key;
    int rc;

    a.s.tokens = ROWS / a.s.rep;
    rc = cu_meta_begin(c, CU_ROOM(n * int64_t{sizeof *s}) +
                       attn_room(s, n, rows, a.s.tokens, false) +
                       attn_room(s, n, keys, ROWS, true), e);
    if (rc == ERR_OK) rc = cu_room_begin(c, CU_ROOM(deltas * 4), e);
    if (rc != ERR_OK) return rc;
    a.at.slice = by_key.slice = attn_slices(c, s, n);
    attn_tiles(c, s, n, rows, a.s.tokens, false, &a.at);
    attn_tiles(c, s, n, keys, ROWS, true, &by_key);
    rc = cu_meta_send(c, e);
    if (rc != ERR_OK) return rc;
    a.delta = static_cast<float *>(
        cu_room(c, static_cast<size_t>(deltas) * 4));
    if (rows > 0) {
        LAUNCH(attention_delta, cu_blocks(deltas, WARPS), THREADS, 0,
               c->stream, a);
        CU_LAUNCHED();
    }
    if (a.s.d <= 16) return launch<T, 16>(c, a, by_key, e);
    if (a.s.d <= 64) return launch<T, 64>(c, a, by_key, e);
    if (a.s.d <= 128) return launch<T, 128>(c, a, by_key, e);
    return launch<T, 256>(c, a, by_key, e);
}

#define VIEW(to, name, rows, cols)                                  \
    do {                                                            \
        int rc_ = cu_view_of(&k->name, rows, cols, #name, to, e);   \
        if (rc_ != ERR_OK) return rc_;                              \
    } while (0)

int cu_attention_bwd(struct dev *d, const struct k_attention_bwd *k,
                     struct err *e)
{
    int64_t rows = k->q.rows, q_cols = k->q.cols;
    back_args a = {};
    int rc = attn_shape_of(k->heads, k->kv_heads, q_cols,
                           back_size<float, 16>::ROWS, &a.s, e);

    if (rc != ERR_OK) return rc;
    int64_t kv_cols = int64_t{a.s.kv} * a.s.d;
    VIEW(&a.q, q, rows, q_cols);
    VIEW(&a.out, out, rows, q_cols);
    VIEW(&a.dout, dout, rows, q_cols);
    VIEW(&a.dq, dq, rows, q_cols);
    VIEW(&a.lse, lse, rows, a.s.heads);
    if (k->dlse.p != nullptr) VIEW(&a.dlse, dlse, rows, a.s.heads);
    VIEW(&a.k, k, -1, kv_cols);
    VIEW(&a.v, v, a.k.rows, kv_cols);
    VIEW(&a.dk, dk, a.k.rows, kv_cols);
    VIEW(&a.dv, dv, a.k.rows, kv_cols);
    rc = attn_check(k->slice, k->n_slice, rows, a.k.rows, e);
    if (rc != ERR_OK) return rc;
    a.scale = static_cast<float>(k->scale);
    if (a.q.t == DT_BF16 && a.k.t == DT_BF16 && a.v.t == DT_BF16 &&
        a.dout.t == DT_BF16)
        return run<bf16>(cu_of(d), k, a, e);
    return run<float>(cu_of(d), k, a, e);
}
