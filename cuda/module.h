/*
** module.h - what the program and the CUDA module say to each other.
**
** The module is a shared library of its own, so that the program starts
** where no CUDA library is. The program loads it by dlopen, asks for the
** symbol PEAKPROOF_MODULE_SYMBOL and refuses a module whose version string is
** not its own: both share struct layouts.
*/
#ifndef CUDA_MODULE_H
#define CUDA_MODULE_H

#include "comm/comm.h"
#include "dev/dev.h"

#define PEAKPROOF_MODULE_SYMBOL "peakproof_cuda_module"

struct cuda_info {
    char name[256];
    uint64_t total_bytes;
    int major, minor;
    char bus[32];
    bool peer[16];          /* direct access to GPU i */
};

/* Where NCCL's ranks meet: this rank's number, how many there are, and (for
** several processes) the address of rank 0. One process and threads: group
** is theirs, made once by group_new. */
struct nccl_options {
    int rank, size, gpu;
    const char *master_addr;    /* NULL: ranks are threads of this process */
    int master_port;
    int64_t deadline_ms;
    void *group;
};

struct cuda_module {
    const char *version;        /* PEAKPROOF_VERSION of its build */
    const struct dev_ops *ops;
    int (*count)(int *n, struct err *e);
    int (*info)(int gpu, struct cuda_info *out, struct err *e);
    int (*versions)(int *driver, int *runtime, int *cublas, int *nccl,
                    struct err *e);
    int (*group_new)(int size, void **group, struct err *e);
    void (*group_free)(void *group);
    int (*comm_nccl)(const struct nccl_options *o, struct comm **out,
                     struct err *e);
};

#endif
