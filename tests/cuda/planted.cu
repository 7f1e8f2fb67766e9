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
