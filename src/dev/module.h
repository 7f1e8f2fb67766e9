/*
** module.h - what the program and the CUDA module say to each other, and how
** the program finds it.
**
** The module is a shared library of its own, so that the program starts
** where no CUDA library is. The program loads it by dlopen, asks for the
** symbol PEAKPROOF_MODULE_SYMBOL and refuses a module whose version string is
** not its own: both share struct layouts.
*/
#ifndef DEV_MODULE_H
#define DEV_MODULE_H

#include "base/err.h"
#include "dev/dev.h"

#define PEAKPROOF_MODULE_FILE "peakproof-cuda.so"
#define PEAKPROOF_MODULE_SYMBOL "peakproof_cuda_module"

#define CUDA_INFO_PEERS 16
#define NCCL_ID_BYTES 128

struct comm;
struct alarm;

struct cuda_info {
    char name[256];
    uint64_t total_bytes, free_bytes;
    int major, minor;               /* compute capability */
    char bus[32];                   /* PCI address: the same for one GPU in
                                       every process of a host */
    bool peer[CUDA_INFO_PEERS];     /* direct access to GPU i */
};

/* As the libraries number themselves (13000 is CUDA 13.0, 22703 NCCL
** 2.27.3). 0: nccl in a module built without it, cublas and nccl where the
** library is not found, driver where there is none. */
struct cuda_versions { int driver, runtime, cublas, nccl; };

/* A rank's place among its peers. id is the same on all, from nccl_id of one
** of them; the alarm is how they tell each other of failures (comm/alarm.h),
** and outlives the communicator. */
struct nccl_options {
    int rank, size, gpu;
    const unsigned char *id;        /* [NCCL_ID_BYTES] */
    int64_t deadline_ms;            /* of every wait */
    struct alarm *alarm;
};

/* Errors are ERR_DEVICE where there is no GPU, driver or NCCL, else ERR_RUN;
** the text names the call, the file and the line. */
struct cuda_module {
    const char *version;            /* PEAKPROOF_VERSION of its build */
    const struct dev_ops *ops;
    int (*count)(int *n, struct err *e);
    int (*info)(int gpu, struct cuda_info *out, struct err *e);
    int (*versions)(struct cuda_versions *out, struct err *e);
    int (*nccl_id)(unsigned char id[NCCL_ID_BYTES], struct err *e);
    /* Waits until all ranks are there. */
    int (*comm_nccl)(const struct nccl_options *o, struct comm **out,
                     struct err *e);
};

/* Where it is looked for, the first that is there: path (NULL: left out; a
** file, or a folder that holds it; when given nothing else is tried), the
** folder of the running program, prefix/lib/peakproof. version is the
** program's. ERR_DEVICE says what was tried, why it would not load or how
** the versions differ, and the remedy. It is never unloaded. */
int module_open(const char *path, const char *prefix, const char *version,
                const struct cuda_module **out, struct err *e) MUST_CHECK;

#endif
