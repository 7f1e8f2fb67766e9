/*
** nccl.cu - ranks that have a GPU each: the communicator of comm.h over NCCL.
**
** Every exchange begins with an all-gather of small heads: which call it is,
** its name and its sizes. So all ranks see a call that does not fit as the
** same error, and NCCL itself is never asked for something that its peers
** did not ask for. Then the bytes go by grouped sends and receives.
**
** A sum is gathered part by part and added in rank order by a kernel of ours,
** so that its bits do not depend on NCCL's choice of algorithm.
**
** The stream, the heads and the gathered parts are the communicator's own:
** none of it is in the rank's allocator.
*/
#ifdef PEAKPROOF_NCCL

#include "nccl_link.cuh"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

/* ---- checks: every rank reads all heads and finds the same -------------- */

int same_sizes(const struct nccl *n, struct err *e)
{
    int size = n->comm.size;

    for (int s = 0; s < size; s++)
        for (int r = 0; r < size; r++) {
            int64_t sent = n->host[s].value[r];
            int64_t wanted = n->host[r].value[size_most + s];

            if (sent != wanted)
                return err_set(e, ERR_RUN, "%s: rank %d sends %" PRId64 " B "
                               "to rank %d, which expects %" PRId64 " B",
                               n->host[s].what, s, sent, r, wanted);
        }
    return ERR_OK;
}

int same_matrix(const struct nccl *n, struct err *e)
{
    static const char *const name[] = {"bf16", "f32", "f64", "i32", "i64",
                                       "u8"};
    const struct head *a = &n->host[0];

    for (int r = 1; r < n->comm.size; r++) {
        const struct head *b = &n->host[r];

        if (a->every != b->every)
            return err_set(e, ERR_RUN, "%s: rank 0 sums every %" PRId64
                           ", rank %d every %" PRId64, a->what, a->every, r,
                           b->every);
        if (a->rows == b->rows && a->cols == b->cols && a->type == b->type)
            continue;
        return err_set(e, ERR_RUN, "%s: rank 0 has %" PRId64 " x %" PRId64
                       " %s, rank %d has %" PRId64 " x %" PRId64 " %s",
                       a->what, a->rows, a->cols, name[a->type], r, b->rows,
                       b->cols, name[b->type]);
    }
    return ERR_OK;
}

int same_count(const struct nccl *n, struct err *e)
{
    for (int r = 1; r < n->comm.size; r++)
        if (n->host[r].n != n->host[0].n)
            return err_set(e, ERR_RUN, "%s: rank 0 brings %" PRId64
                           " counts, rank %d brings %" PRId64,
                           n->host[0].what, n->host[0].n, r, n->host[r].n);
    return ERR_OK;
}

/* ---- rows from rank to rank --------------------------------------------- */

int send_all(struct nccl *n, const char *what, const struct comm_part *send,
             const struct comm_part *recv, struct err *e)
{
    int me = n->comm.rank;

    if (recv[me].bytes > 0 && recv[me].p != send[me].p)
        CU_TRY(cudaMemcpyAsync(recv[me].p, send[me].p,
                               static_cast<size_t>(recv[me].bytes),
                               cudaMemcpyDeviceToDevice, n->stream));
    NC_TRY(ncclGroupStart());
    for (int i = 1; i < n->comm.size; i++) {
        int to = (me + i) % n->comm.size;
        int from = (me + n->comm.size - i) % n->comm.size;
        ncclResult_t rc = ncclSuccess;

        if (send[to].bytes > 0)
            rc = ncclSend(send[to].p, static_cast<size_t>(send[to].bytes),
                          ncclUint8, to, n->link, n->stream);
        if ((rc == ncclSuccess || rc == ncclInProgress) &&
            recv[from].bytes > 0)
            rc = ncclRecv(recv[from].p,
                          static_cast<size_t>(recv[from].bytes), ncclUint8,
                          from, n->link, n->stream);
        if (rc == ncclSuccess || rc == ncclInProgress) continue;
        ncclGroupEnd();
        return nc_error(n, rc, "ncclSend, ncclRecv", __FILE__, __LINE__, e);
    }
    NC_TRY(ncclGroupEnd());
    return nc_drain(n, what, e);
}

