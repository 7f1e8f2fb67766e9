/* dump.c - see dump.h */
#include "step/dump.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "step/numbers.h"

static const struct range *ranges_of(const struct step *s,
                                     enum layer_kind kind, int64_t *n)
{
    *n = kind == LAYER_GDN ? s->rp->n_gdn : s->rp->n_attention;
    return kind == LAYER_GDN ? s->rp->gdn : s->rp->attention;
}

/* The packed row of each row of a layout. */
static int64_t *packed_rows(const struct step *s, enum layer_kind kind)
{
    int64_t n, i, k, at = 0;
    const struct range *r = ranges_of(s, kind, &n);
    int64_t *out = malloc((size_t)(step_rows(s, kind) + 1) * sizeof *out);

    for (i = 0; out != NULL && i < n; i++)
        for (k = 0; k < r[i].len; k++) out[at++] = r[i].start + k;
    return out;
}

int dump_new(struct step *s)
{
    struct step_dump *d;
    int64_t labels = step_rows(s, LAYER_ATTENTION) + s->c.more_labels;
    int kind;

    if (!s->c.dump || s->k == NULL) return ERR_OK;
    s->dump = d = calloc(1, sizeof *d);
    if (d == NULL) return s->rc = err_nomem(s->e);
    for (kind = 0; kind < LAYER_KINDS; kind++) {
        d->n_row[kind] = step_rows(s, (enum layer_kind)kind);
        d->row[kind] = packed_rows(s, (enum layer_kind)kind);
        if (d->row[kind] == NULL) return s->rc = err_nomem(s->e);
    }
    d->route_rows = num_max(d->n_row[0], d->n_row[1]);
    d->route = calloc((size_t)(s->m->layers * d->route_rows * s->m->top_k)
                      + 1, sizeof *d->route);
    d->label = calloc((size_t)labels + 1, sizeof *d->label);
    d->label_loss = calloc((size_t)labels + 1, sizeof *d->label_loss);
    d->logit_row = calloc((size_t)s->c.n_dump_rows + 1,
                          sizeof *d->logit_row);
    d->logit = calloc((size_t)(s->c.n_dump_rows * s->m->vocab) + 1,
                      sizeof *d->logit);
    if (d->route == NULL || d->label == NULL || d->label_loss == NULL
        || d->logit_row == NULL || d->logit == NULL)
        return s->rc = err_nomem(s->e);
    return ERR_OK;
}

void dump_free(struct step *s)
{
    struct step_dump *d = s->dump;
    int kind;

    if (d == NULL) return;
    for (kind = 0; kind < LAYER_KINDS; kind++) free(d->row[kind]);
    free(d->route);
    free(d->label);
    free(d->label_loss);
    free(d->logit_row);
    free(d->logit);
    free(d);
    s->dump = NULL;
}

void dump_begin(struct step *s, const int32_t *target, const double *weight)
{
    struct step_dump *d = s->dump;
    int64_t i, k, n = 0;

    if (d == NULL || s->rc != ERR_OK) return;
    for (i = 0; i < s->n_label; i++)
        for (k = 0; k < s->label[i].len; k++, n++)
            d->label[n] = (struct step_label){
                d->row[LAYER_ATTENTION][s->label[i].start + k], target[n],
                weight[n]};
    d->n_label = n;
    d->n_logit = 0;
}

/* Is the row's logits asked for, and not there yet? */
static bool wanted(const struct step *s, int64_t row)
{
    const struct step_dump *d = s->dump;
    int64_t i;

    for (i = 0; i < d->n_logit; i++)
        if (d->logit_row[i] == row) return false;
    for (i = 0; i < s->c.n_dump_rows; i++)
        if (s->c.dump_rows[i] == row) return true;
    return false;
}

/* logsumexp less the logit of the target. */
static double loss_of(const double *x, int64_t n, int64_t target)
{
    double top = x[0], sum = 0;
    int64_t i;

    for (i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    for (i = 0; i < n; i++) sum += exp(x[i] - top);
    return top + log(sum) - x[target];
}

void dump_logits(struct step *s, struct mat logits, int64_t first)
{
    struct step_dump *d = s->dump;
    int64_t r, v = logits.cols;
    double *x;

    if (d == NULL || s->rc != ERR_OK) return;
    x = malloc((size_t)v * sizeof *x);
    if (x == NULL) s->rc = err_nomem(s->e);
    for (r = 0; r < logits.rows && s->rc == ERR_OK; r++) {
        struct step_label l = d->label[first + r];

        s->rc = numbers_down(s->dev, x, mat_rows(logits, r, 1).p, logits.t, v,
                             s->e);
        if (s->rc != ERR_OK) break;
        d->label_loss[first + r] = loss_of(x, v, l.target);
        if (!wanted(s, l.row)) continue;
        memcpy(d->logit + d->n_logit * v, x, (size_t)v * sizeof *x);
        d->logit_row[d->n_logit++] = l.row;
    }
    free(x);
}

void dump_routes(struct step *s, struct mat idx)
{
    struct step_dump *d = s->dump;
    int64_t cells = idx.rows * idx.cols;

    if (d == NULL || s->rc != ERR_OK || s->phase != PHASE_FORWARD) return;
    s->rc = s->dev->ops->download(s->dev, d->route + s->layer * d->route_rows
                                  * s->m->top_k, idx.p,
                                  (size_t)cells * sizeof *d->route, s->e);
}

const struct step_dump *step_dumped(const struct step *s)
{
    return s->dump;
}
