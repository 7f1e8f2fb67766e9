/*
** inputs.c - what a wave is given: ids, positions and labels of a rank's
** attention rows. On dry only their sizes count.
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "step/dump.h"
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
    struct range *next = s->label + s->n_label;

    if (s->n_label > 0 && next[-1].start + next[-1].len == row)
        next[-1].len++;
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

/* Labelled rows move to the front: the head runs over them alone. */
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
    if (s->c.mode.wave != WAVE_TRAIN) return ERR_OK;
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

/* The angles of all positions. Training waves of the framework hold them for
** the model's whole context; so do hidden waves of models with one position a
** token, for the longest packed row so far; those with several (multimodal
** rope) compute a row's angles anew in each wave. */
static int64_t table_rows(const struct step *s)
{
    if (s->c.mode.wave == WAVE_TRAIN) return s->m->max_positions;
    return s->m->hybrid ? 0 : step_rows(s, LAYER_ATTENTION) * s->cp;
}

static void rotary_table(struct step *s)
{
    int64_t cols = s->m->rotary_dim / 2;

    if (s->rotary.b != NULL || table_rows(s) == 0) return;
    if (s->c.mode.wave != WAVE_TRAIN) cols *= 2;
    s->rotary = ten_acc(s, CAT_WORKSPACE, "attention.rotary_table",
                        table_rows(s), cols);
    RUN(s, rotary_table, .table = mat_cols(s->rotary.m, 0,
                                           s->m->rotary_dim / 2),
        .theta = s->m->rope_theta, .factor = s->m->rope.factor,
        .low = s->m->rope.low, .high = s->m->rope.high,
        .positions = s->m->rope.positions);
}

/* One row's angles on the host, as k_rotary_table makes them where positions
** are not scaled: families with scaled ones ("llama3") are no hybrids, and
** have the table. */
static void put_angles(const struct step *s, int32_t position, char *out)
{
    int64_t n = s->m->rotary_dim / 2, i;

    for (i = 0; i < n; i++) {
        double x = position * pow(s->m->rope_theta, -(double)i / (double)n);

        x = remainder(x, 2 * 3.14159265358979323846);
        if (s->dev->acc == DT_F64)
            ((double *)(void *)out)[i] = x;
        else
            ((float *)(void *)out)[i] = (float)x;
    }
}

/* Angles of the rank's rows: picked from the table, or made here. */
static void fill_angles(struct step *s, const struct host_rows *h)
{
    struct mat to = s->rotary_rows.m;
    int64_t width = to.cols * dtype_bytes(to.t), i;
    char *all;

    if (s->rotary.b != NULL) {
        RUN(s, embed, .out = rotary_of(s),
            .table = mat_cols(s->rotary.m, 0, s->m->rotary_dim / 2),
            .ids = s->positions.m.p);
        return;
    }
    if (s->k == NULL || s->rc != ERR_OK) return;
    all = calloc((size_t)to.rows + 1, (size_t)width);
    if (all == NULL) s->rc = err_nomem(s->e);
    for (i = 0; all != NULL && i < to.rows; i++)
        put_angles(s, h->position[i], all + i * width);
    if (all != NULL) step_upload(s, to, all);
    free(all);
}

static void fill_row_numbers(struct step *s)
{
    int64_t n = s->rotary_row.m.rows, i;
    int32_t *row;

    if (s->k == NULL || s->rc != ERR_OK) return;
    row = malloc((size_t)(n + 1) * sizeof *row);
    if (row == NULL) s->rc = err_nomem(s->e);
    for (i = 0; row != NULL && i < n; i++) row[i] = (int32_t)i;
    if (row != NULL) step_upload(s, s->rotary_row.m, row);
    free(row);
}

/* Bytes of a row that the framework holds of its packed rows for as long as a
** wave runs (ids, labels, masks, gather indices), angles apart, less those of
** the tensors above. A training wave's state is 256 B (pricing.md 10), what a
** forward to hidden states holds 56 (evidence.md 3). */
static int64_t row_state(const struct step *s)
{
    int64_t own = 3 * (int64_t)sizeof(int32_t);

    if (s->c.mode.wave != WAVE_TRAIN) return 56 - own;
    return 256 - own - 2 * (int64_t)sizeof(int32_t);
}

static void rows_new(struct step *s, const struct host_rows *h)
{
    int64_t rows = step_rows(s, LAYER_ATTENTION);

    rotary_table(s);
    s->rotary_rows = ten_acc(s, CAT_OTHER, "input.angles", rows,
                             s->m->rotary_dim);
    s->rotary_row = ten_of(s, CAT_OTHER, "input.rows", rows, 1, DT_I32);
    s->row_state = ten_of(s, CAT_OTHER, "input.row_state", rows,
                          row_state(s), DT_U8);
    fill_angles(s, h);
    fill_row_numbers(s);
}

static void inputs_new(struct step *s, const struct host_rows *h)
{
    int64_t rows = step_rows(s, LAYER_ATTENTION);
    int64_t n = s->c.head_rows + s->c.more_labels;

    if (s->c.mode.wave != WAVE_TRAIN) n = 0;

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
    rows_new(s, h);
}

void inputs_make(struct step *s)
{
    struct host_rows h = {NULL, NULL, NULL, NULL};

    if (s->k != NULL && s->rc == ERR_OK) s->rc = host_new(s, &h);
    if (s->k != NULL && s->rc == ERR_OK) s->rc = host_fill(s, &h);
    if (s->k != NULL && s->rc == ERR_OK) dump_begin(s, h.target, h.weight);
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
    ten_free(s, &s->rotary_rows);
    ten_free(s, &s->rotary_row);
    ten_free(s, &s->row_state);
}