int nccl_all_to_all(struct comm *c, struct dev *d, const char *what,
                    const struct comm_part *send,
                    const struct comm_part *recv, struct err *e)
{
    struct nccl *n = nccl_of(c);
    int rc = nc_begin(n, d, what, e);

    if (rc != ERR_OK) return rc;
    struct head *h = nc_new_head(n, ALL_TO_ALL, what);
    for (int r = 0; r < c->size; r++) {
        h->value[r] = send[r].bytes;
        h->value[size_most + r] = recv[r].bytes;
    }
    if (nc_swap_heads(n, what, e) != ERR_OK) return nc_broken(n, what, e);
    rc = nc_same_call(n, what, e);
    if (rc == ERR_OK) rc = same_sizes(n, e);
    if (rc != ERR_OK) return rc;
    rc = send_all(n, what, send, recv, e);
    return rc == ERR_OK ? rc : nc_broken(n, what, e);
}

/* ---- sums --------------------------------------------------------------- */

__device__ __forceinline__ float widen(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ double widen(double x) { return x; }
__device__ __forceinline__ void narrow(__nv_bfloat16 *p, float x)
{
    *p = __float2bfloat16(x);
}
__device__ __forceinline__ void narrow(float *p, float x) { *p = x; }
__device__ __forceinline__ void narrow(double *p, double x) { *p = x; }

/* x[i] = the sum over ranks of part[rank][i], in rank order; parts are
** stride bytes apart. */
template <typename T>
__global__ void sum_parts(T *x, const unsigned char *parts, size_t stride,
                          int size, int64_t count)
{
    int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;

    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x +
                     threadIdx.x; i < count; i += step) {
        auto sum = widen(reinterpret_cast<const T *>(parts)[i]);

        for (int r = 1; r < size; r++)
            sum += widen(reinterpret_cast<const T *>(
                parts + static_cast<size_t>(r) * stride)[i]);
        narrow(x + i, sum);
    }
}

/* The parts of this rank's sum: every so many, see comm.h. */
int launch_sum(struct nccl *n, const struct mat *x, int every, int64_t first,
               int64_t count, size_t stride, struct err *e)
{
    unsigned grid = cu_blocks(count, 1024);
    const unsigned char *parts = n->parts +
        static_cast<size_t>(n->comm.rank % every) * stride;
    int size = n->comm.size / every;

    stride *= static_cast<size_t>(every);

    if (x->t == DT_BF16) {
        auto *p = static_cast<__nv_bfloat16 *>(x->p) + first;
        LAUNCH(sum_parts<__nv_bfloat16>, grid, 256, 0, n->stream, p, parts,
               stride, size, count);
    } else if (x->t == DT_F32) {
        auto *p = static_cast<float *>(x->p) + first;
        LAUNCH(sum_parts<float>, grid, 256, 0, n->stream, p, parts, stride,
               size, count);
    } else {
        auto *p = static_cast<double *>(x->p) + first;
        LAUNCH(sum_parts<double>, grid, 256, 0, n->stream, p, parts, stride,
               size, count);
    }
    CU_LAUNCHED();
    return ERR_OK;
}

int sum_all(struct nccl *n, const char *what, const struct mat *x, int every,
            struct err *e)
{
    int64_t width = dtype_bytes(x->t), count = x->rows * x->cols;
    int64_t step = static_cast<int64_t>(part_bytes) / width;

