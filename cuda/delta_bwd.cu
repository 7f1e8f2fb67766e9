/*
** delta_bwd.cu - the chunked delta rule backwards (model.md 3.13): the states
** once more, their gradients chunk after chunk from the last, then all other
** gradients for all chunks at once (delta_grad.cu).
**
** With N = X R as in delta.cu some products of 3.13 fall away:
**   dBv = X^T dN, dBk = -dBv S^T, dL = -strict_tril(dBv N^T),
**   dS = gamma dS+ + Q_e^T dO - B_k^T dBv.
*/
#include "delta.cuh"

constexpr int WALK_THREADS = 128;

/* ---- gradients of states ------------------------------------------------- */

template <typename T, int KD> struct walk_size {
    static constexpr int LK = tile_ld<T, KD>, LX = tile_ld<T, CHUNK>;
    static constexpr int LV = tile_ld<T, STATE_COLS>, NV = STATE_COLS / 8;
    static constexpr int GROUPS = (KD + 63) / 64;   /* of 16 rows, a warp */
    static constexpr int SHARED = static_cast<int>(sizeof(T)) *
        (CHUNK * (2 * LK + 2 * LX + 3 * LV) + KD * LV) + 4 * 2 * CHUNK;
};

template <typename T, int KD> struct walk_tile {
    T *k, *q, *p, *x, *d_o, *dn, *db, *g;
    float *b, *beta;
    int head, first, cols;      /* value columns [first, first + cols) */
    int warp, row, col;         /* row, column in a 16 x 8 tile */
};

template <typename T, int KD>
static __device__ __forceinline__ walk_tile<T, KD> walk_share(T *room)
{
    using size = walk_size<T, KD>;
    int lane = static_cast<int>(threadIdx.x) % 32;
    walk_tile<T, KD> x;

    x.k = room;
    x.q = x.k + CHUNK * size::LK;
    x.p = x.q + CHUNK * size::LK;
    x.x = x.p + CHUNK * size::LX;
    x.d_o = x.x + CHUNK * size::LX;
    x.dn = x.d_o + CHUNK * size::LV;
    x.db = x.dn + CHUNK * size::LV;
    x.g = x.db + CHUNK * size::LV;
    x.b = reinterpret_cast<float *>(x.g + KD * size::LV);
    x.beta = x.b + CHUNK;
    x.warp = static_cast<int>(threadIdx.x) / 32;
    x.row = lane / 4;
    x.col = lane % 4 * 2;
    return x;
}

/* The gradient of the state after a chunk: to shared memory and to dh. */
template <typename T, int KD>
static __device__ __forceinline__ void show_gradient(
    const delta_args &a, int64_t chunk, const walk_tile<T, KD> &x,
    const float (&g)[walk_size<T, KD>::GROUPS][walk_size<T, KD>::NV][4])
{
    using size = walk_size<T, KD>;

    UNROLL for (int m = 0; m < size::GROUPS; m++)
        UNROLL for (int i = 0; i < size::NV * 4; i++) {
            int r = 16 * (x.warp + 4 * m) + x.row + i % 4 / 2 * 8;
            int c = 8 * (i / 4) + x.col + i % 2;
            float v = g[m][i / 4][i % 4];

            if (r >= KD) continue;
            tile_put(x.g + r * size::LV + c, v);
            if (r < a.kd && c < x.cols)
                cu_put(a.dh, chunk,
                       (int64_t{x.head} * a.kd + r) * a.vd + x.first + c, v);
        }
}

/* From row at of dstates; with add, to it. */
template <typename T, int KD>
static __device__ __forceinline__ void move_gradient(
    const delta_args &a, int64_t at, bool add, const walk_tile<T, KD> &x,
    float (&g)[walk_size<T, KD>::GROUPS][walk_size<T, KD>::NV][4])
{
    using size = walk_size<T, KD>;

    UNROLL for (int m = 0; m < size::GROUPS; m++)
        UNROLL for (int i = 0; i < size::NV * 4; i++) {
            int r = 16 * (x.warp + 4 * m) + x.row + i % 4 / 2 * 8;
            int c = 8 * (i / 4) + x.col + i % 2;
            int64_t to = (int64_t{x.head} * a.kd + r) * a.vd + x.first + c;
            float *mine = &g[m][i / 4][i % 4];
            bool there = at >= 0 && r < a.kd && c < x.cols;

            if (!add)
                *mine = there ? cu_get(a.dstates, at, to) : 0.0f;
            else if (there)
                cu_put(a.dstates, at, to, cu_get(a.dstates, at, to) + *mine);
        }
}

