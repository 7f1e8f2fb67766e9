/*
** gemm.cuh - between gemm.cu and mixed.cu.
*/
#ifndef CUDA_GEMM_CUH
#define CUDA_GEMM_CUH

#include "cu.cuh"

/* c = alpha op(a) op(b) + beta c where a is f32, b bf16 and c either; the
** views fit, c is not empty. */
int gemm_run_split(struct cu *d, const cu_view &c, const cu_view &a,
                   const cu_view &b, const struct k_gemm *k, int inner,
                   struct err *e);

#endif
