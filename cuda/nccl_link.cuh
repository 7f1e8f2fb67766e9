/*
** nccl_link.cuh - the NCCL communicator's state, and how a rank waits and
** fails (nccl_link.cu); the exchanges are in nccl.cu.
**
** Nothing waits without end. NCCL runs in its non-blocking mode; the rank's
** thread polls the stream, NCCL's state and the alarm (comm/alarm.h), and
** aborts the communicator when one of them reports a failure or the deadline
** passes. A communicator that failed stays failed.
*/
#ifndef CUDA_NCCL_LINK_CUH
#define CUDA_NCCL_LINK_CUH

#include "nccl_comm.h"

#include <nccl.h>

constexpr int size_most = 64;
constexpr int head_values = 256;
constexpr size_t part_bytes = size_t{4} << 20;  /* of a sum, per rank */

enum kind { ALL_TO_ALL = 1, ALL_REDUCE, GATHER_COUNTS, CLOSE };

/* What every rank tells the others before an exchange. */
struct head {
    int64_t kind, n;
    int64_t rows, cols, type, every;    /* all_reduce */
    char what[56];
    int64_t value[head_values];     /* all_to_all: bytes sent to, then bytes
                                       expected from each; else counts */
};

struct nccl {
    struct comm comm;               /* first */
    int gpu;
    int64_t deadline_ms;
    struct alarm *alarm;
    ncclComm_t link;                /* null: never made, or aborted */
    cudaStream_t stream;
    struct head *host;              /* [size] pinned */
    struct head *heads;             /* [size] on the GPU */
    unsigned char *parts;           /* [size * part_bytes] on the GPU */
    uint64_t turn;                  /* exchanges begun */
    bool failed;
    char cause[ALARM_CAUSE];
};

static inline struct nccl *nccl_of(struct comm *c)
{
    return reinterpret_cast<struct nccl *>(c);
}

/* Fails for good: the first cause is kept, NCCL is let go. */
void nc_fail(struct nccl *n, const char *cause);
/* This rank's own failure e in an exchange: the others are told. */
int nc_broken(struct nccl *n, const char *what, struct err *e);
/* It has failed before. */
int nc_already(const struct nccl *n, const char *what, struct err *e);
int nc_error(const struct nccl *n, ncclResult_t rc, const char *call,
             const char *file, int line, struct err *e);

/* Waits until NCCL has taken in what it was asked: rc is what it returned.
** NC_TRY leaves a function that has n, what and e. */
int nc_settle(struct nccl *n, ncclResult_t rc, const char *call,
              const char *file, int line, const char *what, struct err *e);
#define NC_TRY(call)                                                         \
    do {                                                                     \
        int nc_rc_ = nc_settle(n, (call), #call, __FILE__, __LINE__, what,   \
                               e);                                           \
        if (nc_rc_ != ERR_OK) return nc_rc_;                                 \
    } while (0)
/* Waits until the stream has done all that it was given. */
int nc_drain(struct nccl *n, const char *what, struct err *e);

/* An exchange: what the device was asked so far is done, and all ranks have
** come, before any of them starts a kernel that waits for the others; its head
** is filled, and goes to all; after it host[r] is rank r's; every rank reads
** all heads and finds the same call. */
int nc_begin(struct nccl *n, struct dev *d, const char *what, struct err *e);
struct head *nc_new_head(struct nccl *n, enum kind k, const char *what);
int nc_swap_heads(struct nccl *n, const char *what, struct err *e);
int nc_same_call(struct nccl *n, const char *what, struct err *e);

#endif
