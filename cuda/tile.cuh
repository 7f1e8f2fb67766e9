/*
** tile.cuh - matrices in shared memory: loading them from views, and a warp's
** products of them, on tensor cores where they are bf16 and by FMA where they
** are f32. Kernels are templates over that type.
**
** A tile of COLS columns has rows of tile_ld<T, COLS> elements: 16 bytes of
** padding keep rows that a warp reads together in different banks. COLS is a
** multiple of 16, so rows begin at multiples of 16 bytes.
*/
#ifndef CUDA_TILE_CUH
#define CUDA_TILE_CUH

#include "cu.cuh"
#include "mma.cuh"

typedef __nv_bfloat16 bf16;

template <typename T> constexpr int tile_type = DT_F32;
template <> constexpr int tile_type<bf16> = DT_BF16;
template <typename T, int COLS> constexpr int tile_ld =
    COLS + static_cast<int>(16 / sizeof(T));

static __device__ __forceinline__ float tile_float(float x) { return x; }
static __device__ __forceinline__ float tile_float(bf16 x)
{
    return __bfloat162float(x);
}
static __device__ __forceinline__ void tile_put(float *p, float x) { *p = x; }
static __device__ __forceinline__ void tile_put(bf16 *p, float x)
{
    *p = __float2bfloat16(x);
}

/* ---- loading ---------------------------------------------------------------
** All threads of the block. What is loaded is on its way, all of it at once,
** until tile_wait; the caller synchronises before, and after the waiting. */

#ifdef EMU_H
static inline void tile_fetch(void *to, const void *from)
{
    memcpy(to, from, 16);
}
static inline void tile_fetch_if(bool is, void *to, const void *from)
{
    if (is) memcpy(to, from, 16);
    else memset(to, 0, 16);
}
static inline void tile_wait() {}
#else
static __device__ __forceinline__ void tile_fetch(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n"
                 :: "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                    "l"(__cvta_generic_to_global(from)) : "memory");
}
/* Zeros unless is, without a branch. */
static __device__ __forceinline__ void tile_fetch_if(bool is, void *to,
                                                     const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
                 :: "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                    "l"(__cvta_generic_to_global(from)), "r"(is ? 16 : 0)
                 : "memory");
}
static __device__ __forceinline__ void tile_wait()
{
    asm volatile("cp.async.wait_all;\n" ::: "memory");
}
#endif

/* Whether col and all rows of the view begin at multiples of 16 bytes. */
template <typename T>
static __device__ __forceinline__ bool tile_even(const cu_view &v, int64_t col)
{
    constexpr int PER = static_cast<int>(16 / sizeof(T));

    return v.ld % PER == 0 && col % PER == 0;
}

static __device__ __forceinline__ float tile_element(const cu_view &v,
                                                     int64_t i)
{
    return v.t == DT_BF16 ? tile_float(static_cast<const bf16 *>(v.p)[i])
                          : static_cast<const float *>(v.p)[i];
}

/* n pieces of 16 bytes; four of a thread go together. */
template <int COLS, typename T, typename At>
static __device__ __forceinline__ void tile_lines(T *dst, int n, const T *src,
                                                  At at)
{
    constexpr int PER = static_cast<int>(16 / sizeof(T)), PARTS = COLS / PER;
    int step = static_cast<int>(blockDim.x);
    int i = static_cast<int>(threadIdx.x);
    auto line = [&](int k) {
        int r = k / PARTS, c = k % PARTS * PER;
        int64_t from = at(r);

        tile_fetch_if(from >= 0, dst + r * tile_ld<T, COLS> + c,
                      src + (from < 0 ? 0 : from + c));
    };

    NO_UNROLL for (; i + 3 * step < n; i += 4 * step)
        UNROLL for (int k = 0; k < 4; k++) line(i + k * step);
    NO_UNROLL for (; i < n; i += step) line(i);
}

/* Row r of dst, r < rows, is the cols elements of the view from at(r) on, an
** index from its first element, or zeros where at(r) < 0; zeros follow up to
** COLS. even: all at(r) are multiples of 16 bytes; then rows of COLS columns
** come without a branch. */
template <int COLS, typename T, typename At>
static __device__ __forceinline__ void tile_load(T *dst, int rows,
                                                 const cu_view &v, int cols,
                                                 At at, bool even)
{
    constexpr int LD = tile_ld<T, COLS>;
    constexpr int PER = static_cast<int>(16 / sizeof(T)), PARTS = COLS / PER;
    bool whole = v.t == tile_type<T> &&
                 reinterpret_cast<uintptr_t>(v.p) % 16 == 0;
    int n = rows * PARTS;

    if (even && whole && cols == COLS)
        return tile_lines<COLS>(dst, n, static_cast<const T *>(v.p), at);
    NO_UNROLL for (int i = static_cast<int>(threadIdx.x); i < n;
         i += static_cast<int>(blockDim.x)) {
        int r = i / PARTS, c = i % PARTS * PER;
        int64_t from = at(r);
        T *to = dst + r * LD + c;

        if (from < 0 || c >= cols) {
            *reinterpret_cast<uint4 *>(to) = make_uint4(0, 0, 0, 0);
        } else if (whole && (from + c) % PER == 0 && c + PER <= cols) {
            tile_fetch(to, static_cast<const T *>(v.p) + from + c);
        } else {
            NO_UNROLL for (int k = 0; k < PER; k++)
                tile_put(to + k, c + k < cols
                                     ? tile_element(v, from + c + k) : 0.0f);
        }
    }
}

