/*
** gpu_trial.h - one small piece of everything that a GPU is asked for.
*/
#ifndef BENCH_GPU_TRIAL_H
#define BENCH_GPU_TRIAL_H

#include "dev/module.h"

/* A segment, a kernel of ours, a product and a copy on the module's GPU:
** ERR_WRONG where another number comes back than must; else what the first
** call that failed said, such as that there is no code for this GPU. */
int gpu_trial(const struct cuda_module *m, int gpu, struct err *e) MUST_CHECK;

#endif
