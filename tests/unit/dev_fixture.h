/*
** dev_fixture.h - for test_dev_*.c: a cpu device, matrices on it, and
** comparison of what kernels leave in them.
**
** Every matrix is a block of exactly its size, so that the sanitizer build
** sees a kernel that steps outside. Outputs begin as NaN.
*/
#ifndef TESTS_UNIT_DEV_FIXTURE_H
#define TESTS_UNIT_DEV_FIXTURE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dev/dev.h"
#include "base/random.h"

struct fix {
    struct dev *d;
    struct err e;
    void *block[1024];          /* all matrices, freed at close */
    int n_block;
};

static inline void fix_open(struct fix *f, enum dtype act)
{
    struct dev_options o = {.act = act};

    memset(f, 0, sizeof *f);
    assert_int_equal(dev_cpu.open(&o, &f->d, &f->e), ERR_OK);
}

static inline void fix_close(struct fix *f)
{
    while (f->n_block > 0) free(f->block[--f->n_block]);
    dev_cpu.close(f->d);
}

/* Runs a kernel that must succeed. */
#define CALL(f, name, ...)                                                   \
    do {                                                                     \
        if ((f)->d->k->name((f)->d, &(struct k_##name){__VA_ARGS__}, &(f)->e) \
            != ERR_OK)                                                       \
            fail_msg("%s: %s", #name, (f)->e.text);                          \
    } while (0)
/* Its error code. */
#define CALL_RC(f, name, ...)                                                \
    (f)->d->k->name((f)->d, &(struct k_##name){__VA_ARGS__}, &(f)->e)

static inline void *fix_bytes(struct fix *f, size_t n)
{
    void *p = malloc(n > 0 ? n : 1);

    assert_non_null(p);
    assert_true(f->n_block < 1024);
    f->block[f->n_block++] = p;
    return p;
}

/* All bits set: NaN in every float type. */
static inline struct mat fix_new(struct fix *f, int64_t rows, int64_t cols,
                                 enum dtype t)
{
    size_t n = (size_t)(rows * cols * dtype_bytes(t));
    struct mat m = {n > 0 ? fix_bytes(f, n) : NULL, rows, cols, cols, t};

    if (n > 0) memset(m.p, 0xFF, n);
    return m;
}

static inline struct mat fix_act(struct fix *f, int64_t rows, int64_t cols)
{
    return fix_new(f, rows, cols, f->d->act);
}

static inline struct mat fix_acc(struct fix *f, int64_t rows, int64_t cols)
{
    return fix_new(f, rows, cols, f->d->acc);
}

/* ---- elements ----------------------------------------------------------- */

static inline void *fix_at(struct mat m, int64_t r, int64_t c)
{
    return (char *)m.p + (r * m.ld + c) * dtype_bytes(m.t);
}

static inline double fix_get(struct mat m, int64_t r, int64_t c)
{
    const void *p = fix_at(m, r, c);
    uint32_t u;
    float x;

    switch (m.t) {
    case DT_F64: return *(const double *)p;
    case DT_F32: return (double)*(const float *)p;
    case DT_I64: return (double)*(const int64_t *)p;
    case DT_I32: return (double)*(const int32_t *)p;
    case DT_U8: return (double)*(const uint8_t *)p;
    case DT_BF16: break;
    }
    u = (uint32_t)*(const uint16_t *)p << 16;
    memcpy(&x, &u, sizeof x);
    return (double)x;
}

/* To the nearest bf16, ties to even: what the device must do too. */
static inline uint16_t fix_bf16(double x)
{
    float f = (float)x;
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    if (isnan(f)) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

static inline void fix_set(struct mat m, int64_t r, int64_t c, double x)
{
    void *p = fix_at(m, r, c);

    switch (m.t) {
    case DT_F64: *(double *)p = x; return;
    case DT_F32: *(float *)p = (float)x; return;
    case DT_I64: *(int64_t *)p = (int64_t)x; return;
    case DT_I32: *(int32_t *)p = (int32_t)x; return;
    case DT_U8: *(uint8_t *)p = (uint8_t)x; return;
    case DT_BF16: break;
    }
    *(uint16_t *)p = fix_bf16(x);
}

/* ---- inputs ------------------------------------------------------------- */

/* Element i is random_value(1, stream of the name, i, ...): what the golden
** script computes for an input of that name. */
static inline struct mat fix_fill(struct mat m, const char *name,
                                  double scale, double offset)
{
    uint64_t stream = random_stream(name);
    int64_t r, c;

    for (r = 0; r < m.rows; r++)
        for (c = 0; c < m.cols; c++)
            fix_set(m, r, c,
                    random_value(1, stream, (uint64_t)(r * m.cols + c), scale,
                                 offset));
    return m;
}

static inline struct mat fix_in(struct fix *f, const char *name, int64_t rows,
                                int64_t cols, double scale, double offset)
{
    return fix_fill(fix_act(f, rows, cols), name, scale, offset);
}

static inline struct mat fix_in_acc(struct fix *f, const char *name,
                                    int64_t rows, int64_t cols, double scale,
                                    double offset)
{
    return fix_fill(fix_acc(f, rows, cols), name, scale, offset);
}

static inline struct mat fix_zero(struct mat m)
{
    int64_t r;

    for (r = 0; r < m.rows && m.cols > 0; r++)
        memset(fix_at(m, r, 0), 0, (size_t)(m.cols * dtype_bytes(m.t)));
    return m;
}

/* Views. */
static inline struct mat fix_rows(struct mat m, int64_t first, int64_t n)
{
    m.p = n > 0 ? fix_at(m, first, 0) : NULL;
    m.rows = n;
    return m;
}

static inline struct mat fix_cols(struct mat m, int64_t first, int64_t n)
{
    m.p = fix_at(m, 0, first);
    m.cols = n;
    return m;
}

static inline struct mat fix_shape(struct mat m, int64_t rows, int64_t cols)
{
    assert_true(m.ld == m.cols && rows * cols == m.rows * m.cols);
    m.rows = rows;
    m.cols = m.ld = cols;
    return m;
}

/* ---- comparison --------------------------------------------------------- */

static inline void fix_differ(const char *what, double error, double limit)
{
    if (!(error <= limit))
        fail_msg("%s: relative error %.3g over %.3g", what, error, limit);
}

/* |a - b| / |b| over all elements; equal infinities count as equal. */
static inline double fix_distance(struct mat a, struct mat b)
{
    double top = 0, low = 0;
    int64_t r, c;

    assert_int_equal(a.rows, b.rows);
    assert_int_equal(a.cols, b.cols);
    for (r = 0; r < a.rows; r++)
        for (c = 0; c < a.cols; c++) {
            double x = fix_get(a, r, c), y = fix_get(b, r, c);
            if (isinf(y) && x == y) continue;
            top += (x - y) * (x - y);
            low += y * y;
        }
    return top == 0 ? 0 : sqrt(top / low);
}

static inline void fix_near(const char *what, struct mat a, struct mat b,
                            double limit)
{
    fix_differ(what, fix_distance(a, b), limit);
}

static inline void fix_equal(const char *what, struct mat a, struct mat b)
{
    int64_t r;

    assert_true(a.rows == b.rows && a.cols == b.cols && a.t == b.t);
    for (r = 0; r < a.rows; r++)
        if (memcmp(fix_at(a, r, 0), fix_at(b, r, 0),
                   (size_t)(a.cols * dtype_bytes(a.t))) != 0)
            fail_msg("%s: row %lld differs", what, (long long)r);
}

/* Sum of the products of two matrices. */
static inline double fix_inner(struct mat a, struct mat b)
{
    double s = 0;
    int64_t r, c;

    for (r = 0; r < a.rows; r++)
        for (c = 0; c < a.cols; c++)
            s += fix_get(a, r, c) * fix_get(b, r, c);
    return s;
}

static inline bool fix_has_nan(struct mat m)
{
    int64_t r, c;

    for (r = 0; r < m.rows; r++)
        for (c = 0; c < m.cols; c++)
            if (isnan(fix_get(m, r, c))) return true;
    return false;
}

#endif
