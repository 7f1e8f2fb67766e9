/* null.cpp - a CUDA runtime and cuBLAS that count; see wave.h */
#include <cublas_v2.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "tests/emu/api.h"
#include "tests/wave/wave.h"

/* ---- counts ------------------------------------------------------------- */

struct row { double times, blocks, ns; wave_work work; };
typedef std::tuple<std::string, const char *, const void *> key;

static std::mutex lock;
static std::map<key, row> &rows()
{
    static std::map<key, row> *all = new std::map<key, row>;
    return *all;
}
static thread_local const char *now = "-";

static void write_rows()
{
    const char *path = getenv("WAVE_COUNTS");
    FILE *f = path == nullptr ? nullptr : fopen(path, "w");

    if (f == nullptr) return;
    for (const auto &r : rows()) {
        const void *kernel = std::get<2>(r.first);
        const row &n = r.second;

        fprintf(f, "%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\n",
                std::get<0>(r.first).c_str(),
                kernel != nullptr ? wave_name(kernel).c_str()
                                  : std::get<1>(r.first),
                n.times, n.blocks, n.work.bytes, n.work.operations,
                n.work.tiles, n.ns);
    }
    fclose(f);
}

void wave_count(const char *what, const void *kernel, double blocks)
{
    std::lock_guard<std::mutex> hold(lock);
    static int once = (atexit(write_rows), 0);
    row &r = rows()[key(now, what, kernel)];

    (void)once;
    r.times++;
    r.blocks += blocks;
}

void wave_operator(const char *name, const struct wave_work *work)
{
    now = name;
    if (work == nullptr) return;
    wave_count("-", nullptr, 0);
    std::lock_guard<std::mutex> hold(lock);
    row &r = rows()[key(name, "-", nullptr)];
    wave_work &sum = r.work;
    double by_bytes = work->bytes / WAVE_BYTES * 1e9;
    double by_operations = work->operations / WAVE_OPERATIONS * 1e9;
    r.ns += by_bytes > by_operations ? by_bytes : by_operations;
    sum.bytes += work->bytes;
    sum.operations += work->operations;
    sum.tiles += work->tiles;
}

/* ---- launches, streams, events ------------------------------------------ */

bool emu_may_launch(const void *kernel, emu_shape grid, emu_shape, size_t)
{
    wave_count("kernel", kernel, double{1} * grid.x * grid.y * grid.z);
    return false;
}
int emu_allow_shared(const void *, int, int) { return cudaSuccess; }
void emu_stream_push(cudaStream_t, std::function<bool()>) {}
void emu_stream_drop(cudaStream_t) {}
void emu_finish_all(void) {}
void emu_handle_opened(int) {}

#define NOTHING(name, ...) cudaError_t name(__VA_ARGS__) { return cudaSuccess; }
#define WAITS(name, ...)                       \
    cudaError_t name(__VA_ARGS__)              \
    {                                          \
        wave_count("wait", nullptr, 0);        \
        return cudaSuccess;                    \
    }

NOTHING(cudaGetLastError, )
NOTHING(cudaPeekAtLastError, )
NOTHING(cudaStreamDestroy, cudaStream_t)
NOTHING(cudaStreamQuery, cudaStream_t)
NOTHING(cudaStreamWaitEvent, cudaStream_t, cudaEvent_t, unsigned)
NOTHING(cudaEventDestroy, cudaEvent_t)
NOTHING(cudaEventRecord, cudaEvent_t, cudaStream_t)
WAITS(cudaStreamSynchronize, cudaStream_t)
WAITS(cudaDeviceSynchronize, )
WAITS(cudaEventSynchronize, cudaEvent_t)

static char somewhere[8];       /* what handles point at */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    *s = reinterpret_cast<cudaStream_t>(somewhere);
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    *e = reinterpret_cast<cudaEvent_t>(somewhere);
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    return cudaEventCreateWithFlags(e, 0);
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t)
{
    *ms = 0;
    return cudaSuccess;
}

/* ---- devices and memory ------------------------------------------------- */

