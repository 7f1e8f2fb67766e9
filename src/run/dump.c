/* dump.c - see dump.h */
#include "run/dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "model/safetensors.h"

/* ---- what a rank keeps --------------------------------------------------- */

static void *copy_of(const void *x, int64_t n, size_t width)
{
    void *p = malloc((size_t)(n + 1) * width);

    if (p != NULL) memcpy(p, x, (size_t)n * width);
    return p;
}

/* Now: the next wave overwrites them. */
static int take_gradients(const struct ranks_one *o, struct rank_dump *d,
                          struct err *e)
{
    const struct run_work *w = o->all->w;
    struct param_list l = {NULL, 0};
    int64_t i;
    int rc = param_list_make(&w->model, w->c->ep, w->c->lora_rank, &l, e);

    if (rc != ERR_OK) return rc;
    d->gradient = calloc((size_t)l.n + 1, sizeof *d->gradient);
    if (d->gradient == NULL) rc = err_nomem(e);
    else d->n_gradient = l.n;
    for (i = 0; i < l.n && rc == ERR_OK; i++) {
        if (l.p[i].role == PARAM_BASE) continue;
        d->gradient[i] = malloc((size_t)l.p[i].count * sizeof(double));
        rc = d->gradient[i] == NULL ? err_nomem(e)
            : step_adapter_get(o->step, &l.p[i], STEP_GRADIENT,
                               d->gradient[i], e);
    }
    param_list_free(&l);
    return rc;
}

int run_dump_take(const struct ranks_one *o, struct rank_dump **out,
                  struct err *e)
{
    const struct step_dump *s = step_dumped(o->step);
    const struct model *m = &o->all->w->model;
    struct rank_dump *d;

    if (s == NULL) return ERR_OK;
    *out = d = calloc(1, sizeof *d);
    if (d == NULL) return err_nomem(e);
    d->n_label = s->n_label;
    d->n_logit = s->n_logit;
    d->label = copy_of(s->label, s->n_label, sizeof *s->label);
    d->loss = copy_of(s->label_loss, s->n_label, sizeof *s->label_loss);
    d->logit_row = copy_of(s->logit_row, s->n_logit, sizeof *s->logit_row);
    d->logit = copy_of(s->logit, s->n_logit * m->vocab, sizeof *s->logit);
    d->route = copy_of(s->route, m->layers * s->route_rows * m->top_k,
                       sizeof *s->route);
    if (d->label == NULL || d->loss == NULL || d->logit_row == NULL
        || d->logit == NULL || d->route == NULL)
        return err_nomem(e);
    return take_gradients(o, d, e);
}

void run_dump_free(struct rank_dump *d)
{
    int64_t i;

    if (d == NULL) return;
    free(d->label);
    free(d->loss);
    free(d->logit_row);
    free(d->logit);
    free(d->route);
    for (i = 0; i < d->n_gradient; i++) free(d->gradient[i]);
    free(d->gradient);
    free(d);
}

/* ---- all ranks by packed row --------------------------------------------- */

struct labels {
    double *target, *weight, *loss;     /* [rows] */
    double *more[4];                    /* row, target, weight, loss */
    int64_t n_more;
};

/* A row's first target goes to the row, others to the list behind. */
static void gather_labels(const struct ranks *r, int64_t wave,
                          struct labels *l)
{
    int64_t rank, i;

    for (i = 0; i < r->w->plan->tokens; i++) l->target[i] = -1;
    for (rank = 0; rank < r->w->plan->cp; rank++) {
        const struct rank_dump *d = r->one[rank].wave[wave].dump;

        for (i = 0; i < d->n_label; i++) {
            int64_t row = d->label[i].row;

            if (l->target[row] >= 0) {
                l->more[0][l->n_more] = (double)row;
                l->more[1][l->n_more] = d->label[i].target;
                l->more[2][l->n_more] = d->label[i].weight;
                l->more[3][l->n_more++] = d->loss[i];
                continue;
            }
            l->target[row] = d->label[i].target;
            l->weight[row] = d->label[i].weight;
            l->loss[row] = d->loss[i];
        }
    }
}

