/* gdn_table.c - see gdn_table.h */
#include "step/gdn_table.h"

/* ---- rows in and out of buckets ----------------------------------------- */

struct tensor gdn_take_rows(struct step *s, const struct gdn_bucket *b,
                            const char *op, struct tensor *x, bool masked)
{
    struct tensor t = *x;
    int64_t i;

    if (b->run == NULL) {
        *x = (struct tensor){NULL, x->m};
        return t;
    }
    t = ten_of(s, CAT_GDN, op, b->rows, x->m.cols, x->m.t);
    for (i = 0; s->k != NULL && i < b->n_run; i++) {
        const struct gdn_run *r = &b->run[i];
        struct mat to = mat_rows(t.m, r->at, r->len);

        if (masked && !r->writes)
            RUN(s, fill, .x = to, .value = 0);
        else
            RUN(s, copy, .dst = to, .src = mat_rows(x->m, r->start, r->len));
    }
    return t;
}

void gdn_put_rows(struct step *s, const struct gdn_bucket *b,
                  struct tensor *whole, struct tensor *part)
{
    struct tensor next;
    int64_t i;

    if (b->run == NULL) {
        *whole = *part;
        return;
    }
    next = ten_act(s, CAT_GDN, "gdn.scatter", whole->m.rows, whole->m.cols);
    RUN(s, copy, .dst = next.m, .src = whole->m);
    for (i = 0; s->k != NULL && i < b->n_run; i++)
        if (b->run[i].writes)
            RUN(s, copy,
                .dst = mat_rows(next.m, b->run[i].start, b->run[i].len),
                .src = mat_rows(part->m, b->run[i].at, b->run[i].len));
    ten_free(s, whole);
    ten_free(s, part);
    *whole = next;
}

void gdn_add_rows(struct step *s, const struct gdn_bucket *b,
                  struct tensor *whole, struct tensor *part)
{
    int64_t i;

    if (b->run == NULL) {
        *whole = *part;
        return;
    }
    for (i = 0; s->k != NULL && i < b->n_run; i++) {
        struct mat to = mat_rows(whole->m, b->run[i].start, b->run[i].len);
        struct mat from = mat_rows(part->m, b->run[i].at, b->run[i].len);

        RUN(s, add, .out = to, .a = to, .b = from);
    }
    ten_free(s, part);
}

struct tensor gdn_all_rows(struct step *s, const char *op, int64_t rows,
                           int64_t cols, enum dtype t)
{
    struct tensor x = {NULL, {NULL, rows, cols, cols, t}};

    if (s->flow->n_bucket > 0 && s->flow->bucket[0].run == NULL) return x;
    x = ten_of(s, CAT_GDN, op, rows, cols, t);
    RUN(s, fill, .x = x.m, .value = 0);
    return x;
}

/* ---- tables of states and halos ----------------------------------------- */

/* Item i of a table whose items are n rows. */
static struct mat table_item(struct mat table, int64_t i, int64_t n)
{
    return mat_rows(table, i * n, n);
}

void gdn_begin_table(struct step *s, const struct gdn_bucket *b,
                     struct mat kept, struct mat parent, int64_t n)
{
    int64_t i;

    for (i = 0; s->k != NULL && b->init != NULL && i < b->n_kept; i++)
        if (b->init[i] < 0)
            RUN(s, fill, .x = table_item(kept, i, n), .value = 0);
        else
            RUN(s, copy, .dst = table_item(kept, i, n),
                .src = table_item(parent, b->init[i], n));
}

struct tensor gdn_whole_table(struct step *s, const struct gdn_bucket *b,
                              const char *op, struct tensor kept,
                              int64_t n)
{
    struct tensor t;

    if (b->n_state == b->n_kept) return kept;
    t = ten_of(s, CAT_GDN, op, b->n_state * n, kept.m.cols, kept.m.t);
    RUN(s, copy, .dst = mat_rows(t.m, 0, kept.m.rows), .src = kept.m);
    return t;
}

void gdn_free_copy(struct step *s, struct tensor *whole,
                   const struct tensor *kept)
{
    if (whole->b != kept->b) ten_free(s, whole);
}

struct tensor gdn_gradient_table(struct step *s,
                                 const struct gdn_bucket *b,
                                 const char *op, int64_t cols, int64_t n,
                                 struct tensor *left)
{
    struct tensor d = ten_acc(s, CAT_GDN, op, b->n_state * n, cols);

    RUN(s, fill, .x = d.m, .value = 0);
    if (left->b != NULL)
        RUN(s, copy, .dst = mat_rows(d.m, b->n_kept * n, left->m.rows),
            .src = left->m);
    ten_free(s, left);
    return d;
}

void gdn_leave_to_parent(struct step *s, const struct gdn_bucket *b,
                         const char *op, struct tensor *d, int64_t n,
                         struct tensor *left)
{
    const struct gdn_bucket *up = s->flow->bucket + b->parent;
    int64_t i;

    if (b->parent >= 0) {
        *left = ten_acc(s, CAT_GDN, op, up->n_kept * n, d->m.cols);
        RUN(s, fill, .x = left->m, .value = 0);
    }
    for (i = 0; s->k != NULL && b->parent >= 0 && i < b->n_kept; i++) {
        struct mat to;

        if (b->init[i] < 0) continue;
        to = table_item(left->m, b->init[i] - up->n_kept, n);
        RUN(s, add, .out = to, .a = to, .b = table_item(d->m, i, n));
    }
    ten_free(s, d);
}
