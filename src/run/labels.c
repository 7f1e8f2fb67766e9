/* labels.c - see labels.h: labels by row, and what ranks are told */
#include "run/labels.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int labels_add(struct label_list *l, struct label x, struct err *e)
{
    if (!isfinite(x.weight))
        return err_set(e, ERR_INPUT, "%s: a weight of packed row %" PRId64
                       " is not a finite number", l->path, x.row);
    if (l->n == l->cap) {
        int64_t cap = l->cap ? 2 * l->cap : 1024;
        struct label *p = realloc(l->label, (size_t)cap * sizeof *p);

        if (p == NULL) return err_nomem(e);
        l->label = p;
        l->cap = cap;
    }
    l->label[l->n++] = x;
    return ERR_OK;
}

static int by_row(const void *a, const void *b)
{
    const struct label *x = a, *y = b;

    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    if (x->target != y->target) return x->target < y->target ? -1 : 1;
    return x->weight < y->weight ? -1 : x->weight > y->weight;
}

static bool same_label(const struct label *a, const struct label *b)
{
    return a->row == b->row && a->target == b->target;
}

/* One entry for each row and target. */
static void merge(struct label_list *l)
{
    int64_t i, n = 0;

    qsort(l->label, (size_t)l->n, sizeof *l->label, by_row);
    for (i = 0; i < l->n; i++)
        if (n > 0 && same_label(&l->label[n - 1], &l->label[i]))
            l->label[n - 1].weight += l->label[i].weight;
        else
            l->label[n++] = l->label[i];
    l->n = n;
}

static int divide(struct label_list *l, struct err *e)
{
    double sum = 0;
    int64_t i;

    if (l->w->c->loss_sum) return ERR_OK;
    for (i = 0; i < l->n; i++) sum += l->label[i].weight;
    if (!(sum > 0))
        return err_set(e, ERR_INPUT, "%s: the weights of its %" PRId64
                       " labels add up to %g, by which they cannot be "
                       "divided (use loss = \"sum\")", l->path, l->n, sum);
    for (i = 0; i < l->n; i++) l->label[i].weight /= sum;
    return ERR_OK;
}

static int check_said(const struct label_list *l, struct err *e)
{
    const struct batch *b = l->w->plan->batch;
    int64_t i;

    for (i = 0; i < b->n_seg; i++)
        if (l->id[b->seg[i].start] < 0)
            return err_set(e, ERR_INPUT, "%s: no line goes through segment %"
                           PRId64 " of the batch", l->path, i);
    return ERR_OK;
}

/* ---- for the step -------------------------------------------------------- */

static void count(const struct run_work *w, struct run_labels *out)
{
    const struct step_data *d = &out->data;
    int64_t rank, i, row, k;

    for (rank = 0; rank < w->plan->cp; rank++) {
        const struct rank_plan *p = &w->plan->rank[rank];

        for (i = 0; i < p->n_attention; i++) {
            int64_t end = p->attention[i].start + p->attention[i].len;

            for (row = p->attention[i].start; row < end; row++)
                out->head[rank] += d->target[row] >= 0;
            for (k = 0; k < d->n_more; k++)
                out->more[rank] += d->more[k].row >= p->attention[i].start
                    && d->more[k].row < end;
        }
        out->total += out->head[rank] + out->more[rank];
    }
}

/* The list as the step's data: the first label of a row stands at the row,
** further ones behind. Takes l's ids over. */
static int give(struct label_list *l, struct run_labels *out, struct err *e)
{
    size_t rows = (size_t)l->w->plan->tokens;
    int32_t *target = malloc(rows * sizeof *target + 1);
    double *weight = calloc(rows + 1, sizeof *weight);
    struct step_label *more = malloc((size_t)(l->n + 1) * sizeof *more);
    int64_t i, n = 0;

    out->data = (struct step_data){.ids = l->id, .target = target,
                                   .weight = weight, .more = more};
    l->id = NULL;
    if (target == NULL || weight == NULL || more == NULL) return err_nomem(e);
    memset(target, 0xFF, rows * sizeof *target);
    for (i = 0; i < l->n; i++) {
        struct label x = l->label[i];

        if (target[x.row] >= 0) {
            more[n++] = (struct step_label){x.row, x.target, x.weight};
            continue;
        }
        target[x.row] = x.target;
        weight[x.row] = x.weight;
    }
    out->data.n_more = n;
    count(l->w, out);
    return ERR_OK;
}

static bool is_tensors(const char *path)
{
    size_t n = strlen(path);

    return n > 12 && strcmp(path + n - 12, ".safetensors") == 0;
}

static int read_list(struct label_list *l, struct run_labels *out,
                     struct err *e)
{
    size_t rows = (size_t)l->w->plan->tokens;
    int rc;

    l->id = malloc(rows * sizeof *l->id + 1);
    if (l->id == NULL) return err_nomem(e);
    memset(l->id, 0xFF, rows * sizeof *l->id);
    rc = is_tensors(l->path) ? labels_of_tensors(l, e)
                             : labels_of_lines(l, e);
    if (rc == ERR_OK) rc = check_said(l, e);
    if (rc == ERR_OK && l->n > 0) merge(l);
    if (rc == ERR_OK) rc = divide(l, e);
    return rc == ERR_OK ? give(l, out, e) : rc;
}

int run_labels_read(const struct run_work *w, struct run_labels **out,
                    struct err *e)
{
    struct label_list l = {.w = w, .path = w->c->labels};
    struct run_labels *x = calloc(1, sizeof *x);
    int rc = x == NULL ? err_nomem(e) : read_list(&l, x, e);

    free(l.id);
    free(l.label);
    if (rc != ERR_OK) {
        run_labels_free(x);
        return rc;
    }
    *out = x;
    return ERR_OK;
}

void run_labels_free(struct run_labels *l)
{
    if (l == NULL) return;
    free((void *)l->data.ids);
    free((void *)l->data.target);
    free((void *)l->data.weight);
    free((void *)l->data.more);
    free(l);
}
