/*
** cuda_runtime.h - stand-in for the CUDA runtime: what this project's
** sources use of it, on the CPU. See emu.h.
*/
#ifndef EMU_CUDA_RUNTIME_H
#define EMU_CUDA_RUNTIME_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emu.h"
#include "api.h"

/* ---- language ----------------------------------------------------------- */

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
/* Blocks run one after another in a thread, so a block's static shared
** memory is the thread's. */
#define __shared__ static thread_local
#define __align__(n) alignas(n)

#define threadIdx (emu_here()->thread)
#define blockIdx (emu_here()->block)
#define blockDim (emu_here()->block_dim)
#define gridDim (emu_here()->grid_dim)
constexpr int warpSize = 32;

static inline void __syncthreads() { emu_barrier(); }
static inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    const void *out[32];
    char nothing = 0;

    emu_warp(mask, &nothing, 1, out);
}

template <typename T> T emu_shuffle(unsigned mask, T v, unsigned from)
{
    const void *out[32];
    T r;

    emu_warp(mask, &v, sizeof v, out);
    memcpy(&r, out[from & 31], sizeof r);
    return r;
}
template <typename T> T __shfl_sync(unsigned mask, T v, int from, int = 32)
{
    return emu_shuffle(mask, v, static_cast<unsigned>(from));
}
template <typename T> T __shfl_xor_sync(unsigned mask, T v, int x, int = 32)
{
    return emu_shuffle(mask, v, emu_lane() ^ static_cast<unsigned>(x));
}
template <typename T> T __shfl_down_sync(unsigned mask, T v, unsigned d,
                                         int = 32)
{
    unsigned to = emu_lane() + d;
    return emu_shuffle(mask, v, to < 32 ? to : emu_lane());
}
template <typename T> T __shfl_up_sync(unsigned mask, T v, unsigned d,
                                       int = 32)
{
    return emu_shuffle(mask, v, emu_lane() >= d ? emu_lane() - d
                                                : emu_lane());
}
static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    const void *out[32];
    unsigned char p = predicate != 0;
    unsigned r = 0;

    emu_warp(mask, &p, 1, out);
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1)
            r |= unsigned{*static_cast<const unsigned char *>(out[i])} << i;
    return r;
}
static inline int __any_sync(unsigned mask, int p)
{
    return __ballot_sync(mask, p) != 0;
}
static inline int __all_sync(unsigned mask, int p)
{
    return __ballot_sync(mask, p) == mask;
}

/* One fiber runs at a time, so a plain sum is atomic. */
template <typename T> T atomicAdd(T *p, T v)
{
    T old = *p;
    *p = old + v;
    return old;
}
static inline int atomicMax(int *p, int v)
{
    int old = *p;
    if (v > old) *p = v;
    return old;
}
static inline void __threadfence() {}

/* the C library keeps these names to itself */
#define __expf(x) expf(x)
#define __logf(x) logf(x)
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline float __uint_as_float(unsigned u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline unsigned __float_as_uint(float f)
{
    unsigned u;
    memcpy(&u, &f, 4);
    return u;
}
template <typename T> T __ldg(const T *p) { return *p; }
static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }

struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
static inline float2 make_float2(float a, float b) { return {a, b}; }
static inline float4 make_float4(float a, float b, float c, float d)
{
    return {a, b, c, d};
}
static inline uint4 make_uint4(unsigned a, unsigned b, unsigned c, unsigned d)
{
    return {a, b, c, d};
}

/* ---- runtime ------------------------------------------------------------ */

enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorNoDevice = 100,
    cudaErrorNotReady = 600,
    cudaErrorLaunchFailure = 719
};
typedef enum cudaError cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
enum cudaMemcpyKind {
    cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    int major, minor;
    int multiProcessorCount;
    size_t sharedMemPerBlockOptin;
    int pciBusID, pciDeviceID, pciDomainID;
};

const char *cudaGetErrorString(cudaError_t e);
const char *cudaGetErrorName(cudaError_t e);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int i);
cudaError_t cudaGetDevice(int *i);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int i);
cudaError_t cudaDeviceCanAccessPeer(int *can, int a, int b);
cudaError_t cudaDriverGetVersion(int *v);
cudaError_t cudaRuntimeGetVersion(int *v);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaMalloc(void **p, size_t n);
cudaError_t cudaFree(void *p);
cudaError_t cudaMallocHost(void **p, size_t n);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemcpy(void *dst, const void *src, size_t n,
                       cudaMemcpyKind k);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n,
                            cudaMemcpyKind k, cudaStream_t s);
cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src,
                              size_t src_pitch, size_t width, size_t rows,
                              cudaMemcpyKind k, cudaStream_t s);
cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t s);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e,
                                unsigned flags = 0);
cudaError_t cudaStreamQuery(cudaStream_t s);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t *e);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b);
template <typename F>
cudaError_t cudaFuncSetAttribute(F *f, cudaFuncAttribute what, int bytes)
{
    return static_cast<cudaError_t>(emu_allow_shared(
        reinterpret_cast<const void *>(f), what, bytes));
}

#endif
