/*
** device.cu - the cuda device: segments by cudaMalloc, one stream and at most
** one cuBLAS handle a rank, copies, errors, room for host arrays that kernels
** read, and scratch.
*/
#include "cu.cuh"

#include <cstdlib>
#include <cstring>

static const size_t meta_room = size_t{1} << 20;

/* ---- errors ------------------------------------------------------------- */

int cu_error(cudaError_t rc, const char *call, const char *file, int line,
             struct err *e)
{
    enum err_code code = ERR_RUN;

    const char *hint = "";

    cudaGetLastError();     /* the next call starts clean */
    if (rc >= 700 && rc <= cudaErrorLaunchFailure)  /* the GPU stopped */
        hint = " (an earlier kernel's fault: CUDA_LAUNCH_BLOCKING=1 names it)";
    if (rc == cudaErrorMemoryAllocation) code = ERR_OOM;
    if (rc == cudaErrorNoDevice) code = ERR_DEVICE;
    return err_set(e, code, "cuda: %s (%s:%d): %s%s", cudaGetErrorString(rc),
                   file, line, call, hint);
}

int cu_blas_error(cublasStatus_t rc, const char *call, const char *file,
                  int line, struct err *e)
{
    return err_set(e, ERR_RUN, "cublas: %s (%s:%d): %s",
                   cublasGetStatusString(rc), file, line, call);
}

/* ---- segments ----------------------------------------------------------- */

static int segment_get(void *ctx, uint64_t bytes, uint64_t *addr,
                       struct err *e)
{
    struct cu *c = static_cast<struct cu *>(ctx);
    void *p = nullptr;

    if (c->limit != 0 && bytes > c->limit - c->taken)
        return err_set(e, ERR_OOM, "cuda: no segment of %llu bytes (%llu are "
                       "taken, limit %llu)", (unsigned long long)bytes,
                       (unsigned long long)c->taken,
                       (unsigned long long)c->limit);
    CU_TRY(cudaSetDevice(c->gpu));
    CU_TRY(cudaMalloc(&p, static_cast<size_t>(bytes)));
    c->taken += bytes;
    *addr = reinterpret_cast<uintptr_t>(p);
    return ERR_OK;
}

static void segment_put(void *ctx, uint64_t addr, uint64_t bytes)
{
    struct cu *c = static_cast<struct cu *>(ctx);

    /* kernels that still use it were launched before: cudaFree waits */
    cudaFree(reinterpret_cast<void *>(static_cast<uintptr_t>(addr)));
    c->taken -= bytes;
}

/* ---- open and close ----------------------------------------------------- */

static void cu_close(struct dev *d)
{
    struct cu *c = cu_of(d);

    if (d == nullptr) return;
    if (c->stream != nullptr) cudaStreamSynchronize(c->stream);
    if (c->blas != nullptr) cublasDestroy(c->blas);
    if (c->meta_free != nullptr) cudaEventDestroy(c->meta_free);
    for (cudaEvent_t m : c->mark)
        if (m != nullptr) cudaEventDestroy(m);
    if (c->meta != nullptr) cudaFree(c->meta);
    if (c->room != nullptr) cudaFree(c->room);
    if (c->stage != nullptr) cudaFreeHost(c->stage);
    if (c->stream != nullptr) cudaStreamDestroy(c->stream);
    cu_watch_close(c);
    free(c);
}

