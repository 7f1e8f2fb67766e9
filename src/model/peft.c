/* peft.c - see peft.h: reading */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "model/family.h"
#include "model/peft_name.h"

struct peft {
    struct checkpoint *c;
    const struct model *m;
    int64_t rank, step;
    bool blocks;            /* in_proj_qkvz has rank 2 r */
    bool moments;
};

/* ---- adapter_config.json ------------------------------------------------- */

/* Keys that must be absent, null, false, empty or of this text. */
static const struct { const char *key, *text; } plain[] = {
    {"use_dora", NULL}, {"use_rslora", NULL}, {"fan_in_fan_out", NULL},
    {"lora_bias", NULL}, {"modules_to_save", NULL}, {"bias", "none"},
    {"layers_to_transform", NULL}, {"trainable_token_indices", NULL},
    {"layer_replication", NULL},
};

static bool is_nothing(const json_t *v)
{
    return v == NULL || json_is_null(v) || json_is_false(v)
        || (json_is_array(v) && json_array_size(v) == 0)
        || (json_is_object(v) && json_object_size(v) == 0);
}

static int check_plain(const struct js *top, struct err *e)
{
    struct js v;
    size_t i;

    for (i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        v = js_get(top, plain[i].key);
        if (is_nothing(v.v)) continue;
        if (plain[i].text != NULL && json_is_string(v.v)
            && strcmp(json_string_value(v.v), plain[i].text) == 0)
            continue;
        return js_error(&v, e, "plain LoRA adapters alone are read here");
    }
    v = js_get(top, "peft_type");
    if (v.v == NULL || !json_is_string(v.v)
        || strcmp(json_string_value(v.v), "LORA") != 0)
        return js_error(&v, e, "must be \"LORA\"");
    return ERR_OK;
}

static bool ends_in(const char *s, const char *tail)
{
    size_t n = strlen(s), t = strlen(tail);

    return n >= t && strcmp(s + n - t, tail) == 0;
}

/* A pattern may give in_proj_qkvz twice the value, and nothing else. */
static int check_pattern(const struct peft *f, const struct js *top,
                         const char *key, double twice, bool *found,
                         struct err *e)
{
    struct js all = js_get(top, key), v;
    const char *name;
    json_t *value;
    int rc = js_is_null(&all) ? ERR_OK : js_object(&all, NULL, e);

    if (rc != ERR_OK || js_is_null(&all)) return rc;
    json_object_foreach(all.v, name, value) {
        v = js_get(&all, name);
        if (f->m->names->fused_qkvz == NULL || !ends_in(name, "in_proj_qkvz")
            || fabs(json_number_value(v.v) - twice) > 0)
            return js_error(&v, e, "one rank and alpha for every projection "
                            "is read here");
        *found = true;
    }
    return ERR_OK;
}

/* An adapter of another rank or kind would load and mean something else. */
static int check_config(struct peft *f, const struct js *top, double alpha,
                        struct err *e)
{
    bool ranks = false, alphas = false;
    struct js v = js_get(top, "lora_alpha");
    int64_t r = 0;
    double a = 0;
    int rc = js_object(top, NULL, e);

    if (rc == ERR_OK) rc = check_plain(top, e);
    if (rc == ERR_OK)
        rc = js_need_int(top, "r", 1, PARAM_MAX_LORA_RANK, &r, e);
    if (rc == ERR_OK) rc = js_need_double(top, "lora_alpha", &a, e);
    if (rc != ERR_OK) return rc;
    if (a < alpha || a > alpha)
        return js_error(&v, e, "is %g, but the case has lora_alpha %g (set "
                        "lora_alpha = %g)", a, alpha, a);
    v = js_get(top, "r");
    if (r != f->rank)
        return js_error(&v, e, "is %" PRId64 ", but the case has lora_rank %"
                        PRId64 " (set lora_rank = %" PRId64 ")", r, f->rank,
                        r);
    rc = check_pattern(f, top, "rank_pattern", 2 * (double)r, &ranks, e);
    if (rc == ERR_OK)
        rc = check_pattern(f, top, "alpha_pattern", 2 * a, &alphas, e);
    v = js_get(top, "alpha_pattern");
    if (rc == ERR_OK && ranks != alphas)
        rc = js_error(&v, e, "must hold what rank_pattern holds");
    f->blocks = ranks;
    return rc;
}

