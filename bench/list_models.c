/* list_models.c - see list_models.h */
#include "bench/list_models.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/command.h"
#include "model/param.h"
#include "run/data_dir.h"

static int is_config(const struct dirent *d)
{
    size_t n = strlen(d->d_name);

    return n > 5 && strcmp(d->d_name + n - 5, ".json") == 0;
}

static int base_bytes(const struct model *m, int64_t *out, struct err *e)
{
    struct param_list l;
    int rc = param_list_make(m, 1, 0, &l, e);

    if (rc != ERR_OK) return rc;
    *out = param_base_bytes(&l);
    param_list_free(&l);
    return ERR_OK;
}

static void put_line(const struct model *m, int64_t bytes, struct buf *b)
{
    char experts[32] = "dense", layers[40];

    snprintf(layers, sizeof layers, "%" PRId64 " (%" PRId64 " GDN)",
             m->layers, model_count(m, LAYER_GDN));
    if (m->experts > 0)
        snprintf(experts, sizeof experts, "%" PRId64 " of %" PRId64, m->top_k,
                 m->experts);
    buf_printf(b, "%-19s %-12s %-12s %6" PRId64 "  %-9s %8.2f\n", m->name,
               m->family, layers, m->hidden, experts,
               (double)bytes / 1e9);
}

static json_t *model_json(const struct model *m, int64_t bytes)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
                     "name", m->name, "family", m->family, "layers",
                     (json_int_t)m->layers, "gdn_layers",
                     (json_int_t)model_count(m, LAYER_GDN), "hidden",
                     (json_int_t)m->hidden, "experts",
                     (json_int_t)m->experts, "top_k", (json_int_t)m->top_k,
                     "max_positions", (json_int_t)m->max_positions,
                     "weight_bytes", (json_int_t)bytes);
}

static int add_model(const char *dir, const char *file, json_t *list,
                     struct buf *text, struct err *e)
{
    struct buf path = BUF_INIT;
    struct model m;
    int64_t bytes = 0;
    int rc;

    buf_printf(&path, "%s/%s", dir, file);
    rc = path.failed ? err_nomem(e) : model_load(path.data, 0, &m, e);
    buf_free(&path);
    if (rc != ERR_OK) return rc;
    rc = base_bytes(&m, &bytes, e);
    if (rc == ERR_OK) {
        put_line(&m, bytes, text);
        json_array_append_new(list, model_json(&m, bytes));
    }
    model_free(&m);
    return rc;
}

static int add_all(const char *dir, json_t *list, struct buf *text,
                   struct err *e)
{
    struct dirent **entry = NULL;
    int n = scandir(dir, &entry, is_config, alphasort), i, rc = ERR_OK;

    if (n < 0) return err_set(e, ERR_RUN, "%s: cannot be read", dir);
    for (i = 0; i < n; i++) {
        if (rc == ERR_OK)
            rc = add_model(dir, entry[i]->d_name, list, text, e);
        free(entry[i]);
    }
    free(entry);
    return rc;
}

int list_models(bool json, struct err *e)
{
    struct buf text = BUF_INIT, dir = BUF_INIT;
    json_t *list = json_array();
    char *data = NULL;
    int rc = data_dir(&data, e);

    buf_printf(&text, "%-19s %-12s %-12s %6s  %-9s %8s\n", "model", "family",
               "layers", "hidden", "experts", "bf16 GB");
    buf_printf(&dir, "%s/models", data != NULL ? data : "");
    if (rc == ERR_OK) rc = add_all(buf_text(&dir), list, &text, e);
    if (rc != ERR_OK || !json) {
        json_decref(list);
        if (rc == ERR_OK) rc = out_put(&text, e);
    } else {
        rc = out_json(json_pack("{s:i, s:o}", "format", 1, "models", list),
                      e);
    }
    buf_free(&text);
    buf_free(&dir);
    free(data);
    return rc;
}
