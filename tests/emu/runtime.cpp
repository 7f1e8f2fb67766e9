/* runtime.cpp - the CUDA runtime and cuBLAS of tests/emu; see api.h */
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <sched.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "tests/emu/api.h"

#define CALL EMU_CALL(cudaErrorLaunchFailure)
#define BLAS_CALL EMU_CALL(CUBLAS_STATUS_EXECUTION_FAILED)

static const size_t total_memory = size_t{8} << 30;
static std::atomic<size_t> used_memory;
static std::atomic<long> open_handles;

long emu_held_bytes(void) { return static_cast<long>(used_memory.load()); }
long emu_open_handles(void) { return open_handles.load(); }

const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    default: return "invalid argument";
    }
}
const char *cudaGetErrorName(cudaError_t e) { return cudaGetErrorString(e); }
cudaError_t cudaGetLastError() { CALL; return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
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
cudaError_t cudaFree(void *p)
{
    if (p == nullptr) return cudaSuccess;
    emu_memory_taken(p);
    return take(p);
}
cudaError_t cudaMallocHost(void **p, size_t n)
{
    return give(p, n);
}
cudaError_t cudaFreeHost(void *p)
{
    return p == nullptr ? cudaSuccess : take(p);
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

/* Work runs at once, unless NCCL's waits before it on the stream. */
struct CUstream_st { std::deque<std::function<bool()>> work; };

static bool stream_idle(cudaStream_t s)
{
    while (s != nullptr && !s->work.empty() && s->work.front()())
        s->work.pop_front();
    return s == nullptr || s->work.empty();
}
void emu_stream_push(cudaStream_t s, std::function<bool()> work)
{
    if (stream_idle(s) && work()) return;
    if (s == nullptr) abort();
    s->work.push_back(work);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    CALL;
    *s = new CUstream_st;
    open_handles++;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    delete s;
    open_handles--;
    return emu_api_fails() ? cudaErrorLaunchFailure : cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    CALL;
    while (!stream_idle(s)) sched_yield();
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned)
{
    CALL;
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t s)
{
    CALL;
    return stream_idle(s) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaDeviceSynchronize() { CALL; return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    CALL;
    *e = static_cast<cudaEvent_t>(malloc(1));
    open_handles++;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    return cudaEventCreateWithFlags(e, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    free(e);
    open_handles--;
    return emu_api_fails() ? cudaErrorLaunchFailure : cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t)
{
    CALL;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { CALL; return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t)
{
    CALL;
    *ms = 1;
    return cudaSuccess;
}

/* ---- cuBLAS ------------------------------------------------------------- */

struct cublasContext { cudaStream_t stream; };

cublasStatus_t cublasCreate(cublasHandle_t *h)
{
    BLAS_CALL;
    *h = new cublasContext{nullptr};
    open_handles++;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t h)
{
    delete h;
    open_handles--;
    return emu_api_fails() ? CUBLAS_STATUS_EXECUTION_FAILED
                           : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t s)
{
    BLAS_CALL;
    h->stream = s;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t, void *, size_t)
{
    BLAS_CALL;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t)
{
    BLAS_CALL;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion(cublasHandle_t, int *v)
{
    BLAS_CALL;
    *v = 0;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetProperty(libraryPropertyType, int *v)
{
    BLAS_CALL;
    *v = 0;
    return CUBLAS_STATUS_SUCCESS;
}
const char *cublasGetStatusString(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS"
                                      : "CUBLAS_STATUS_EXECUTION_FAILED";
}

static double element(const void *p, cudaDataType t, size_t i)
{
    if (t == CUDA_R_64F) return static_cast<const double *>(p)[i];
    if (t == CUDA_R_32F) return double{static_cast<const float *>(p)[i]};
    return double{__bfloat162float(
        static_cast<const __nv_bfloat16 *>(p)[i])};
}

static void put(void *p, cudaDataType t, size_t i, double v)
{
    if (t == CUDA_R_64F) static_cast<double *>(p)[i] = v;
    else if (t == CUDA_R_32F)
        static_cast<float *>(p)[i] = static_cast<float>(v);
    else
        static_cast<__nv_bfloat16 *>(p)[i] =
            __float2bfloat16(static_cast<float>(v));
}

static double scalar(const void *p, cublasComputeType_t c)
{
    return c == CUBLAS_COMPUTE_64F
        ? *static_cast<const double *>(p)
        : double{*static_cast<const float *>(p)};
}

cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta,
                            cublasOperation_t tb, int m, int n, int k,
                            const void *alpha, const void *a,
                            cudaDataType at, int lda, const void *b,
                            cudaDataType bt, int ldb, const void *beta,
                            void *c, cudaDataType ct, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t)
{
    BLAS_CALL;
    if (m < 0 || n < 0 || k < 0 || ldc < (m > 1 ? m : 1))
        return CUBLAS_STATUS_INVALID_VALUE;
    double scale = scalar(alpha, compute), keep = scalar(beta, compute);

    emu_stream_push(h->stream, [=] {
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < m; i++) {
                double sum = 0;
                size_t to = size_t(j * ldc + i);

                for (int64_t x = 0; x < k; x++)
                    sum += element(a, at, size_t(ta == CUBLAS_OP_N
                                                     ? x * lda + i
                                                     : i * lda + x)) *
                           element(b, bt, size_t(tb == CUBLAS_OP_N
                                                     ? j * ldb + x
                                                     : x * ldb + j));
                put(c, ct, to,
                    scale * sum + (keep != 0 ? keep * element(c, ct, to) : 0));
            }
        return true;
    });
    return CUBLAS_STATUS_SUCCESS;
}