static int read_config(struct peft *f, const char *folder, double alpha,
                       struct err *e)
{
    struct buf path = BUF_INIT;
    json_t *root = NULL;
    struct js top;
    int rc;

    buf_printf(&path, "%s/" PEFT_CONFIG, folder);
    rc = path.failed ? err_nomem(e) : js_load(path.data, 0, &root, e);
    if (rc == ERR_OK) {
        top = js_top(root, path.data);
        rc = check_config(f, &top, alpha, e);
    }
    json_decref(root);
    buf_free(&path);
    return rc;
}

/* ---- what the folder holds ----------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* All names that the model's adapters may have, sorted: [*n][PEFT_NAME]. */
static char *known_names(const struct peft *f, const struct param_list *l,
                         size_t *n)
{
    char *all = malloc((size_t)l->n * PEFT_PARTS * PEFT_NAME + PEFT_NAME);
    int64_t i;
    size_t k = 0;

    if (all == NULL) return NULL;
    for (i = 0; i < l->n; i++) {
        if (l->p[i].role == PARAM_BASE) continue;
        peft_name(f->m, &l->p[i], all + k++ * PEFT_NAME);
        peft_state_name(f->m, &l->p[i], PEFT_MEAN, all + k++ * PEFT_NAME);
        peft_state_name(f->m, &l->p[i], PEFT_SQUARE, all + k++ * PEFT_NAME);
    }
    snprintf(all + k++ * PEFT_NAME, PEFT_NAME, "step");
    qsort(all, k, PEFT_NAME, by_text);
    *n = k;
    return all;
}

/* A tensor that no projection takes is a mistake of names, not one to skip. */
static int check_known(const struct peft *f, const char *names, size_t n,
                       struct err *e)
{
    int64_t i, total = checkpoint_count(f->c);

    for (i = 0; i < total; i++) {
        const struct checkpoint_tensor *t = checkpoint_at(f->c, i);
        char key[PEFT_NAME];

        snprintf(key, sizeof key, "%s", t->name);
        if (strlen(t->name) < PEFT_NAME
            && bsearch(key, names, n, PEFT_NAME, by_text) != NULL)
            continue;
        return err_set(e, ERR_INPUT, "%s: %.300s belongs to no adapted "
                       "projection of %s", checkpoint_path(f->c, t), t->name,
                       f->m->name);
    }
    if (total > 0) return ERR_OK;
    return err_set(e, ERR_INPUT, "%s: holds no adapter",
                   checkpoint_folder(f->c));
}

static int check_names(const struct peft *f, struct err *e)
{
    struct param_list l;
    char *names = NULL;
    size_t n = 0;
    int rc = param_list_make(f->m, 1, f->rank, &l, e);

    if (rc != ERR_OK) return rc;
    names = known_names(f, &l, &n);
    rc = names == NULL ? err_nomem(e) : check_known(f, names, n, e);
    free(names);
    param_list_free(&l);
    return rc;
}

static int read_step(struct peft *f, struct err *e)
{
    const struct checkpoint_tensor *t = checkpoint_get(f->c, "step");
    const int64_t one = 1;
    double x = 0;
    int rc;

    f->moments = t != NULL;
    if (t == NULL) return ERR_OK;
    rc = checkpoint_find(f->c, "step", &one, 1, &t, e);
    if (rc == ERR_OK) rc = checkpoint_read(f->c, t, 0, 1, &x, e);
    if (rc == ERR_OK && !(x >= 0 && x <= 1e15 && x <= floor(x)))
        rc = err_set(e, ERR_INPUT, "%s: step is no number of steps",
                     checkpoint_path(f->c, t));
    f->step = rc == ERR_OK ? (int64_t)x : 0;
    return rc;
}

int peft_open(const char *folder, const struct model *m, int64_t rank,
              double alpha, struct peft **out, struct err *e)
{
    struct peft *f = calloc(1, sizeof *f);
    int rc;

    assert(rank >= 0);
    if (f == NULL) return err_nomem(e);
    f->m = m;
    f->rank = rank;
    rc = read_config(f, folder, alpha, e);
    if (rc == ERR_OK) rc = checkpoint_open(folder, &f->c, e);
    if (rc == ERR_OK) rc = check_names(f, e);
    if (rc == ERR_OK) rc = read_step(f, e);
    if (rc != ERR_OK) {
        peft_close(f);
        return rc;
    }
    *out = f;
    return ERR_OK;
}

