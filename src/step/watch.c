/* watch.c - see watch.h */
#include "step/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

struct seen { const struct mem_block *b; struct mat m; const char *op; };

struct watch {
    struct seen *live;          /* [n], room for cap */
    int64_t n, cap;
    int64_t runs;               /* kernels so far */
};

struct watch *watch_new(void)
{
    return calloc(1, sizeof(struct watch));
}

void watch_free(struct watch *w)
{
    if (w != NULL) free(w->live);
    free(w);
}

static bool grow(struct watch *w)
{
    int64_t cap = w->cap > 0 ? 2 * w->cap : 64;
    struct seen *more = realloc(w->live, (size_t)cap * sizeof *more);

    if (more == NULL) return false;
    w->live = more;
    w->cap = cap;
    return true;
}

void watch_take(struct step *s, const struct tensor *t, const char *op)
{
    struct watch *w = s->watch;

    if (t->m.p == NULL) return;
    memset(t->m.p, 0, (size_t)(t->m.rows * t->m.cols * dtype_bytes(t->m.t)));
    if (t->m.t != DT_BF16 && t->m.t != DT_F32 && t->m.t != DT_F64) return;
    if (w->n == w->cap && !grow(w)) {
        s->rc = err_nomem(s->e);
        return;
    }
    w->live[w->n++] = (struct seen){t->b, t->m, op};
}

void watch_drop(struct step *s, const struct mem_block *b)
{
    struct watch *w = s->watch;
    int64_t i;

    for (i = w->n - 1; i >= 0; i--) {
        if (w->live[i].b != b) continue;
        w->live[i] = w->live[--w->n];
        return;
    }
}

enum { PART = 256 };

union part { uint16_t h[PART]; uint32_t f[PART]; uint64_t d[PART]; };

/* Whether one of n elements is no number: all bits of its exponent are set, as
** they are in an infinity. */
static bool part_bad(const union part *x, enum dtype t, int64_t n,
                     bool infinite_too)
{
    const uint64_t all = UINT64_C(0x7ff) << 52, least = UINT64_C(0xfff) << 52;
    bool found = false;
    int64_t i;

    if (t == DT_BF16) {
        for (i = 0; i < n; i++)
            found |= (x->h[i] & 0x7f80) == 0x7f80 &&
                     (infinite_too || x->h[i] != 0xff80);
    } else if (t == DT_F32) {
        for (i = 0; i < n; i++)
            found |= (x->f[i] & 0x7f800000) == 0x7f800000 &&
                     (infinite_too || x->f[i] != 0xff800000);
    } else {
        for (i = 0; i < n; i++)
            found |= (x->d[i] & all) == all &&
                     (infinite_too || x->d[i] != least);
    }
    return found;
}

/* A part at a time: thousands of calls, not millions, where a sanitizer makes
** one of each memcpy. */
static bool bad(const struct seen *x)
{
    bool infinite_too = strstr(x->op, "lse") == NULL;
    int64_t all = x->m.rows * x->m.cols, i;
    size_t size = (size_t)dtype_bytes(x->m.t);
    const char *at = x->m.p;
    union part part;

    for (i = 0; i < all; i += PART) {
        int64_t n = num_min(PART, all - i);
        memcpy(&part, at + (size_t)i * size, (size_t)n * size);
        if (part_bad(&part, x->m.t, n, infinite_too)) return true;
    }
    return false;
}

void watch_ran(struct step *s, const char *kernel)
{
    struct watch *w = s->watch;
    int64_t i;

    w->runs++;
    for (i = w->n - 1; i >= 0 && s->found.kernel == NULL; i--)
        if (bad(&w->live[i]))
            s->found = (struct step_found){s->wave, w->runs, s->layer,
                                           s->phase, w->live[i].op, kernel};
}
