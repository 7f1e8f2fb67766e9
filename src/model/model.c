/* model.c - see model.h */
#include "model/model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#define CONFIG_LIMIT ((size_t)16 << 20)

struct model model_share(const struct model *m, int64_t tp)
{
    struct model s = *m;

    assert(tp >= 1);
    s.q_heads /= tp;
    s.kv_heads = s.kv_heads > tp ? s.kv_heads / tp : 1;
    if (tp == 1) s.kv_heads = m->kv_heads;
    s.k_heads /= tp;
    s.v_heads /= tp;
    s.ffn /= tp;
    s.shared_ffn /= tp;
    s.vocab = (s.vocab + tp - 1) / tp;
    return s;
}

int64_t model_count(const struct model *m, enum layer_kind kind)
{
    int64_t i, n = 0;

    for (i = 0; i < m->layers; i++) n += m->kind[i] == kind;
    return n;
}

/* "a/b.json" is b, "a/config.json" is a. */
static void name_from_origin(const char *origin, struct model *m)
{
    const char *base = strrchr(origin, '/'), *end;

    base = base ? base + 1 : origin;
    if (strcmp(base, "config.json") == 0 && base - origin > 1) {
        for (end = base - 1; end > origin && end[-1] == '/'; end--)
            ;
        for (base = end; base > origin && base[-1] != '/'; base--)
            ;
    } else {
        end = strrchr(base, '.');
        if (end == NULL || end == base) end = base + strlen(base);
    }
    snprintf(m->name, sizeof m->name, "%.*s", (int)(end - base), base);
}

/* Takes root over. */
static int from_root(json_t *root, const char *origin, int64_t layers,
                     struct model *out, struct err *e)
{
    struct js top = js_top(root, origin);
    int rc = model_from_json(&top, layers, out, e);

    if (rc == ERR_OK && strcmp(origin, "-") != 0)
        name_from_origin(origin, out);
    json_decref(root);
    return rc;
}

int model_load(const char *path, int64_t layers, struct model *out,
               struct err *e)
{
    json_t *root;
    int rc = js_load(path, CONFIG_LIMIT, &root, e);

    return rc == ERR_OK ? from_root(root, path, layers, out, e) : rc;
}

void model_free(struct model *m)
{
    free(m->kind);
    m->kind = NULL;
    m->layers = 0;
}
