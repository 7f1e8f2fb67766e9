/*
** delta_grad.cu - the gradients of the chunked delta rule that do not wait
** for other chunks (model.md 3.13), once the states and their gradients at
** chunk boundaries, N and dBv are there; names as in delta_bwd.cu.
*/
#include "delta.cuh"

constexpr int GRAD_THREADS = 256;

/* 8 warps: four groups of 16 rows, two warps a group that take the n-tiles
** in turn. */
constexpr int PARTS = 2;

template <typename T, int KD> struct grad_size {
    static constexpr int COLS = sizeof(T) == 2 ? 64 : 16;   /* of values */
    static constexpr int LK = tile_ld<T, KD>, LX = tile_ld<T, CHUNK>;
    static constexpr int LV = tile_ld<T, COLS>, LE = CHUNK + 1;
    static constexpr int NK = (KD / 8 + PARTS - 1) / PARTS;
    static constexpr int NX = CHUNK / 8 / PARTS;
    /* first states and values, later scores: one room */
    static constexpr int VALUES = static_cast<int>(sizeof(T)) *
        (2 * KD + 3 * CHUNK) * LV;
    static constexpr int SCORES = static_cast<int>(sizeof(T)) * 2 * CHUNK *
        LX + 4 * 2 * CHUNK * LE;
    static constexpr int ROOM = VALUES > SCORES ? VALUES : SCORES;
    static constexpr int SHARED = static_cast<int>(sizeof(T)) * 2 * CHUNK *
        LK + ROOM + 4 * (10 * CHUNK + 16);
};

template <typename T, int KD> struct grad_tile {
    T *k, *q;
    T *s, *g, *db, *d_o, *n;    /* some value columns of each */
    T *m1, *m2;                 /* beta M1, scale M2 */
    float *e, *f;               /* terms of db and dbeta, [CHUNK][LE] */
    float *b, *beta, *vdb;      /* vdb: v . dBv */
    float *part;                /* [PARTS][3][CHUNK]: parts of row sums */
    float *fold;                /* [8] */
    int head, group, part_of, row, col;
};

template <typename T, int KD>
static __device__ __forceinline__ grad_tile<T, KD> grad_share(T *room)
{
    using size = grad_size<T, KD>;
    int warp = static_cast<int>(threadIdx.x) / 32;
    int lane = static_cast<int>(threadIdx.x) % 32;
    grad_tile<T, KD> x;

    x.k = room;
    x.q = x.k + CHUNK * size::LK;
    x.s = x.m1 = x.q + CHUNK * size::LK;
    x.g = x.s + KD * size::LV;
    x.db = x.g + KD * size::LV;
    x.d_o = x.db + CHUNK * size::LV;
    x.n = x.d_o + CHUNK * size::LV;
    x.m2 = x.m1 + CHUNK * size::LX;
    x.e = reinterpret_cast<float *>(x.m2 + CHUNK * size::LX);
    x.f = x.e + CHUNK * size::LE;
    x.b = reinterpret_cast<float *>(reinterpret_cast<unsigned char *>(x.s) +
                                    size::ROOM);
    x.beta = x.b + CHUNK;
    x.vdb = x.beta + CHUNK;
    x.part = x.vdb + CHUNK;
    x.fold = x.part + 6 * CHUNK;
    x.group = 16 * (warp % 4);
    x.part_of = warp / 4;
    x.row = x.group + lane / 4;
    x.col = lane % 4 * 2;
    return x;
}

/* Products over the value columns: with -dB_k = dBv S^T, dQ_e = dO S^T,
** dK_e = N dS+^T, l = dBv N^T, p = dO N^T. */
template <typename T, int KD> struct grad_sums {
    float bk[grad_size<T, KD>::NK][4], qe[grad_size<T, KD>::NK][4];
    float ke[grad_size<T, KD>::NK][4];
    float l[grad_size<T, KD>::NX][4], p[grad_size<T, KD>::NX][4];
    float states;               /* my part of <S, dS+> */
};

