/*
** blas.h - one matrix product over reals: OpenBLAS, or plain blocked loops
** where PEAKPROOF_PLAIN_GEMM is set (thread sanitizer builds).
**
** OpenBLAS is loaded when the first cpu device is opened, not with the
** program: it starts threads when it is loaded, which every other command
** would pay for, and which hang where memory is short.
** Inside src/dev.
*/
#ifndef DEV_CPU_BLAS_H
#define DEV_CPU_BLAS_H

#include "dev/cpu/real.h"

#ifndef PEAKPROOF_PLAIN_GEMM
#include "dev/cpu/blas_load.h"
#endif

/* A factor: op(A) is rows x cols as the product sees it. */
struct factor {
    const real *p;
    int64_t ld;
    bool trans;
};

#ifdef PEAKPROOF_PLAIN_GEMM

static inline void scale_block(int64_t m, int64_t n, real beta, real *c,
                               int64_t ldc)
{
    int64_t i, j;

    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++)
            c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
}

static inline void gemm(int64_t m, int64_t n, int64_t k, real alpha,
                        struct factor a, struct factor b, real beta, real *c,
                        int64_t ldc)
{
    const int64_t step = 64;
    int64_t i, j, l, l0;

    scale_block(m, n, beta, c, ldc);
    for (l0 = 0; l0 < k; l0 += step)
        for (i = 0; i < m; i++)
            for (l = l0; l < num_min(k, l0 + step); l++) {
                real s = alpha * (a.trans ? a.p[l * a.ld + i]
                                          : a.p[i * a.ld + l]);
                if (b.trans)
                    for (j = 0; j < n; j++)
                        c[i * ldc + j] += s * b.p[j * b.ld + l];
                else
                    axpy(c + i * ldc, s, b.p + l * b.ld, n);
            }
}

#else

#ifdef CPU_F64
#define cblas_gemm cpu_blas()->dgemm
#else
#define cblas_gemm cpu_blas()->sgemm
#endif

/* c[m, n] = alpha op(a)[m, k] op(b)[k, n] + beta c; c is not read when beta
** is 0. Dimensions must fit 32 bits. */
static inline void gemm(int64_t m, int64_t n, int64_t k, real alpha,
                        struct factor a, struct factor b, real beta, real *c,
                        int64_t ldc)
{
    if (m == 0 || n == 0) return;
    cblas_gemm(CblasRowMajor, a.trans ? CblasTrans : CblasNoTrans,
               b.trans ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k,
               alpha, a.p, (int)num_max(a.ld, 1), b.p,
               (int)num_max(b.ld, 1), beta, c, (int)ldc);
}

#endif

static inline struct factor as_is(const real *p, int64_t ld)
{
    return (struct factor){p, ld, false};
}

static inline struct factor transposed(const real *p, int64_t ld)
{
    return (struct factor){p, ld, true};
}

#endif
