/*
** cu.cuh - what the sources of the CUDA module share.
**
** The same sources compile with nvcc and, in tests, as C++ against the
** headers of tests/emu (EMU_H tells them apart), so a launch goes through
** LAUNCH, dynamic shared memory through DYNAMIC_SHARED and a matrix product
** in a kernel through mma.cuh; UNROLL goes before a loop whose bounds are
** constants, UNROLL_2 where all its turns at once would spill registers.
**
** Activations are bf16 or f32, accumulators f32. A view carries its type at
** run time: kernels are templates over the activation type where it matters
** for speed, and use cu_get/cu_put on a cu_view elsewhere.
*/
#ifndef CUDA_CU_CUH
#define CUDA_CU_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cublas_v2.h>

#include <cstdint>

extern "C" {
#include "dev/dev.h"
}

/* ---- launches ----------------------------------------------------------- */

#ifdef EMU_H
#define UNROLL
#define UNROLL_2
#define NO_UNROLL
#define LAUNCH(kernel, grid, block, shared, stream, ...) \
    emu_launch(stream, grid, block, shared, kernel, ##__VA_ARGS__)
#define DYNAMIC_SHARED(T, name) \
    T *name = static_cast<T *>(emu_dynamic_shared())
#else
#define UNROLL _Pragma("unroll")
#define UNROLL_2 _Pragma("unroll 2")
#define NO_UNROLL _Pragma("unroll 1")
#define LAUNCH(kernel, grid, block, shared, stream, ...) \
    kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)
#define DYNAMIC_SHARED(T, name)                                      \
    extern __shared__ __align__(128) unsigned char dynamic_shared[]; \
    T *name = reinterpret_cast<T *>(dynamic_shared)
#endif

/* ---- the device --------------------------------------------------------- */

struct cu {
    struct dev dev;             /* first: a struct dev is a struct cu */
    int gpu, rank;
    cudaStream_t stream;        /* everything of a rank runs in this one */
    cublasHandle_t blas;        /* null before the first product */
    void *work;                 /* its workspace, or null */
    size_t work_bytes;
    /* room for host arrays that a kernel reads (slices, ranges, offsets):
    ** pinned staging and its device copy, outside the rank's allocator */
    unsigned char *stage, *meta;
    size_t meta_bytes, meta_from, meta_used;    /* of this call: from, used */
    cudaEvent_t meta_free;      /* behind the last copy out of stage */
    unsigned char *room;        /* a call's scratch, there too */
    size_t room_bytes, room_used;
    cudaEvent_t mark[2];        /* of the copies between ranks: dev.h */
    uint64_t taken, limit;      /* bytes of segments; limit 0: none */
    struct cu_watch *watch;     /* calls and times, or NULL */
};

static inline struct cu *cu_of(struct dev *d)
{
    return reinterpret_cast<struct cu *>(d);
}

extern const struct kernels cu_kernels;

/* Sets dev.k. With CUDA_LAUNCH_BLOCKING=1 every operator is waited for and a
** fault names it; with PEAKPROOF_CUDA_TIMES=FILE so too, and closing adds
** lines rank,operator,calls,seconds to the file. */
int cu_watch_open(struct cu *c, struct err *e);
void cu_watch_close(struct cu *c);

/* Errors carry the call, file and line; one that an earlier kernel may have
** made says how to find out which. CU_TRY leaves the function. */
int cu_error(cudaError_t rc, const char *call, const char *file, int line,
             struct err *e);
int cu_blas_error(cublasStatus_t rc, const char *call, const char *file,
                  int line, struct err *e);