/* P of the chunk, zeros beyond its rows. */
template <typename T, int KD>
static __device__ __forceinline__ void walk_scores(const delta_args &a,
                                                   const delta_chunk &t,
                                                   const walk_tile<T, KD> &x)
{
    using size = walk_size<T, KD>;
    float d[8][4];

    tile_zero(d);
    tile_product<false, true>(d, x.q + 16 * x.warp * size::LK, size::LK, x.k,
                              size::LK, KD, 1, 8);
    UNROLL for (int j = 0; j < 8; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int r = 16 * x.warp + x.row + i / 2 * 8;
            int c = 8 * j + x.col + i % 2;

            tile_put(x.p + r * size::LX + c,
                     c <= r && r < t.c
                         ? a.scale * d[j][i] * expf(x.b[r] - x.b[c]) : 0.0f);
        }
}

/* dN = P^T dO + K_e dS+, dBv = X^T dN; dv and du; then the chunk's rows with
** the factors of K and Q in the state's gradient, in db and d_o. */
template <typename T, int KD>
static __device__ __forceinline__ void walk_values(const delta_args &a,
                                                   const delta_chunk &t,
                                                   const walk_tile<T, KD> &x)
{
    using size = walk_size<T, KD>;
    constexpr int NV = size::NV, LV = size::LV;
    float d[NV][4];

    tile_zero(d);
    tile_product<false, false>(d, x.k + 16 * x.warp * size::LK, size::LK, x.g,
                               LV, KD, 1, NV);
    UNROLL for (int j = 0; j < NV; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int r = 16 * x.warp + x.row + i / 2 * 8;
            d[j][i] *= r < t.c ? expf(x.b[t.c - 1] - x.b[r]) : 0.0f;
        }
    tile_product<true, false>(d, x.p + 16 * x.warp, size::LX, x.d_o, LV,
                              CHUNK, 1, NV);
    UNROLL for (int j = 0; j < NV; j++)
        UNROLL for (int i = 0; i < 4; i++)
            tile_put(x.dn + (16 * x.warp + x.row + i / 2 * 8) * LV + 8 * j +
                         x.col + i % 2, d[j][i]);
    __syncthreads();
    tile_zero(d);
    tile_product<true, false>(d, x.x + 16 * x.warp, size::LX, x.dn, LV, CHUNK,
                              1, NV);
    UNROLL for (int j = 0; j < NV; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int r = 16 * x.warp + x.row + i / 2 * 8;
            int c = 8 * j + x.col + i % 2, at = r * LV + c;
            float eb = expf(x.b[r]);

            tile_put(x.db + at, r < t.c ? -x.beta[r] * eb * d[j][i] : 0.0f);
            tile_put(x.d_o + at, a.scale * eb * tile_float(x.d_o[at]));
            if (r >= t.c || c >= x.cols) continue;
            int64_t col = x.head * a.vd + x.first + c;
            cu_put(a.du, t.row + r, col, d[j][i]);
            cu_put(a.dv, t.row + r, col, x.beta[r] * d[j][i]);
        }
    __syncthreads();
}

