/*
** pair.h - for test_cuda_*.c: the same kernel call on the cpu device and on
** the emulated cuda device, in three orders of blocks and threads, the last
** one with streams that take their time.
**
** A call's matrices are registered with a limit: the relative L2 error
** against the cpu device, PAIR_SCRATCH for what is not compared. Inputs have
** limit 0, so that a kernel that writes to one is seen; what lies beside a
** strided view must keep its bits. In all orders the cuda device must leave
** the same bits.
*/
#ifndef TESTS_CUDA_PAIR_H
#define TESTS_CUDA_PAIR_H

#include "../unit/dev_fixture.h"
#include "../emu/control.h"

#define PAIR_SCRATCH (-1.0)
/* A pad with which the third row of a view is beyond element 2^31. */
#define PAIR_FAR ((int64_t)1 << 30)
/* Beside each row of a far view so many bytes are looked at. */
enum { PAIR_MARGIN = 64 };

extern const struct dev_ops cu_ops;

struct pair_matrix {
    const char *name;
    struct mat m;
    double limit;
    unsigned char *block, *before, *cpu, *first;
    size_t bytes;
    bool far;                   /* sparse memory of that size */
};

struct pair {
    struct fix f;               /* the cpu device; owns the blocks */
    struct dev *cu;
    struct pair_matrix x[64];
    int n;
    int64_t pad;                /* elements between rows of matrices to come */
    double limit;               /* of outputs: by the activation type */
};

static inline void pair_open(struct pair *p, enum dtype act)
{
    struct dev_options o = {.act = act};

    memset(p, 0, sizeof *p);
    fix_open(&p->f, act);
    if (cu_ops.open(&o, &p->cu, &p->f.e) != ERR_OK)
        fail_msg("%s", p->f.e.text);
    p->limit = act == DT_BF16 ? 1e-2 : 5e-6;
}

/* Forgets the matrices, for a next call. */
static inline void pair_reset(struct pair *p)
{
    int i;

    for (i = 0; i < p->n; i++) {
        struct pair_matrix *x = &p->x[i];

        if (!x->far) continue;
        emu_sparse_free(x->block, x->bytes);
        emu_sparse_free(x->before, x->bytes);
        emu_sparse_free(x->cpu, x->bytes);
        emu_sparse_free(x->first, x->bytes);
    }
    while (p->f.n_block > 0) free(p->f.block[--p->f.n_block]);
    p->n = 0;
}

static inline void pair_close(struct pair *p)
{
    pair_reset(p);
    cu_ops.close(p->cu);
    fix_close(&p->f);
}

/* Whether there can be far views here. */
static inline bool pair_can_far(void)
{
    void *p = emu_sparse_new(1);

    if (p != NULL) emu_sparse_free(p, 1);
    return p != NULL;
}

/* ---- bytes: all of a matrix, or of a far one its rows and their margins -- */

static inline void *pair_bytes(struct pair *p, const struct pair_matrix *x)
{
    void *b = x->far ? emu_sparse_new(x->bytes) : fix_bytes(&p->f, x->bytes);

    assert_non_null(b);
    return b;
}

/* Where row r and its margins lie in the block: *at, *n. */
static inline void pair_row(const struct pair_matrix *x, int64_t r,
                            size_t *at, size_t *n)
{
    size_t w = (size_t)dtype_bytes(x->m.t), ld = (size_t)x->m.ld * w;

    *at = (size_t)((unsigned char *)x->m.p - x->block) + (size_t)r * ld
          - PAIR_MARGIN;
    *n = (size_t)x->m.cols * w + 2 * PAIR_MARGIN;
}

static inline void pair_copy(const struct pair_matrix *x, unsigned char *to,
                             const unsigned char *from)
{
    int64_t r;

    if (!x->far) memcpy(to, from, x->bytes);
    for (r = 0; r < x->m.rows && x->far; r++) {
        size_t at, n;

        pair_row(x, r, &at, &n);
        memcpy(to + at, from + at, n);
    }
}

