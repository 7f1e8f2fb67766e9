/*
** emu.h - CUDA threads on a CPU, for testing kernels without a GPU.
**
** The .cu sources of the project are compiled as C++ against the headers of
** this folder, which stand in for the CUDA runtime, cuBLAS and NCCL. A launch
** runs its blocks one after another in one thread; the threads of a
** block are fibers that switch only where CUDA threads may wait for each
** other: __syncthreads, __syncwarp and the warp primitives. Which block and
** which fiber runs next is chosen by emu_set_order, so that a result that
** depends on a missing barrier shows: it differs between orders.
**
** Device memory is host memory (cudaMalloc is malloc, so ASan sees stray
** accesses), dynamic shared memory is an allocation of exactly the size that
** was asked for, and both are filled with a pattern of NaNs, so that reads
** of unset memory show. All API calls are counted, and the n-th can be made
** to fail.
*/
#ifndef EMU_H
#define EMU_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1)
        : x(a), y(b), z(c) {}
};

#include "api.h"

struct emu_place { dim3 thread, block, block_dim, grid_dim; };
const emu_place *emu_here(void);
void *emu_dynamic_shared(void);

/* Waits until all living threads of the block are here. */
void emu_barrier(void);
/* Waits for the lanes of mask, each of which leaves n bytes (<= 64); then
** out[lane] points at what lane left, valid until this lane's next call. */
void emu_warp(unsigned mask, const void *mine, size_t n,
              const void *out[32]);
unsigned emu_lane(void);

/* Runs the closure for every thread of every block. */
typedef void (*emu_body)(void *closure);
void emu_run(dim3 grid, dim3 block, size_t shared, emu_body body,
             void *closure);

/* A kernel on a stream, with its arguments as they are now. */
template <typename... P, typename... A>
void emu_launch(struct CUstream_st *stream, dim3 grid, dim3 block,
                size_t shared, void (*kernel)(P...), A... a)
{
    std::tuple<P...> args(a...);

    if (!emu_may_launch(reinterpret_cast<const void *>(kernel),
                        {grid.x, grid.y, grid.z},
                        {block.x, block.y, block.z}, shared))
        return;
    emu_stream_push(stream, [=] {
        auto body = [=] { std::apply(kernel, args); };

        emu_run(grid, block, shared,
                [](void *c) { (*static_cast<decltype(body) *>(c))(); },
                const_cast<void *>(static_cast<const void *>(&body)));
        return true;
    });
}

#endif
