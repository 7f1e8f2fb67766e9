/*
** grouped.cpp - cuBLAS's grouped products, plain loops. The addresses of their
** matrices lie in device memory, so they are read when the stream is there.
*/
#include <cublas_v2.h>
#include <cuda_bf16.h>

#include <vector>

#include "tests/emu/api.h"

static bool missing;

extern "C" void emu_grouped_missing(bool is)
{
    missing = is;
}

namespace {

struct shape {
    cublasOperation_t ta, tb;
    int m, n, k, lda, ldb, ldc;
    float alpha, beta;
};

float get(const void *p, cudaDataType t, int64_t i)
{
    return t == CUDA_R_32F
        ? static_cast<const float *>(p)[i]
        : __bfloat162float(static_cast<const __nv_bfloat16 *>(p)[i]);
}

void put(void *p, cudaDataType t, int64_t i, double v)
{
    float f = static_cast<float>(v);

    if (t == CUDA_R_32F) static_cast<float *>(p)[i] = f;
    else static_cast<__nv_bfloat16 *>(p)[i] = __float2bfloat16(f);
}

/* C = alpha op(A) op(B) + beta C, column-major. */
void product(const shape &s, cudaDataType t, const void *a, const void *b,
             void *c)
{
    bool na = s.ta == CUBLAS_OP_N, nb = s.tb == CUBLAS_OP_N;

    for (int64_t j = 0; j < s.n; j++)
        for (int64_t i = 0; i < s.m; i++) {
            double sum = 0;

            for (int64_t x = 0; x < s.k; x++)
                sum += double{get(a, t, na ? x * s.lda + i : i * s.lda + x)} *
                       get(b, t, nb ? j * s.ldb + x : x * s.ldb + j);
            put(c, t, j * s.ldc + i, s.alpha * sum + (s.beta != 0
                ? s.beta * get(c, t, j * s.ldc + i) : 0));
        }
}

}  // namespace

cublasStatus_t cublasGemmGroupedBatchedEx(
    cublasHandle_t h, const cublasOperation_t ta[],
    const cublasOperation_t tb[], const int m[], const int n[], const int k[],
    const void *alpha, const void *const a[], cudaDataType t,
    const int lda[], const void *const b[], cudaDataType bt, const int ldb[],
    const void *beta, void *const c[], cudaDataType ct, const int ldc[],
    int groups, const int size[], cublasComputeType_t compute)
{
    std::vector<shape> all;

    EMU_CALL(CUBLAS_STATUS_EXECUTION_FAILED);
    if (missing || bt != t || ct != t || compute != CUBLAS_COMPUTE_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (int g = 0; g < groups; g++) {
        if (m[g] < 1 || n[g] < 1 || k[g] < 1)
            return CUBLAS_STATUS_INVALID_VALUE;
        all.insert(all.end(), static_cast<size_t>(size[g]), shape{
            ta[g], tb[g], m[g], n[g], k[g], lda[g], ldb[g], ldc[g],
            static_cast<const float *>(alpha)[g],
            static_cast<const float *>(beta)[g]});
    }
    /* a handle begins with its stream */
    emu_stream_push(*reinterpret_cast<cudaStream_t *>(h), [=] {
        for (size_t i = 0; i < all.size(); i++)
            product(all[i], t, a[i], b[i], c[i]);
        return true;
    });
    return CUBLAS_STATUS_SUCCESS;
}
