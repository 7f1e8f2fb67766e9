/*
** inputs.c - what a wave is given: ids, positions and labels of a rank's
** rows. On dry only their sizes count.
*/
#include <stdlib.h>

#include "step/internal.h"

/* Host copies of the inputs of a rank's rows, on computing devices. */
struct host_rows {
    int32_t *ids, *position, *target;
    float *weight;
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

    h->ids = malloc(rows * sizeof *h->ids);
    h->position = malloc(rows * sizeof *h->position);
    h->target = malloc(rows * sizeof *h->target);
    h->weight = malloc(rows * sizeof *h->weight);
    free(s->label);
    free(s->label_part);
    s->n_label = 0;
    s->label = malloc(rows * sizeof *s->label);
    s->label_part = malloc(rows * sizeof *s->label_part);
    if (h->ids == NULL || h->position == NULL || h->target == NULL ||
        h->weight == NULL || s->label == NULL || s->label_part == NULL)
        return err_nomem(s->e);
    return ERR_OK;
}

/* Adds local row to the labelled ranges. */
static void label_add(struct step *s, int64_t row)
{
    struct range *last = s->label + s->n_label - 1;

    if (s->n_label > 0 && last->start + last->len == row)
        last->len++;
    else
        s->label[s->n_label++] = (struct range){row, 1};
}

/* The segment that holds a packed row, searched from segment *at on: rows
** come in ascending runs. */
static const struct segment *segment_at(const struct batch *b, int64_t row,
                                        int64_t *at)
{
    if (*at >= b->n_seg || b->seg[*at].start > row) *at = 0;
    while (row >= b->seg[*at].start + b->seg[*at].tokens) ++*at;
    return &b->seg[*at];
}

/* One packed row as local row i; labels counts the labelled ones. */
static int host_row(struct step *s, struct host_rows *h, int64_t i,
                    int64_t row, int64_t *at, int64_t *labels)
{
    const struct step_data *d = s->data;
    const struct segment *seg = segment_at(s->c.plan->batch, row, at);
    int64_t pos = seg->position + row - seg->start;

    if (d->ids[row] < 0 || d->ids[row] >= s->m->vocab ||
        d->target[row] >= s->m->vocab)
        return err_set(s->e, ERR_INPUT, "token %lld: id %d or target %d is "
                       "outside the vocabulary of %lld (use the model's "
                       "tokenizer)", (long long)row, (int)d->ids[row],
                       (int)d->target[row], (long long)s->m->vocab);
    if (pos >= s->m->max_positions)
        return err_set(s->e, ERR_INPUT, "token %lld: position %lld is beyond "
                       "max_position_embeddings %lld (use shorter sequences)",
                       (long long)row, (long long)pos,
                       (long long)s->m->max_positions);
    h->ids[i] = d->ids[row];
    h->position[i] = (int32_t)pos;
    if (d->target[row] < 0) return ERR_OK;
    h->target[*labels] = d->target[row];
    h->weight[(*labels)++] = d->weight[row];
    label_add(s, i);
    return ERR_OK;
}

static int host_fill(struct step *s, struct host_rows *h)
{
    const struct rank_plan *rp = s->rp;
    int64_t i, j, local = 0, labels = 0, at = 0;

    for (i = 0; i < rp->n_attention; i++)
        for (j = 0; j < rp->attention[i].len; j++) {
            int rc = host_row(s, h, local++, rp->attention[i].start + j, &at,
                              &labels);
            if (rc != ERR_OK) return rc;
        }
    if (labels != s->c.head_rows)
        return err_set(s->e, ERR_INPUT, "head_rows: rank %lld is given %lld "
                       "labelled rows, its tokens have %lld",
                       (long long)s->c.rank, (long long)s->c.head_rows,
                       (long long)labels);
    return ERR_OK;
}

static void inputs_new(struct step *s, const struct host_rows *h)
{
    int64_t rows = s->rp->attention_rows, n = s->c.head_rows;

    s->ids = ten_of(s, CAT_OTHER, "input.ids", rows, 1, DT_I32);
    s->positions = ten_of(s, CAT_OTHER, "input.positions", rows, 1, DT_I32);
    s->target = ten_of(s, CAT_OTHER, "input.targets", n, 1, DT_I32);
    s->loss_weight = ten_of(s, CAT_OTHER, "input.loss_weights", n, 1, DT_F32);
    s->loss = ten_of(s, CAT_OTHER, "output.loss", 1, 1, DT_F64);
    step_upload(s, s->ids.m, h->ids);
    step_upload(s, s->positions.m, h->position);
    step_upload(s, s->target.m, h->target);
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
