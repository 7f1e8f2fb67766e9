/* What a worker sends its parent: any bytes are refused, or a result whose
** words are in bounds and which packs to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct case_result r;
    struct buf b = BUF_INIT;
    struct err e;

    if (case_result_unpack((const char *)data, size, &r, &e) != ERR_OK) {
        if (*e.text == '\0') abort();
        return 0;
    }
    if (record_status_name(r.status) == NULL) abort();
    for (int64_t i = 0; i < r.n_file; i++)
        if (r.file[i].kind >= RUN_FILE_KINDS || *r.file[i].name == '\0')
            abort();
    case_result_pack(&r, &b);
    if (b.failed || b.len != size || memcmp(b.data, data, size) != 0) abort();
    buf_free(&b);
    case_result_free(&r);
    return 0;
}