    for (int64_t at = 0; at < count; at += step) {
        int64_t k = count - at < step ? count - at : step;
        size_t bytes = static_cast<size_t>(k * width);
        size_t stride = (bytes + 15) / 16 * 16;
        unsigned char *mine = n->parts +
                              static_cast<size_t>(n->comm.rank) * stride;
        int rc;

        CU_TRY(cudaMemcpyAsync(mine, static_cast<char *>(x->p) + at * width,
                               bytes, cudaMemcpyDeviceToDevice, n->stream));
        NC_TRY(ncclAllGather(mine, n->parts, stride, ncclUint8, n->link,
                             n->stream));
        rc = launch_sum(n, x, every, at, k, stride, e);
        if (rc != ERR_OK) return rc;
    }
    return nc_drain(n, what, e);
}

int nccl_all_reduce(struct comm *c, struct dev *d, const char *what,
                    struct mat x, int every, struct err *e)
{
    struct nccl *n = nccl_of(c);
    int rc = nc_begin(n, d, what, e);

    if (rc != ERR_OK) return rc;
    struct head *h = nc_new_head(n, ALL_REDUCE, what);
    h->rows = x.rows;
    h->cols = x.cols;
    h->type = x.t;
    h->every = every;
    if (nc_swap_heads(n, what, e) != ERR_OK) return nc_broken(n, what, e);
    rc = nc_same_call(n, what, e);
    if (rc == ERR_OK) rc = same_matrix(n, e);
    if (rc != ERR_OK) return rc;
    rc = sum_all(n, what, &x, every, e);
    return rc == ERR_OK ? rc : nc_broken(n, what, e);
}

/* ---- counts ------------------------------------------------------------- */

int nccl_gather_counts(struct comm *c, const char *what, const int64_t *mine,
                       int64_t count, int64_t *all, struct err *e)
{
    struct nccl *n = nccl_of(c);
    int64_t at = 0;
    int rc = nc_begin(n, nullptr, what, e);

    if (rc != ERR_OK) return rc;
    do {
        int64_t k = count - at < head_values ? count - at : head_values;
        size_t bytes = static_cast<size_t>(k) * sizeof *mine;
        struct head *h = nc_new_head(n, GATHER_COUNTS, what);

        h->n = count;
        if (k > 0) memcpy(h->value, mine + at, bytes);
        if (nc_swap_heads(n, what, e) != ERR_OK) return nc_broken(n, what, e);
        rc = nc_same_call(n, what, e);
        if (rc == ERR_OK) rc = same_count(n, e);
        if (rc != ERR_OK) return rc;
        for (int r = 0; r < c->size && k > 0; r++)
            memcpy(all + r * count + at, n->host[r].value, bytes);
        at += head_values;
    } while (at < count);
    return ERR_OK;
}

/* ---- life --------------------------------------------------------------- */

void nccl_abort(struct comm *c, const char *why)
{
    struct nccl *n = nccl_of(c);
    char cause[ALARM_CAUSE];

    snprintf(cause, sizeof cause, "rank %d failed: %.400s", c->rank, why);
    n->alarm->ops->raise(n->alarm, cause);
    nc_fail(n, cause);
}

/* All ranks leave together; one that is elsewhere is told by the head. */
int say_goodbye(struct nccl *n, struct err *e)
{
    const char *what = "close";
    bool all = true;
    int rc = nc_begin(n, nullptr, what, e);

    if (rc == ERR_OK) {
        nc_new_head(n, CLOSE, what);
        rc = nc_swap_heads(n, what, e);
    }
    if (rc != ERR_OK) return rc;
    for (int r = 0; r < n->comm.size; r++)
        all = all && n->host[r].kind == CLOSE;
    if (!all) {
        nc_fail(n, "closed");      /* the others know by now */
        return ERR_OK;
    }
    NC_TRY(ncclCommFinalize(n->link));
    ncclCommDestroy(n->link);
    n->link = nullptr;
    return ERR_OK;
}

void nccl_close(struct comm *c)
{
    struct nccl *n = nccl_of(c);
    struct err e;

    if (!n->failed && n->link != nullptr && say_goodbye(n, &e) != ERR_OK)
        nc_broken(n, "close", &e);
    cudaSetDevice(n->gpu);
    if (n->parts != nullptr) cudaFree(n->parts);
    if (n->heads != nullptr) cudaFree(n->heads);
    if (n->host != nullptr) cudaFreeHost(n->host);
    if (n->stream != nullptr) cudaStreamDestroy(n->stream);
    free(n);
}