static inline bool pair_same(const struct pair_matrix *x,
                             const unsigned char *a, const unsigned char *b)
{
    int64_t r;

    if (!x->far) return memcmp(a, b, x->bytes) == 0;
    for (r = 0; r < x->m.rows; r++) {
        size_t at, n;

        pair_row(x, r, &at, &n);
        if (memcmp(a + at, b + at, n) != 0) return false;
    }
    return true;
}

/* NaN everywhere. An f64 or integer matrix too. */
static inline struct mat pair_new(struct pair *p, const char *name,
                                  int64_t rows, int64_t cols, enum dtype t,
                                  double limit)
{
    int64_t ld = cols + p->pad, w = dtype_bytes(t);
    struct pair_matrix *x = &p->x[p->n++];
    int64_t r;

    assert_true(p->n <= 64);
    x->name = name;
    x->limit = limit;
    x->bytes = (size_t)(rows * ld * w);
    x->far = p->pad >= PAIR_FAR >> 8 && rows * cols > 0;
    x->block = pair_bytes(p, x);
    x->before = pair_bytes(p, x);
    x->cpu = pair_bytes(p, x);
    x->first = pair_bytes(p, x);
    x->m = (struct mat){x->block + p->pad / 2 * w, rows, cols, ld, t};
    if (!x->far) memset(x->block, 0xFF, x->bytes);
    for (r = 0; r < rows && x->far; r++) {
        size_t at, n;

        pair_row(x, r, &at, &n);
        memset(x->block + at, 0xFF, n);
    }
    if (rows * cols == 0) x->m.p = NULL;
    return x->m;
}

static inline struct mat pair_act(struct pair *p, const char *name,
                                  int64_t rows, int64_t cols)
{
    return pair_new(p, name, rows, cols, p->f.d->act, p->limit);
}

static inline struct mat pair_acc(struct pair *p, const char *name,
                                  int64_t rows, int64_t cols)
{
    return pair_new(p, name, rows, cols, DT_F32, p->limit);
}

static inline struct mat pair_scratch(struct pair *p, const char *name,
                                      int64_t rows, int64_t cols)
{
    return pair_new(p, name, rows, cols, p->f.d->act, PAIR_SCRATCH);
}

static inline struct mat pair_in(struct pair *p, const char *name,
                                 int64_t rows, int64_t cols, double scale,
                                 double offset)
{
    return fix_fill(pair_new(p, name, rows, cols, p->f.d->act, 0), name,
                    scale, offset);
}

static inline struct mat pair_in_acc(struct pair *p, const char *name,
                                     int64_t rows, int64_t cols,
                                     double scale, double offset)
{
    return fix_fill(pair_new(p, name, rows, cols, DT_F32, 0), name, scale,
                    offset);
}

/* An input that the kernel changes too. */
static inline struct mat pair_changes(struct pair *p, struct mat m)
{
    p->x[p->n - 1].limit = p->limit;
    return m;
}

/* ---- a call ----------------------------------------------------------- */

static inline void pair_begin(struct pair *p)
{
    int i;

    for (i = 0; i < p->n; i++)
        pair_copy(&p->x[i], p->x[i].before, p->x[i].block);
}

static inline void pair_cpu(struct pair *p)
{
    int i;

    for (i = 0; i < p->n; i++)
        pair_copy(&p->x[i], p->x[i].cpu, p->x[i].block);
}

static inline void pair_restore(struct pair *p, int order)
{
    static const enum emu_order orders[] = {EMU_FORWARD, EMU_REVERSE,
                                            EMU_SHUFFLED};
    int i;

    for (i = 0; i < p->n; i++)
        pair_copy(&p->x[i], p->x[i].block, p->x[i].before);
    emu_set_order(orders[order], 7);
}

/* The cpu's view of a matrix. */
static inline struct mat pair_want(const struct pair_matrix *x)
{
    struct mat m = x->m;

    if (m.p != NULL) m.p = x->cpu + ((unsigned char *)m.p - x->block);
    return m;
}

