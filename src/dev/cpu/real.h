/*
** real.h - the type that the cpu device computes in, rows in and out of
** views of any float type, and vector helpers whose order of sums is fixed.
**
** The kernels' headers define static functions only, used through the table
** of kernels.h. CPU_F64 is set by f64.c; without it they are for float.
** Inside src/dev.
*/
#ifndef DEV_CPU_REAL_H
#define DEV_CPU_REAL_H

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "dev/cpu/cpu.h"

/* A kernels' header alone uses none of its functions. */
#pragma GCC diagnostic ignored "-Wunused-function"

#ifdef CPU_F64
typedef double real;
#define REAL_TYPE DT_F64
#define REAL_FN(name) name
#else
typedef float real;
#define REAL_TYPE DT_F32
#define REAL_FN(name) name##f
#endif

/* ---- checks ------------------------------------------------------------- */

/* Returns from the kernel when a view is not rows x cols of the kind. */
#define NEED(view, rows, cols, kind)                                         \
    do {                                                                     \
        if (!cpu_fits(&(view), rows, cols, kind, REAL_TYPE))                 \
            return cpu_misfit(e, __func__, #view, &(view), rows, cols,       \
                              kind);                                         \
    } while (0)
/* Returns from the kernel when index is not in [0, n). */
#define NEED_INDEX(what, at, index, n)                                       \
    do {                                                                     \
        if ((index) < 0 || (index) >= (n))                                   \
            return cpu_out_of_range(e, __func__, what, at, index, n);        \
    } while (0)

/* count reals of scratch; NULL when memory is out. */
static inline real *scratch(struct dev *d, int64_t count)
{
    return cpu_scratch(d, (size_t)(num_max(count, 0) + 16) * sizeof(real));
}

/* ---- bf16 --------------------------------------------------------------- */

static inline float bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

/* To nearest, ties to even; a NaN stays one. */
static inline uint16_t bf16_from_f32(float f)
{
    uint32_t u, rounded;

    memcpy(&u, &f, sizeof u);
    rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
    return (uint16_t)(f != f ? (u >> 16) | 0x40u : rounded);
}

/* ---- rows in and out of views ------------------------------------------- */

static inline void *cell(const struct mat *m, int64_t r, int64_t c)
{
    return (char *)m->p + (r * m->ld + c) * dtype_bytes(m->t);
}

/* A view that is known to hold reals. */
static inline real *reals(const struct mat *m, int64_t r)
{
    return (real *)m->p + r * m->ld;
}

static inline struct mat sub_rows(struct mat m, int64_t first, int64_t n)
{
    m.p = n > 0 ? cell(&m, first, 0) : NULL;
    m.rows = n;
    return m;
}

/* dst[0..n) = m[r, c..c + n). */
static inline void cells_in(const struct mat *m, int64_t r, int64_t c,
                            int64_t n, real *restrict dst)
{
    const void *p = cell(m, r, c);
    int64_t i;

    if (n == 0) return;     /* there may be no element to point at */
    if (m->t == REAL_TYPE) {
        memcpy(dst, p, (size_t)n * sizeof *dst);
    } else if (m->t == DT_BF16) {
        const uint16_t *src = p;
        for (i = 0; i < n; i++) dst[i] = (real)bf16_to_f32(src[i]);
    } else if (m->t == DT_F32) {
        const float *src = p;
        for (i = 0; i < n; i++) dst[i] = (real)src[i];
    } else {
        const double *src = p;
        for (i = 0; i < n; i++) dst[i] = (real)src[i];
    }
}

/* m[r, c..c + n) = src[0..n), rounded to the view's type. */
static inline void cells_out(const struct mat *m, int64_t r, int64_t c,
                             int64_t n, const real *restrict src)
{
    void *p = cell(m, r, c);
    int64_t i;

    if (n == 0) return;     /* there may be no element to point at */
    if (m->t == REAL_TYPE) {
        memcpy(p, src, (size_t)n * sizeof *src);
    } else if (m->t == DT_BF16) {
        uint16_t *dst = p;
        for (i = 0; i < n; i++) dst[i] = bf16_from_f32((float)src[i]);
    } else if (m->t == DT_F32) {
        float *dst = p;
        for (i = 0; i < n; i++) dst[i] = (float)src[i];
    } else {
        double *dst = p;
        for (i = 0; i < n; i++) dst[i] = (double)src[i];
    }
}

/* A row to read: in place where the type allows it, else converted. */
static inline const real *row_in(const struct mat *m, int64_t r, real *buf)
{
    if (m->t == REAL_TYPE) return reals(m, r);
    cells_in(m, r, 0, m->cols, buf);
    return buf;
}

