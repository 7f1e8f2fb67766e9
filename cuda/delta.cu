/*
** delta.cu - the gated delta rule in chunks of 64 rows (model.md 2.3.6),
** forward: chunk matrices for all chunks, states chunk after chunk, outputs
** for all chunks.
**
** With R = diag(beta) V - diag(beta e^b) K S the new values of a chunk are
** N = X R, which is U - W S with one product less.
*/
#include "delta.cuh"

constexpr int THREADS = 128;    /* four warps of 16 rows */
constexpr int OUT_COLS = 64;    /* value columns of a block that writes o */

/* ---- chunk matrices ------------------------------------------------------ */

template <typename T, int KD> struct prepare_size {
    static constexpr int LK = tile_ld<T, KD>, LX = CHUNK + 1;
    static constexpr int SHARED = static_cast<int>(sizeof(T)) * CHUNK * LK +
        4 * (2 * CHUNK * LX + 2 * CHUNK);
};

/* L_ij = beta_i k_i . k_j e^(b_i - b_j) below the diagonal. */
template <typename T, int KD>
static __device__ __forceinline__ void chunk_scores(const T *k, float *l,
                                                    const float *b,
                                                    const float *beta)
{
    using size = prepare_size<T, KD>;
    int warp = static_cast<int>(threadIdx.x) / 32;
    int lane = static_cast<int>(threadIdx.x) % 32;
    float d[8][4];

    tile_zero(d);
    tile_product<false, true>(d, k + 16 * warp * size::LK, size::LK, k,
                              size::LK, KD, 1, 8);
    UNROLL for (int j = 0; j < 8; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int r = 16 * warp + lane / 4 + i / 2 * 8;
            int c = 8 * j + lane % 4 * 2 + i % 2;

            l[r * size::LX + c] =
                c < r ? beta[r] * d[j][i] * expf(b[r] - b[c]) : 0.0f;
        }
}

/* Column j of X = (I + L)^-1 from the top, a thread a column. */
static __device__ __forceinline__ void chunk_inverse(const float *l, float *x,
                                                     int ld)
{
    int j = static_cast<int>(threadIdx.x);

    if (j >= CHUNK) return;
    for (int i = 0; i < CHUNK; i++) {
        float sum = i == j ? 1.0f : 0.0f;

        for (int m = j; m < i; m++) sum -= l[i * ld + m] * x[m * ld + j];
        x[i * ld + j] = i < j ? 0.0f : sum;
    }
}

template <typename T, int KD>
static __global__ void __launch_bounds__(THREADS) delta_prepare(delta_args a)
{
    using size = prepare_size<T, KD>;
    DYNAMIC_SHARED(T, k);
    float *l = reinterpret_cast<float *>(k + CHUNK * size::LK);
    float *x = l + CHUNK * size::LX, *b = x + CHUNK * size::LX;
    float *beta = b + CHUNK;
    int head = static_cast<int>(blockIdx.x) % a.heads;
    delta_chunk t = a.chunk[static_cast<int>(blockIdx.x) / a.heads];

    load_rows<KD>(k, a.k, t, int64_t{head} * a.kd, a.kd);
    load_column(b, a.g, t, head);
    load_column(beta, a.beta, t, head);
    tile_wait();
    __syncthreads();
    if (threadIdx.x < 32) running_sum(b, false);
    __syncthreads();
    for (int r = static_cast<int>(threadIdx.x); r < t.c; r += THREADS)
        cu_put(a.g_cum, t.row + r, head, b[r]);
    chunk_scores<T, KD>(k, l, b, beta);
    __syncthreads();
    chunk_inverse(l, x, size::LX);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < t.c * CHUNK; i += THREADS)
        cu_put(a.x, t.row + i / CHUNK, int64_t{head} * CHUNK + i % CHUNK,
               x[i / CHUNK * size::LX + i % CHUNK]);
}

