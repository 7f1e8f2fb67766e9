/* Any bytes: a value or an error. A value, written and read, is the same. */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int has_real(const json_t *v)
{
    const char *key;
    json_t *x;
    size_t i;

    if (json_is_real(v)) return 1;
    json_array_foreach(v, i, x) {
        if (has_real(x)) return 1;
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, x) {
        if (has_real(x)) return 1;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf b = BUF_INIT;
    json_t *v, *u;
    struct err e;

    if (js_parse((const char *)data, size, "f", &v, &e) != ERR_OK) return 0;
    js_put(&b, v);
    if (js_parse(b.data, b.len, "g", &u, &e) != ERR_OK) abort();
    /* fractions are written with 15 digits */
    if (!has_real(v) && !json_equal(v, u)) abort();
    json_decref(u);
    json_decref(v);
    buf_free(&b);
    return 0;
}