static const size_t total_memory = size_t{141} * 1000 * 1000 * 1000;

const char *cudaGetErrorString(cudaError_t) { return "no error"; }
const char *cudaGetErrorName(cudaError_t) { return "no error"; }
NOTHING(cudaSetDevice, int)
cudaError_t cudaGetDeviceCount(int *n) { *n = 1; return cudaSuccess; }
cudaError_t cudaGetDevice(int *i) { *i = 0; return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
    memset(p, 0, sizeof *p);
    strcpy(p->name, "no GPU: calls are counted");
    p->totalGlobalMem = total_memory;
    p->major = 9;
    p->multiProcessorCount = 132;
    p->sharedMemPerBlockOptin = 227 * 1024;
    return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int, int)
{
    *can = 0;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *v) { *v = 0; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *v) { *v = 0; return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    *left = *total = total_memory;
    return cudaSuccess;
}

/* Addresses that nothing lies at. */
cudaError_t cudaMalloc(void **p, size_t n)
{
    static uintptr_t next = uintptr_t{1} << 45;

    wave_count("malloc", nullptr, 0);
    std::lock_guard<std::mutex> hold(lock);
    *p = reinterpret_cast<void *>(next);
    next += (n + (1 << 21)) >> 21 << 21;
    return cudaSuccess;
}
NOTHING(cudaFree, void *)
cudaError_t cudaMallocHost(void **p, size_t n)
{
    *p = malloc(n);
    return *p != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void *p) { free(p); return cudaSuccess; }

cudaError_t cudaMemcpyAsync(void *dst, const void *, size_t n,
                            cudaMemcpyKind kind, cudaStream_t)
{
    wave_count("copy", nullptr, 0);
    if (kind == cudaMemcpyDeviceToHost) memset(dst, 0, n);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *dst, const void *src, size_t n,
                       cudaMemcpyKind kind)
{
    return cudaMemcpyAsync(dst, src, n, kind, nullptr);
}
cudaError_t cudaMemcpy2DAsync(void *dst, size_t, const void *, size_t,
                              size_t, size_t, cudaMemcpyKind, cudaStream_t)
{
    return cudaMemcpyAsync(dst, nullptr, 0, cudaMemcpyHostToDevice, nullptr);
}
cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t)
{
    wave_count("copy", nullptr, 0);
    return cudaSuccess;
}

/* ---- cuBLAS ------------------------------------------------------------- */

#define BLAS(name, ...)                \
    cublasStatus_t name(__VA_ARGS__)   \
    {                                  \
        return CUBLAS_STATUS_SUCCESS;  \
    }

BLAS(cublasDestroy, cublasHandle_t)
BLAS(cublasSetStream, cublasHandle_t, cudaStream_t)
BLAS(cublasSetWorkspace, cublasHandle_t, void *, size_t)
BLAS(cublasSetMathMode, cublasHandle_t, cublasMath_t)
cublasStatus_t cublasCreate(cublasHandle_t *h)
{
    *h = reinterpret_cast<cublasHandle_t>(somewhere);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion(cublasHandle_t, int *v)
{
    *v = 0;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetProperty(libraryPropertyType, int *v)
{
    *v = 0;
    return CUBLAS_STATUS_SUCCESS;
}
const char *cublasGetStatusString(cublasStatus_t) { return "success"; }

cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t,
                            cublasOperation_t, int, int, int, const void *,
                            const void *, cudaDataType, int, const void *,
                            cudaDataType, int, const void *, void *,
                            cudaDataType, int, cublasComputeType_t,
                            cublasGemmAlgo_t)
{
    wave_count("cublas", nullptr, 0);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGemmGroupedBatchedEx(
    cublasHandle_t, const cublasOperation_t[], const cublasOperation_t[],
    const int[], const int[], const int[], const void *, const void *const[],
    cudaDataType, const int[], const void *const[], cudaDataType, const int[],
    const void *, void *const[], cudaDataType, const int[], int, const int[],
    cublasComputeType_t)
{
    wave_count("grouped", nullptr, 0);
    return CUBLAS_STATUS_SUCCESS;
}
