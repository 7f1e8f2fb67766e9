/* cache.c - see cache.h */
#include "plan/cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of a key before those of the segments. */
#define KEY_HEAD 22

struct key {
    int64_t *v;
    int64_t n, cap;
    uint64_t hash;
};

struct entry {
    struct key key;
    struct batch batch;
    struct plan plan;
    int64_t used;               /* when last; 0: the entry is free */
};

struct plan_cache {
    struct entry *entry;
    int64_t capacity;
    struct key wanted;          /* of the request at hand */
    int64_t clock;
};

int plan_cache_new(int64_t capacity, struct plan_cache **out, struct err *e)
{
    struct plan_cache *c = calloc(1, sizeof *c);

    if (capacity < 1) capacity = 1;
    if (c == NULL) return err_nomem(e);
    c->capacity = capacity;
    c->entry = calloc((size_t)capacity, sizeof *c->entry);
    if (c->entry == NULL) {
        free(c);
        return err_nomem(e);
    }
    *out = c;
    return ERR_OK;
}

static void drop(struct entry *x)
{
    plan_free(&x->plan);
    batch_free(&x->batch);
    free(x->key.v);
    *x = (struct entry){0};
}

void plan_cache_free(struct plan_cache *c)
{
    int64_t i;

    if (c == NULL) return;
    for (i = 0; i < c->capacity; i++) drop(&c->entry[i]);
    free(c->wanted.v);
    free(c->entry);
    free(c);
}

/* ---- keys --------------------------------------------------------------- */

static int64_t bits_of(double x)
{
    int64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Everything plan_make reads of model and options. */
static int64_t put_head(int64_t *v, const struct model *m,
                        const struct plan_options *o, const struct batch *b)
{
    const int64_t head[KEY_HEAD] = {
        o->cp, o->ep, o->tp, o->profile, bits_of(o->owned_ms), o->cut_rows,
        o->gdn_cut_rows,
        m->hidden, m->experts, m->top_k, m->expert_ffn, m->shared_ffn, m->ffn,
        model_count(m, LAYER_GDN) > 0,
        m->k_heads, m->k_dim, m->v_heads, m->v_dim, m->conv,
        b->n_seg, b->n_seq, b->longest
    };

    memcpy(v, head, sizeof head);
    return KEY_HEAD;
}

static uint64_t hash_of(const int64_t *v, int64_t n)
{
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15);
    int64_t i;

    for (i = 0; i < n; i++) {
        h = (h ^ (uint64_t)v[i]) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    return h;
}

static int make_key(struct key *k, const struct model *m,
                    const struct batch *b, const struct plan_options *o,
                    struct err *e)
{
    int64_t need = KEY_HEAD + 2 * b->n_seg, i;

    if (need > k->cap) {
        int64_t *v = realloc(k->v, (size_t)need * sizeof *v);
        if (v == NULL) return err_nomem(e);
        k->v = v;
        k->cap = need;
    }
    k->n = put_head(k->v, m, o, b);
    for (i = 0; i < b->n_seg; i++) {
        k->v[k->n++] = b->seg[i].parent;
        k->v[k->n++] = b->seg[i].tokens;
    }
    k->hash = hash_of(k->v, k->n);
    return ERR_OK;
}

static bool same_key(const struct key *x, const struct key *y)
{
    return x->hash == y->hash && x->n == y->n &&
           memcmp(x->v, y->v, (size_t)x->n * sizeof *x->v) == 0;
}

/* ---- plans -------------------------------------------------------------- */

static int copy_batch(const struct batch *b, struct batch *out, struct err *e)
{
    struct segment *seg = malloc((size_t)b->n_seg * sizeof *seg);

    if (seg == NULL) return err_nomem(e);
    memcpy(seg, b->seg, (size_t)b->n_seg * sizeof *seg);
    *out = *b;
    out->seg = seg;
    return ERR_OK;
}

/* Makes the wanted plan in place of the entry used longest ago. The entry's
** batch stays where it is, so the plan may point to it. */
static int make_entry(struct plan_cache *c, const struct model *m,
                      const struct batch *b, const struct plan_options *o,
                      struct entry **out, struct err *e)
{
    struct entry *x = &c->entry[0];
    int64_t i;
    int rc;

    for (i = 1; i < c->capacity; i++)
        if (c->entry[i].used < x->used) x = &c->entry[i];
    drop(x);
    rc = copy_batch(b, &x->batch, e);
    if (rc == ERR_OK) rc = plan_make(m, &x->batch, o, &x->plan, e);
    if (rc != ERR_OK) {
        drop(x);
        return rc;
    }
    x->plan.id = c->clock + 1;
    x->key = c->wanted;
    c->wanted = (struct key){0};
    *out = x;
    return ERR_OK;
}

int plan_cache_get(struct plan_cache *c, const struct model *m,
                   const struct batch *b, const struct plan_options *o,
                   const struct plan **out, struct err *e)
{
    struct entry *x = NULL;
    int64_t i;
    int rc = make_key(&c->wanted, m, b, o, e);

    assert(c->entry != NULL);
    if (rc != ERR_OK) return rc;
    for (i = 0; i < c->capacity && x == NULL; i++)
        if (c->entry[i].used > 0 && same_key(&c->entry[i].key, &c->wanted))
            x = &c->entry[i];
    if (x == NULL) rc = make_entry(c, m, b, o, &x, e);
    if (rc != ERR_OK) return rc;
    x->used = ++c->clock;
    *out = &x->plan;
    return ERR_OK;
}
