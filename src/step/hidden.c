/*
** hidden.c - waves that end with hidden states: the final norm, one output a
** sequence, and the mean of their squares as a loss.
**
** A sequence's output is a copy of its rows, so a prefix that several share is
** copied into each. Ranks of context parallelism hold all sequences whole.
** The loss reads f32 copies; its backward works on one sequence at a time,
** the last one first, with four more tensors of that sequence's size (the
** spread gradient, the power and its product, the product of both), and only
** then do the gradients of the outputs come together.
*/
#include <stdlib.h>

#include "step/layers.h"

struct hidden {
    int64_t n;                  /* sequences */
    int64_t *rows;              /* [n] */
    struct range *path;         /* packed rows of all sequences */
    int64_t *first;             /* [n + 1] index into path */
    struct norm_saved norm;
    struct tensor *out, *wide;  /* [n] outputs; their copies in acc */
};

/* ---- sequences ---------------------------------------------------------- */

static bool is_leaf(const struct batch *b, int64_t i)
{
    return b->seg[i].next == i + 1;
}

static int64_t count_leaves(const struct batch *b)
{
    int64_t i, n = 0;

    for (i = 0; i < b->n_seg; i++) n += is_leaf(b, i);
    return n;
}

static int64_t count_paths(const struct batch *b)
{
    int64_t i, n = 0;

    for (i = 0; i < b->n_seg; i++)
        if (is_leaf(b, i)) n += b->seg[i].depth + 1;
    return n;
}

/* The segments from the root down to leaf i. */
static void add_path(struct hidden *h, const struct batch *b, int64_t i)
{
    int64_t n = b->seg[i].depth + 1, at = h->first[h->n];

    h->first[h->n + 1] = at + n;
    while (n-- > 0) {
        h->path[at + n] = (struct range){b->seg[i].start, b->seg[i].tokens};
        h->rows[h->n] += b->seg[i].tokens;
        i = b->seg[i].parent;
    }
    h->n++;
}

static int hidden_room(struct hidden *h, int64_t n, int64_t paths)
{
    h->rows = calloc((size_t)n + 1, sizeof *h->rows);
    h->path = calloc((size_t)paths + 1, sizeof *h->path);
    h->first = calloc((size_t)n + 1, sizeof *h->first);
    h->out = calloc((size_t)n + 1, sizeof *h->out);
    h->wide = calloc((size_t)n + 1, sizeof *h->wide);
    if (h->rows == NULL || h->path == NULL || h->first == NULL ||
        h->out == NULL || h->wide == NULL) return ERR_RUN;
    return ERR_OK;
}

int hidden_new(struct step *s)
{
    const struct batch *b = s->c.plan->batch;
    struct hidden *h;
    int64_t i;

    if (s->c.mode.wave == WAVE_TRAIN) return ERR_OK;
    h = s->hidden = calloc(1, sizeof *h);
    if (h == NULL) return err_nomem(s->e);
    if (hidden_room(h, b != NULL ? count_leaves(b) : 1,
                    b != NULL ? count_paths(b) : 1) != ERR_OK)
        return err_nomem(s->e);
    for (i = 0; b != NULL && i < b->n_seg; i++)
        if (is_leaf(b, i)) add_path(h, b, i);
    if (b != NULL) return ERR_OK;
    h->n = 1;                   /* recorded: nothing is known of sequences */
    for (i = 0; i < s->cp; i++)
        h->rows[0] += s->c.plan->rank[i].attention_rows;
    h->first[1] = 1;
    h->path[0] = (struct range){0, h->rows[0]};
    return ERR_OK;
}

void hidden_free(struct step *s)
{
    struct hidden *h = s->hidden;

    if (h == NULL) return;
    free(h->rows);
    free(h->path);
    free(h->first);
    free(h->out);
    free(h->wide);
    free(h);
}

/* ---- forward ------------------------------------------------------------ */

void hidden_forward(struct step *s, struct tensor *x)
{
    struct hidden *h = s->hidden;
    int64_t i;

    norm_forward(s, CAT_OUTPUTS, "hidden.norm", x->m, s->final_norm.m,
                 true, &h->norm);
    ten_free(s, &h->norm.local);
    for (i = 0; i < h->n; i++) {
        h->out[i] = ten_act(s, CAT_OUTPUTS, "hidden.output", h->rows[i],
                            x->m.cols);
        RUN(s, gather, .out = h->out[i].m, .x = h->norm.out.m,
            .r = h->path + h->first[i], .n = h->first[i + 1] - h->first[i]);
    }
    ten_free(s, &h->norm.out);
    if (!s->c.mode.no_grad) return;
    ten_free(s, &h->norm.rstd);
    ten_free(s, x);
}

