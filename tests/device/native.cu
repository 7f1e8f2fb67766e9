/*
** native.cu - lets tests/cuda/test_cuda_*.c, written for emulated threads,
** run against the real module on a real GPU.
**
** Those tests hand one and the same host memory to the cpu device and to the
** cuda device. Here malloc and its kin are wrapped (-Wl,--wrap) and give
** pinned memory, which a GPU reads and writes at the same address. Run with
** CUDA_LAUNCH_BLOCKING=1, so that results are there when a call returns. The
** emulator's controls do nothing: a GPU chooses its own order of threads,
** so three runs that agree are three runs that agree.
*/
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tests/emu/control.h"

extern "C" {

void *__real_malloc(size_t n);
void __real_free(void *p);

/* Sizes stand in front, for realloc. */
static const size_t head = 256;

void *__wrap_malloc(size_t n)
{
    void *p = nullptr;

    cudaError_t rc = cudaMallocHost(&p, n + head);
    if (rc != cudaSuccess) {
        /* nothing can be tested, and nothing be said through malloc */
        dprintf(2, "no pinned memory: %s\n", cudaGetErrorString(rc));
        _exit(5);
    }
    memcpy(p, &n, sizeof n);
    return static_cast<char *>(p) + head;
}

/* Memory that the C library itself has given out is not pinned. */
static bool is_pinned(void *p)
{
    cudaPointerAttributes a;

    if (cudaPointerGetAttributes(&a, p) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    return a.type == cudaMemoryTypeHost;
}

void __wrap_free(void *p)
{
    if (p == nullptr) return;
    if (is_pinned(p)) cudaFreeHost(static_cast<char *>(p) - head);
    else __real_free(p);
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p = nullptr;

    if (size != 0 && n > SIZE_MAX / size) return nullptr;
    p = __wrap_malloc(n * size);
    return p == nullptr ? p : memset(p, 0, n * size);
}

void *__wrap_realloc(void *old, size_t n)
{
    void *p = __wrap_malloc(n);
    size_t had;

    if (old == nullptr || p == nullptr) return p;
    memcpy(&had, static_cast<char *>(old) - head, sizeof had);
    memcpy(p, old, had < n ? had : n);
    __wrap_free(old);
    return p;
}

void emu_set_order(enum emu_order, uint64_t) {}
void emu_grouped_missing(bool) {}
void *emu_sparse_new(size_t) { return nullptr; }
void emu_sparse_free(void *, size_t) {}
long emu_fail_at(long) { return 0; }
bool emu_api_fails(void) { return false; }
long emu_held_bytes(void) { return 0; }
long emu_open_handles(void) { return 0; }

}
