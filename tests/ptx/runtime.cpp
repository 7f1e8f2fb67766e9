/*
** runtime.cpp - what nvcc's host code asks of the CUDA runtime to register and
** launch kernels; the rest is tests/emu/runtime.cpp. PTX lies in the objects,
** as text where nvcc was told not to compress it. Also malloc and its kin
** (-Wl,--wrap): tests hand their host memory to kernels.
*/
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "ptx.h"
#include "tests/emu/api.h"

/* ---- kernels ------------------------------------------------------------ */

/* What an object registers, and each of its kernels once it is launched. */
struct object {
    std::unique_ptr<ptx_source> source;
};

struct kernel {
    object *from;
    std::string name;
    std::unique_ptr<ptx_code> code;
    const void *host;
    std::mutex lock;
};

/* Objects register before main, and are unmade after it. */
struct registry {
    std::map<const void *, kernel> kernels;     /* by host function */
};

static registry &all()
{
    static registry *r = new registry;
    return *r;
}

/* One launch runs at a time. */
static std::mutex running;

static void write_counts()
{
    for (auto &k : all().kernels) {
        static const ptx_counts none = {};
        ptx_count_add(k.second.name, k.second.code == nullptr
                                         ? &none : &k.second.code->count);
    }
}

/* Container: { u32 magic; u16 version, header bytes; u64 bytes } and entries
** { u16 kind (1: PTX), version; u32 header bytes; u64 bytes; ... }. */
static std::unique_ptr<ptx_source> find_ptx(const unsigned char *data)
{
    uint16_t head, kind;
    u64 size;
    size_t at;

    memcpy(&head, data + 6, 2);
    memcpy(&size, data + 8, 8);
    for (at = head; at < head + size;) {
        u32 skip;
        u64 bytes;

        memcpy(&kind, data + at, 2);
        memcpy(&skip, data + at + 4, 4);
        memcpy(&bytes, data + at + 8, 8);
        if (kind == 1)
            return std::unique_ptr<ptx_source>(new ptx_source(
                reinterpret_cast<const char *>(data + at + skip), bytes));
        at += skip + bytes;
    }
    fprintf(stderr, "ptx: an object without PTX\n");
    abort();
}

extern "C" {

void **__cudaRegisterFatBinary(void *wrapper)
{
    struct { int magic, version; const unsigned char *data; void *more; } w;
    object *o = new object;

    memcpy(&w, wrapper, sizeof w);
    o->source = find_ptx(w.data);
    return reinterpret_cast<void **>(o);
}

void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}

void __cudaRegisterFunction(void **handle, const char *host, char *,
                            const char *name, int, uint3 *, uint3 *, dim3 *,
                            dim3 *, int *)
{
    kernel &k = all().kernels[host];
    static int once = (atexit(write_counts), 0);

    (void)once;
    k.from = reinterpret_cast<object *>(handle);
    k.name = name;
    k.host = host;
}

/* ---- launches ----------------------------------------------------------- */

static thread_local struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configuration;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     struct CUstream_st *stream)
{
    configuration = {grid, block, shared, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block,
                                       size_t *shared, void *stream)
{
    *grid = configuration.grid;
    *block = configuration.block;
    *shared = configuration.shared;
    memcpy(stream, &configuration.stream, sizeof(cudaStream_t));
    return cudaSuccess;
}

static kernel *kernel_of(const void *host)
{
    auto at = all().kernels.find(host);

    return at == all().kernels.end() ? nullptr : &at->second;
}

static void build(kernel *k)
{
    std::lock_guard<std::mutex> held(k->lock);

    if (k->code == nullptr) k->code = ptx_build(k->from->source->read(k->name));
}

cudaError_t cudaFuncSetAttribute(const void *host, cudaFuncAttribute what,
                                 int value)
{
    return static_cast<cudaError_t>(emu_allow_shared(host, what, value));
}

static void launch(kernel *k, dim3 grid, dim3 block, void **args,
                   size_t shared, cudaStream_t stream)
{
    build(k);
    const ptx_function &f = k->code->f;
    if (!emu_may_launch(k->host, {grid.x, grid.y, grid.z},
                        {block.x, block.y, block.z},
                        f.static_shared + shared))
        return;
    std::vector<unsigned char> params(f.param_bytes + 16);

    for (size_t i = 0; i < f.param.size(); i++)
        memcpy(&params[f.param[i].offset], args[i], f.param[i].bytes);
    emu_stream_push(stream, [=] {
        std::lock_guard<std::mutex> held(running);

        ptx_run(k->code.get(), {grid.x, grid.y, grid.z},
                {block.x, block.y, block.z}, shared, params.data());
        return true;
    });
}

cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block,
                             void **args, size_t shared, cudaStream_t stream)
{
    kernel *k = kernel_of(host);

    if (k == nullptr) return cudaErrorInvalidDeviceFunction;
    launch(k, grid, block, args, shared, stream);
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host)
{
    *out = reinterpret_cast<cudaKernel_t>(kernel_of(host));
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t handle, dim3 grid, dim3 block,
                               void **args, size_t shared, cudaStream_t stream)
{
    launch(reinterpret_cast<kernel *>(handle), grid, block, args, shared,
           stream);
    return cudaSuccess;
}

}

void emu_memory_given(void *p, size_t n) { ptx_memory_add(p, n); }
void emu_memory_taken(void *p) { ptx_memory_drop(p); }

extern "C" {

/* ---- host memory -------------------------------------------------------- */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t n);
void __real_free(void *p);

void *__wrap_malloc(size_t n)
{
    void *p = __real_malloc(n);

    if (p != nullptr) ptx_memory_add(p, n);
    return p;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p = __real_calloc(n, size);

    if (p != nullptr) ptx_memory_add(p, n * size);
    return p;
}

void *__wrap_realloc(void *old, size_t n)
{
    if (old != nullptr) ptx_memory_drop(old);
    void *p = __real_realloc(old, n);

    if (p != nullptr) ptx_memory_add(p, n);
    return p;
}

void __wrap_free(void *p)
{
    if (p != nullptr) ptx_memory_drop(p);
    __real_free(p);
}

}
