/* peft_save.c - see peft.h: writing */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "model/family.h"
#include "model/peft_name.h"
#include "model/safetensors.h"

/* ---- adapter_config.json ------------------------------------------------- */

static void add_once(json_t *list, const char *text)
{
    json_t *v;
    size_t i;

    json_array_foreach(list, i, v)
        if (strcmp(json_string_value(v), text) == 0) return;
    json_array_append_new(list, json_string(text));
}

/* Parameters rather than modules are named for experts, and for the shared
** expert: peft takes any module that ends in gate_proj for an expert's. The
** names in adapter_model.safetensors are the same for both. */
static void list_targets(const struct peft_source *s, json_t *modules,
                         json_t *parameters)
{
    char name[PEFT_NAME + 8];
    int64_t i;

    for (i = 0; i < s->list->n; i++) {
        const struct param *p = &s->list->p[i];

        if (p->role != PARAM_LORA_A) continue;
        if (p->site == SITE_EXPERT_UP) {
            add_once(parameters, "mlp.experts.gate_up_proj");
        } else if (p->site == SITE_EXPERT_DOWN) {
            add_once(parameters, "mlp.experts.down_proj");
        } else {
            bool shared = p->site >= SITE_SHARED_GATE
                && p->site <= SITE_SHARED_DOWN;

            peft_module(s->m, p, name);
            if (shared) strcat(name, ".weight");
            add_once(shared ? parameters : modules, name);
        }
    }
}

static json_t *whole(double x)
{
    return x >= (double)(int64_t)x && x <= (double)(int64_t)x
        ? json_integer((int64_t)x) : json_real(x);
}

static void put_patterns(const struct peft_source *s, json_t *v)
{
    json_t *rank = json_object(), *alpha = json_object();

    if (s->m->names->fused_qkvz != NULL
        && model_count(s->m, LAYER_GDN) > 0) {
        json_object_set_new(rank, "linear_attn.in_proj_qkvz",
                            json_integer(2 * s->rank));
        json_object_set_new(alpha, "linear_attn.in_proj_qkvz",
                            whole(2 * s->alpha));
    }
    json_object_set_new(v, "rank_pattern", rank);
    json_object_set_new(v, "alpha_pattern", alpha);
}

/* What peft reads; keys that it fills in by itself are left out. */
static int save_config(const struct peft_source *s, const char *path,
                       struct err *e)
{
    json_t *v = json_object(), *modules = json_array();
    json_t *parameters = json_array();
    struct buf b = BUF_INIT;
    int rc;

    list_targets(s, modules, parameters);
    json_object_set_new(v, "peft_type", json_string("LORA"));
    json_object_set_new(v, "task_type", json_string("CAUSAL_LM"));
    json_object_set_new(v, "base_model_name_or_path", json_string(s->base));
    json_object_set_new(v, "r", json_integer(s->rank));
    json_object_set_new(v, "lora_alpha", whole(s->alpha));
    json_object_set_new(v, "lora_dropout", json_real(0));
    json_object_set_new(v, "bias", json_string("none"));
    json_object_set_new(v, "fan_in_fan_out", json_false());
    json_object_set_new(v, "use_rslora", json_false());
    json_object_set_new(v, "use_dora", json_false());
    json_object_set_new(v, "modules_to_save", json_null());
    json_object_set_new(v, "target_modules", modules);
    if (json_array_size(parameters) == 0) {
        json_decref(parameters);
        parameters = json_null();
    }
    json_object_set_new(v, "target_parameters", parameters);
    put_patterns(s, v);
    js_put(&b, v);
    rc = b.failed ? err_nomem(e) : file_write(path, b.data, b.len, e);
    buf_free(&b);
    json_decref(v);
    return rc;
}

/* ---- tensors ------------------------------------------------------------- */

/* One tensor of the file from p, and from the next site's of the same role
** where they share one (in_proj_qkvz: z follows qkv, A before B). */
static int put_value(struct safetensors *f, const struct peft_source *s,
                     int64_t at, struct err *e)
{
    const struct param *p = &s->list->p[at];
    bool fused = peft_is_fused(s->m, p);
    char name[PEFT_NAME];
    int64_t dim[2], i, k;
    double *x;

    if (fused && p->site == SITE_GDN_Z) return ERR_OK;
    peft_name(s->m, p, name);
    peft_shape(s->m, p, s->rank, true, dim);
    x = calloc((size_t)(dim[0] * dim[1]) + 1, sizeof *x);
    if (x == NULL) return err_nomem(e);
    for (k = at; k <= at + (fused ? 2 : 0); k += 2)
        for (i = 0; i < s->list->p[k].count; i++)
            x[peft_index(s->m, &s->list->p[k], s->rank, 0, true, i)]
                = s->value[PEFT_VALUE][k][i];
    safetensors_put(f, name, s->type, dim, 2, x);
    free(x);
    return ERR_OK;
}

static int save_values(const struct peft_source *s, const char *path,
                       struct err *e)
{
    struct safetensors f = SAFETENSORS_INIT;
    int64_t i;
    int rc = ERR_OK;

    for (i = 0; i < s->list->n && rc == ERR_OK; i++)
        if (s->list->p[i].role != PARAM_BASE) rc = put_value(&f, s, i, e);
    if (rc == ERR_OK) return safetensors_save(&f, path, e);
    safetensors_free(&f);
    return rc;
}

/* Adam's moments beside the adapters, so that training can go on. */
static int save_moments(const struct peft_source *s, const char *path,
                        struct err *e)
{
    struct safetensors f = SAFETENSORS_INIT;
    double step = (double)s->step;
    const int64_t one = 1;
    char name[PEFT_NAME];
    int64_t i;
    int part;

    for (i = 0; i < s->list->n; i++)
        for (part = PEFT_MEAN; part <= PEFT_SQUARE; part++) {
            const struct param *p = &s->list->p[i];

            if (p->role == PARAM_BASE) continue;
            peft_state_name(s->m, p, (enum peft_part)part, name);
            safetensors_put(&f, name, s->moments, p->dim,
                            site_is_routed(p->site) ? 3 : 2, s->value[part][i]);
        }
    safetensors_put(&f, "step", CKPT_F64, &one, 1, &step);
    return safetensors_save(&f, path, e);
}

int peft_save(const char *folder, const struct peft_source *s, struct err *e)
{
    static const char *const file[] = {
        PEFT_CONFIG, "adapter_model.safetensors", "optimizer.safetensors",
    };
    static int (*const save[])(const struct peft_source *, const char *,
                               struct err *) = {
        save_config, save_values, save_moments,
    };
    bool moments = s->value[PEFT_MEAN] != NULL;
    int rc = file_make_dirs(folder, e), i;

    for (i = 0; i < 3 && rc == ERR_OK; i++) {
        struct buf path = BUF_INIT;

        buf_printf(&path, "%s/%s", folder, file[i]);
        if (path.failed) rc = err_nomem(e);
        else if (i < 2 || moments) rc = save[i](s, path.data, e);
        else unlink(path.data);     /* those of an earlier save */
        buf_free(&path);
    }
    return rc;
}