template <typename T, int KD>
static __global__ void __launch_bounds__(WALK_THREADS, 1)
delta_walk(delta_args a)
{
    using size = walk_size<T, KD>;
    DYNAMIC_SHARED(T, room);
    int parts = (a.vd + STATE_COLS - 1) / STATE_COLS;
    int at = static_cast<int>(blockIdx.x);
    walk_tile<T, KD> x = walk_share<T, KD>(room);
    delta_run p = a.run[at / (a.heads * parts)];
    float g[size::GROUPS][size::NV][4];

    x.head = at / parts % a.heads;
    x.first = at % parts * STATE_COLS;
    x.cols = a.vd - x.first < STATE_COLS ? a.vd - x.first : STATE_COLS;
    move_gradient<T, KD>(a, p.state_out, false, x, g);
    NO_UNROLL for (int64_t i = (p.len - 1) / CHUNK; p.len > 0 && i >= 0; i--) {
        delta_chunk t = a.chunk[p.chunk + i];

        show_gradient<T, KD>(a, p.chunk + i, x, g);
        load_rows<KD>(x.k, a.k, t, int64_t{x.head} * a.kd, a.kd);
        load_rows<KD>(x.q, a.q, t, int64_t{x.head} * a.kd, a.kd);
        load_rows<CHUNK>(x.x, a.x, t, int64_t{x.head} * CHUNK, CHUNK);
        load_rows<STATE_COLS>(x.d_o, a.d_o, t,
                              int64_t{x.head} * a.vd + x.first, x.cols);
        load_column(x.b, a.g_cum, t, x.head);
        load_column(x.beta, a.beta, t, x.head);
        tile_wait();
        __syncthreads();
        walk_scores<T, KD>(a, t, x);
        __syncthreads();
        walk_values<T, KD>(a, t, x);
        float fade = expf(x.b[t.c - 1]);
        UNROLL for (int m = 0; m < size::GROUPS; m++) {
            int group = 16 * (x.warp + 4 * m);

            UNROLL for (int j = 0; j < size::NV * 4; j++)
                g[m][j / 4][j % 4] *= fade;
            if (group >= KD) continue;
            tile_product<true, false>(g[m], x.k + group, size::LK, x.db,
                                      size::LV, CHUNK, 1, size::NV);
            tile_product<true, false>(g[m], x.q + group, size::LK, x.d_o,
                                      size::LV, CHUNK, 1, size::NV);
        }
        __syncthreads();
    }
    move_gradient<T, KD>(a, p.state_in, true, x, g);
}

/* ---- launches ------------------------------------------------------------ */

template <typename T, int KD>
static int run_walk(struct cu *c, const delta_args &a, struct err *e)
{
    using size = walk_size<T, KD>;
    static_assert(size::SHARED <= CU_SHARED_MAX, "too much shared memory");
    auto *kernel = delta_walk<T, KD>;
    int parts = (a.vd + STATE_COLS - 1) / STATE_COLS;
    unsigned grid;
    int rc = cu_grid(int64_t{a.runs} * a.heads * parts, 1, &grid, e);

    if (rc != ERR_OK) return rc;
    CU_TRY(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, size::SHARED));
    LAUNCH(kernel, grid, WALK_THREADS, size::SHARED, c->stream, a);
    CU_LAUNCHED();
    return ERR_OK;
}

/* Pieces that start from one state add to its gradient one after another:
** pieces [end[i - 1], end[i]) of the order go in one launch. */
template <typename T, int KD>
static int run(struct cu *c, delta_args a, const int64_t *end, int64_t rounds,
               struct err *e)
{
    int rc = delta_states_run(c, a, sizeof(T) == 2, e);
    delta_args part = a;

    for (int64_t i = 0, from = 0; rc == ERR_OK && i < rounds; i++) {
        part.run = a.run + from;
        part.runs = static_cast<int>(end[i] - from);
        rc = run_walk<T, KD>(c, part, e);
        from = end[i];
    }
    if (rc == ERR_OK && a.chunks > 0)
        rc = delta_gradients_run(c, a, sizeof(T) == 2, e);
    return rc;
}

template <typename T>
static int run_wide(struct cu *c, const delta_args &a, const int64_t *end,
                    int64_t rounds, struct err *e)
{
    if (a.kd <= 16) return run<T, 16>(c, a, end, rounds, e);
    if (a.kd <= 64) return run<T, 64>(c, a, end, rounds, e);
    return run<T, 128>(c, a, end, rounds, e);
}

