/* cublas.cpp - the products of tests/emu; see api.h */
#include <cublas_v2.h>
#include <cuda_bf16.h>

#include "tests/emu/api.h"

#define BLAS_CALL EMU_CALL(CUBLAS_STATUS_EXECUTION_FAILED)

struct cublasContext { cudaStream_t stream; int math; };

cublasStatus_t cublasCreate(cublasHandle_t *h)
{
    BLAS_CALL;
    *h = new cublasContext{nullptr, 0};
    emu_handle_opened(1);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t h)
{
    delete h;
    emu_handle_opened(-1);
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
cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t mode)
{
    BLAS_CALL;
    h->math = mode;
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

struct product {
    bool ta, tb, split;
    int64_t k, lda, ldb;
    const void *a, *b;
    cudaDataType at, bt;
};

static double part_of(const product &p, int64_t i, int64_t j, int64_t from,
                      int64_t to)
{
    double sum = 0;

    for (int64_t x = from; x < to; x++)
        sum += element(p.a, p.at, size_t(p.ta ? i * p.lda + x
                                              : x * p.lda + i)) *
               element(p.b, p.bt, size_t(p.tb ? x * p.ldb + j
                                              : j * p.ldb + x));
    return sum;
}

/* A long sum of bf16 may be split, and its parts be kept in bf16 until they
** are added. */
static double sum_of(const product &p, int64_t i, int64_t j)
{
    const int64_t part = 64;
    double sum = 0;

    if (!p.split || p.k <= part) return part_of(p, i, j, 0, p.k);
    for (int64_t x = 0; x < p.k; x += part) {
        int64_t to = x + part < p.k ? x + part : p.k;
        sum += double{__bfloat162float(__float2bfloat16(
            static_cast<float>(part_of(p, i, j, x, to))))};
    }
    return sum;
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
    bool splits = ct == CUDA_R_16BF && !(h->math &
        CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    product p = {ta != CUBLAS_OP_N, tb != CUBLAS_OP_N, splits, k, lda, ldb,
                 a, b, at, bt};

    emu_stream_push(h->stream, [=] {
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < m; i++) {
                size_t to = size_t(j * ldc + i);
                put(c, ct, to, scale * sum_of(p, i, j) +
                    (keep != 0 ? keep * element(c, ct, to) : 0));
            }
        return true;
    });
    return CUBLAS_STATUS_SUCCESS;
}
