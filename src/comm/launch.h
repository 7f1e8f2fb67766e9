/*
** launch.h - which rank this process is, when a launcher started several:
** torchrun and friends (RANK, WORLD_SIZE, LOCAL_RANK), Slurm (SLURM_PROCID,
** SLURM_NTASKS, SLURM_LOCALID) or Open MPI (OMPI_COMM_WORLD_RANK, _SIZE,
** _LOCAL_RANK), where rank 0 listens (MASTER_ADDR, MASTER_PORT), and by what
** its own processes are known (PEAKPROOF_TOKEN, TORCHELASTIC_RUN_ID,
** SLURM_JOB_ID, PMIX_NAMESPACE; the first that is set).
*/
#ifndef COMM_LAUNCH_H
#define COMM_LAUNCH_H

#include "base/err.h"

struct launch {
    int rank, size;             /* size 1: no launcher */
    int local_rank;             /* on this host: the GPU to take */
    const char *from;           /* "RANK", "SLURM_PROCID", ...; NULL: none */
    const char *master_addr;    /* borrowed from the environment */
    int master_port;
    const char *token;          /* what only this job's processes know:
                                   PEAKPROOF_TOKEN, or the launcher's name of
                                   the job; "" when there is none */
};

/* Reads the environment through get (getenv, or a test's). The first family
** whose rank variable is set counts. ERR_USAGE names a variable that is
** missing beside others, or no number in its bounds. */
int launch_read(const char *(*get)(const char *name, void *ctx), void *ctx,
                struct launch *out, struct err *e) MUST_CHECK;

#endif