static int make_handles(struct cu *c, struct err *e)
{
    CU_TRY(cudaSetDevice(c->gpu));
    CU_TRY(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
    CU_TRY(cudaEventCreateWithFlags(&c->meta_free, cudaEventDisableTiming));
    for (cudaEvent_t &m : c->mark)
        CU_TRY(cudaEventCreateWithFlags(&m, cudaEventDisableTiming));
    c->meta_bytes = meta_room;
    CU_TRY(cudaMallocHost(reinterpret_cast<void **>(&c->stage), meta_room));
    CU_TRY(cudaMalloc(reinterpret_cast<void **>(&c->meta), meta_room));
    CU_TRY(cudaEventRecord(c->meta_free, c->stream));
    return ERR_OK;
}

extern const struct dev_ops cu_ops;

static int cu_open(const struct dev_options *o, struct dev **out,
                   struct err *e)
{
    struct cu *c;
    int rc;

    if (o->act != DT_BF16 && o->act != DT_F32)
        return err_set(e, ERR_USAGE, "cuda: activations must be bf16 or f32 "
                       "(f64 runs on --device cpu)");
    c = static_cast<struct cu *>(calloc(1, sizeof *c));
    if (c == nullptr) return err_nomem(e);
    c->dev.ops = &cu_ops;
    c->dev.act = o->act;
    c->dev.acc = DT_F32;
    c->dev.source.ctx = c;
    c->dev.source.get = segment_get;
    c->dev.source.put = segment_put;
    c->gpu = o->gpu;
    c->rank = o->rank;
    c->limit = o->limit_bytes;
    rc = cu_watch_open(c, e);
    if (rc == ERR_OK) rc = make_handles(c, e);
    if (rc != ERR_OK) {
        cu_close(&c->dev);
        return rc;
    }
    *out = &c->dev;
    return ERR_OK;
}

/* ---- copies ------------------------------------------------------------- */

static int cu_upload(struct dev *d, void *dst, const void *src, size_t n,
                     struct err *e)
{
    struct cu *c = cu_of(d);

    if (n == 0) return ERR_OK;
    CU_TRY(cudaMemcpyAsync(dst, src, n, cudaMemcpyHostToDevice, c->stream));
    CU_TRY(cudaStreamSynchronize(c->stream));
    return ERR_OK;
}

static int cu_download(struct dev *d, void *dst, const void *src, size_t n,
                       struct err *e)
{
    struct cu *c = cu_of(d);

    if (n == 0) return ERR_OK;
    CU_TRY(cudaMemcpyAsync(dst, src, n, cudaMemcpyDeviceToHost, c->stream));
    CU_TRY(cudaStreamSynchronize(c->stream));
    return ERR_OK;
}

static int cu_copy(struct dev *d, void *dst, const void *src, size_t n,
                   struct err *e)
{
    struct cu *c = cu_of(d);

    if (n == 0) return ERR_OK;
    CU_TRY(cudaMemcpyAsync(dst, src, n, cudaMemcpyDeviceToDevice,
                           c->stream));
    return ERR_OK;
}

static int cu_mark(struct dev *d, int i, struct err *e)
{
    CU_TRY(cudaEventRecord(cu_of(d)->mark[i], cu_of(d)->stream));
    return ERR_OK;
}

static int cu_after(struct dev *d, struct dev *other, int i, struct err *e)
{
    CU_TRY(cudaStreamWaitEvent(cu_of(d)->stream, cu_of(other)->mark[i], 0));
    return ERR_OK;
}

static int cu_sync(struct dev *d, struct err *e)
{
    CU_TRY(cudaStreamSynchronize(cu_of(d)->stream));
    return ERR_OK;
}

static int cu_memory(struct dev *d, uint64_t *free_bytes,
                     uint64_t *total_bytes, struct err *e)
{
    size_t f, t;

    CU_TRY(cudaSetDevice(cu_of(d)->gpu));
    CU_TRY(cudaMemGetInfo(&f, &t));
    *free_bytes = f;
    *total_bytes = t;
    return ERR_OK;
}

/* ---- host arrays for kernels -------------------------------------------- */

/* A larger room. What the stream still reads of the old one is waited for:
** the caller has done that. */
static int meta_grow(struct cu *c, size_t need, struct err *e)
{
    size_t room = c->meta_bytes;
    unsigned char *stage = nullptr, *meta = nullptr;

    while (room < need) room *= 2;
    CU_TRY(cudaMallocHost(reinterpret_cast<void **>(&stage), room));
    cudaError_t rc = cudaMalloc(reinterpret_cast<void **>(&meta), room);
    if (rc != cudaSuccess) {
        cudaFreeHost(stage);
        return cu_error(rc, "cudaMalloc", __FILE__, __LINE__, e);
    }
    cudaFreeHost(c->stage);
    cudaFree(c->meta);
    c->stage = stage;
    c->meta = meta;
    c->meta_bytes = room;
    return ERR_OK;
}

int cu_meta_begin(struct cu *c, size_t need, struct err *e)
{
    int rc = ERR_OK;

    c->meta_from = c->meta_used;
    if (need <= c->meta_bytes - c->meta_used) return ERR_OK;
    /* round the ring: staging may still be on its way to the device, and
    ** where the room grows, kernels may still read it */
    if (need <= c->meta_bytes) {
        CU_TRY(cudaEventSynchronize(c->meta_free));
    } else {
        CU_TRY(cudaStreamSynchronize(c->stream));
        rc = meta_grow(c, need, e);
    }
    if (rc == ERR_OK) c->meta_from = c->meta_used = 0;
    return rc;
}

void *cu_meta_host(struct cu *c, size_t n, void **device)
{
    size_t at = c->meta_used;

    *device = c->meta + at;
    c->meta_used += CU_ROOM(n);
    return c->stage + at;
}

int cu_meta_send(struct cu *c, struct err *e)
{
    size_t from = c->meta_from, n = c->meta_used - from;

    if (n == 0) return ERR_OK;
    CU_TRY(cudaMemcpyAsync(c->meta + from, c->stage + from, n,
                           cudaMemcpyHostToDevice, c->stream));
    CU_TRY(cudaEventRecord(c->meta_free, c->stream));
    return ERR_OK;
}

/* Kernels of one stream follow each other: the room of the last call is free
** for this one's. A larger one replaces it when they have run. */
int cu_room_begin(struct cu *c, size_t need, struct err *e)
{
    size_t room = c->room_bytes > 0 ? c->room_bytes : meta_room;

    c->room_used = 0;
    if (need <= c->room_bytes) return ERR_OK;
    while (room < need) room *= 2;
    CU_TRY(cudaStreamSynchronize(c->stream));
    if (c->room != nullptr) cudaFree(c->room);
    c->room = nullptr;
    c->room_bytes = 0;
    CU_TRY(cudaMalloc(reinterpret_cast<void **>(&c->room), room));
    c->room_bytes = room;
    return ERR_OK;
}

void *cu_room(struct cu *c, size_t n)
{
    void *device = c->room + c->room_used;

    c->room_used += CU_ROOM(n);
    return device;
}

/* ---- views -------------------------------------------------------------- */

int cu_view_of(const struct mat *m, int64_t rows, int64_t cols,
               const char *name, cu_view *out, struct err *e)
{
    int64_t r = rows < 0 ? m->rows : rows, c = cols < 0 ? m->cols : cols;
    bool empty = r == 0 || c == 0;

    if (m->rows != r || m->cols != c || r > INT32_MAX || c > INT32_MAX ||
        (m->t != DT_BF16 && m->t != DT_F32) ||
        (!empty && (m->p == nullptr || (r > 1 && m->ld < c))))
        return err_set(e, ERR_RUN, "cuda: view %s is %lld x %lld, not %lld x "
                       "%lld bf16 or f32", name, (long long)m->rows,
                       (long long)m->cols, (long long)r, (long long)c);
    out->p = m->p;
    out->ld = m->ld;
    out->rows = static_cast<int>(r);
    out->cols = static_cast<int>(c);
    out->t = m->t;
    return ERR_OK;
}

/* GEMM workspaces come from the rank's allocator: the step hands them over
** when it has taken them. */
static int cu_workspace(struct dev *d, void *p, size_t n, struct err *e)
{
    struct cu *c = cu_of(d);

    c->work = p;
    c->work_bytes = n;
    if (c->blas != nullptr) CU_BLAS(cublasSetWorkspace(c->blas, p, n));
    return ERR_OK;
}

static int set_up_blas(struct cu *c, cublasHandle_t h, struct err *e)
{
    CU_BLAS(cublasSetStream(h, c->stream));
    /* long sums stay in f32 where cuBLAS splits them: adapter gradients are
    ** sums over all rows */
    CU_BLAS(cublasSetMathMode(h, static_cast<cublasMath_t>(
        CUBLAS_DEFAULT_MATH |
        CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
    if (c->work != nullptr)
        CU_BLAS(cublasSetWorkspace(h, c->work, c->work_bytes));
    return ERR_OK;
}

int cu_blas(struct cu *c, cublasHandle_t *out, struct err *e)
{
    cublasHandle_t h;
    int rc = ERR_OK;

    if (c->blas == nullptr) {
        CU_BLAS(cublasCreate(&h));
        rc = set_up_blas(c, h, e);
        if (rc == ERR_OK) c->blas = h;
        else cublasDestroy(h);
    }
    *out = c->blas;
    return rc;
}

const struct dev_ops cu_ops = {
    "cuda", true, cu_open, cu_close, cu_upload, cu_download, cu_sync,
    cu_memory, cu_workspace, cu_copy, cu_mark, cu_after,
};
