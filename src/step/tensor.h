/*
** tensor.h - blocks of the rank's allocator seen as matrices, and the calls
** of kernels on them.
**
** Errors are sticky. A failed allocation or kernel sets s->rc (and *s->e);
** from then on allocations return empty tensors and kernels are skipped, so
** the layer code reads straight down and the wave checks once. Nothing is
** unwound on failure: the allocator's owner returns every segment at once.
**
** A tensor is freed by ten_free after its last use, in the order in which
** the traced framework lets go of it: saved tensors when their own backward
** operator has run, temporaries when the expression that made them ends.
** Inside src/step.
*/
#ifndef STEP_TENSOR_H
#define STEP_TENSOR_H

#include <assert.h>

#include "step/rank_state.h"
#include "step/watch.h"

/* Uninitialised [rows, cols] in the activation type, the accumulator type,
** or the given one. op is a static string and names the operator. */
struct tensor ten_act(struct step *s, enum category c, const char *op,
                      int64_t rows, int64_t cols);
struct tensor ten_acc(struct step *s, enum category c, const char *op,
                      int64_t rows, int64_t cols);
struct tensor ten_of(struct step *s, enum category c, const char *op,
                     int64_t rows, int64_t cols, enum dtype t);
void ten_free(struct step *s, struct tensor *t);
/* n tensors in a row: a struct that holds nothing else, seen as an array. */
void ten_free_all(struct step *s, struct tensor *t, size_t n);
#define TENSORS(x) (struct tensor *)(x), sizeof *(x) / sizeof(struct tensor)
/* A copy in the activation type; x is freed. */
struct tensor ten_to_act(struct step *s, enum category c, const char *op,
                         struct tensor *x);
/* A copy of columns [first, first + n) as a tensor of its own. */
struct tensor ten_cols(struct step *s, enum category c, const char *op,
                       struct mat x, int64_t first, int64_t n);
/* Pointer arithmetic on integers: on dry the addresses are made up. */
static inline void *mat_at(const struct mat *m, int64_t elements)
{
    if (m->p == NULL) return NULL;
    return (void *)((uintptr_t)m->p +
                    (uintptr_t)(elements * dtype_bytes(m->t)));
}
/* Columns [first, first + n) of every row. Here, so that what only a kernel
** would read is not worked out on dry. */
static inline struct mat mat_cols(struct mat m, int64_t first, int64_t n)
{
    assert(first >= 0 && n >= 0 && first + n <= m.cols);
    m.p = mat_at(&m, first);
    m.cols = n;
    return m;
}
/* Rows [first, first + n). */
static inline struct mat mat_rows(struct mat m, int64_t first, int64_t n)
{
    assert(first >= 0 && n >= 0 && first + n <= m.rows);
    m.p = mat_at(&m, first * m.ld);
    m.rows = n;
    return m;
}
/* The same elements with other rows and columns; m must be packed. */
struct mat mat_shape(struct mat m, int64_t rows, int64_t cols);

/* Angles of the rank's attention rows, one row each. */
static inline struct mat rotary_of(const struct step *s)
{
    return mat_cols(s->rotary_rows.m, 0, s->m->rotary_dim / 2);
}

/* Runs a kernel on devices that compute: RUN(s, add, .out = y, ...). What only
** they do stands behind the rest of a function, for dry's sake: there a step
** is its own code and nothing else. */
#define RUN(s, name, ...)                                                     \
    do {                                                                      \
        if (__builtin_expect((s)->k != NULL, 0) && (s)->rc == ERR_OK)         \
            (s)->rc = (s)->k->name((s)->dev, &(struct k_##name){__VA_ARGS__}, \
                                   (s)->e);                                   \
        if (__builtin_expect((s)->watching, 0) && (s)->rc == ERR_OK)          \
            watch_ran((s), #name);                                            \
    } while (0)

#endif
