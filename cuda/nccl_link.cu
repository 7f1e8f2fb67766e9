/* nccl_link.cu - see nccl_link.cuh */
#ifdef PEAKPROOF_NCCL

#include "nccl_link.cuh"

#include <sched.h>
#include <time.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

static const char *const kind_name[] = {"", "all_to_all", "all_reduce",
                                        "gather_counts", "close"};

/* ---- failures ----------------------------------------------------------- */

int nc_error(const struct nccl *n, ncclResult_t rc, const char *call,
             const char *file, int line, struct err *e)
{
    const char *more = ncclGetLastError(n->link);

    return err_set(e, ERR_RUN, "nccl: %s (%s:%d): %s%s%.300s",
                   ncclGetErrorString(rc), file, line, call,
                   more != nullptr && more[0] != '\0' ? ": " : "",
                   more != nullptr ? more : "");
}

/* Fails for good: the first cause is kept, NCCL is let go. */
void nc_fail(struct nccl *n, const char *cause)
{
    if (n->failed) return;
    n->failed = true;
    snprintf(n->cause, sizeof n->cause, "%s", cause);
    if (n->link != nullptr) ncclCommAbort(n->link);
    n->link = nullptr;
}

/* This rank's own failure e in an exchange: the others are told. */
int nc_broken(struct nccl *n, const char *what, struct err *e)
{
    char cause[ALARM_CAUSE];

    if (!n->failed) {
        snprintf(cause, sizeof cause, "rank %d failed: %.400s", n->comm.rank,
                 e->text);
        n->alarm->ops->raise(n->alarm, cause);
        nc_fail(n, cause);
    }
    return err_wrap(e, "%s", what);
}

static int told(const struct nccl *n, struct err *e)
{
    return err_set(e, ERR_RUN, "%s", n->cause);
}

int nc_already(const struct nccl *n, const char *what, struct err *e)
{
    return err_set(e, ERR_RUN, "%s: %s", what, n->cause);
}

/* The deadline has passed: says who is late where that is known. */
static int too_late(struct nccl *n, const char *what, struct err *e)
{
    char who[256], cause[ALARM_CAUSE];

    n->alarm->ops->late(n->alarm, n->turn, who, sizeof who);
    if (who[0] != '\0')
        snprintf(cause, sizeof cause, "rank %s did not come to %.60s within %"
                 PRId64 " ms (see its own message)", who, what,
                 n->deadline_ms);
    else
        snprintf(cause, sizeof cause, "rank %d waited %" PRId64 " ms in %.60s "
                 "(see the other ranks' messages; NCCL_DEBUG=INFO tells what "
                 "NCCL waits for)", n->comm.rank, n->deadline_ms, what);
    n->alarm->ops->raise(n->alarm, cause);
    nc_fail(n, cause);
    return told(n, e);
}

/* ---- waiting ------------------------------------------------------------ */

static int64_t now_ms()
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<int64_t>(t.tv_sec) * 1000 + t.tv_nsec / 1000000;
}

struct waiting { int64_t end; int turns; };

static struct waiting wait_from_now(const struct nccl *n)
{
    return {now_ms() + n->deadline_ms, 0};
}

/* One more look at what may end a wait early; else a short pause. */
static int wait_on(struct nccl *n, struct waiting *w, const char *what,
            struct err *e)
{
    char cause[ALARM_CAUSE];
    struct timespec pause = {0, 20000};

    if (n->alarm->ops->raised(n->alarm, cause)) {
        nc_fail(n, cause);
        return told(n, e);
    }
    if (now_ms() >= w->end) return too_late(n, what, e);
    if (w->turns++ < 100) sched_yield();
    else nanosleep(&pause, nullptr);
    return ERR_OK;
}

/* Waits until NCCL has taken in what it was asked: rc is what it returned. */
int nc_settle(struct nccl *n, ncclResult_t rc, const char *call,
              const char *file, int line, const char *what, struct err *e)
{
    struct waiting w = wait_from_now(n);

    while (rc == ncclInProgress) {
        ncclResult_t state = ncclInProgress;
        int stop;

        rc = ncclCommGetAsyncError(n->link, &state);
        if (rc == ncclSuccess) rc = state;
        if (rc != ncclInProgress) break;
        stop = wait_on(n, &w, what, e);
        if (stop != ERR_OK) return stop;
    }
    return rc == ncclSuccess ? ERR_OK
                             : nc_error(n, rc, call, file, line, e);
}

