/*
** kernels.cu - the table of the cuda device's kernels, and the same table
** watched: each call is waited for, so that a fault names its operator (a GPU
** reports it at a later call otherwise) and its time can be taken.
*/
#include "cu.cuh"

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#define CU_PLAIN(name) cu_##name,
#define CU_NUMBER(name) OP_##name,
#define CU_NAME(name) #name,
#define CU_WATCHED(name) watched<k_##name, cu_##name, OP_##name>,

enum { KERNELS(CU_NUMBER) OP_COUNT };
static const char *const op_name[] = {KERNELS(CU_NAME)};

struct cu_watch { int64_t calls[OP_COUNT], ns[OP_COUNT]; };

static int64_t now_ns()
{
    using namespace std::chrono;

    return duration_cast<nanoseconds>(
        steady_clock::now().time_since_epoch()).count();
}

template <typename A, int (*run)(struct dev *, const A *, struct err *),
          int op>
static int watched(struct dev *d, const A *a, struct err *e)
{
    struct cu *c = cu_of(d);
    int64_t from = now_ns();
    int rc = run(d, a, e);

    if (rc != ERR_OK) return err_wrap(e, "%s", op_name[op]);
    cudaError_t fault = cudaStreamSynchronize(c->stream);
    if (fault != cudaSuccess)
        return err_set(e, ERR_RUN, "cuda: operator %s: %s", op_name[op],
                       cudaGetErrorString(fault));
    c->watch->calls[op]++;
    c->watch->ns[op] += now_ns() - from;
    return ERR_OK;
}

const struct kernels cu_kernels = {KERNELS(CU_PLAIN)};
static const struct kernels cu_watched = {KERNELS(CU_WATCHED)};

int cu_watch_open(struct cu *c, struct err *e)
{
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");

    c->dev.k = &cu_kernels;
    if (getenv("PEAKPROOF_CUDA_TIMES") == nullptr &&
        (blocking == nullptr || blocking[0] != '1')) return ERR_OK;
    c->watch = static_cast<struct cu_watch *>(calloc(1, sizeof *c->watch));
    if (c->watch == nullptr) return err_nomem(e);
    c->dev.k = &cu_watched;
    return ERR_OK;
}

/* A line an operator, behind those of other ranks and cases. */
static void put_times(const struct cu *c, const char *path)
{
    FILE *f = fopen(path, "a");

    if (f == nullptr) return;
    for (int i = 0; i < OP_COUNT; i++)
        if (c->watch->calls[i] > 0)
            fprintf(f, "%d,%s,%" PRId64 ",%.6f\n", c->rank, op_name[i],
                    c->watch->calls[i],
                    static_cast<double>(c->watch->ns[i]) / 1e9);
    fclose(f);
}

void cu_watch_close(struct cu *c)
{
    const char *path = getenv("PEAKPROOF_CUDA_TIMES");

    if (c->watch == nullptr) return;
    if (path != nullptr) put_times(c, path);
    free(c->watch);
}