template <typename T, int KD>
static __device__ __forceinline__ void sum_values(const delta_args &a,
                                                  int chunk,
                                                  const delta_chunk &t,
                                                  const grad_tile<T, KD> &x,
                                                  grad_sums<T, KD> &u)
{
    using size = grad_size<T, KD>;
    constexpr int COLS = size::COLS, LV = size::LV, NK = size::NK;
    int mine = KD / 8 % PARTS == 0 ? NK
                                   : tile_share(KD / 8, x.part_of, PARTS);
    int at = x.group * LV;
    int side = 8 * x.part_of * LV;

    NO_UNROLL for (int c = 0; c < a.vd; c += COLS) {
        int n = a.vd - c < COLS ? a.vd - c : COLS;
        int64_t col = int64_t{x.head} * a.vd + c;

        __syncthreads();
        load_state<KD, COLS>(x.s, a.h, chunk, x.head, a, c, n);
        load_state<KD, COLS>(x.g, a.dh, chunk, x.head, a, c, n);
        load_rows<COLS>(x.db, a.du, t, col, n);
        load_rows<COLS>(x.d_o, a.d_o, t, col, n);
        load_rows<COLS>(x.n, a.v_new, t, col, n);
        tile_wait();
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < KD * COLS;
             i += GRAD_THREADS)
            u.states += tile_float(x.s[i / COLS * LV + i % COLS]) *
                        tile_float(x.g[i / COLS * LV + i % COLS]);
        tile_product<false, true, NK>(u.bk, x.db + at, LV, x.s + side, LV,
                                      COLS, PARTS, mine);
        tile_product<false, true, NK>(u.qe, x.d_o + at, LV, x.s + side, LV,
                                      COLS, PARTS, mine);
        tile_product<false, true, NK>(u.ke, x.n + at, LV, x.g + side, LV,
                                      COLS, PARTS, mine);
        tile_product<false, true>(u.l, x.db + at, LV, x.n + side, LV, COLS,
                                  PARTS, size::NX);
        tile_product<false, true>(u.p, x.d_o + at, LV, x.n + side, LV, COLS,
                                  PARTS, size::NX);
    }
    __syncthreads();
}

/* v . dBv of every row, a warp a row. */
static __device__ __forceinline__ void value_rows(const delta_args &a,
                                                  const delta_chunk &t,
                                                  int head, float *vdb)
{
    int lane = static_cast<int>(threadIdx.x) % 32;

    for (int r = static_cast<int>(threadIdx.x) / 32; r < CHUNK;
         r += GRAD_THREADS / 32) {
        float sum = 0;

        for (int c = lane; r < t.c && c < a.vd; c += 32)
            sum += cu_get(a.v, t.row + r, head * a.vd + c) *
                   cu_get(a.du, t.row + r, head * a.vd + c);
        sum = cu_warp_sum(sum);
        if (lane == 0) vdb[r] = sum;
    }
}

/* From l and p to beta M1 and scale M2, and the terms of db and dbeta: a pair
** (i, j) raises db_i and lowers db_j. */
template <typename T, int KD>
static __device__ __forceinline__ void score_slopes(const delta_args &a,
                                                    const delta_chunk &t,
                                                    const grad_tile<T, KD> &x,
                                                    const grad_sums<T, KD> &u)
{
    using size = grad_size<T, KD>;
    constexpr int NX = size::NX, LK = size::LK;
    float kk[NX][4], qk[NX][4];

    tile_zero(kk);
    tile_zero(qk);
    tile_product<false, true>(kk, x.k + x.group * LK, LK,
                              x.k + 8 * x.part_of * LK, LK, KD, PARTS, NX);
    tile_product<false, true>(qk, x.q + x.group * LK, LK,
                              x.k + 8 * x.part_of * LK, LK, KD, PARTS, NX);
    UNROLL for (int j = 0; j < NX; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int r = x.row + i / 2 * 8;
            int c = 8 * (x.part_of + PARTS * j) + x.col + i % 2;
            float decay = c <= r && r < t.c ? expf(x.b[r] - x.b[c]) : 0.0f;
            float m = c < r && r < t.c ? -u.l[j][i] * decay : 0.0f;
            float n = c <= r && r < t.c ? u.p[j][i] * decay * a.scale : 0.0f;
            bool pair = c < r && r < t.c;

            x.e[r * size::LE + c] =
                pair ? m * x.beta[r] * kk[j][i] + n * qk[j][i] : 0.0f;
            x.f[r * size::LE + c] = pair ? m * kk[j][i] : 0.0f;
            tile_put(x.m1 + r * size::LX + c, x.beta[r] * m);
            tile_put(x.m2 + r * size::LX + c, n);
        }
}