/* ---- states -------------------------------------------------------------- */

template <typename T, int KD> struct state_size {
    static constexpr int LK = tile_ld<T, KD>, LX = tile_ld<T, CHUNK>;
    static constexpr int LV = tile_ld<T, STATE_COLS>, NV = STATE_COLS / 8;
    static constexpr int GROUPS = (KD + 63) / 64;   /* of 16 rows, a warp */
    static constexpr int SHARED = static_cast<int>(sizeof(T)) *
        (CHUNK * (LK + LX + 2 * LV) + KD * LV) + 4 * 2 * CHUNK;
};

template <typename T, int KD> struct state_tile {
    T *k, *x, *s, *r, *n;
    float *b, *beta;
    int head, first, cols;      /* value columns [first, first + cols) */
    int warp, row, col;         /* row, column in a 16 x 8 tile */
};

template <typename T, int KD>
static __device__ __forceinline__ state_tile<T, KD> share_out(T *room)
{
    using size = state_size<T, KD>;
    int lane = static_cast<int>(threadIdx.x) % 32;
    state_tile<T, KD> x;

    x.k = room;
    x.x = x.k + CHUNK * size::LK;
    x.r = x.x + CHUNK * size::LX;
    x.n = x.r + CHUNK * size::LV;
    x.s = x.n + CHUNK * size::LV;
    x.b = reinterpret_cast<float *>(x.s + KD * size::LV);
    x.beta = x.b + CHUNK;
    x.warp = static_cast<int>(threadIdx.x) / 32;
    x.row = lane / 4;
    x.col = lane % 4 * 2;
    return x;
}

/* My values of the chunk. */
template <typename T, int KD>
static __device__ __forceinline__ void load_values(
    const delta_args &a, const delta_chunk &t, const state_tile<T, KD> &x,
    float (&v)[state_size<T, KD>::NV][4])
{
    UNROLL for (int j = 0; j < state_size<T, KD>::NV; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int r = 16 * x.warp + x.row + i / 2 * 8;
            int c = 8 * j + x.col + i % 2;

            v[j][i] = r < t.c && c < x.cols
                ? cu_get(a.v, t.row + r, x.head * a.vd + x.first + c) : 0.0f;
        }
}

/* N of the chunk: to v_new, and with its tails to shared memory. */
template <typename T, int KD>
static __device__ __forceinline__ void new_values(
    const delta_args &a, const delta_chunk &t, const state_tile<T, KD> &x,
    const float (&v)[state_size<T, KD>::NV][4])
{
    using size = state_size<T, KD>;
    float d[size::NV][4];

    tile_zero(d);
    tile_product<false, false>(d, x.k + 16 * x.warp * size::LK, size::LK, x.s,
                               size::LV, KD, 1, size::NV);
    UNROLL for (int j = 0; j < size::NV; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int r = 16 * x.warp + x.row + i / 2 * 8;
            int c = 8 * j + x.col + i % 2;

            tile_put(x.r + r * size::LV + c, r < t.c && c < x.cols
                ? x.beta[r] * (v[j][i] - expf(x.b[r]) * d[j][i]) : 0.0f);
        }
    __syncthreads();
    tile_zero(d);
    tile_product<false, false>(d, x.x + 16 * x.warp * size::LX, size::LX, x.r,
                               size::LV, CHUNK, 1, size::NV);
    UNROLL for (int j = 0; j < size::NV; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int r = 16 * x.warp + x.row + i / 2 * 8;
            int c = 8 * j + x.col + i % 2;
            float tail = r < t.c ? expf(x.b[t.c - 1] - x.b[r]) : 0.0f;

            tile_put(x.n + r * size::LV + c, tail * d[j][i]);
            if (r < t.c && c < x.cols)
                cu_put(a.v_new, t.row + r, x.head * a.vd + x.first + c,
                       d[j][i]);
        }
    __syncthreads();
}