/* Bytes outside the view are those from before. */
static inline void pair_margin(const struct pair_matrix *x, const char *what)
{
    size_t w = (size_t)dtype_bytes(x->m.t), i, at, n;
    size_t ld = (size_t)x->m.ld * w, cols = (size_t)x->m.cols * w;
    size_t off = x->m.p == NULL ? 0
        : (size_t)((unsigned char *)x->m.p - x->block);
    int64_t r;

    for (i = 0; i < x->bytes && !x->far; i++)
        if ((i % ld < off || i % ld >= off + cols)
            && x->block[i] != x->before[i])
            fail_msg("%s: %s: byte %zu beside the view was written", what,
                     x->name, i);
    for (r = 0; r < x->m.rows && x->far; r++) {
        pair_row(x, r, &at, &n);
        if (memcmp(x->block + at, x->before + at, PAIR_MARGIN) != 0
            || memcmp(x->block + at + n - PAIR_MARGIN,
                      x->before + at + n - PAIR_MARGIN, PAIR_MARGIN) != 0)
            fail_msg("%s: %s: beside row %d of the view was written", what,
                     x->name, (int)r);
    }
}

/* |a - b| / |b|; equal bits and NaNs on both sides count as equal. */
static inline double pair_distance(struct mat a, struct mat b)
{
    double top = 0, low = 0;
    int64_t r, c;

    for (r = 0; r < a.rows; r++)
        for (c = 0; c < a.cols; c++) {
            double x = fix_get(a, r, c), y = fix_get(b, r, c);
            if (!isnan(y) && !isinf(y)) low += y * y;
            if (memcmp(fix_at(a, r, c), fix_at(b, r, c),
                       (size_t)dtype_bytes(a.t)) == 0
                || (isnan(x) && isnan(y)))
                continue;
            top += (x - y) * (x - y);
        }
    return top == 0 ? 0 : sqrt(top / low);
}

static inline void pair_compare(struct pair *p, const char *kernel, int order)
{
    int i;

    for (i = 0; i < p->n; i++) {
        struct pair_matrix *x = &p->x[i];
        double d;

        pair_margin(x, kernel);
        if (x->limit < 0) continue;
        if (order > 0) {
            if (!pair_same(x, x->first, x->block))
                fail_msg("%s: %s depends on the order of threads", kernel,
                         x->name);
            continue;
        }
        pair_copy(x, x->first, x->block);
        d = pair_distance(x->m, pair_want(x));
        if (getenv("PAIR_SHOW") != NULL)
            printf("%-16s %-12s %.2g\n", kernel, x->name, d);
        if (!(d <= x->limit))
            fail_msg("%s: %s: relative error %.3g over %.3g", kernel, x->name,
                     d, x->limit);
    }
}

/* Goes on with what the cpu device found. */
static inline void pair_end(struct pair *p)
{
    int i;

    for (i = 0; i < p->n; i++)
        pair_copy(&p->x[i], p->x[i].block, p->x[i].cpu);
}

#define BOTH(p, name, ...)                                                   \
    do {                                                                     \
        struct k_##name a_ = {__VA_ARGS__};                                  \
        struct pair *p_ = (p);                                               \
        int o_;                                                              \
        pair_begin(p_);                                                      \
        if (p_->f.d->k->name(p_->f.d, &a_, &p_->f.e) != ERR_OK)              \
            fail_msg("cpu %s: %s", #name, p_->f.e.text);                     \
        pair_cpu(p_);                                                        \
        for (o_ = 0; o_ < 3; o_++) {                                         \
            pair_restore(p_, o_);                                            \
            if (p_->cu->k->name(p_->cu, &a_, &p_->f.e) != ERR_OK             \
                || cu_ops.sync(p_->cu, &p_->f.e) != ERR_OK)                  \
                fail_msg("cuda %s: %s", #name, p_->f.e.text);                \
            if (p_->cu->ops->sync(p_->cu, &p_->f.e) != ERR_OK)               \
                fail_msg("cuda %s, running: %s", #name, p_->f.e.text);       \
            pair_compare(p_, #name, o_);                                     \
        }                                                                    \
        pair_end(p_);                                                        \
    } while (0)

/* A call that the cuda device refuses: its code. */
#define CUDA_RC(p, name, ...)                                                \
    (p)->cu->k->name((p)->cu, &(struct k_##name){__VA_ARGS__}, &(p)->f.e)

#endif
