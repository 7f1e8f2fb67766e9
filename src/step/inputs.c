/*
** inputs.c - what a wave is given: ids, positions and labels of a rank's
** attention rows. On dry only their sizes count.
*/
#include <stdlib.h>
#include <string.h>

#include "step/layers.h"
#include "step/rows.h"

/* Host copies of a rank's rows, on devices that compute. Targets and weights
** are moved to the front of their arrays for the labelled rows. */
struct host_rows {
    int32_t *ids, *position, *target;
    double *weight;
};

static void host_free(struct host_rows *h)
{
    free(h->ids);
    free(h->position);
    free(h->target);
    free(h->weight);
}

static int host_new(struct step *s, struct host_rows *h)
{
    size_t rows = (size_t)s->rp->attention_rows + 1;
    size_t labels = rows + (size_t)s->data->n_more;

    h->ids = malloc(rows * sizeof *h->ids);
    h->position = malloc(rows * sizeof *h->position);
    h->target = malloc(labels * sizeof *h->target);
    h->weight = malloc(labels * sizeof *h->weight);
    free(s->label);
    free(s->label_part);
    s->n_label = 0;
    s->label = malloc(labels * sizeof *s->label);
    s->label_part = malloc(labels * sizeof *s->label_part);
    if (h->ids == NULL || h->position == NULL || h->target == NULL ||
        h->weight == NULL || s->label == NULL || s->label_part == NULL)
        return err_nomem(s->e);
    return ERR_OK;
}

static void host_gather(struct step *s, const struct host_rows *h)
{
    const struct plan *p = s->c.plan;
    int64_t rank = s->c.rank;

    plan_positions(p, rank, LAYER_ATTENTION, h->position);
    plan_gather(p, rank, LAYER_ATTENTION, s->data->ids, sizeof *h->ids,
                h->ids);
    plan_gather(p, rank, LAYER_ATTENTION, s->data->target, sizeof *h->target,
                h->target);
    plan_gather(p, rank, LAYER_ATTENTION, s->data->weight, sizeof *h->weight,
                h->weight);
}

static int check_row(const struct step *s, const struct host_rows *h,
                     int64_t row)
{
    int64_t vocab = s->m->vocab;

    if (h->ids[row] < 0 || h->ids[row] >= vocab || h->target[row] >= vocab)
        return err_set(s->e, ERR_INPUT, "tokens: row %lld of rank %lld has "
                       "id %d and target %d, the vocabulary holds %lld (use "
                       "the model's tokenizer)", (long long)row,
                       (long long)s->c.rank, (int)h->ids[row],
                       (int)h->target[row], (long long)vocab);
    if (h->position[row] >= s->m->max_positions)
        return err_set(s->e, ERR_INPUT, "max_position_embeddings: row %lld "
                       "of rank %lld has position %d, the model knows %lld "
                       "(use shorter sequences)", (long long)row,
                       (long long)s->c.rank, (int)h->position[row],
                       (long long)s->m->max_positions);
    return ERR_OK;
}

static void add_label(struct step *s, int64_t row)
{
    struct range *last = s->label + s->n_label - 1;

    if (s->n_label > 0 && last->start + last->len == row)
        last->len++;
    else
        s->label[s->n_label++] = (struct range){row, 1};
}

/* The first of the further labels at or behind a packed row. */
static int64_t more_from(const struct step_data *d, int64_t row)
{
    int64_t lo = 0, hi = d->n_more;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (d->more[mid].row < row) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* Further labels of this rank's rows, behind the n first ones. */
static int add_more(struct step *s, struct host_rows *h, int64_t n)
{
    const struct step_data *d = s->data;
    int64_t i, j, row = 0, first = n;

    for (i = 0; i < s->rp->n_attention; row += s->rp->attention[i++].len) {
        struct range r = s->rp->attention[i];

        for (j = more_from(d, r.start);
             j < d->n_more && d->more[j].row < r.start + r.len; j++) {
            if (d->more[j].target < 0 || d->more[j].target >= s->m->vocab)
                return err_set(s->e, ERR_INPUT, "labels: target %d of packed "
                               "row %lld, the vocabulary holds %lld",
                               (int)d->more[j].target,
                               (long long)d->more[j].row,
                               (long long)s->m->vocab);
            h->target[n] = d->more[j].target;
            h->weight[n++] = d->more[j].weight;
            s->label[s->n_label++]
                = (struct range){row + d->more[j].row - r.start, 1};
        }
    }
    if (n - first == s->c.more_labels) return ERR_OK;
    return err_set(s->e, ERR_INPUT, "labels: rank %lld is said to have %lld "
                   "further labels, it has %lld", (long long)s->c.rank,
                   (long long)s->c.more_labels, (long long)(n - first));
}

static int host_fill(struct step *s, struct host_rows *h)
{
    int64_t row, n = 0;

    host_gather(s, h);
    for (row = 0; row < s->rp->attention_rows; row++) {
        int rc = check_row(s, h, row);

        if (rc != ERR_OK) return rc;
        if (h->target[row] < 0) continue;
        h->target[n] = h->target[row];
        h->weight[n++] = h->weight[row];
        add_label(s, row);
    }
    if (n == s->c.head_rows) return add_more(s, h, n);
    return err_set(s->e, ERR_INPUT, "head_rows: rank %lld is said to have "
                   "%lld labelled rows, its tokens have %lld",
                   (long long)s->c.rank, (long long)s->c.head_rows,
                   (long long)n);
}

/* Weights in the accumulator type, in their own place: from the first on, an
** f32 never lies behind the f64 that it comes from. */
static void narrow_weights(const struct step *s, double *weight)
{
    int64_t i, n = s->loss_weight.m.rows;
    char *to = (char *)weight;

    if (s->loss_weight.m.t == DT_F64) return;
    for (i = 0; i < n; i++) {
        float f = (float)weight[i];
        memcpy(to + i * (int64_t)sizeof f, &f, sizeof f);
    }
}

static void inputs_new(struct step *s, const struct host_rows *h)
{
    int64_t rows = s->rp->attention_rows;
    int64_t n = s->c.head_rows + s->c.more_labels;

    s->ids = ten_of(s, CAT_OTHER, "input.ids", rows, 1, DT_I32);
    s->positions = ten_of(s, CAT_OTHER, "input.positions", rows, 1, DT_I32);
    s->target = ten_of(s, CAT_OTHER, "input.targets", n, 1, DT_I32);
    s->loss_weight = ten_acc(s, CAT_OTHER, "input.loss_weights", n, 1);
    s->loss = ten_of(s, CAT_OTHER, "output.loss", 1, 1, DT_F64);
    step_upload(s, s->ids.m, h->ids);
    step_upload(s, s->positions.m, h->position);
    step_upload(s, s->target.m, h->target);
    if (h->weight != NULL) narrow_weights(s, h->weight);
    step_upload(s, s->loss_weight.m, h->weight);
    RUN(s, fill, .x = s->loss.m, .value = 0);
}

void inputs_make(struct step *s)
{
    struct host_rows h = {NULL, NULL, NULL, NULL};

    if (s->k != NULL && s->rc == ERR_OK) s->rc = host_new(s, &h);
    if (s->k != NULL && s->rc == ERR_OK) s->rc = host_fill(s, &h);
    inputs_new(s, &h);
    host_free(&h);
}

void inputs_free(struct step *s)
{
    ten_free(s, &s->ids);
    ten_free(s, &s->positions);
    ten_free(s, &s->target);
    ten_free(s, &s->loss_weight);
    ten_free(s, &s->loss);
}