/* ---- products --------------------------------------------------------------
** d[j] += A B for a warp: A is 16 x k, d[j] the 16 x 8 columns that begin
** at 8 * step * j of B, in the layout of mma_bf16; tiles of the NT are wanted.
** k is a multiple of 16. TA: A is stored as its transpose, [k][16]; TB: B is
** stored as its transpose, [columns][k]. */

template <bool TA, bool TB, int NT>
static __device__ __forceinline__ void tile_product(
    float (&d)[NT][4], const bf16 *a, int lda, const bf16 *b, int ldb, int k,
    int step, int tiles)
{
    int lane = static_cast<int>(threadIdx.x) % 32, row = lane % 8;
    int lower = lane / 8 % 2 * 8, upper = lane / 16 * 8;
    mma_row pa = mma_row_of(TA ? a + (row + upper) * lda + lower
                               : a + (row + lower) * lda + upper);
    mma_row pb = mma_row_of(TB ? b + row * ldb + lower
                               : b + lane % 16 * ldb);
    int next = 16 * step * (TB ? ldb : 1);  /* bytes to the next n-tile */
    mma_row pair = pb + lane / 16 * next;   /* upper lanes: the next tile */

    UNROLL_2 for (int k0 = 0; k0 < k; k0 += 16) {
        int at = 2 * (TB ? k0 : k0 * ldb);
        uint32_t left[4], right[4];

        mma_load4<TA>(left, pa + 2 * (TA ? k0 * lda : k0));
        UNROLL for (int j = 0; j < NT; j += 2) {
            if (j >= tiles) break;
            if (j + 1 < NT && j + 1 < tiles) {
                mma_load4<!TB>(right, pair + at + j * next);
                mma_bf16(d[j], left, right);
                mma_bf16(d[j + 1 < NT ? j + 1 : j], left, right + 2);
            } else {
                mma_load2<!TB>(right, pb + at + j * next);
                mma_bf16(d[j], left, right);
            }
        }
    }
}

template <bool TA, bool TB, int NT>
static __device__ __forceinline__ void tile_product(
    float (&d)[NT][4], const float *a, int lda, const float *b, int ldb,
    int k, int step, int tiles)
{
    int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4;
    int t = lane % 4 * 2;

    for (int i = 0; i < k; i++) {
        float a0 = TA ? a[i * lda + g] : a[g * lda + i];
        float a1 = TA ? a[i * lda + g + 8] : a[(g + 8) * lda + i];
        UNROLL for (int j = 0; j < NT; j++) {
            int c = 8 * j * step + t;

            if (j >= tiles) break;
            float b0 = TB ? b[c * ldb + i] : b[i * ldb + c];
            float b1 = TB ? b[(c + 1) * ldb + i] : b[i * ldb + c + 1];
            d[j][0] = fmaf(a0, b0, d[j][0]);
            d[j][1] = fmaf(a0, b1, d[j][1]);
            d[j][2] = fmaf(a1, b0, d[j][2]);
            d[j][3] = fmaf(a1, b1, d[j][3]);
        }
    }
}

/* d[j] += A B with A in registers, K fragments of 16 columns, and B [16 K]
** [columns]; NT is even. */
template <int K, int NT>
static __device__ __forceinline__ void tile_product_held(
    float (&d)[NT][4], const uint32_t (&a)[K][4], const bf16 *b, int ldb)
{
    int lane = static_cast<int>(threadIdx.x) % 32;
    mma_row pair = mma_row_of(b + lane % 16 * ldb + lane / 16 * 8);

    UNROLL for (int k = 0; k < K; k++)
        UNROLL for (int j = 0; j < NT; j += 2) {
            uint32_t right[4];

            mma_load4<true>(right, pair + 32 * k * ldb + 16 * j);
            mma_bf16(d[j], a[k], right);
            mma_bf16(d[j + 1], a[k], right + 2);
        }
}

template <int NT>
static __device__ __forceinline__ void tile_zero(float (&d)[NT][4])
{
    UNROLL for (int j = 0; j < NT; j++)
        d[j][0] = d[j][1] = d[j][2] = d[j][3] = 0.0f;
}

/* How many of the n-tiles first, first + step, ... are below all. */
static __device__ __forceinline__ int tile_share(int all, int first, int step)
{
    return first < all ? (all - first + step - 1) / step : 0;
}

/* Sums over the four lanes that hold a row. */
static __device__ __forceinline__ float tile_row_sum(float v)
{
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    return v + __shfl_xor_sync(0xffffffffu, v, 2);
}

#endif