static void put_whole(struct safetensors *f, const char *name,
                      const int64_t *dim, int64_t n_dim, const double *x,
                      int64_t n)
{
    int64_t *v = malloc((size_t)(n + 1) * sizeof *v), i;

    for (i = 0; v != NULL && i < n; i++) v[i] = (int64_t)x[i];
    if (v != NULL) safetensors_put_ints(f, name, dim, n_dim, v);
    else f->header.failed = true;
    free(v);
}

/* One block of memory for all lists, as long as all ranks' labels. */
static void put_labels(struct safetensors *f, const struct ranks *r,
                       int64_t wave)
{
    static const char *const more[] = {"more_rows", "more_targets",
                                       "more_weights", "more_losses"};
    int64_t rows = r->w->plan->tokens, room = rows + 1, rank;
    struct labels l = {.n_more = 0};
    double *x;
    int i;

    for (rank = 0; rank < r->w->plan->cp; rank++)
        room += r->one[rank].wave[wave].dump->n_label;
    x = calloc((size_t)room * 7, sizeof *x);
    if (x == NULL) {
        f->header.failed = true;
        return;
    }
    l.target = x;
    l.weight = x + room;
    l.loss = x + 2 * room;
    for (i = 0; i < 4; i++) l.more[i] = x + (3 + i) * room;
    gather_labels(r, wave, &l);
    put_whole(f, "targets", &rows, 1, l.target, rows);
    safetensors_put(f, "weights", CKPT_F64, &rows, 1, l.weight);
    safetensors_put(f, "losses", CKPT_F64, &rows, 1, l.loss);
    for (i = 0; i < 4 && l.n_more > 0; i++)
        if (i < 2) put_whole(f, more[i], &l.n_more, 1, l.more[i], l.n_more);
        else safetensors_put(f, more[i], CKPT_F64, &l.n_more, 1, l.more[i]);
    free(x);
}

static void put_tokens(struct safetensors *f, const struct ranks *r)
{
    int64_t rows = r->w->plan->tokens, i;
    int64_t *v = malloc((size_t)(rows + 1) * sizeof *v);

    for (i = 0; v != NULL && i < rows; i++) v[i] = r->data->ids[i];
    if (v != NULL) safetensors_put_ints(f, "tokens", &rows, 1, v);
    else f->header.failed = true;
    free(v);
}

/* Only rows that were asked for: all would be rows x vocabulary numbers. */
static void put_logits(struct safetensors *f, const struct ranks *r,
                       int64_t wave)
{
    int64_t v = r->w->model.vocab, n = 0, rank, dim[2] = {0, v};
    int64_t room = r->w->x->n_dump_rows;
    int64_t *row = malloc((size_t)(room + 1) * sizeof *row);
    double *x = malloc((size_t)(room * v + 1) * sizeof *x);

    for (rank = 0; row != NULL && x != NULL && rank < r->w->plan->cp;
         rank++) {
        const struct rank_dump *d = r->one[rank].wave[wave].dump;

        memcpy(row + n, d->logit_row, (size_t)d->n_logit * sizeof *row);
        memcpy(x + n * v, d->logit, (size_t)(d->n_logit * v) * sizeof *x);
        n += d->n_logit;
    }
    dim[0] = n;
    if (row == NULL || x == NULL) f->header.failed = true;
    else safetensors_put_ints(f, "logit_rows", dim, 1, row);
    if (row != NULL && x != NULL)
        safetensors_put(f, "logits", CKPT_F64, dim, 2, x);
    free(row);
    free(x);
}

/* A rank's choices to their packed rows, layer by layer. */
static void place_routes(const struct ranks_one *o, int64_t wave, int64_t *all)
{
    const struct run_work *w = o->all->w;
    const struct step_dump *s = step_dumped(o->step);
    const int64_t *route = o->wave[wave].dump->route;
    int64_t k = w->model.top_k, layer, i;

    for (layer = 0; layer < w->model.layers; layer++) {
        enum layer_kind kind = w->model.kind[layer];

        for (i = 0; i < s->n_row[kind]; i++)
            memcpy(all + (layer * w->plan->tokens + s->row[kind][i]) * k,
                   route + (layer * s->route_rows + i) * k,
                   (size_t)k * sizeof *all);
    }
}

