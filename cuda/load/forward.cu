/*
** forward.cu - the calls of cuBLAS and NCCL that this module makes, forwarded
** to the libraries when the first of them is made. So the module loads where
** one of them is missing, and is missed only by what needs it. Tests have
** libraries of their own and leave this file out.
*/
#include <dlfcn.h>

#include <cstdio>

/* These are the module's own, not for others to find. */
#pragma GCC visibility push(hidden)
#include <cublas_v2.h>
#ifdef PEAKPROOF_NCCL
#include <nccl.h>
#endif
#pragma GCC visibility pop

extern "C" {
#include "dev/libs.h"
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

namespace {

struct library {
    void *handle;
    struct err missing;         /* why there is no handle */
    explicit library(const char *name) : handle(nullptr), missing()
    {
        handle = libs_open(name, &missing);
    }
    void *find(const char *name) const
    {
        return handle != nullptr ? dlsym(handle, name) : nullptr;
    }
};

const library &blas()
{
    static const library l("libcublas.so." TEXT(CUBLAS_VER_MAJOR));

    return l;
}

}  // namespace

#define FORWARD(from, type, name, params, args, otherwise)               \
    extern "C" __attribute__((visibility("hidden"))) type name params    \
    {                                                                    \
        static type(*const f) params =                                   \
            reinterpret_cast<type(*) params>(from().find(#name));        \
        return f != nullptr ? f args : otherwise;                        \
    }
#define BLAS(name, params, args)                                         \
    FORWARD(blas, cublasStatus_t, name, params, args,                    \
            CUBLAS_STATUS_NOT_INITIALIZED)

BLAS(cublasCreate_v2, (cublasHandle_t *h), (h))
BLAS(cublasDestroy_v2, (cublasHandle_t h), (h))
BLAS(cublasSetStream_v2, (cublasHandle_t h, cudaStream_t s), (h, s))
BLAS(cublasSetWorkspace_v2, (cublasHandle_t h, void *p, size_t n), (h, p, n))
BLAS(cublasSetMathMode, (cublasHandle_t h, cublasMath_t m), (h, m))
BLAS(cublasGetProperty, (libraryPropertyType t, int *v), (t, v))
BLAS(cublasGemmEx,
     (cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
      int n, int k, const void *alpha, const void *a, cudaDataType at, int lda,
      const void *b, cudaDataType bt, int ldb, const void *beta, void *c,
      cudaDataType ct, int ldc, cublasComputeType_t type,
      cublasGemmAlgo_t algo),
     (h, ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc,
      type, algo))
BLAS(cublasGemmGroupedBatchedEx,
     (cublasHandle_t h, const cublasOperation_t ta[],
      const cublasOperation_t tb[], const int m[], const int n[],
      const int k[], const void *alpha, const void *const a[],
      cudaDataType_t at, const int lda[], const void *const b[],
      cudaDataType_t bt, const int ldb[], const void *beta, void *const c[],
      cudaDataType_t ct, const int ldc[], int groups, const int size[],
      cublasComputeType_t type),
     (h, ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc,
      groups, size, type))
FORWARD(blas, const char *, cublasGetStatusString, (cublasStatus_t s), (s),
        blas().missing.text)

#ifdef PEAKPROOF_NCCL

static const library &nccl()
{
    static const library l("libnccl.so.2");

    return l;
}

#define NCCL(name, params, args) \
    FORWARD(nccl, ncclResult_t, name, params, args, ncclSystemError)

NCCL(ncclGetVersion, (int *v), (v))
NCCL(ncclGetUniqueId, (ncclUniqueId *id), (id))
NCCL(ncclCommInitRankConfig,
     (ncclComm_t *c, int n, ncclUniqueId id, int rank, ncclConfig_t *config),
     (c, n, id, rank, config))
NCCL(ncclCommGetAsyncError, (ncclComm_t c, ncclResult_t *r), (c, r))
NCCL(ncclCommAbort, (ncclComm_t c), (c))
NCCL(ncclCommFinalize, (ncclComm_t c), (c))
NCCL(ncclCommDestroy, (ncclComm_t c), (c))
NCCL(ncclGroupStart, (), ())
NCCL(ncclGroupEnd, (), ())
NCCL(ncclSend,
     (const void *p, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
      cudaStream_t s), (p, n, t, peer, c, s))
NCCL(ncclRecv,
     (void *p, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
      cudaStream_t s), (p, n, t, peer, c, s))
NCCL(ncclAllGather,
     (const void *from, void *to, size_t n, ncclDataType_t t, ncclComm_t c,
      cudaStream_t s), (from, to, n, t, c, s))
FORWARD(nccl, const char *, ncclGetErrorString, (ncclResult_t r), (r),
        nccl().missing.text)
FORWARD(nccl, const char *, ncclGetLastError, (ncclComm_t c), (c), "")

#endif
