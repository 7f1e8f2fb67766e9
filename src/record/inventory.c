/* inventory.c - what a recomputed layer holds, and until when. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyset.h"
#include "record/record.h"

/* One allocation of the layer. */
struct held {
    uint64_t alloc;         /* its event */
    enum mem_phase freed_in;
    const char *freed_after;
};

struct walk {
    const struct mem_event *trace;
    uint64_t first, n;
    struct held *held;      /* by ascending alloc */
    size_t n_held, cap;
};

static bool belongs(const struct mem_event *x, int64_t layer)
{
    return !x->is_free && x->layer == layer &&
           (x->phase == PHASE_RECOMPUTE || x->phase == PHASE_BACKWARD);
}

static bool add_held(struct walk *w, uint64_t alloc)
{
    if (w->n_held == w->cap) {
        size_t cap = w->cap ? w->cap * 2 : 256;
        struct held *p = realloc(w->held, cap * sizeof *p);
        if (p == NULL) return false;
        w->held = p;
        w->cap = cap;
    }
    w->held[w->n_held++] = (struct held){alloc, PHASE_NONE, NULL};
    return true;
}

static int by_alloc(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = ((const struct held *)b)->alloc;
    return (x > y) - (x < y);
}

/* NULL: the layer made no such allocation. Most are before or after all of
** its own. */
static struct held *find_held(const struct walk *w, uint64_t alloc)
{
    if (w->n_held == 0 || alloc < w->held[0].alloc ||
        alloc > w->held[w->n_held - 1].alloc) return NULL;
    return bsearch(&alloc, w->held, w->n_held, sizeof *w->held, by_alloc);
}

/* Collects the layer's allocations and where each is freed. */
static bool collect(struct walk *w, int64_t layer)
{
    const struct mem_event *now = NULL;
    uint64_t i;

    for (i = w->first; i < w->n; i++) {
        const struct mem_event *x = &w->trace[i];
        struct held *h;
        if (!x->is_free) {
            now = x;
            if (belongs(x, layer) && !add_held(w, i)) return false;
            continue;
        }
        h = find_held(w, x->alloc);
        if (h == NULL || now == NULL) continue;
        h->freed_in = (enum mem_phase)now->phase;
        h->freed_after = now->op;
    }
    return true;
}

/* Alike: the same operator and category, from and until the same place. */
static bool put_key(struct buf *b, const struct mem_event *t,
                    const struct held *h)
{
    const char number[] = {(char)t->category, (char)t->phase,
                           (char)h->freed_in};

    b->len = 0;
    buf_put(b, number, sizeof number);
    buf_puts(b, t->op != NULL ? t->op : "");
    buf_putc(b, '\0');
    buf_puts(b, h->freed_after != NULL ? h->freed_after : "");
    return !b->failed;
}

static void start_tensor(struct record_tensor *x, const struct mem_event *t,
                         const struct held *h, const struct record_layer *at)
{
    *x = (struct record_tensor){
        .rank = at->rank, .layer = at->layer, .kind = at->kind,
        .category = (enum category)t->category, .op = t->op,
        .rows = at->rows, .allocated_in = (enum mem_phase)t->phase,
        .freed_in = h->freed_in, .freed_after = h->freed_after,
    };
}

/* Tensors that are alike become one row, or the table had thousands. */
static int join(const struct walk *w, const struct record_layer *which,
                struct record_tensor *out, int64_t *n_out,
                int64_t kept[CAT_COUNT], struct err *e)
{
    struct keyset seen = {NULL, 0, 0};
    struct buf key = BUF_INIT;
    int64_t n = 0, *at;
    size_t i;
    int rc = ERR_OK;

    for (i = 0; i < w->n_held && rc == ERR_OK; i++) {
        const struct held *h = &w->held[i];
        const struct mem_event *x = &w->trace[h->alloc];
        if (!put_key(&key, x, h)) {
            rc = err_nomem(e);
            break;
        }
        at = keyset_find(&seen, key.data, key.len);
        if (at == NULL) {
            if (!keyset_add(&seen, key.data, key.len, n)) rc = err_nomem(e);
            start_tensor(&out[n++], x, h, which);
        }
        out[at ? *at : n - 1].count++;
        out[at ? *at : n - 1].bytes += x->bytes;
        if (x->phase == PHASE_RECOMPUTE && h->freed_in == PHASE_BACKWARD)
            kept[x->category] += (int64_t)x->bytes;
    }
    keyset_free(&seen);
    buf_free(&key);
    *n_out = n;
    return rc;
}

int record_inventory(const struct mem_event *trace, uint64_t first,
                     uint64_t n, const struct record_layer *which,
                     struct record_tensor **out, int64_t *n_out,
                     int64_t kept[CAT_COUNT], struct err *e)
{
    struct walk w = {.trace = trace, .first = first, .n = n};
    struct record_tensor *list = NULL;
    int rc = ERR_OK;

    assert(first <= n && which->layer >= 0);
    memset(kept, 0, CAT_COUNT * sizeof *kept);
    if (!collect(&w, which->layer)) rc = err_nomem(e);
    if (rc == ERR_OK) {
        list = malloc((w.n_held + 1) * sizeof *list);
        rc = list == NULL ? err_nomem(e)
             : join(&w, which, list, n_out, kept, e);
    }
    free(w.held);
    if (rc != ERR_OK) {
        free(list);
        return rc;
    }
    *out = list;
    return ERR_OK;
}