/* Waits until the stream has done all that it was given. */
int nc_drain(struct nccl *n, const char *what, struct err *e)
{
    struct waiting w = wait_from_now(n);

    for (;;) {
        cudaError_t rc = cudaStreamQuery(n->stream);
        ncclResult_t state = ncclSuccess;
        int stop;

        if (rc == cudaSuccess) return ERR_OK;
        if (rc != cudaErrorNotReady) CU_TRY(rc);
        cudaGetLastError();     /* not being ready is no error */
        NC_TRY(ncclCommGetAsyncError(n->link, &state));
        if (state != ncclSuccess && state != ncclInProgress)
            return nc_error(n, state, "asynchronous error", __FILE__,
                            __LINE__, e);
        stop = wait_on(n, &w, what, e);
        if (stop != ERR_OK) return stop;
    }
}

/* ---- heads -------------------------------------------------------------- */

/* This rank's head goes to all; after it host[r] is rank r's. */
int nc_swap_heads(struct nccl *n, const char *what, struct err *e)
{
    int r = n->comm.rank;
    size_t all = sizeof(struct head) * static_cast<size_t>(n->comm.size);

    CU_TRY(cudaMemcpyAsync(&n->heads[r], &n->host[r], sizeof(struct head),
                           cudaMemcpyHostToDevice, n->stream));
    NC_TRY(ncclAllGather(&n->heads[r], n->heads, sizeof(struct head),
                         ncclUint8, n->link, n->stream));
    CU_TRY(cudaMemcpyAsync(n->host, n->heads, all, cudaMemcpyDeviceToHost,
                           n->stream));
    return nc_drain(n, what, e);
}

struct head *nc_new_head(struct nccl *n, enum kind k, const char *what)
{
    struct head *h = &n->host[n->comm.rank];

    memset(h, 0, sizeof *h);
    h->kind = k;
    snprintf(h->what, sizeof h->what, "%s", what);
    return h;
}

static int finish_device(const struct nccl *n, struct dev *d, struct err *e)
{
    CU_TRY(cudaSetDevice(n->gpu));
    return d != nullptr ? d->ops->sync(d, e) : ERR_OK;
}

/* This rank has come, and so have the other threads. A kernel of NCCL's waits
** on its GPU for its peers; cudaFree and cudaMalloc of a thread that has not
** come may wait for that kernel, and the two would wait for each other. */
static int meet(struct nccl *n, const char *what, struct err *e)
{
    struct waiting w = wait_from_now(n);

    n->alarm->ops->came(n->alarm, n->comm.rank, ++n->turn);
    while (!n->alarm->ops->here(n->alarm, n->turn)) {
        int rc = wait_on(n, &w, what, e);
        if (rc != ERR_OK) return rc;
    }
    return ERR_OK;
}

/* What the device was asked so far is done, and all have come. */
int nc_begin(struct nccl *n, struct dev *d, const char *what, struct err *e)
{
    int rc;

    if (n->failed) return nc_already(n, what, e);
    rc = finish_device(n, d, e);
    if (rc == ERR_OK) rc = meet(n, what, e);
    return rc == ERR_OK ? ERR_OK : nc_broken(n, what, e);
}

static int closed_by(struct nccl *n, int r, const char *what, struct err *e)
{
    char cause[ALARM_CAUSE];

    snprintf(cause, sizeof cause, "rank %d has closed its communicator", r);
    nc_fail(n, cause);
    return nc_already(n, what, e);
}

/* Every rank reads all heads and finds the same. */
int nc_same_call(struct nccl *n, const char *what, struct err *e)
{
    const struct head *a = &n->host[0];

    for (int r = 0; r < n->comm.size; r++)
        if (n->host[r].kind == CLOSE) return closed_by(n, r, what, e);
    for (int r = 1; r < n->comm.size; r++) {
        const struct head *b = &n->host[r];

        if (a->kind == b->kind && strcmp(a->what, b->what) == 0) continue;
        return err_set(e, ERR_RUN, "%s: rank 0 is in %s, while rank %d is in "
                       "%s of %s", a->what, kind_name[a->kind], r,
                       kind_name[b->kind], b->what);
    }
    return ERR_OK;
}

#endif
