/* A miss report: any JSON is refused, or what price prints comes out. The
** fingerprint is set right, so that what is behind it is reached. */
#include <stdint.h>
#include <stdlib.h>

#include "run/miss.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void sign(json_t *v)
{
    char mark[20];
    struct err e;

    if (!json_is_object(v) || miss_fingerprint(v, mark, &e) != ERR_OK) return;
    json_object_set_new(v, "fingerprint", json_string(mark));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *v, *out = NULL;
    struct js top;
    struct err e;

    if (js_parse((const char *)data, size, "f", &v, &e) != ERR_OK) return 0;
    top = js_top(v, "f");
    if (size & 1) sign(v);
    if (miss_is(&top) && miss_replay(&top, "lua/models", &out, &e) == ERR_OK) {
        if (!json_is_array(json_object_get(out, "estimates"))) abort();
        json_decref(out);
    }
    json_decref(v);
    return 0;
}