const struct comm_ops nccl_ops = {
    "nccl", nccl_all_to_all, nccl_all_reduce, nccl_gather_counts, nccl_abort,
    nccl_close,
};

int make_room(struct nccl *n, struct err *e)
{
    size_t size = static_cast<size_t>(n->comm.size);
    void **host = reinterpret_cast<void **>(&n->host);
    void **heads = reinterpret_cast<void **>(&n->heads);
    void **parts = reinterpret_cast<void **>(&n->parts);

    CU_TRY(cudaSetDevice(n->gpu));
    CU_TRY(cudaStreamCreateWithFlags(&n->stream, cudaStreamNonBlocking));
    CU_TRY(cudaMallocHost(host, size * sizeof(struct head)));
    CU_TRY(cudaMalloc(heads, size * sizeof(struct head)));
    CU_TRY(cudaMalloc(parts, size * part_bytes));
    return ERR_OK;
}

int join(struct nccl *n, const unsigned char *bytes, struct err *e)
{
    const char *what = "joining NCCL";
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;

    static_assert(sizeof id == NCCL_ID_BYTES, "the size of NCCL's id");
    memcpy(&id, bytes, sizeof id);
    config.blocking = 0;
    n->alarm->ops->came(n->alarm, n->comm.rank, ++n->turn);
    NC_TRY(ncclCommInitRankConfig(&n->link, n->comm.size, id, n->comm.rank,
                                  &config));
    return ERR_OK;
}

}  // namespace

int nccl_version()
{
    int v = 0;

    return ncclGetVersion(&v) == ncclSuccess ? v : 0;
}

int nccl_new_id(unsigned char bytes[NCCL_ID_BYTES], struct err *e)
{
    ncclUniqueId id;
    ncclResult_t rc = ncclGetUniqueId(&id);

    if (rc != ncclSuccess)
        return err_set(e, ERR_RUN, "nccl: %s (%s:%d): ncclGetUniqueId",
                       ncclGetErrorString(rc), __FILE__, __LINE__);
    memcpy(bytes, &id, sizeof id);
    return ERR_OK;
}

int nccl_comm_new(const struct nccl_options *o, struct comm **out,
                  struct err *e)
{
    struct nccl *n;
    int rc;

    if (o->size < 1 || o->size > size_most || o->rank < 0 ||
        o->rank >= o->size)
        return err_set(e, ERR_USAGE, "nccl: rank %d of %d (1 to %d ranks)",
                       o->rank, o->size, size_most);
    n = static_cast<struct nccl *>(calloc(1, sizeof *n));
    if (n == nullptr) return err_nomem(e);
    n->comm.ops = &nccl_ops;
    n->comm.rank = o->rank;
    n->comm.size = o->size;
    n->gpu = o->gpu;
    n->deadline_ms = o->deadline_ms;
    n->alarm = o->alarm;
    rc = make_room(n, e);
    if (rc == ERR_OK) rc = join(n, o->id, e);
    if (rc != ERR_OK) {
        rc = nc_broken(n, "NCCL", e);
        nccl_close(&n->comm);
        return rc;
    }
    *out = &n->comm;
    return ERR_OK;
}

#else

#include "nccl_comm.h"

static int without(struct err *e)
{
    return err_set(e, ERR_DEVICE, "this CUDA module was built without NCCL "
                   "(install nccl.h and libnccl, then 'make cuda' again; "
                   "ranks that share one GPU need none)");
}

int nccl_version()
{
    return 0;
}

int nccl_new_id(unsigned char *, struct err *e)
{
    return without(e);
}

int nccl_comm_new(const struct nccl_options *, struct comm **, struct err *e)
{
    return without(e);
}

#endif
