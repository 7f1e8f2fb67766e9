/* Any config.json: a model within its bounds, or an error. */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "model/param.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk_parameters(const struct model *m)
{
    struct param_list l;
    struct err e;
    int64_t i, base = 0, *adapters;

    if (param_list_make(m, 1, 8, &l, &e) != ERR_OK) return;
    for (i = 0; i < l.n; i++) {
        if (l.p[i].bytes <= 0 || l.p[i].layer >= m->layers) abort();
        if (l.p[i].role == PARAM_BASE) base += l.p[i].bytes;
    }
    if (base != param_base_bytes(&l)) abort();
    adapters = calloc((size_t)m->layers + 1, sizeof *adapters);
    if (adapters == NULL) abort();
    param_adapter_bytes(m, &l, adapters);
    if (adapters[0] <= 0 || adapters[m->layers] != 0) abort();
    free(adapters);
    param_list_free(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model m;
    struct js top;
    struct err e;
    json_t *v;

    if (js_parse((const char *)data, size, "f", &v, &e) != ERR_OK) return 0;
    top = js_top(v, "f");
    if (model_from_json(&top, 0, &m, &e) == ERR_OK) {
        if (m.layers < 1 || m.layers > MODEL_MAX_LAYERS || m.hidden < 1
            || m.rotary_dim > m.head_dim || m.top_k > m.experts)
            abort();
        walk_parameters(&m);
        model_free(&m);
    }
    json_decref(v);
    return 0;
}
