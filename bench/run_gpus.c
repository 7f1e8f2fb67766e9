/* run_gpus.c - see run_gpus.h */
#include "bench/run_gpus.h"

#include <stdio.h>
#include <stdlib.h>

#include "run/device.h"
#include "run/crew.h"

static const char *environment(const char *name, void *ctx)
{
    (void)ctx;
    return getenv(name);
}

/* What a rank that is a process leaves out: its records are rank 0's. */
static int check_processes(const struct args *a, const struct run_context *x,
                           struct err *e)
{
    static const char *const no[] = {"resume", "snapshot", "save-adapters",
                                     "dump"};

    for (int i = 0; i < 4; i++)
        if (args_has(a, no[i]))
            return err_set(e, ERR_USAGE, "run: --%s needs all ranks in one "
                           "process (%s is set: start it without a "
                           "launcher)", no[i], x->launch.from);
    if (!x->has_nccl)
        return err_set(e, ERR_DEVICE, "run: the CUDA module has no NCCL, "
                       "which several processes need (install NCCL, then "
                       "make cuda)");
    return ERR_OK;
}

static void say_waiting(const char *text)
{
    fprintf(stderr, "peakproof: %s\n", text);
}

int run_gpus(const struct args *a, int64_t workers, struct run_context *x,
             struct err *e)
{
    struct cuda_versions v;
    int rc;

    if (workers > 1)
        return err_set(e, ERR_USAGE, "run: -j: cases on device cuda run one "
                       "at a time");
    rc = device_module(&x->module, e);
    if (rc == ERR_OK) rc = x->module->count(&x->gpus, e);
    if (rc == ERR_OK) rc = x->module->versions(&v, e);
    if (rc == ERR_OK) rc = launch_read(environment, NULL, &x->launch, e);
    if (rc != ERR_OK) return rc;
    x->has_nccl = v.nccl != 0;
    x->gpu = x->launch.local_rank % x->gpus;
    if (x->launch.size == 1) return ERR_OK;
    rc = check_processes(a, x, e);
    if (rc == ERR_OK)
        rc = processes_meet(&x->launch, x->module, x->interrupt, say_waiting,
                            &x->line, e);
    return rc;
}
