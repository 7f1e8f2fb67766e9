/* numbers.c - see numbers.h */
#include "step/numbers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "model/safetensors.h"

#define BLOCK 4096      /* elements at a time */

static void pack(unsigned char *raw, enum dtype t, const double *v, int64_t n)
{
    int64_t i;

    for (i = 0; i < n; i++) {
        float f = (float)v[i];
        uint16_t h = safetensors_bf16(v[i]);

        if (t == DT_F64) memcpy(raw + 8 * i, &v[i], 8);
        else if (t == DT_F32) memcpy(raw + 4 * i, &f, 4);
        else memcpy(raw + 2 * i, &h, 2);
    }
}

/* Every type is exact in a double. */
static void unpack(double *v, enum dtype t, const unsigned char *raw,
                   int64_t n)
{
    int64_t i;

    for (i = 0; i < n; i++) {
        uint32_t w = 0;
        uint16_t h;
        float f;

        if (t == DT_F64) {
            memcpy(&v[i], raw + 8 * i, 8);
            continue;
        }
        if (t == DT_F32) {
            memcpy(&w, raw + 4 * i, 4);
        } else {
            memcpy(&h, raw + 2 * i, 2);
            w = (uint32_t)h << 16;
        }
        memcpy(&f, &w, 4);
        v[i] = (double)f;
    }
}

/* Room for a block of n numbers. */
static unsigned char *new_block(int64_t n, int64_t width)
{
    return malloc((size_t)(num_min(n, BLOCK) * width) + 1);
}

int numbers_up(struct dev *d, void *to, enum dtype t, const double *v,
               int64_t n, struct err *e)
{
    int64_t at, part, width = dtype_bytes(t);
    unsigned char *raw = new_block(n, width);
    int rc = raw == NULL ? err_nomem(e) : ERR_OK;

    assert(t == DT_BF16 || t == DT_F32 || t == DT_F64);
    for (at = 0; at < n && rc == ERR_OK; at += part) {
        part = num_min(n - at, BLOCK);
        pack(raw, t, v + at, part);
        rc = d->ops->upload(d, (char *)to + at * width, raw,
                            (size_t)(part * width), e);
    }
    free(raw);
    return rc;
}

int numbers_down(struct dev *d, double *out, const void *from, enum dtype t,
                 int64_t n, struct err *e)
{
    int64_t at, part, width = dtype_bytes(t);
    unsigned char *raw = new_block(n, width);
    int rc = raw == NULL ? err_nomem(e) : ERR_OK;

    assert(t == DT_BF16 || t == DT_F32 || t == DT_F64);
    for (at = 0; at < n && rc == ERR_OK; at += part) {
        part = num_min(n - at, BLOCK);
        rc = d->ops->download(d, raw, (const char *)from + at * width,
                              (size_t)(part * width), e);
        if (rc == ERR_OK) unpack(out + at, t, raw, part);
    }
    free(raw);
    return rc;
}