void peft_close(struct peft *f)
{
    if (f == NULL) return;
    checkpoint_close(f->c);
    free(f);
}

bool peft_has_moments(const struct peft *f)
{
    return f->moments;
}

int64_t peft_step(const struct peft *f)
{
    return f->step;
}

/* ---- one adapter tensor -------------------------------------------------- */

/* The whole tensor t [dim 0, dim 1]; *out is malloc'ed. */
static int read_whole(const struct peft *f, const struct checkpoint_tensor *t,
                      double **out, struct err *e)
{
    *out = malloc((size_t)(t->count + 1) * sizeof **out);
    if (*out == NULL) return err_nomem(e);
    return checkpoint_read(f->c, t, 0, t->count, *out, e);
}

/* Of in_proj_qkvz's B as two blocks, what is neither must be zero, or the
** adapter is more than ours can be. */
static int check_blocks(const struct peft *f, const struct param *p,
                        const struct checkpoint_tensor *t, const double *x,
                        struct err *e)
{
    int64_t r = f->rank, i, j, other = p->site == SITE_GDN_Z ? 0 : r;

    for (i = 0; i < p->dim[0]; i++) {
        int64_t at = peft_index(f->m, p, r, 0, true, i * r) / (2 * r);

        for (j = 0; j < r; j++)
            if (fabs(x[at * 2 * r + other + j]) > 0)
                return err_set(e, ERR_INPUT, "%s: %s: of twice the rank, the "
                               "first half must be that of q, k, v and the "
                               "second that of z", checkpoint_path(f->c, t),
                               t->name);
    }
    return ERR_OK;
}

static int read_value(const struct peft *f, const struct param *p,
                      int64_t first, const struct checkpoint_tensor *t,
                      double *out, struct err *e)
{
    bool check = f->blocks && p->role == PARAM_LORA_B
        && peft_is_fused(f->m, p);
    double *x = NULL;
    int64_t i;
    int rc = read_whole(f, t, &x, e);

    if (rc == ERR_OK && check) rc = check_blocks(f, p, t, x, e);
    for (i = 0; rc == ERR_OK && i < p->count; i++)
        out[i] = x[peft_index(f->m, p, f->rank, first, f->blocks, i)];
    free(x);
    return rc;
}

/* A state tensor in our own shape, all experts. */
static int read_state(const struct peft *f, const struct param *p,
                      int64_t first, const char *name, double *out,
                      struct err *e)
{
    int64_t dim[3] = {p->dim[0], p->dim[1], p->dim[2]};
    int64_t own = p->count / p->dim[0];
    const struct checkpoint_tensor *t;
    int rc;

    if (site_is_routed(p->site)) dim[0] = f->m->experts;
    rc = checkpoint_find(f->c, name, dim, site_is_routed(p->site) ? 3 : 2, &t,
                         e);
    return rc == ERR_OK
        ? checkpoint_read(f->c, t, first * own, p->count, out, e) : rc;
}

int peft_read(const struct peft *f, const struct param *p, int64_t first,
              enum peft_part part, double *out, struct err *e)
{
    const struct checkpoint_tensor *t = NULL;
    char name[PEFT_NAME], pair[PEFT_NAME];
    int64_t dim[2];
    int rc;

    assert(p->role != PARAM_BASE && first >= 0);
    assert((int)part >= 0 && (int)part < PEFT_PARTS);
    if (part != PEFT_VALUE) {
        peft_state_name(f->m, p, part, name);
        return read_state(f, p, first, name, out, e);
    }
    peft_name(f->m, p, name);
    snprintf(pair, sizeof pair, "%s", name);
    pair[strlen(pair) - sizeof "A.weight" + 1]
        = p->role == PARAM_LORA_A ? 'B' : 'A';
    if (checkpoint_get(f->c, name) == NULL
        && checkpoint_get(f->c, pair) == NULL) {
        memset(out, 0, (size_t)p->count * sizeof *out);
        return ERR_OK;
    }
    peft_shape(f->m, p, f->rank, f->blocks, dim);
    rc = checkpoint_find(f->c, name, dim, 2, &t, e);
    return rc == ERR_OK ? read_value(f, p, first, t, out, e) : rc;
}
