/* safetensors.c - see safetensors.h */
#include "model/safetensors.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"

uint16_t safetensors_bf16(double v)
{
    float f = (float)v;
    uint32_t w;

    memcpy(&w, &f, 4);
    if ((w & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(w >> 16 | 64);
    w += 0x7FFFu + (w >> 16 & 1);
    return (uint16_t)(w >> 16);
}

static double from_f16(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double m = h & 1023, v;

    if (exponent == 31) v = m == 0 ? (double)INFINITY : (double)NAN;
    else if (exponent == 0) v = ldexp(m, -24);
    else v = ldexp(m + 1024, exponent - 25);
    return h >> 15 ? -v : v;
}

double safetensors_number(const unsigned char *raw, enum checkpoint_type t,
                          int64_t i)
{
    uint16_t h;
    uint32_t w;
    float f;
    double d;

    switch (t) {
    case CKPT_F64:
        memcpy(&d, raw + 8 * i, 8);
        return d;
    case CKPT_F32:
        memcpy(&f, raw + 4 * i, 4);
        return (double)f;
    case CKPT_F16:
        memcpy(&h, raw + 2 * i, 2);
        return from_f16(h);
    case CKPT_BF16:
        memcpy(&h, raw + 2 * i, 2);
        w = (uint32_t)h << 16;
        memcpy(&f, &w, 4);
        return (double)f;
    case CKPT_I32: {
        int32_t n;
        memcpy(&n, raw + 4 * i, 4);
        return (double)n;
    }
    case CKPT_I64: {
        int64_t n;
        memcpy(&n, raw + 8 * i, 8);
        return (double)n;
    }
    case CKPT_OTHER: break;
    }
    return 0;
}

static void put_header(struct safetensors *f, const char *name,
                       const char *type, const int64_t *dim, int64_t n_dim,
                       int64_t bytes)
{
    struct buf *h = &f->header;
    int64_t i;

    buf_puts(h, h->len == 0 ? "{\"__metadata__\":{\"format\":\"pt\"}," : ",");
    buf_printf(h, "\"%s\":{\"dtype\":\"%s\",\"shape\":[", name, type);
    for (i = 0; i < n_dim; i++)
        buf_printf(h, "%s%" PRId64, i > 0 ? "," : "", dim[i]);
    buf_printf(h, "],\"data_offsets\":[%zu,%zu]}", f->data.len,
               f->data.len + (size_t)bytes);
}

static int64_t count_of(const int64_t *dim, int64_t n_dim)
{
    int64_t i, n = 1;

    for (i = 0; i < n_dim; i++) n *= dim[i];
    return n;
}

void safetensors_put(struct safetensors *f, const char *name,
                     enum checkpoint_type type, const int64_t *dim,
                     int64_t n_dim, const double *x)
{
    static const struct { const char *name; int64_t bytes; } kind[] = {
        [CKPT_BF16] = {"BF16", 2}, [CKPT_F32] = {"F32", 4},
        [CKPT_F64] = {"F64", 8},
    };
    int64_t i, n = count_of(dim, n_dim);

    assert(n_dim >= 0 && n_dim <= CHECKPOINT_DIMS);
    assert(type == CKPT_BF16 || type == CKPT_F32 || type == CKPT_F64);
    put_header(f, name, kind[type].name, dim, n_dim, n * kind[type].bytes);
    for (i = 0; i < n; i++) {
        uint16_t h = safetensors_bf16(x[i]);
        float s = (float)x[i];

        buf_put(&f->data, type == CKPT_F64 ? (const char *)&x[i]
                          : type == CKPT_F32 ? (const char *)&s
                          : (const char *)&h, (size_t)kind[type].bytes);
    }
}

void safetensors_put_ints(struct safetensors *f, const char *name,
                          const int64_t *dim, int64_t n_dim, const int64_t *x)
{
    int64_t n = count_of(dim, n_dim);

    put_header(f, name, "I64", dim, n_dim, 8 * n);
    if (n > 0) buf_put(&f->data, (const char *)x, (size_t)n * sizeof *x);
}

int safetensors_save(struct safetensors *f, const char *path, struct err *e)
{
    struct buf all = BUF_INIT;
    size_t i;
    int rc;

    buf_puts(&f->header, f->header.len == 0 ? "{}" : "}");
    while (f->header.len % 8 != 0 && !f->header.failed)
        buf_putc(&f->header, ' ');      /* the data are aligned */
    for (i = 0; i < 8; i++)
        buf_putc(&all, (char)(f->header.len >> (8 * i) & 255));
    buf_puts(&all, buf_text(&f->header));
    if (f->data.len > 0) buf_put(&all, f->data.data, f->data.len);
    if (all.failed || f->header.failed || f->data.failed)
        rc = err_nomem(e);
    else
        rc = file_write(path, all.data, all.len, e);
    buf_free(&all);
    safetensors_free(f);
    return rc;
}

void safetensors_free(struct safetensors *f)
{
    buf_free(&f->header);
    buf_free(&f->data);
}
