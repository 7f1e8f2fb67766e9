/*
** wide.cuh - for kernels that go element by element: W neighbours of a row at
** once. W is WIDE, with 16-byte loads and stores and one test of a view's type
** for all of them, where every view of a call lies well for it; else 1.
*/
#ifndef CUDA_WIDE_CUH
#define CUDA_WIDE_CUH

#include "cu.cuh"

#include <initializer_list>

constexpr int WIDE = 8;

template <typename T> struct alignas(16) wide_bits { T v[16 / sizeof(T)]; };

template <int W>
static __device__ __forceinline__ void wide_get(const cu_view &v, int64_t r,
                                                int64_t c, float (&x)[W])
{
    int64_t i = r * v.ld + c;

    if (W == 1) {
        x[0] = cu_get(v, r, c);
    } else if (v.t == DT_BF16) {
        auto q = *reinterpret_cast<const wide_bits<__nv_bfloat16> *>(
            static_cast<const __nv_bfloat16 *>(v.p) + i);
        UNROLL for (int k = 0; k < W; k++) x[k] = __bfloat162float(q.v[k % 8]);
    } else {
        UNROLL for (int k = 0; k < W; k += 4) {
            auto q = *reinterpret_cast<const wide_bits<float> *>(
                static_cast<const float *>(v.p) + i + k);
            UNROLL for (int j = 0; j < 4; j++) x[(k + j) % W] = q.v[j];
        }
    }
}

template <int W>
static __device__ __forceinline__ void wide_put(const cu_view &v, int64_t r,
                                                int64_t c,
                                                const float (&x)[W])
{
    int64_t i = r * v.ld + c;

    if (W == 1) {
        cu_put(v, r, c, x[0]);
    } else if (v.t == DT_BF16) {
        wide_bits<__nv_bfloat16> q;

        UNROLL for (int k = 0; k < W; k++) q.v[k % 8] = __float2bfloat16(x[k]);
        *reinterpret_cast<wide_bits<__nv_bfloat16> *>(
            static_cast<__nv_bfloat16 *>(v.p) + i) = q;
    } else {
        UNROLL for (int k = 0; k < W; k += 4) {
            wide_bits<float> q;

            UNROLL for (int j = 0; j < 4; j++) q.v[j] = x[(k + j) % W];
            *reinterpret_cast<wide_bits<float> *>(
                static_cast<float *>(v.p) + i + k) = q;
        }
    }
}

/* A thread's places in a matrix with a grid stride: columns c to c + W - 1 of
** row r. */
template <int W>
static __device__ __forceinline__ bool wide_cell(int64_t i, const cu_view &v,
                                                 int64_t *r, int64_t *c)
{
    if (i >= int64_t{v.rows} * (v.cols / W)) return false;
    cu_cell(i, v.cols / W, r, c);
    *c *= W;
    return true;
}
#define EACH_WIDE(W, r, c, v)                                               \
    for (int64_t i_ = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, r, c; \
         wide_cell<W>(i_, v, &r, &c); i_ += int64_t{blockDim.x} * gridDim.x)

/* Whether rows of all views are whole numbers of 16 bytes, and of WIDE
** elements. Absent views do. */
static inline bool wide_fits(std::initializer_list<const cu_view *> views)
{
    for (const cu_view *v : views)
        if (v->p != nullptr && (reinterpret_cast<uintptr_t>(v->p) % 16 != 0 ||
                                v->cols % WIDE != 0 ||
                                (v->rows > 1 && v->ld % WIDE != 0)))
            return false;
    return true;
}

/* Launches kernel<WIDE> or kernel<1> over the elements of v in the function
** that has c and e. */
#define WIDE_LAUNCH(c, kernel, v, fits, ...)                                \
    do {                                                                    \
        int64_t n_ = int64_t{(v).rows} * (v).cols;                          \
        if (n_ == 0) return ERR_OK;                                         \
        if (fits)                                                           \
            LAUNCH(kernel<WIDE>, cu_blocks(n_ / WIDE, THREADS), THREADS, 0, \
                   (c)->stream, __VA_ARGS__);                               \
        else                                                                \
            LAUNCH(kernel<1>, cu_blocks(n_, THREADS), THREADS, 0,           \
                   (c)->stream, __VA_ARGS__);                               \
        CU_LAUNCHED();                                                      \
    } while (0)

#endif
