/*
** delta.cuh - what the delta rule's kernels forward and backward share: pieces
** and chunks on the device, a chunk's numbers in shared memory.
**
** Work is cut so that only what hangs on the state runs chunk after chunk:
** the chunk matrices, the outputs and most gradients are made for all chunks
** at once, and the states of different value columns do not touch, so blocks
** share them out.
*/
#ifndef CUDA_DELTA_CUH
#define CUDA_DELTA_CUH

#include "tile.cuh"

constexpr int CHUNK = DELTA_CHUNK;
constexpr int STATE_COLS = 32;  /* value columns of a block that walks */

struct delta_chunk { int64_t row; int c; };     /* rows [row, row + c) */
/* A piece and the number of its first chunk. */
struct delta_run { int64_t row, len, state_in, state_out, chunk; };

struct delta_args {
    cu_view o, states, g_cum, x, q, k, v, g, beta, v_new, h;
    cu_view dq, dk, dv, dg, dbeta, dstates, d_o, du, dh;
    const delta_chunk *chunk;
    const delta_run *run;
    int heads, kd, vd, chunks, runs;
    float scale;
    bool keep;                  /* state_out is written */
};

/* Rows of one head's columns; -1 beyond the chunk. */
static __device__ __forceinline__ int64_t chunk_at(const cu_view &v,
                                                   const delta_chunk &t,
                                                   int r, int64_t col)
{
    return r < t.c ? (t.row + r) * v.ld + col : -1;
}

/* Loads rows of a view for the chunk, columns [col, col + n). */
template <int COLS, typename T>
static __device__ __forceinline__ void load_rows(T *dst, const cu_view &v,
                                                 const delta_chunk &t,
                                                 int64_t col, int n)
{
    tile_load<COLS>(dst, CHUNK, v, n, [&](int r) -> int64_t {
        return chunk_at(v, t, r, col);
    }, tile_even<T>(v, col));
}

/* A state's rows [k][v columns first, first + n) of a head from one row of a
** view, KD rows. */
template <int KD, int COLS, typename T>
static __device__ __forceinline__ void load_state(T *dst, const cu_view &v,
                                                  int64_t row, int head,
                                                  const delta_args &a,
                                                  int first, int n)
{
    int64_t at = row * v.ld + int64_t{head} * a.kd * a.vd + first;

    tile_load<COLS>(dst, KD, v, n, [&](int r) -> int64_t {
        return r < a.kd ? at + int64_t{r} * a.vd : -1;
    }, tile_even<T>(v, at) && tile_even<T>(v, a.vd));
}

/* Columns [T, heads] of the chunk, zeros beyond it. */
static __device__ __forceinline__ void load_column(float *dst,
                                                   const cu_view &v,
                                                   const delta_chunk &t,
                                                   int head)
{
    for (int r = static_cast<int>(threadIdx.x); r < CHUNK;
         r += static_cast<int>(blockDim.x))
        dst[r] = r < t.c ? cu_get(v, t.row + r, head) : 0.0f;
}

/* Running sums of x[0 .. CHUNK) by one warp, from the end with back. */
static __device__ __forceinline__ void running_sum(float *x, bool back)
{
    int lane = static_cast<int>(threadIdx.x) % 32;
    int i = back ? CHUNK - 1 - 2 * lane : 2 * lane;
    int j = back ? i - 1 : i + 1;
    float one = x[i], both = one + x[j], sum = both;

    for (unsigned d = 1; d < 32; d *= 2) {
        float before = __shfl_up_sync(0xffffffffu, sum, d);
        if (lane >= static_cast<int>(d)) sum += before;
    }
    float before = __shfl_up_sync(0xffffffffu, sum, 1);
    x[i] = (lane == 0 ? 0.0f : before) + one;
    x[j] = sum;
}

/* Views and host arrays of a call; a->chunk and a->run are on the device
** then. The most chunks of scratch and the states' rows are checked. */
int delta_tables(struct cu *c, const struct dev_piece *piece, int64_t n,
                 delta_args *a, const int64_t *place, struct err *e);
int delta_check(const struct dev_piece *piece, int64_t n, int64_t rows,
                const struct mat *states, struct err *e);

/* Writes h, v_new and, where asked for, the final states. */
int delta_states_run(struct cu *c, const delta_args &a, bool bf, struct err *e);
/* dq, dk, dg and dbeta from h, dh, v_new and du. */
int delta_gradients_run(struct cu *c, const delta_args &a, bool bf,
                        struct err *e);

#endif
