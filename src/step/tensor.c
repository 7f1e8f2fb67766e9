/* tensor.c - see tensor.h */
#include "step/tensor.h"

#include <assert.h>

#include "base/num.h"

static struct mat view(void *p, int64_t rows, int64_t cols, enum dtype t)
{
    return (struct mat){p, rows, cols, cols, t};
}

static int too_large(const struct step *s, const char *op, int64_t rows,
                     int64_t cols)
{
    return err_set(s->e, ERR_INPUT, "%s: %lld rows of %lld columns overflow "
                   "64-bit bytes (use fewer rows)", op, (long long)rows,
                   (long long)cols);
}

/* Apart from ten_of, whose result never has to lie in memory for it. */
__attribute__((noinline))
static void watched(struct step *s, struct mem_block *b, const char *op,
                    int64_t rows, int64_t cols, enum dtype t)
{
    struct tensor x = {b, view((void *)(uintptr_t)mem_addr(b), rows, cols, t)};

    if (s->rc == ERR_OK) watch_take(s, &x, op);
}

struct tensor ten_of(struct step *s, enum category c, const char *op,
                     int64_t rows, int64_t cols, enum dtype t)
{
    struct mem_tag tag = {(uint8_t)c, (uint8_t)s->phase, (int16_t)s->layer,
                          op};
    struct mem_block *b = NULL;
    int64_t bytes = 0;

    assert(rows >= 0 && cols >= 0 && c < CAT_COUNT);
    if (s->rc == ERR_OK && !num_mul(rows, cols * dtype_bytes(t), &bytes))
        s->rc = too_large(s, op, rows, cols);
    if (s->rc == ERR_OK) {
        s->rc = mem_alloc(s->mem, (uint64_t)bytes, tag, &s->taken, s->e);
        if (s->rc == ERR_OK) b = s->taken;
    }
    if (s->watching && c != CAT_WORKSPACE) watched(s, b, op, rows, cols, t);
    return (struct tensor){
        b, view((void *)(uintptr_t)mem_addr(b), rows, cols, t)};
}

struct tensor ten_act(struct step *s, enum category c, const char *op,
                      int64_t rows, int64_t cols)
{
    return ten_of(s, c, op, rows, cols, s->dev->act);
}

struct tensor ten_acc(struct step *s, enum category c, const char *op,
                      int64_t rows, int64_t cols)
{
    return ten_of(s, c, op, rows, cols, s->dev->acc);
}

void ten_free(struct step *s, struct tensor *t)
{
    struct mem_block *b = t->b;

    t->m.p = NULL;
    if (b == NULL) return;
    t->b = NULL;
    if (s->watching) watch_drop(s, b);
    mem_release(s->mem, b);
}

void ten_free_all(struct step *s, struct tensor *t, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) ten_free(s, &t[i]);
}

struct mat mat_shape(struct mat m, int64_t rows, int64_t cols)
{
    assert(m.ld == m.cols || m.rows <= 1);
    assert(rows * cols == m.rows * m.cols);
    return view(m.p, rows, cols, m.t);
}

struct tensor ten_to_act(struct step *s, enum category c, const char *op,
                         struct tensor *x)
{
    struct tensor y = ten_act(s, c, op, x->m.rows, x->m.cols);

    RUN(s, copy, .dst = y.m, .src = x->m);
    ten_free(s, x);
    return y;
}

struct tensor ten_cols(struct step *s, enum category c, const char *op,
                       struct mat x, int64_t first, int64_t n)
{
    struct tensor t = ten_act(s, c, op, x.rows, n);

    RUN(s, copy, .dst = t.m, .src = mat_cols(x, first, n));
    return t;
}