static void put_routes(struct safetensors *f, const struct ranks *r,
                       int64_t wave)
{
    const struct model *m = &r->w->model;
    int64_t dim[3] = {m->layers, r->w->plan->tokens, m->top_k}, rank;
    int64_t *all;

    if (m->experts == 0) return;
    all = calloc((size_t)(dim[0] * dim[1] * dim[2]) + 1, sizeof *all);
    for (rank = 0; all != NULL && rank < r->w->plan->cp; rank++)
        place_routes(&r->one[rank], wave, all);
    if (all != NULL) safetensors_put_ints(f, "routes", dim, 3, all);
    else f->header.failed = true;
    free(all);
}

/* One gradient of all experts; those of others are alike on every rank. */
static void put_gradient(struct safetensors *f, const struct ranks *r,
                         int64_t wave, const struct param *p, int64_t i,
                         int64_t own)
{
    bool routed = site_is_routed(p->site);
    double *x = malloc((size_t)(p->count + 1) * sizeof *x);
    char name[256];
    int64_t q;

    snprintf(name, sizeof name, "gradient.%slayers.%" PRId64 ".%s",
             r->w->model.prefix, p->layer, p->tensor);
    for (q = 0; x != NULL && q < p->count / own; q++)
        memcpy(x + q * own, r->one[q].wave[wave].dump->gradient[i],
               (size_t)own * sizeof *x);
    if (x != NULL)
        safetensors_put(f, name, CKPT_F64, p->dim, routed ? 3 : 2, x);
    else
        f->header.failed = true;
    free(x);
}

static int put_gradients(struct safetensors *f, const struct ranks *r,
                         int64_t wave, struct err *e)
{
    const struct run_work *w = r->w;
    struct param_list all = {NULL, 0}, own = {NULL, 0};
    int64_t i;
    int rc = param_list_make(&w->model, 1, w->c->lora_rank, &all, e);

    if (rc == ERR_OK)
        rc = param_list_make(&w->model, w->c->ep, w->c->lora_rank, &own, e);
    for (i = 0; rc == ERR_OK && i < all.n; i++)
        if (all.p[i].role != PARAM_BASE)
            put_gradient(f, r, wave, &all.p[i], i, own.p[i].count);
    param_list_free(&all);
    param_list_free(&own);
    return rc;
}

/* ---- the file ------------------------------------------------------------ */

/* One file a wave, all ranks in it: readers need not know how many there
** were. */
static int write_wave(const struct ranks *r, int64_t wave, struct err *e)
{
    struct safetensors f = SAFETENSORS_INIT;
    struct buf path = BUF_INIT;
    const int64_t one = 1;
    int rc;

    safetensors_put(&f, "loss", CKPT_F64, &one, 1,
                    &r->one[0].wave[wave].got.loss);
    put_tokens(&f, r);
    put_labels(&f, r, wave);
    put_logits(&f, r, wave);
    put_routes(&f, r, wave);
    rc = put_gradients(&f, r, wave, e);
    buf_printf(&path, "%s/", r->w->x->dump);
    run_put_name(r->w, &path);
    buf_printf(&path, ".wave%" PRId64 ".safetensors", wave);
    if (rc == ERR_OK && path.failed) rc = err_nomem(e);
    if (rc == ERR_OK) rc = safetensors_save(&f, path.data, e);
    safetensors_free(&f);
    buf_free(&path);
    return rc;
}

int run_dump_write(const struct ranks *r, struct err *e)
{
    int64_t i;
    int rc;

    if (r->w->x->dump == NULL) return ERR_OK;
    rc = file_make_dirs(r->w->x->dump, e);
    for (i = 0; i < r->good && rc == ERR_OK; i++) rc = write_wave(r, i, e);
    return rc;
}