/* Row sums k . bk, k . ke, q . qe to part, then dk and dq in the places of ke
** and qe as far as they do not come through scores. */
template <typename T, int KD>
static __device__ __forceinline__ void key_parts(const delta_args &a,
                                                 const delta_chunk &t,
                                                 const grad_tile<T, KD> &x,
                                                 grad_sums<T, KD> &u)
{
    using size = grad_size<T, KD>;

    UNROLL for (int h = 0; h < 2; h++) {
        int r = x.row + 8 * h;
        float eb = expf(x.b[r]), sum[3] = {0, 0, 0};
        float tail = r < t.c ? expf(x.b[t.c - 1] - x.b[r]) : 0.0f;

        UNROLL for (int i = 0; i < size::NK * 2; i++) {
            int j = i / 2, k = 2 * h + i % 2;
            int c = 8 * (x.part_of + PARTS * j) + x.col + i % 2;

            if (c >= KD) continue;
            float key = tile_float(x.k[r * size::LK + c]);
            sum[0] += key * u.bk[j][k];
            sum[1] += key * u.ke[j][k];
            sum[2] += tile_float(x.q[r * size::LK + c]) * u.qe[j][k];
            u.ke[j][k] = tail * u.ke[j][k] - x.beta[r] * eb * u.bk[j][k];
            u.qe[j][k] *= a.scale * eb;
        }
        UNROLL for (int i = 0; i < 3; i++) {
            float whole = tile_row_sum(sum[i]);
            if (threadIdx.x % 4 == 0)
                x.part[(x.part_of * 3 + i) * CHUNK + r] = whole;
        }
    }
}

/* What comes through scores, and out. */
template <typename T, int KD>
static __device__ __forceinline__ void key_gradients(const delta_args &a,
                                                     const delta_chunk &t,
                                                     const grad_tile<T, KD> &x,
                                                     grad_sums<T, KD> &u)
{
    using size = grad_size<T, KD>;
    constexpr int LX = size::LX, LK = size::LK, NK = size::NK;
    int mine = KD / 8 % PARTS == 0 ? NK
                                   : tile_share(KD / 8, x.part_of, PARTS);
    const T *k = x.k + 8 * x.part_of, *q = x.q + 8 * x.part_of;

    tile_product<false, false, NK>(u.qe, x.m2 + x.group * LX, LX, k, LK,
                                   CHUNK, PARTS, mine);
    tile_product<false, false, NK>(u.ke, x.m1 + x.group * LX, LX, k, LK,
                                   CHUNK, PARTS, mine);
    tile_product<true, false, NK>(u.ke, x.m1 + x.group, LX, k, LK, CHUNK,
                                  PARTS, mine);
    tile_product<true, false, NK>(u.ke, x.m2 + x.group, LX, q, LK, CHUNK,
                                  PARTS, mine);
    UNROLL for (int j = 0; j < NK; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int r = x.row + i / 2 * 8;
            int c = 8 * (x.part_of + PARTS * j) + x.col + i % 2;

            if (r >= t.c || c >= a.kd) continue;
            cu_put(a.dq, t.row + r, x.head * a.kd + c, u.qe[j][i]);
            cu_put(a.dk, t.row + r, x.head * a.kd + c, u.ke[j][i]);
        }
}

