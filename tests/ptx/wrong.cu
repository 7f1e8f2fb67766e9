/*
** wrong.cu - small kernels, each right or with one mistake, for the test that
** the interpreter finds such mistakes (finds.c).
*/
#include <cuda_runtime.h>

#include <cstdint>

#include "wrong.h"

/* Every kernel: x[i] = 31 - i for 32 or 64 threads, unless it is wrong. */

static __global__ void through_shared(int *x, bool wrong)
{
    __shared__ int room[64];

    room[threadIdx.x] = 0;
    __syncthreads();
    room[threadIdx.x] = static_cast<int>(threadIdx.x);
    if (!wrong) __syncthreads();
    x[threadIdx.x] = room[63 - threadIdx.x] - 32;
}

static __global__ void through_warp(int *x, bool wrong)
{
    __shared__ int room[32];

    room[threadIdx.x] = 0;
    __syncwarp();
    room[threadIdx.x] = static_cast<int>(threadIdx.x);
    if (!wrong) __syncwarp();
    x[threadIdx.x] = room[31 - threadIdx.x];
}

/* Two blocks; the wrong ones write the same elements. */
static __global__ void two_blocks(int *x, bool wrong)
{
    int i = static_cast<int>(threadIdx.x + (wrong ? 0 : blockIdx.x * 32));

    x[i] = 31 - i;
}

static __global__ void out_of_bounds(int *x, bool wrong)
{
    int i = static_cast<int>(threadIdx.x);

    x[i + (wrong && i == 63 ? 1 : 0)] = 31 - i;
}

static __global__ void unaligned(int *x, bool wrong)
{
    int i = static_cast<int>(threadIdx.x);
    int2 *p = reinterpret_cast<int2 *>(x + (wrong ? 1 : 0)) + i;

    if (i < 31) *p = make_int2(31 - 2 * i, 30 - 2 * i);
    else x[62] = -31, x[63] = -32;
}

static __global__ void unset(int *x, bool wrong)
{
    __shared__ int room[64];
    int i = static_cast<int>(threadIdx.x);

    if (!wrong || i < 32) room[i] = i;
    __syncthreads();
    x[i] = room[63 - i] - 32;
}

static __global__ void without_all_lanes(int *x, bool wrong)
{
    int i = static_cast<int>(threadIdx.x), v = 0;

    if (!wrong || i % 32 < 16) v = __shfl_sync(0xffffffffu, 31 - i, i % 32);
    x[i] = v;
}

static __global__ void divided_barrier(int *x, bool wrong)
{
    int i = static_cast<int>(threadIdx.x);

    if (!wrong || x[i] != 5) __syncthreads();
    x[i] = 31 - i;
}

/* x[i] comes from x[i + 64] by cp.async, four ints a thread. */
static __global__ void copied(int *x, bool wrong)
{
    __shared__ __align__(16) int room[64];
    unsigned i = threadIdx.x;
    uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(room));

    if (i < 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n"
                     :: "r"(to + i * 16),
                        "l"(__cvta_generic_to_global(x + 64 + 4 * i))
                     : "memory");
    if (!wrong) asm volatile("cp.async.wait_all;\n" ::: "memory");
    __syncthreads();
    x[i] = room[i];
}

bool wrong_launch(enum wrong_kind kind, bool wrong, int *x)
{
    static void (*const kernel[])(int *, bool) = {
        through_shared, through_warp, two_blocks, out_of_bounds, unaligned,
        unset, without_all_lanes, divided_barrier, copied
    };
    unsigned threads = kind == WRONG_WARP || kind == WRONG_BLOCKS ? 32 : 64;

    if (kind == WRONG_ALIGNMENT) threads = 32;
    kernel[kind]<<<kind == WRONG_BLOCKS ? 2 : 1, threads>>>(x, wrong);
    return cudaGetLastError() == cudaSuccess;
}
