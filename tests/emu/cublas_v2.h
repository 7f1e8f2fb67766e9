/*
** cublas_v2.h - stand-in: the GEMMs this project calls, as plain loops that
** accumulate in float (or double).
*/
#ifndef EMU_CUBLAS_V2_H
#define EMU_CUBLAS_V2_H

#include "cuda_bf16.h"
#include "cuda_runtime.h"

enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
};
typedef struct cublasContext *cublasHandle_t;
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16BF = 14 };
typedef cudaDataType_t cudaDataType;
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
enum cublasMath_t {
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_PEDANTIC_MATH = 2,
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
};

cublasStatus_t cublasCreate(cublasHandle_t *h);
cublasStatus_t cublasDestroy(cublasHandle_t h);
cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t s);
cublasStatus_t cublasSetWorkspace(cublasHandle_t h, void *p, size_t n);
cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t mode);
cublasStatus_t cublasGetVersion(cublasHandle_t h, int *v);
enum libraryPropertyType { MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL };
cublasStatus_t cublasGetProperty(libraryPropertyType what, int *v);
const char *cublasGetStatusString(cublasStatus_t s);
/* Column-major C = alpha op(A) op(B) + beta C. */
cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta,
                            cublasOperation_t tb, int m, int n, int k,
                            const void *alpha, const void *a,
                            cudaDataType a_type, int lda, const void *b,
                            cudaDataType b_type, int ldb, const void *beta,
                            void *c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute,
                            cublasGemmAlgo_t algo);
/* Groups of products, group_size[g] in each, their matrices through arrays of
** device memory; see CUDA's documentation. */
cublasStatus_t cublasGemmGroupedBatchedEx(
    cublasHandle_t h, const cublasOperation_t ta[],
    const cublasOperation_t tb[], const int m[], const int n[], const int k[],
    const void *alpha, const void *const a[], cudaDataType a_type,
    const int lda[], const void *const b[], cudaDataType b_type,
    const int ldb[], const void *beta, void *const c[], cudaDataType c_type,
    const int ldc[], int group_count, const int group_size[],
    cublasComputeType_t compute);

#endif