#define CU_TRY(call)                                                \
    do {                                                            \
        cudaError_t cu_rc_ = (call);                                \
        if (cu_rc_ != cudaSuccess)                                  \
            return cu_error(cu_rc_, #call, __FILE__, __LINE__, e);  \
    } while (0)
#define CU_BLAS(call)                                                   \
    do {                                                                \
        cublasStatus_t cu_rc_ = (call);                                 \
        if (cu_rc_ != CUBLAS_STATUS_SUCCESS)                            \
            return cu_blas_error(cu_rc_, #call, __FILE__, __LINE__, e); \
    } while (0)
/* After a launch. */
#define CU_LAUNCHED() CU_TRY(cudaGetLastError())

/* Host arrays that a call's kernels read go through a ring of pinned staging
** memory and its device copy. A call first says how many bytes it will take
** (the sum of CU_ROOM over its arrays), then takes them: cu_meta_host gives
** an array to fill and where it will be on the device, cu_meta_send copies
** what was filled in stream order. Memory on the device with nothing in it is
** asked for and taken alike: cu_room_begin, cu_room; the next call's kernels
** begin at its start again. All of it is valid until the call's kernels have
** run. */
#define CU_ROOM(n) ((static_cast<size_t>(n) + 15) / 16 * 16)
int cu_meta_begin(struct cu *c, size_t need, struct err *e);
void *cu_meta_host(struct cu *c, size_t n, void **device);
int cu_meta_send(struct cu *c, struct err *e);
int cu_room_begin(struct cu *c, size_t need, struct err *e);
void *cu_room(struct cu *c, size_t n);

/* The handle for products, made at the first of them. */
int cu_blas(struct cu *c, cublasHandle_t *out, struct err *e);

/* ---- views -------------------------------------------------------------- */

struct cu_view {
    void *p;
    int64_t ld;
    int rows, cols;             /* < 2^31, checked by cu_view_of */
    int t;                      /* enum dtype */
};

/* ERR_RUN names the view when it is not rows x cols (-1: any) of a float
** type. */
int cu_view_of(const struct mat *m, int64_t rows, int64_t cols,
               const char *name, cu_view *out, struct err *e);

/* The view a->name of a kernel's arguments as a variable of that name; leaves
** the function, which has a and e, on a misfit. */
#define CU_VIEW(name, rows_, cols_)                                      \
    cu_view name;                                                        \
    do {                                                                 \
        int rc_ = cu_view_of(&a->name, rows_, cols_, #name, &name, e);   \
        if (rc_ != ERR_OK) return rc_;                                   \
    } while (0)

static __device__ __forceinline__ float cu_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static __device__ __forceinline__ float cu_get(const cu_view &v, int64_t r,
                                               int64_t c)
{
    int64_t i = r * v.ld + c;

    return v.t == DT_BF16
        ? __bfloat162float(static_cast<const __nv_bfloat16 *>(v.p)[i])
        : static_cast<const float *>(v.p)[i];
}

static __device__ __forceinline__ void cu_put(const cu_view &v, int64_t r,
                                              int64_t c, float x)
{
    int64_t i = r * v.ld + c;

    if (v.t == DT_BF16)
        static_cast<__nv_bfloat16 *>(v.p)[i] = __float2bfloat16(x);
    else
        static_cast<float *>(v.p)[i] = x;
}

/* Row and column of element i of a matrix, by a 32-bit division where that
** will do: a 64-bit one takes longer than the element. */
#define CU_CELL(r, c, i, cols) \
    int64_t r, c;              \
    cu_cell(i, cols, &r, &c)
static __device__ __forceinline__ void cu_cell(int64_t i, int cols,
                                               int64_t *r, int64_t *c)
{
    *r = i <= INT32_MAX ? static_cast<unsigned>(i) /
                              static_cast<unsigned>(cols)
                        : i / cols;
    *c = i - *r * cols;
}

/* The most dynamic shared memory a block may have on all architectures that
** are built for (sm_80 has the least). */
constexpr int CU_SHARED_MAX = 163 * 1024;

/* Sums over a warp, the same order in every lane's result. */
static __device__ __forceinline__ float cu_warp_sum(float v)
{
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

static __device__ __forceinline__ float cu_warp_max(float v)
{
    for (int d = 16; d > 0; d /= 2)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
    return v;
}

/* Grid for n items in blocks of threads, at most 2^20 blocks: kernels walk
** their items with a grid stride. */
static inline unsigned cu_blocks(int64_t n, int64_t per_block)
{
    int64_t b = (n + per_block - 1) / per_block;

    return static_cast<unsigned>(b < 1 ? 1 : b > (1 << 20) ? 1 << 20 : b);
}

/* The same for kernels with a block for each of their tiles: all of them, or
** ERR_RUN. */
static inline int cu_grid(int64_t n, int64_t per_block, unsigned *out,
                          struct err *e)
{
    int64_t b = n / per_block + (n % per_block != 0);

    *out = static_cast<unsigned>(b < 1 ? 1 : b);
    if (n >= 0 && b <= INT32_MAX) return ERR_OK;
    return err_set(e, ERR_RUN, "cuda: %lld blocks of %lld, and a launch has "
                   "at most %d", (long long)b, (long long)per_block,
                   INT32_MAX);
}

/* ---- kernels, one family a file ----------------------------------------- */

#define CU_KERNEL(name) \
    int cu_##name(struct dev *d, const struct k_##name *a, struct err *e);
KERNELS(CU_KERNEL)
#undef CU_KERNEL

#endif
