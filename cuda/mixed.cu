/*
** mixed.cu - products of an f32 with a bf16 matrix, which cuBLAS has not: the
** gradients of the router's and the gate's logits times their weights.
**
** An f32 number is the sum of three bf16, each the rounded rest of those
** before it, to the last bit or nearly. So the product is three on tensor
** cores, and as exact as one in f32.
*/
#include "gemm.cuh"
#include "tile.cuh"

namespace {

constexpr int THREADS = 128;            /* four warps of 16 rows */
constexpr int SIDE = 64;                /* of tiles, in rows, columns, inner */
constexpr int LD = tile_ld<bf16, SIDE>;
constexpr int PARTS = 3;
constexpr int AHEAD = 8;                /* loads of a thread on their way */

struct mixed_args {
    cu_view c, a, b;
    int inner;
    float alpha, beta;
};

/* Rows [r0, r0 + SIDE), columns [c0, c0 + SIDE) of v in three parts; zeros
** beyond it. */
__device__ __forceinline__ void load_split(bf16 (*to)[SIDE * LD],
                                           const cu_view &v, int64_t r0,
                                           int64_t c0)
{
    int c = static_cast<int>(threadIdx.x) % SIDE;
    int top = static_cast<int>(threadIdx.x) / SIDE;

    NO_UNROLL for (int i = top; i < SIDE; i += AHEAD * THREADS / SIDE) {
        float rest[AHEAD];

        UNROLL for (int k = 0; k < AHEAD; k++) {
            int r = i + k * (THREADS / SIDE);

            rest[k] = r0 + r < v.rows && c0 + c < v.cols
                ? static_cast<const float *>(v.p)[(r0 + r) * v.ld + c0 + c]
                : 0.0f;
        }
        UNROLL for (int k = 0; k < AHEAD * PARTS; k++) {
            int r = i + k / PARTS * (THREADS / SIDE);
            bf16 part = __float2bfloat16(rest[k / PARTS]);

            to[k % PARTS][r * LD + c] = part;
            rest[k / PARTS] -= __bfloat162float(part);
        }
    }
}

/* A block makes SIDE x SIDE of c. */
template <bool TA, bool TB>
__global__ void __launch_bounds__(THREADS) gemm_split(mixed_args g)
{
    alignas(16) __shared__ bf16 a[PARTS][SIDE * LD], b[SIDE * LD];
    int64_t row = int64_t{blockIdx.x} * SIDE, col = int64_t{blockIdx.y} * SIDE;
    int warp = static_cast<int>(threadIdx.x) / 32;
    int lane = static_cast<int>(threadIdx.x) % 32;
    const cu_view &w = g.b;
    float d[SIDE / 8][4];

    tile_zero(d);
    for (int64_t k = 0; k < g.inner; k += SIDE) {
        int64_t b_row = TB ? col : k, b_col = TB ? k : col;

        __syncthreads();
        tile_load<SIDE>(b, SIDE, w, static_cast<int>(
            w.cols - b_col < SIDE ? w.cols - b_col : SIDE),
            [&](int r) -> int64_t {
                return b_row + r < w.rows ? (b_row + r) * w.ld + b_col : -1;
            }, tile_even<bf16>(w, b_col));
        load_split(a, g.a, TA ? k : row, TA ? row : k);
        tile_wait();
        __syncthreads();
        for (int p = PARTS - 1; p >= 0; p--)    /* the small ones first */
            tile_product<TA, TB>(d, a[p] + 16 * warp * (TA ? 1 : LD), LD, b,
                                 LD, SIDE, 1, SIDE / 8);
    }
    UNROLL for (int j = 0; j < SIDE / 8; j++)
        UNROLL for (int i = 0; i < 4; i++) {
            int64_t r = row + 16 * warp + lane / 4 + i / 2 * 8;
            int64_t c = col + 8 * j + lane % 4 * 2 + i % 2;

            if (r < g.c.rows && c < g.c.cols)
                cu_put(g.c, r, c, g.alpha * d[j][i] +
                       (g.beta != 0 ? g.beta * cu_get(g.c, r, c) : 0.0f));
        }
}

}  // namespace

int gemm_run_split(struct cu *d, const cu_view &c, const cu_view &a,
                   const cu_view &b, const struct k_gemm *k, int inner,
                   struct err *e)
{
    mixed_args g = {c, a, b, inner, static_cast<float>(k->alpha),
                    static_cast<float>(k->beta)};
    auto *kernel = k->trans_a
        ? (k->trans_b ? gemm_split<true, true> : gemm_split<true, false>)
        : (k->trans_b ? gemm_split<false, true> : gemm_split<false, false>);
    unsigned rows, cols;
    int rc = cu_grid(c.rows, SIDE, &rows, e);

    if (rc == ERR_OK) rc = cu_grid(c.cols, SIDE, &cols, e);
    if (rc == ERR_OK && cols > 65535)
        rc = err_set(e, ERR_RUN, "cuda gemm: %d columns", c.cols);
    if (rc != ERR_OK) return rc;
    LAUNCH(kernel, dim3(rows, cols), THREADS, 0, d->stream, g);
    CU_LAUNCHED();
    return ERR_OK;
}