/* dbeta and dg of the chunk's rows; e's sums by row and column. */
template <typename T, int KD>
static __device__ __forceinline__ void gate_gradients(
    const delta_args &a, const delta_chunk &t, const grad_tile<T, KD> &x)
{
    constexpr int LE = grad_size<T, KD>::LE;
    int r = static_cast<int>(threadIdx.x);
    float *kept = x.vdb, *db = x.part;      /* each row's own, read before */

    if (r < CHUNK) {
        float raised = 0, fed = 0, eb = expf(x.b[r]);
        float tail = r < t.c ? expf(x.b[t.c - 1] - x.b[r]) : 0.0f;
        float read = eb * (x.part[r] + x.part[3 * CHUNK + r]);
        float held = tail * (x.part[CHUNK + r] + x.part[4 * CHUNK + r]);
        float asked = a.scale * eb * (x.part[2 * CHUNK + r] +
                                      x.part[5 * CHUNK + r]);

        for (int i = 0; i < CHUNK; i++) {
            raised += x.e[r * LE + i];
            fed += x.f[r * LE + i];
        }
        for (int i = 0; i < CHUNK; i++) raised -= x.e[i * LE + r];
        if (r < t.c)
            cu_put(a.dbeta, t.row + r, x.head, fed + x.vdb[r] - read);
        kept[r] = r < t.c ? held : 0.0f;
        db[r] = r < t.c ? raised + asked - held - x.beta[r] * read : 0.0f;
    }
    __syncthreads();
    if (r == 0) {
        float last = 0;

        for (int i = 0; i < GRAD_THREADS / 32; i++) last += x.fold[i];
        last *= expf(x.b[t.c - 1]);
        for (int i = 0; i < t.c; i++) last += kept[i];
        db[t.c - 1] += last;
    }
    __syncthreads();
    if (r < 32) running_sum(db, true);
    __syncthreads();
    if (r < t.c) cu_put(a.dg, t.row + r, x.head, db[r]);
}

template <typename T, int KD>
static __global__ void __launch_bounds__(GRAD_THREADS, 1)
delta_gradients(delta_args a)
{
    DYNAMIC_SHARED(T, room);
    int chunk = static_cast<int>(blockIdx.x) / a.heads;
    delta_chunk t = a.chunk[chunk];
    grad_tile<T, KD> x = grad_share<T, KD>(room);
    grad_sums<T, KD> u;

    x.head = static_cast<int>(blockIdx.x) % a.heads;
    tile_zero(u.bk);
    tile_zero(u.qe);
    tile_zero(u.ke);
    tile_zero(u.l);
    tile_zero(u.p);
    u.states = 0;
    load_rows<KD>(x.k, a.k, t, int64_t{x.head} * a.kd, a.kd);
    load_rows<KD>(x.q, a.q, t, int64_t{x.head} * a.kd, a.kd);
    load_column(x.b, a.g_cum, t, x.head);
    load_column(x.beta, a.beta, t, x.head);
    value_rows(a, t, x.head, x.vdb);
    tile_wait();
    sum_values<T, KD>(a, chunk, t, x, u);
    u.states = cu_warp_sum(u.states);
    if (threadIdx.x % 32 == 0) x.fold[threadIdx.x / 32] = u.states;
    score_slopes<T, KD>(a, t, x, u);
    key_parts<T, KD>(a, t, x, u);
    __syncthreads();
    key_gradients<T, KD>(a, t, x, u);
    gate_gradients<T, KD>(a, t, x);
}

/* ---- launches ------------------------------------------------------------ */

template <typename T, int KD>
static int run_gradients(struct cu *c, const delta_args &a, struct err *e)
{
    using size = grad_size<T, KD>;
    static_assert(size::SHARED <= CU_SHARED_MAX, "too much shared memory");
    auto *kernel = delta_gradients<T, KD>;
    unsigned grid;
    int rc = cu_grid(int64_t{a.chunks} * a.heads, 1, &grid, e);

    if (rc != ERR_OK) return rc;
    CU_TRY(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, size::SHARED));
    LAUNCH(kernel, grid, GRAD_THREADS, size::SHARED, c->stream, a);
    CU_LAUNCHED();
    return ERR_OK;
}

template <typename T>
static int run_wide(struct cu *c, const delta_args &a, struct err *e)
{
    if (a.kd <= 16) return run_gradients<T, 16>(c, a, e);
    if (a.kd <= 64) return run_gradients<T, 64>(c, a, e);
    return run_gradients<T, 128>(c, a, e);
}

int delta_gradients_run(struct cu *c, const delta_args &a, bool bf,
                        struct err *e)
{
    return bf ? run_wide<bf16>(c, a, e) : run_wide<float>(c, a, e);
}
