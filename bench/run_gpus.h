/* run_gpus.h - "peakproof run --device cuda": GPUs and processes. */
#ifndef BENCH_RUN_GPUS_H
#define BENCH_RUN_GPUS_H

#include "bench/command.h"
#include "run/run.h"

/* The GPUs that are there, and the processes that a launcher started, which
** meet (x->interrupt ends that). ERR_USAGE for options that either leaves
** out, ERR_DEVICE where there is no GPU or no NCCL for several processes. */
int run_gpus(const struct args *a, int64_t workers, struct run_context *x,
             struct err *e) MUST_CHECK;

#endif
