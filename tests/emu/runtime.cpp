/* runtime.cpp - devices, memory and copies of tests/emu; see api.h */
#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/emu/api.h"

#define CALL EMU_CALL(cudaErrorLaunchFailure)

static const size_t total_memory = size_t{8} << 30;
static std::atomic<size_t> used_memory;

long emu_held_bytes(void) { return static_cast<long>(used_memory.load()); }

const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    default: return "invalid argument";
    }
}
const char *cudaGetErrorName(cudaError_t e) { return cudaGetErrorString(e); }
/* EMU_GPUS, 2 without it. */
cudaError_t cudaGetDeviceCount(int *n)
{
    const char *text = getenv("EMU_GPUS");

    CALL;
    *n = text != nullptr ? atoi(text) : 2;
    return *n > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaSetDevice(int) { CALL; return cudaSuccess; }
cudaError_t cudaGetDevice(int *i) { CALL; *i = 0; return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int i)
{
    CALL;
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "emulated GPU %d", i);
    p->totalGlobalMem = total_memory;
    p->major = 9;
    p->multiProcessorCount = 4;
    p->sharedMemPerBlockOptin = 227 * 1024;
    p->pciBusID = i;
    return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int, int)
{
    CALL;
    *can = 1;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *v) { CALL; *v = 0; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *v) { CALL; *v = 0; return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    CALL;
    *free_bytes = total_memory - used_memory;
    *total_bytes = total_memory;
    return cudaSuccess;
}

/* Sizes are kept in front, so that frees can be counted. */
static const size_t head = 512;

static cudaError_t give(void **p, size_t n)
{
    EMU_CALL(cudaErrorMemoryAllocation);
    void *raw = nullptr;
    if (n > total_memory || posix_memalign(&raw, head, n + head) != 0)
        return cudaErrorMemoryAllocation;
    memcpy(raw, &n, sizeof n);
    used_memory += n;
    *p = static_cast<char *>(raw) + head;
    /* large segments stay untouched, so that they cost nothing */
    memset(*p, 0xff, n < (1 << 20) ? n : 0);
    return cudaSuccess;
}
static cudaError_t take(void *p)
{
    char *raw = static_cast<char *>(p) - head;
    size_t n;
    memcpy(&n, raw, sizeof n);
    used_memory -= n;
    free(raw);
    return emu_api_fails() ? cudaErrorLaunchFailure : cudaSuccess;
}
cudaError_t cudaMalloc(void **p, size_t n)
{
    cudaError_t rc = give(p, n);
    if (rc == cudaSuccess) emu_memory_given(*p, n);
    return rc;
}
/* Waits for the device, as CUDA's does. */
cudaError_t cudaFree(void *p)
{
    if (p == nullptr) return cudaSuccess;
    emu_finish_all();
    emu_memory_taken(p);
    return take(p);
}
cudaError_t cudaMallocHost(void **p, size_t n)
{
    return give(p, n);
}
cudaError_t cudaFreeHost(void *p)
{
    if (p == nullptr) return cudaSuccess;
    emu_finish_all();
    return take(p);
}
cudaError_t cudaMemcpy(void *dst, const void *src, size_t n, cudaMemcpyKind)
{
    CALL;
    if (n > 0) memmove(dst, src, n);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n,
                            cudaMemcpyKind, cudaStream_t s)
{
    CALL;
    emu_stream_push(s, [=] {
        if (n > 0) memmove(dst, src, n);
        return true;
    });
    return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void *dst, size_t dp, const void *src,
                              size_t sp, size_t width, size_t rows,
                              cudaMemcpyKind, cudaStream_t s)
{
    CALL;
    emu_stream_push(s, [=] {
        for (size_t i = 0; i < rows; i++)
            memmove(static_cast<char *>(dst) + i * dp,
                    static_cast<const char *>(src) + i * sp, width);
        return true;
    });
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t s)
{
    CALL;
    emu_stream_push(s, [=] {
        if (n > 0) memset(p, v, n);
        return true;
    });
    return cudaSuccess;
}