/* The state to shared memory and to h. */
template <typename T, int KD>
static __device__ __forceinline__ void show_state(
    const delta_args &a, int64_t chunk, const state_tile<T, KD> &x,
    const float (&s)[state_size<T, KD>::GROUPS][state_size<T, KD>::NV][4])
{
    using size = state_size<T, KD>;

    UNROLL for (int m = 0; m < size::GROUPS; m++)
        UNROLL for (int i = 0; i < size::NV * 4; i++) {
            int r = 16 * (x.warp + 4 * m) + x.row + i % 4 / 2 * 8;
            int c = 8 * (i / 4) + x.col + i % 2;
            float v = s[m][i / 4][i % 4];

            if (r >= KD) continue;
            tile_put(x.s + r * size::LV + c, v);
            if (r < a.kd && c < x.cols)
                cu_put(a.h, chunk,
                       (int64_t{x.head} * a.kd + r) * a.vd + x.first + c, v);
        }
}

/* From a row of the states or back to it. */
template <typename T, int KD>
static __device__ __forceinline__ void move_state(
    const delta_args &a, int64_t at, bool out, const state_tile<T, KD> &x,
    float (&s)[state_size<T, KD>::GROUPS][state_size<T, KD>::NV][4])
{
    using size = state_size<T, KD>;

    UNROLL for (int m = 0; m < size::GROUPS; m++)
        UNROLL for (int i = 0; i < size::NV * 4; i++) {
            int r = 16 * (x.warp + 4 * m) + x.row + i % 4 / 2 * 8;
            int c = 8 * (i / 4) + x.col + i % 2;
            int64_t to = (int64_t{x.head} * a.kd + r) * a.vd + x.first + c;
            bool mine = at >= 0 && r < a.kd && c < x.cols;

            if (!out)
                s[m][i / 4][i % 4] = mine ? cu_get(a.states, at, to) : 0.0f;
            else if (mine)
                cu_put(a.states, at, to, s[m][i / 4][i % 4]);
        }
}

template <typename T, int KD>
static __global__ void __launch_bounds__(THREADS, 1) delta_states(delta_args a)
{
    using size = state_size<T, KD>;
    DYNAMIC_SHARED(T, room);
    int parts = (a.vd + STATE_COLS - 1) / STATE_COLS;
    int at = static_cast<int>(blockIdx.x);
    state_tile<T, KD> x = share_out<T, KD>(room);
    delta_run p = a.run[at / (a.heads * parts)];
    float s[size::GROUPS][size::NV][4], v[size::NV][4];

    x.head = at / parts % a.heads;
    x.first = at % parts * STATE_COLS;
    x.cols = a.vd - x.first < STATE_COLS ? a.vd - x.first : STATE_COLS;
    move_state<T, KD>(a, p.state_in, false, x, s);
    NO_UNROLL for (int64_t row = 0; row < p.len; row += CHUNK) {
        delta_chunk t = a.chunk[p.chunk + row / CHUNK];

        show_state<T, KD>(a, p.chunk + row / CHUNK, x, s);
        load_rows<KD>(x.k, a.k, t, int64_t{x.head} * a.kd, a.kd);
        load_rows<CHUNK>(x.x, a.x, t, int64_t{x.head} * CHUNK, CHUNK);
        load_column(x.b, a.g_cum, t, x.head);
        load_column(x.beta, a.beta, t, x.head);
        load_values<T, KD>(a, t, x, v);
        tile_wait();
        __syncthreads();
        new_values<T, KD>(a, t, x, v);
        float fade = expf(x.b[t.c - 1]);
        UNROLL for (int m = 0; m < size::GROUPS; m++) {
            int group = x.warp + 4 * m;

            UNROLL for (int i = 0; i < size::NV * 4; i++)
                s[m][i / 4][i % 4] *= fade;
            if (16 * group < KD)
                tile_product<true, false>(s[m], x.k + 16 * group, size::LK,
                                          x.n, size::LV, CHUNK, 1, size::NV);
        }
        __syncthreads();
    }
    if (a.keep) move_state<T, KD>(a, p.state_out, true, x, s);
}

