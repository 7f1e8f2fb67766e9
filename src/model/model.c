/* model.c - see model.h */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define CONFIG_LIMIT ((size_t)16 << 20)

enum layer_kind model_input_layout(const struct model *m, int64_t layer)
{
    bool inside = layer > 0 && m->kind[layer] == LAYER_GDN
                  && m->kind[layer - 1] == LAYER_GDN;
    return inside ? LAYER_GDN : LAYER_ATTENTION;
}

enum layer_kind model_output_layout(const struct model *m, int64_t layer)
{
    bool inside = layer + 1 < m->layers && m->kind[layer] == LAYER_GDN
                  && m->kind[layer + 1] == LAYER_GDN;
    return inside ? LAYER_GDN : LAYER_ATTENTION;
}

int64_t model_count(const struct model *m, enum layer_kind kind)
{
    int64_t i, n = 0;

    for (i = 0; i < m->layers; i++) n += m->kind[i] == kind;
    return n;
}

int model_load(const char *path, int64_t layers, struct model *out,
               struct err *e)
{
    struct buf text = BUF_INIT;
    int rc = file_read(path, CONFIG_LIMIT, &text, e);

    if (rc == ERR_OK && strlen(buf_text(&text)) != text.len)
        rc = err_set(e, ERR_INPUT, "%s: holds a NUL byte: not JSON", path);
    if (rc == ERR_OK) rc = model_parse(buf_text(&text), path, layers, out, e);
    buf_free(&text);
    return rc;
}

void model_free(struct model *m)
{
    free(m->kind);
    m->kind = NULL;
    m->layers = 0;
}
