/*
** blas_load.h - OpenBLAS's products, from its shared library.
** Inside src/dev.
*/
#ifndef DEV_CPU_BLAS_LOAD_H
#define DEV_CPU_BLAS_LOAD_H

#include <cblas.h>

#include "base/err.h"

struct cpu_blas {
    void (*sgemm)(CBLAS_ORDER order, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb,
                  blasint m, blasint n, blasint k, float alpha,
                  const float *a, blasint lda, const float *b, blasint ldb,
                  float beta, float *c, blasint ldc);
    void (*dgemm)(CBLAS_ORDER order, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb,
                  blasint m, blasint n, blasint k, double alpha,
                  const double *a, blasint lda, const double *b, blasint ldb,
                  double beta, double *c, blasint ldc);
    char *(*config)(void);      /* version and core, in words */
};

/* Loads the library, once a process, with one thread: a rank is a thread and
** computes alone; threads of BLAS's own would share cores with other ranks
** and change the order of sums. ERR_DEVICE says what to install. */
int cpu_blas_load(struct err *e) MUST_CHECK;
/* The functions; after cpu_blas_load. */
const struct cpu_blas *cpu_blas(void);

#endif
