/*
** safetensors.h - writes safetensors files and the folders they lie in.
*/
#ifndef TESTS_SAFETENSORS_H
#define TESTS_SAFETENSORS_H

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"

/* A file in the making. */
struct st { struct buf header, data; };

static inline char *st_folder(void)
{
    char *dir = strdup("/tmp/peakproof-ckpt-XXXXXX");

    if (dir == NULL || mkdtemp(dir) == NULL) abort();
    return dir;
}

static inline void st_remove(char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *x;

    while (d != NULL && (x = readdir(d)) != NULL)
        if (x->d_name[0] != '.') unlinkat(dirfd(d), x->d_name, 0);
    if (d != NULL) closedir(d);
    rmdir(dir);
    free(dir);
}

static inline void st_write(const char *dir, const char *name,
                            const char *data, size_t n)
{
    char path[300];
    struct err e;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (file_write(path, data, n, &e) != ERR_OK) abort();
}

/* A file with this header, said to be len bytes long (-1: as it is). */
static inline void st_raw(const char *dir, const char *name,
                          const char *header, int64_t len, const void *data,
                          size_t n)
{
    struct buf b = BUF_INIT;
    uint64_t size = len < 0 ? strlen(header) : (uint64_t)len;
    size_t i;

    for (i = 0; i < 8; i++) buf_putc(&b, (char)(size >> (8 * i) & 255));
    buf_puts(&b, header);
    for (i = 0; i < n; i++) buf_putc(&b, ((const char *)data)[i]);
    st_write(dir, name, b.data, b.len);
    buf_free(&b);
}

/* Adds a tensor; its elements follow by st_f32. */
static inline void st_tensor(struct st *s, const char *name,
                             const int64_t *dim, int64_t n_dim)
{
    uint64_t count = 1, at = s->data.len;
    int64_t i;

    buf_puts(&s->header, s->header.len ? "," : "{");
    buf_printf(&s->header, "\"%s\":{\"dtype\":\"F32\",\"shape\":[", name);
    for (i = 0; i < n_dim; i++) {
        count *= (uint64_t)dim[i];
        buf_printf(&s->header, "%s%" PRId64, i ? "," : "", dim[i]);
    }
    buf_printf(&s->header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
               at, at + 4 * count);
}

static inline void st_f32(struct st *s, const float *x, int64_t n)
{
    const char *p = (const char *)x;
    int64_t i;

    for (i = 0; i < 4 * n; i++) buf_putc(&s->data, p[i]);
}

static inline void st_save(struct st *s, const char *dir, const char *name)
{
    buf_putc(&s->header, '}');
    st_raw(dir, name, s->header.data, -1, s->data.data, s->data.len);
    buf_free(&s->header);
    buf_free(&s->data);
}

#endif
