/* planted.h - see planted.cu */
#ifndef TESTS_CUDA_PLANTED_H
#define TESTS_CUDA_PLANTED_H

#include <stdbool.h>
#include <stdint.h>

struct err;

#ifdef __cplusplus
extern "C" {
#endif

/* cu_grid of cuda/cu.cuh. */
int planted_grid(int64_t n, int64_t per_block, unsigned *out, struct err *e);
/* The sum of 64 numbers by a block, with its barrier or without. */
int planted_sum(const int *x, bool barrier);
/* x[i] = 1 for i below threads. */
void planted_overrun(int *x, int threads);
/* threads write into room elements of shared memory. */
void planted_shared_overrun(int *out, int threads, int room);
/* A lane does not come to a warp's exchange. */
void planted_deadlock(void);
/* Whether a block of threads with so much dynamic shared memory, in a grid of
** 1 x grid_y, may be launched; allow: cudaFuncSetAttribute was called. */
bool planted_launch(unsigned grid_y, unsigned threads, int shared, bool allow);
/* 1, or 2 where the source was changed before the copy had run. */
int planted_late_copy(bool wait);
/* 1, or 0 where the second stream did not wait for the first. */
int planted_two_streams(bool wait);
/* A sum of 192 bf16 by cuBLAS: 1 when its parts are not rounded to bf16. */
float planted_long_sum(bool forbid);

#ifdef __cplusplus
}
#endif

#endif
