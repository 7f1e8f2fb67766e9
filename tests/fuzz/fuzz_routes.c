/* A histogram of routes: any bytes are refused, or its shares of every layer
** sum to what is routed. */
#include "batch/routing.h"
#include "folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_layer(const struct routing *r, int64_t wave, int64_t layer)
{
    int64_t total = 0, sum = 0, i;
    size_t at = (size_t)((r->waves == 1 ? 0 : wave) * r->layers + layer);
    const int64_t *rows = r->rows + at * (size_t)(r->ranks * r->experts);
    int64_t *out = calloc((size_t)r->ranks, sizeof *out);
    struct err e;

    for (i = 0; i < r->ranks * r->experts; i++) {
        if (rows[i] < 0) abort();
        total += rows[i];
    }
    if (routing_received(r, wave, layer, r->experts, r->ranks, 0, total, out,
                         &e) == ERR_OK) {
        for (i = 0; i < r->ranks; i++) sum += out[i];
        if (sum != total) abort();
    } else if (e.code != ERR_INPUT) {
        abort();
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[FOLDER_PATH];
    struct routing r = {0};
    struct err e;

    folder_put(folder(), "h.csv", "", 0, (const char *)data, size, 0);
    folder_join(path, folder(), "h.csv");
    if (routing_load(path, &r, &e) != ERR_OK) {
        if (e.code != ERR_INPUT || *e.text == '\0') abort();
        return 0;
    }
    for (int64_t w = 0; w < r.waves && w < 3; w++)
        for (int64_t l = 0; l < r.layers && l < 3; l++)
            if (r.experts % r.ranks == 0) check_layer(&r, w, l);
    routing_free(&r);
    return 0;
}
