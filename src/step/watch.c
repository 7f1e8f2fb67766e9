/* watch.c - see watch.h */
#include "step/watch.h"

#include <stdlib.h>
#include <string.h>

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

/* Element i as a number of its type: all bits of its exponent are set in an
** infinity and in what is no number. */
static bool element(const struct mat *m, int64_t i, bool infinite_too)
{
    uint16_t h;
    uint32_t f;
    uint64_t d;

    switch (m->t) {
    case DT_BF16:
        memcpy(&h, (const char *)m->p + i * 2, sizeof h);
        return (h & 0x7f80) == 0x7f80 && (infinite_too || h != 0xff80);
    case DT_F32:
        memcpy(&f, (const char *)m->p + i * 4, sizeof f);
        return (f & 0x7f800000) == 0x7f800000 &&
               (infinite_too || f != 0xff800000);
    default:
        memcpy(&d, (const char *)m->p + i * 8, sizeof d);
        return (d & UINT64_C(0x7ff) << 52) == UINT64_C(0x7ff) << 52 &&
               (infinite_too || d != UINT64_C(0xfff) << 52);
    }
}

static bool bad(const struct seen *x)
{
    bool infinite_too = strstr(x->op, "lse") == NULL;
    int64_t n = x->m.rows * x->m.cols, i;

    for (i = 0; i < n; i++)
        if (element(&x->m, i, infinite_too)) return true;
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