/* A row to write whole, then row_end. */
static inline real *row_out(const struct mat *m, int64_t r, real *buf)
{
    return m->t == REAL_TYPE ? reals(m, r) : buf;
}

static inline void row_end(const struct mat *m, int64_t r, const real *buf)
{
    if (m->t != REAL_TYPE) cells_out(m, r, 0, m->cols, buf);
}

/* Rows [r, r + nr), columns [c, c + nc) into a packed block, and back. */
static inline void block_in(const struct mat *m, int64_t r, int64_t nr,
                            int64_t c, int64_t nc, real *dst)
{
    int64_t i;

    for (i = 0; i < nr; i++) cells_in(m, r + i, c, nc, dst + i * nc);
}

static inline void block_out(const struct mat *m, int64_t r, int64_t nr,
                             int64_t c, int64_t nc, const real *src)
{
    int64_t i;

    for (i = 0; i < nr; i++) cells_out(m, r + i, c, nc, src + i * nc);
}

/* ---- vectors ------------------------------------------------------------ */

/* Sums run in LANES partial sums, folded by halves at the end: independent
** of how the compiler vectorises, and more exact than one running sum. */
#define LANES 16

static inline real fold_lanes(real *lane)
{
    int64_t half, i;

    for (half = LANES / 2; half > 0; half /= 2)
        for (i = 0; i < half; i++) lane[i] += lane[i + half];
    return lane[0];
}

static inline real dot(const real *a, const real *b, int64_t n)
{
    real lane[LANES] = {0};
    int64_t i, j;

    for (i = 0; i + LANES <= n; i += LANES)
        for (j = 0; j < LANES; j++) lane[j] += a[i + j] * b[i + j];
    for (j = 0; i + j < n; j++) lane[j] += a[i + j] * b[i + j];
    return fold_lanes(lane);
}

static inline real sum(const real *a, int64_t n)
{
    real lane[LANES] = {0};
    int64_t i, j;

    for (i = 0; i + LANES <= n; i += LANES)
        for (j = 0; j < LANES; j++) lane[j] += a[i + j];
    for (j = 0; i + j < n; j++) lane[j] += a[i + j];
    return fold_lanes(lane);
}

/* y += s x */
static inline void axpy(real *restrict y, real s, const real *restrict x,
                        int64_t n)
{
    int64_t i;

    for (i = 0; i < n; i++) y[i] += s * x[i];
}

static inline void zero(real *x, int64_t n)
{
    if (n > 0) memset(x, 0, (size_t)n * sizeof *x);
}

/* The largest of n; NaNs are passed over (their exponentials show them). */
static inline real largest(const real *a, int64_t n)
{
    real lane[LANES], m = -(real)INFINITY;
    int64_t i, j;

    for (j = 0; j < LANES; j++) lane[j] = m;
    for (i = 0; i + LANES <= n; i += LANES)
        for (j = 0; j < LANES; j++)
            lane[j] = a[i + j] > lane[j] ? a[i + j] : lane[j];
    for (j = 0; i + j < n; j++)
        lane[j] = a[i + j] > lane[j] ? a[i + j] : lane[j];
    for (j = 0; j < LANES; j++) m = lane[j] > m ? lane[j] : m;
    return m;
}

/* ---- functions ---------------------------------------------------------- */

/* e^x. In f32 without branches, so that loops vectorise: x = n ln 2 + r, e^r
** by its series (|r| < 0.35, remainder 5e-9), 2^n built from bits. Within 2
** units in the last place; below -86.6 it is 0. */
static inline real exp_of(real x)
{
#ifdef CPU_F64
    return exp(x);
#else
    const float magic = 12582912.0f;        /* 1.5 * 2^23: rounds to integer */
    float c = x < -86.6f ? -86.6f : x > 88.8f ? 88.8f : x;
    float t = c * 1.44269504f + magic;
    float n = t - magic;
    float r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 5040, s;
    uint32_t bits;

    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits - 0x4B400000u + 126u) << 23;   /* 2^(n - 1) */
    memcpy(&s, &bits, sizeof s);
    p = p * s * 2.0f;
    return x < -86.6f ? 0.0f : p;
#endif
}

static inline real sigmoid(real x)
{
    return 1 / (1 + exp_of(-x));
}

/* d silu(x) / dx where s = sigmoid(x). */
static inline real silu_slope(real x, real s)
{
    return s * (1 + x * (1 - s));
}

#endif