/* ---- outputs ------------------------------------------------------------- */

template <typename T, int KD> struct output_size {
    static constexpr int LK = tile_ld<T, KD>, LP = tile_ld<T, CHUNK>;
    static constexpr int LV = tile_ld<T, OUT_COLS>, NV = OUT_COLS / 8;
    static constexpr int SHARED = static_cast<int>(sizeof(T)) *
        (CHUNK * (2 * LK + LP + LV) + KD * LV) + 4 * CHUNK;
};

/* O = e^b Q S + P N with P_ij = q_i . k_j e^(b_i - b_j) up to the diagonal. */
template <typename T, int KD>
static __device__ __forceinline__ void output_rows(
    const delta_args &a, const T *q, const T *k, const T *s, const T *n, T *p,
    const float *b, float (&o)[output_size<T, KD>::NV][4])
{
    using size = output_size<T, KD>;
    int warp = static_cast<int>(threadIdx.x) / 32;
    int lane = static_cast<int>(threadIdx.x) % 32;
    int row = 16 * warp + lane / 4, col = lane % 4 * 2;
    float d[8][4];

    tile_zero(d);
    tile_product<false, true>(d, q + 16 * warp * size::LK, size::LK, k,
                              size::LK, KD, 1, 8);
    UNROLL for (int j = 0; j < 8; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int r = row + i / 2 * 8, c = 8 * j + col + i % 2;

            tile_put(p + r * size::LP + c,
                     c <= r ? a.scale * d[j][i] * expf(b[r] - b[c]) : 0.0f);
        }
    __syncwarp();
    tile_zero(o);
    tile_product<false, false>(o, q + 16 * warp * size::LK, size::LK, s,
                               size::LV, KD, 1, size::NV);
    UNROLL for (int j = 0; j < size::NV; j++)
        UNROLL for (int i = 0; i < 4; i++)
            o[j][i] *= a.scale * expf(b[row + i / 2 * 8]);
    tile_product<false, false>(o, p + 16 * warp * size::LP, size::LP, n,
                               size::LV, CHUNK, 1, size::NV);
}

template <typename T, int KD>
static __global__ void __launch_bounds__(THREADS, 1) delta_output(delta_args a)
{
    using size = output_size<T, KD>;
    DYNAMIC_SHARED(T, q);
    T *k = q + CHUNK * size::LK, *p = k + CHUNK * size::LK;
    T *n = p + CHUNK * size::LP, *s = n + CHUNK * size::LV;
    float *b = reinterpret_cast<float *>(s + KD * size::LV);
    int parts = (a.vd + OUT_COLS - 1) / OUT_COLS;
    int at = static_cast<int>(blockIdx.x), chunk = at / (a.heads * parts);
    int head = at / parts % a.heads, first = at % parts * OUT_COLS;
    int cols = a.vd - first < OUT_COLS ? a.vd - first : OUT_COLS;
    int lane = static_cast<int>(threadIdx.x) % 32;
    int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
    delta_chunk t = a.chunk[chunk];
    float o[size::NV][4];

    load_rows<KD>(q, a.q, t, int64_t{head} * a.kd, a.kd);
    load_rows<KD>(k, a.k, t, int64_t{head} * a.kd, a.kd);
    load_rows<OUT_COLS>(n, a.v_new, t, int64_t{head} * a.vd + first, cols);
    load_state<KD, OUT_COLS>(s, a.h, chunk, head, a, first, cols);
    load_column(b, a.g_cum, t, head);
    tile_wait();
    __syncthreads();
    output_rows<T, KD>(a, q, k, s, n, p, b, o);
    UNROLL for (int j = 0; j < size::NV; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int r = row + i / 2 * 8, c = 8 * j + lane % 4 * 2 + i % 2;

            if (r < t.c && c < cols)
                cu_put(a.o, t.row + r, head * a.vd + first + c, o[j][i]);
        }
}