/* place[i]: where piece i stands when pieces are ordered by how many before
** it start from the same state, then by number; end[r]: where round r ends.
** seen [states] is room. Returns the number of rounds. */
static int64_t order_pieces(const struct dev_piece *piece, int64_t n,
                            int64_t states, int64_t *place, int64_t *end,
                            int64_t *seen)
{
    int64_t rounds = 0, from = 0;

    for (int64_t i = 0; i < states; i++) seen[i] = 0;
    for (int64_t i = 0; i < n; i++) end[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t s = piece[i].state_in, r = s < 0 ? 0 : seen[s]++;

        place[i] = r;
        end[r]++;
        if (r + 1 > rounds) rounds = r + 1;
    }
    for (int64_t r = 0; r < rounds; r++) {
        int64_t count = end[r];
        end[r] = from;
        from += count;
    }
    for (int64_t i = 0; i < n; i++) place[i] = end[place[i]]++;
    return rounds;
}

static int run_pieces(struct cu *c, const struct k_delta_bwd *k,
                      delta_args &a, struct err *e)
{
    int64_t n = k->n_piece, states = k->states.p == nullptr
        ? 0 : k->states.rows;
    int64_t *place = static_cast<int64_t *>(
        malloc(static_cast<size_t>(2 * n + states) * sizeof *place));
    int64_t *end = place + n, rounds;
    int rc;

    if (place == nullptr) return err_nomem(e);
    rounds = order_pieces(k->piece, n, states, place, end, end + n);
    rc = delta_tables(c, k->piece, n, &a, place, e);
    if (rc == ERR_OK)
        rc = a.q.t == DT_BF16 && a.k.t == DT_BF16
            ? run_wide<bf16>(c, a, end, rounds, e)
            : run_wide<float>(c, a, end, rounds, e);
    free(place);
    return rc;
}

#define VIEW(name, rows, cols)                                         \
    do {                                                               \
        int rc_ = cu_view_of(&k->name, rows, cols, #name, &a.name, e); \
        if (rc_ != ERR_OK) return rc_;                                 \
    } while (0)

static int views(const struct k_delta_bwd *k, delta_args &a, struct err *e)
{
    int64_t n = k->heads, rows = k->q.rows, size = k->k_dim * k->v_dim;

    VIEW(q, rows, n * k->k_dim);
    VIEW(k, rows, n * k->k_dim);
    VIEW(dq, rows, n * k->k_dim);
    VIEW(dk, rows, n * k->k_dim);
    VIEW(v, rows, n * k->v_dim);
    VIEW(dv, rows, n * k->v_dim);
    VIEW(d_o, rows, n * k->v_dim);
    VIEW(du, rows, n * k->v_dim);
    VIEW(v_new, rows, n * k->v_dim);
    VIEW(beta, rows, n);
    VIEW(dbeta, rows, n);
    VIEW(g_cum, rows, n);
    VIEW(dg, rows, n);
    VIEW(x, rows, n * CHUNK);
    VIEW(h, -1, n * size);
    VIEW(dh, a.h.rows, n * size);
    if (k->states.p == nullptr) return ERR_OK;
    VIEW(states, -1, n * size);
    VIEW(dstates, a.states.rows, n * size);
    return ERR_OK;
}

int cu_delta_bwd(struct dev *d, const struct k_delta_bwd *k, struct err *e)
{
    delta_args a = {};
    int rc;

    if (k->k_dim > 128 || k->v_dim > 128)
        return err_set(e, ERR_RUN, "cuda delta: heads are at most 128 wide");
    rc = views(k, a, e);
    if (rc == ERR_OK)
        rc = delta_check(k->piece, k->n_piece, k->q.rows, &k->states, e);
    if (rc != ERR_OK || k->n_piece == 0 ||
        k->heads * k->k_dim * k->v_dim == 0)
        return rc;
    a.heads = static_cast<int>(k->heads);
    a.kd = static_cast<int>(k->k_dim);
    a.vd = static_cast<int>(k->v_dim);
    a.scale = static_cast<float>(k->scale);
    a.keep = false;
    return run_pieces(cu_of(d), k, a, e);
}
