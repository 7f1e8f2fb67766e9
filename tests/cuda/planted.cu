/*
** planted.cu - kernels with mistakes in them, for the tests that show that
** the emulator finds such mistakes.
*/
#include "cu.cuh"

#include "planted.h"

int planted_grid(int64_t n, int64_t per_block, unsigned *out, struct err *e)
{
    return cu_grid(n, per_block, out, e);
}

/* A block's sum through shared memory, with the barrier between writing and
** reading or without it. */
static __global__ void block_sum(const int *x, int *sum, bool barrier)
{
    __shared__ int room[64];

    room[threadIdx.x] = 0;
    __syncthreads();
    room[threadIdx.x] = x[threadIdx.x];
    if (barrier) __syncthreads();
    if (threadIdx.x != 5) return;
    *sum = 0;
    for (int i = 0; i < 64; i++) *sum += room[i];
}

int planted_sum(const int *x, bool barrier)
{
    int sum = -1, *out = &sum;

    LAUNCH(block_sum, 1, 64, 0, nullptr, x, out, barrier);
    return sum;
}

/* Threads beyond n write too. */
static __global__ void fill_all(int *x)
{
    x[threadIdx.x] = 1;
}

void planted_overrun(int *x, int threads)
{
    LAUNCH(fill_all, 1, static_cast<unsigned>(threads), 0, nullptr, x);
}

/* A thread of shared memory that is one too small. */
static __global__ void fill_shared(int *out)
{
    DYNAMIC_SHARED(int, room);

    room[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) *out = room[0];
}

void planted_shared_overrun(int *out, int threads, int room)
{
    LAUNCH(fill_shared, 1, static_cast<unsigned>(threads),
           static_cast<size_t>(room) * sizeof(int), nullptr, out);
}

/* Half of the block waits where the other half does not come. */
static __global__ void split_barrier()
{
    if (threadIdx.x < 32) __syncthreads();
    else __syncwarp();
    if (threadIdx.x < 32) __shfl_sync(0xffffffffu, 1, 0);
    else if (threadIdx.x % 2 == 0) __shfl_sync(0xffffffffu, 1, 0);
}

void planted_deadlock(void)
{
    LAUNCH(split_barrier, 1, 64, 0, nullptr);
}

/* ---- launches that a GPU would not take --------------------------------- */

static __global__ void nothing()
{
}

bool planted_launch(unsigned grid_y, unsigned threads, int shared, bool allow)
{
    if (allow && cudaFuncSetAttribute(
                     nothing, cudaFuncAttributeMaxDynamicSharedMemorySize,
                     shared) != cudaSuccess)
        return false;
    LAUNCH(nothing, dim3(1, grid_y), threads, static_cast<size_t>(shared),
           nullptr);
    return cudaGetLastError() == cudaSuccess;
}

/* ---- a stream that is not waited for ------------------------------------ */

int planted_late_copy(bool wait)
{
    cudaStream_t s;
    cudaEvent_t copied;
    int from = 1, to = 0;

    if (cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) != cudaSuccess ||
        cudaEventCreateWithFlags(&copied, cudaEventDisableTiming) !=
            cudaSuccess)
        return -1;
    cudaMemcpyAsync(&to, &from, sizeof to, cudaMemcpyHostToDevice, s);
    cudaEventRecord(copied, s);
    if (wait) cudaEventSynchronize(copied);
    from = 2;
    cudaStreamSynchronize(s);
    cudaEventDestroy(copied);
    cudaStreamDestroy(s);
    return to;
}

int planted_two_streams(bool wait)
{
    cudaStream_t first, second;
    cudaEvent_t written;
    int from = 1, between = 0, to = 0;

    if (cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking) !=
            cudaSuccess ||
        cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking) !=
            cudaSuccess ||
        cudaEventCreateWithFlags(&written, cudaEventDisableTiming) !=
            cudaSuccess)
        return -1;
    cudaMemcpyAsync(&between, &from, sizeof to, cudaMemcpyDefault, first);
    cudaEventRecord(written, first);
    if (wait) cudaStreamWaitEvent(second, written);
    cudaMemcpyAsync(&to, &between, sizeof to, cudaMemcpyDefault, second);
    cudaStreamSynchronize(second);
    cudaStreamSynchronize(first);
    cudaEventDestroy(written);
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
    return to;
}

/* ---- a sum that cuBLAS may split ---------------------------------------- */

/* 5, 63 times 4, 64 times 0, 64 times -4: the first part of 64 is 257, which
** bf16 cannot hold. */
float planted_long_sum(bool forbid)
{
    __nv_bfloat16 x[192], one[192], out[1];
    float alpha = 1, beta = 0;
    cublasHandle_t h;

    for (int i = 0; i < 192; i++) {
        one[i] = __float2bfloat16(1);
        x[i] = __float2bfloat16(i < 64 ? 4.0f : i < 128 ? 0.0f : -4.0f);
    }
    x[0] = __float2bfloat16(5);
    if (cublasCreate(&h) != CUBLAS_STATUS_SUCCESS) return -1;
    if (forbid)
        cublasSetMathMode(h, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    cublasGemmEx(h, CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, 192, &alpha, x,
                 CUDA_R_16BF, 192, one, CUDA_R_16BF, 192, &beta, out,
                 CUDA_R_16BF, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    cublasDestroy(h);
    return __bfloat162float(out[0]);
}