/* ---- tables -------------------------------------------------------------- */

int delta_check(const struct dev_piece *piece, int64_t n, int64_t rows,
                const struct mat *states, struct err *e)
{
    int64_t have = states->p == nullptr ? 0 : states->rows;

    for (int64_t i = 0; i < n; i++)
        if (piece[i].row < 0 || piece[i].len < 0 ||
            piece[i].row > rows - piece[i].len ||
            piece[i].state_in >= have || piece[i].state_out >= have)
            return err_set(e, ERR_RUN, "cuda delta: piece %lld leaves the "
                           "rows or the states", (long long)i);
    return ERR_OK;
}

/* place: where each piece stands among the runs (null: as they come). */
int delta_tables(struct cu *c, const struct dev_piece *piece, int64_t n,
                 delta_args *a, const int64_t *place, struct err *e)
{
    int64_t chunks = 0;
    void *at;

    for (int64_t i = 0; i < n; i++)
        chunks += (piece[i].len + CHUNK - 1) / CHUNK;
    if (chunks > a->h.rows || chunks * a->heads > (int64_t{1} << 24))
        return err_set(e, ERR_RUN, "cuda delta: %lld chunks of %d heads for "
                       "%d of scratch", (long long)chunks, a->heads,
                       a->h.rows);
    size_t bytes = static_cast<size_t>(chunks) * sizeof(delta_chunk);
    size_t run_bytes = static_cast<size_t>(n) * sizeof(delta_run);
    int rc = cu_meta_begin(c, CU_ROOM(bytes) + CU_ROOM(run_bytes), e);
    if (rc != ERR_OK) return rc;
    auto *chunk = static_cast<delta_chunk *>(cu_meta_host(c, bytes, &at));
    a->chunk = static_cast<const delta_chunk *>(at);
    auto *run = static_cast<delta_run *>(cu_meta_host(c, run_bytes, &at));
    a->run = static_cast<const delta_run *>(at);
    a->chunks = a->runs = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct dev_piece &p = piece[i];

        run[place == nullptr ? i : place[i]] = delta_run{
            p.row, p.len, p.state_in, p.state_out, a->chunks};
        for (int64_t r = 0; r < p.len; r += CHUNK)
            chunk[a->chunks++] = delta_chunk{
                p.row + r, static_cast<int>(p.len - r < CHUNK ? p.len - r
                                                              : CHUNK)};
    }
    a->runs = static_cast<int>(n);
    return cu_meta_send(c, e);
}

/* ---- launches ------------------------------------------------------------ */

#define RUN(kernel, blocks)                                                  \
    do {                                                                     \
        unsigned grid_;                                                      \
        int rc_ = cu_grid(blocks, 1, &grid_, e);                             \
        if (rc_ != ERR_OK) return rc_;                                       \
        CU_TRY(cudaFuncSetAttribute(                                         \
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,             \
            size::SHARED));                                                  \
        LAUNCH(kernel, grid_, THREADS, size::SHARED, c->stream, a);          \
        CU_LAUNCHED();                                                       \
    } while (0)

template <typename T, int KD>
static int run_states(struct cu *c, const delta_args &a, struct err *e)
{
    using size = state_size<T, KD>;
    static_assert(size::SHARED <= CU_SHARED_MAX, "too much shared memory");
    auto *kernel = delta_states<T, KD>;
    int parts = (a.vd + STATE_COLS - 1) / STATE_COLS;

    RUN(kernel, int64_t{a.runs} * a.heads * parts);
    return ERR_OK;
}