void hidden_drop(struct step *s)
{
    struct hidden *h = s->hidden;
    int64_t i;

    ten_free_all(s, TENSORS(&h->norm));
    for (i = 0; i < h->n; i++) ten_free(s, &h->out[i]);
}

/* ---- loss --------------------------------------------------------------- */

/* The mean of x's squares, summed on the host in f64, row by row. */
static double mean_square(struct step *s, struct mat x)
{
    size_t n = (size_t)(x.rows * x.cols), i;
    void *host;
    double sum = 0;

    if (s->k == NULL || s->rc != ERR_OK) return 0;
    host = malloc((n + 1) * (size_t)dtype_bytes(x.t));
    s->rc = host == NULL ? err_nomem(s->e)
            : s->dev->ops->download(s->dev, host, x.p,
                                    n * (size_t)dtype_bytes(x.t), s->e);
    for (i = 0; s->rc == ERR_OK && i < n; i++) {
        double v = x.t == DT_F64 ? ((double *)host)[i]
                                 : (double)((float *)host)[i];
        sum += v * v;
    }
    free(host);
    return sum / (double)n;
}

static double loss_forward(struct step *s, int64_t i)
{
    struct hidden *h = s->hidden;
    struct mat out = h->out[i].m;
    struct tensor square;

    h->wide[i] = ten_acc(s, CAT_OUTPUTS, "hidden.wide", out.rows, out.cols);
    RUN(s, copy, .dst = h->wide[i].m, .src = out);
    square = ten_acc(s, CAT_OUTPUTS, "hidden.square", out.rows, out.cols);
    ten_free(s, &square);
    return mean_square(s, h->wide[i].m);
}

/* Gradient of output i in the activation type. */
static struct tensor loss_backward(struct step *s, int64_t i)
{
    struct tensor *wide = &s->hidden->wide[i], part[4], d;
    int64_t rows = wide->m.rows, cols = wide->m.cols;
    int j;

    for (j = 0; j < 4; j++)
        part[j] = ten_acc(s, CAT_OUTPUTS, "hidden.loss_bwd", rows, cols);
    RUN(s, scale, .out = part[3].m, .a = wide->m,
        .s = 2 / (double)(rows * cols));
    for (j = 0; j < 3; j++) ten_free(s, &part[j]);
    ten_free(s, wide);
    d = ten_act(s, CAT_OUTPUTS, "hidden.output_bwd", rows, cols);
    RUN(s, copy, .dst = d.m, .src = part[3].m);
    ten_free(s, &part[3]);
    return d;
}

/* Adds an output's gradient, freed, to that of the packed rows. */
static void add_output(struct step *s, int64_t i, struct tensor *d,
                       struct tensor *all, int64_t rows)
{
    const struct hidden *h = s->hidden;
    struct tensor one;
    int64_t j, at = 0;

    one = ten_act(s, CAT_OUTPUTS, "hidden.rows_bwd", rows, d->m.cols);
    RUN(s, fill, .x = one.m, .value = 0);
    for (j = h->first[i]; s->k != NULL && j < h->first[i + 1]; j++) {
        RUN(s, copy, .dst = mat_rows(one.m, h->path[j].start, h->path[j].len),
            .src = mat_rows(d->m, at, h->path[j].len));
        at += h->path[j].len;
    }
    ten_free(s, d);
    if (all->b == NULL) {
        *all = one;
        return;
    }
    RUN(s, add, .out = all->m, .a = all->m, .b = one.m);
    ten_free(s, &one);
}

struct tensor hidden_loss(struct step *s, struct tensor *x, double *loss)
{
    struct hidden *h = s->hidden;
    struct tensor *d = calloc((size_t)h->n + 1, sizeof *d);
    struct tensor all = {NULL, {0}}, dx;
    int64_t i;

    if (d == NULL) s->rc = err_nomem(s->e);
    for (i = 0; d != NULL && i < h->n; i++) *loss += loss_forward(s, i);
    for (i = h->n - 1; d != NULL && i >= 0; i--) d[i] = loss_backward(s, i);
    for (i = h->n - 1; d != NULL && i >= 0; i--)
        add_output(s, i, &d[i], &all, x->m.rows * s->tp);
    free(d);
    dx = norm_backward(s, "hidden.norm_bwd", &all, x->m, s->final_norm.m,
                       &h->norm);
    ten_free(s, x);
    return dx;
}
