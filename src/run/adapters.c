/* adapters.c - see adapters.h */
#include "run/adapters.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Entries of the case's parameters as all ranks together hold them, all
** experts in order. */
struct learned {
    struct param_list list;     /* ep 1 */
    double **value;             /* [list.n]; NULL for base tensors */
};

/* ---- from the ranks ------------------------------------------------------ */

/* All experts of entry i, from the ranks of the first expert group. */
static int get_one(const struct ranks *r, const struct param *own, int64_t i,
                   enum step_adapter what, struct learned *a,
                   struct err *e)
{
    int64_t groups = a->list.p[i].count / own->count, q;
    double *v = malloc((size_t)(a->list.p[i].count + 1) * sizeof *v);
    int rc = v == NULL ? err_nomem(e) : ERR_OK;

    a->value[i] = v;
    for (q = 0; q < groups && rc == ERR_OK; q++)
        rc = step_adapter_get(r->one[q].step, own, what, v + q * own->count,
                              e);
    return rc;
}

static void learned_free(struct learned *a)
{
    int64_t i;

    for (i = 0; a->value != NULL && i < a->list.n; i++) free(a->value[i]);
    free(a->value);
    a->value = NULL;
    param_list_free(&a->list);
}

/* Gathers what is spread over ranks: each holds its own experts. */
static int get_all(const struct ranks *r, enum step_adapter what,
                   struct learned *out, struct err *e)
{
    const struct run_work *w = r->w;
    struct param_list own = {NULL, 0};
    int64_t i;
    int rc;

    *out = (struct learned){{NULL, 0}, NULL};
    rc = param_list_make(&w->model, 1, w->c->lora_rank, &out->list, e);
    if (rc == ERR_OK)
        rc = param_list_make(&w->model, w->c->ep, w->c->lora_rank, &own, e);
    if (rc == ERR_OK)
        out->value = calloc((size_t)out->list.n + 1, sizeof *out->value);
    if (rc == ERR_OK && out->value == NULL) rc = err_nomem(e);
    for (i = 0; rc == ERR_OK && i < own.n; i++)
        if (own.p[i].role != PARAM_BASE)
            rc = get_one(r, &own.p[i], i, what, out, e);
    param_list_free(&own);
    if (rc != ERR_OK) learned_free(out);
    return rc;
}

/* ---- saving -------------------------------------------------------------- */

static enum checkpoint_type type_of(const char *dtype)
{
    if (strcmp(dtype, "f64") == 0) return CKPT_F64;
    return strcmp(dtype, "f32") == 0 ? CKPT_F32 : CKPT_BF16;
}

static int save(const struct ranks *r, const struct learned *part,
                const char *folder, struct err *e)
{
    const struct run_work *w = r->w;
    bool random = strcmp(w->c->weights, "random") == 0;
    enum checkpoint_type type = type_of(w->c->dtype);
    struct peft_source s = {
        .m = &w->model, .list = &part[PEFT_VALUE].list,
        .rank = w->c->lora_rank, .alpha = w->c->lora_alpha,
        .base = random ? w->model.name : w->c->weights, .type = type,
        .moments = type == CKPT_F64 ? CKPT_F64 : CKPT_F32,
        .value = {part[0].value, part[1].value, part[2].value},
        .step = step_adam_steps(r->one[0].step),
    };

    return peft_save(folder, &s, e);
}

int run_adapters_save(const struct ranks *r, struct err *e)
{
    static const enum step_adapter what[PEFT_PARTS] = {
        [PEFT_VALUE] = STEP_VALUE, [PEFT_MEAN] = STEP_MEAN,
        [PEFT_SQUARE] = STEP_SQUARE,
    };
    const struct run_context *x = r->w->x;
    struct learned part[PEFT_PARTS] = {{{NULL, 0}, NULL}};
    int n = r->w->c->learning_rate > 0 ? PEFT_PARTS : 1, i;
    struct buf folder = BUF_INIT;
    int rc = ERR_OK;

    if (x->save_adapters == NULL) return ERR_OK;
    buf_puts(&folder, x->save_adapters);
    if (!x->one_case) {
        buf_putc(&folder, '/');
        run_put_name(r->w, &folder);
    }
    if (folder.failed) rc = err_nomem(e);
    for (i = 0; i < n && rc == ERR_OK; i++)
        rc = get_all(r, what[i], &part[i], e);
    if (rc == ERR_OK) rc = save(r, part, folder.data, e);
    for (i = 0; i < n; i++) learned_free(&part[i]);
    buf_free(&folder);
    return rc;
}