template <typename T, int KD>
static int run_prepare(struct cu *c, const delta_args &a, struct err *e)
{
    using size = prepare_size<T, KD>;
    static_assert(size::SHARED <= CU_SHARED_MAX, "too much shared memory");
    auto *kernel = delta_prepare<T, KD>;

    RUN(kernel, int64_t{a.chunks} * a.heads);
    return ERR_OK;
}

template <typename T, int KD>
static int run_output(struct cu *c, const delta_args &a, struct err *e)
{
    using size = output_size<T, KD>;
    static_assert(size::SHARED <= CU_SHARED_MAX, "too much shared memory");
    auto *kernel = delta_output<T, KD>;
    int parts = (a.vd + OUT_COLS - 1) / OUT_COLS;

    RUN(kernel, int64_t{a.chunks} * a.heads * parts);
    return ERR_OK;
}

template <typename T, int KD>
static int run_forward(struct cu *c, const delta_args &a, struct err *e)
{
    int rc = ERR_OK;

    if (a.chunks > 0) rc = run_prepare<T, KD>(c, a, e);
    if (rc == ERR_OK) rc = run_states<T, KD>(c, a, e);
    if (rc == ERR_OK && a.chunks > 0) rc = run_output<T, KD>(c, a, e);
    return rc;
}

int delta_states_run(struct cu *c, const delta_args &a, bool bf, struct err *e)
{
    if (a.kd <= 16)
        return bf ? run_states<bf16, 16>(c, a, e)
                  : run_states<float, 16>(c, a, e);
    if (a.kd <= 64)
        return bf ? run_states<bf16, 64>(c, a, e)
                  : run_states<float, 64>(c, a, e);
    return bf ? run_states<bf16, 128>(c, a, e)
              : run_states<float, 128>(c, a, e);
}

template <typename T>
static int run_wide(struct cu *c, const delta_args &a, struct err *e)
{
    if (a.kd <= 16) return run_forward<T, 16>(c, a, e);
    if (a.kd <= 64) return run_forward<T, 64>(c, a, e);
    return run_forward<T, 128>(c, a, e);
}

#define VIEW(name, rows, cols)                                         \
    do {                                                               \
        int rc_ = cu_view_of(&k->name, rows, cols, #name, &a.name, e); \
        if (rc_ != ERR_OK) return rc_;                                 \
    } while (0)

int cu_delta(struct dev *d, const struct k_delta *k, struct err *e)
{
    int64_t n = k->heads, rows = k->q.rows, size = k->k_dim * k->v_dim;
    delta_args a = {};
    int rc;

    if (k->k_dim > 128 || k->v_dim > 128)
        return err_set(e, ERR_RUN, "cuda delta: heads are at most 128 wide");
    VIEW(q, rows, n * k->k_dim);
    VIEW(k, rows, n * k->k_dim);
    VIEW(v, rows, n * k->v_dim);
    VIEW(o, rows, n * k->v_dim);
    VIEW(g, rows, n);
    VIEW(beta, rows, n);
    VIEW(g_cum, rows, n);
    VIEW(x, rows, n * CHUNK);
    VIEW(v_new, rows, n * k->v_dim);
    VIEW(h, -1, n * size);
    if (k->states.p != nullptr) VIEW(states, -1, n * size);
    rc = delta_check(k->piece, k->n_piece, rows, &k->states, e);
    if (rc != ERR_OK || k->n_piece == 0 || n * size == 0) return rc;
    a.heads = static_cast<int>(n);
    a.kd = static_cast<int>(k->k_dim);
    a.vd = static_cast<int>(k->v_dim);
    a.scale = static_cast<float>(k->scale);
    a.keep = true;
    rc = delta_tables(cu_of(d), k->piece, k->n_piece, &a, nullptr, e);
    if (rc != ERR_OK) return rc;
    if (a.q.t == DT_BF16 && a.k.t == DT_BF16)
        return run_wide<bf16>(cu_of(d), a, e);
    return run_wide<float>(cu_of(d), a, e);
}
