/* checkpoint.c - see checkpoint.h */
#include "model/checkpoint.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/num.h"
#include "model/safetensors.h"

#define HEADER_LIMIT (100 * 1000 * 1000)    /* as the format's own readers */
#define INDEX_NAME "model.safetensors.index.json"
#define READ_BLOCK 8192                     /* elements */

struct shard {
    char *path;
    int fd;
};

struct checkpoint {
    char *folder;
    struct shard *file;
    int64_t n_file;
    struct checkpoint_tensor *t;    /* sorted by name */
    int64_t n, cap;
};

static int64_t type_bytes(enum checkpoint_type t)
{
    static const int64_t bytes[] = {
        [CKPT_BF16] = 2, [CKPT_F16] = 2, [CKPT_F32] = 4, [CKPT_F64] = 8,
        [CKPT_I32] = 4, [CKPT_I64] = 8, [CKPT_OTHER] = 0,
    };

    return bytes[t];
}

static enum checkpoint_type type_parse(const char *s)
{
    static const char *const name[] = {
        [CKPT_BF16] = "BF16", [CKPT_F16] = "F16", [CKPT_F32] = "F32",
        [CKPT_F64] = "F64", [CKPT_I32] = "I32", [CKPT_I64] = "I64",
    };
    int i;

    for (i = 0; i < CKPT_OTHER; i++)
        if (strcmp(s, name[i]) == 0) return (enum checkpoint_type)i;
    return CKPT_OTHER;
}

/* ---- one tensor of a header ---------------------------------------------- */

/* A shape whose product or bytes overflow is refused before anything is
** read. */
static int read_shape(const struct js *o, struct checkpoint_tensor *t,
                      struct err *e)
{
    struct js shape;
    int64_t i;
    int rc = js_need(o, "shape", &shape, e);

    if (rc == ERR_OK) rc = js_array(&shape, -1, e);
    if (rc != ERR_OK) return rc;
    t->n_dim = js_size(&shape);
    if (t->n_dim > CHECKPOINT_DIMS) t->type = CKPT_OTHER;
    if (t->type == CKPT_OTHER) return ERR_OK;
    t->count = 1;
    for (i = 0; i < CHECKPOINT_DIMS; i++) t->dim[i] = 1;
    for (i = 0; i < t->n_dim; i++) {
        struct js d = js_item(&shape, i);

        rc = js_int(&d, 0, INT64_MAX, &t->dim[i], e);
        if (rc != ERR_OK) return rc;
        if (!num_mul(t->count, t->dim[i], &t->count))
            return js_error(&shape, e, "does not fit 64-bit sizes");
    }
    return ERR_OK;
}

static int read_place(const struct js *o, int64_t data, int64_t data_bytes,
                      struct checkpoint_tensor *t, struct err *e)
{
    struct js offsets;
    int64_t *at = NULL, bytes;
    int rc = js_need(o, "data_offsets", &offsets, e);

    if (rc == ERR_OK)
        rc = js_ints(&offsets, 2, 0, data_bytes, &at, NULL, e);
    if (rc != ERR_OK) return rc;
    if (!num_mul(t->count, type_bytes(t->type), &bytes) || at[1] < at[0] ||
        (t->type != CKPT_OTHER && at[1] - at[0] != bytes))
        rc = js_error(&offsets, e, "the shape needs other bytes than these "
                      "(a damaged file?)");
    t->at = data + at[0];
    t->bytes = at[1] - at[0];
    free(at);
    return rc;
}

static int add_tensor(struct checkpoint *c, struct checkpoint_tensor t,
                      const char *name, struct err *e)
{
    if (c->n == c->cap) {
        int64_t cap = c->cap ? 2 * c->cap : 1024;
        struct checkpoint_tensor *p = realloc(c->t, (size_t)cap * sizeof *p);

        if (p == NULL) return err_nomem(e);
        c->t = p;
        c->cap = cap;
    }
    t.name = strdup(name);
    if (t.name == NULL) return err_nomem(e);
    c->t[c->n++] = t;
    return ERR_OK;
}

static int read_entry(struct checkpoint *c, const struct js *o,
                      const char *name, int64_t file, int64_t data,
                      int64_t data_bytes, struct err *e)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets",
                                       NULL};
    struct checkpoint_tensor t = {.file = file};
    const char *type;
    int rc = js_object(o, keys, e);

    if (rc == ERR_OK) rc = js_need_string(o, "dtype", &type, e);
    if (rc != ERR_OK) return rc;
    t.type = type_parse(type);
    rc = read_shape(o, &t, e);
    if (rc == ERR_OK) rc = read_place(o, data, data_bytes, &t, e);
    return rc == ERR_OK ? add_tensor(c, t, name, e) : rc;
}

/* ---- one file ------------------------------------------------------------ */

static int pread_all(int fd, void *out, size_t n, int64_t at)
{
    char *p = out;

    while (n > 0) {
        ssize_t got = pread(fd, p, n, (off_t)at);

        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0 ? errno : EIO;
        p += got;
        n -= (size_t)got;
        at += got;
    }
    return 0;
}

/* Length of the header and of the whole file. */
static int file_sizes(const struct shard *f, int64_t *header, int64_t *size,
                      struct err *e)
{
    unsigned char b[8];
    uint64_t n = 0;
    struct stat st;
    int i;

    if (fstat(f->fd, &st) != 0)
        return file_error(e, f->path, errno);
    if (st.st_size < 8 || pread_all(f->fd, b, 8, 0) != 0)
        return err_set(e, ERR_INPUT, "%s: too short for a safetensors file",
                       f->path);
    for (i = 7; i >= 0; i--) n = n << 8 | b[i];
    if (n > HEADER_LIMIT || n > (uint64_t)st.st_size - 8)
        return err_set(e, ERR_INPUT, "%s: a header of %llu bytes does not fit "
                       "the file (truncated?)", f->path,
                       (unsigned long long)n);
    *header = (int64_t)n;
    *size = st.st_size;
    return ERR_OK;
}

static int read_header(const struct shard *f, int64_t n, json_t **out,
                       struct err *e)
{
    char *text = malloc((size_t)n + 1);
    int rc;

    if (text == NULL) return err_nomem(e);
    if (pread_all(f->fd, text, (size_t)n, 8) != 0)
        rc = err_set(e, ERR_INPUT, "%s: cannot read its header", f->path);
    else
        rc = js_parse(text, (size_t)n, f->path, out, e);
    free(text);
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct checkpoint_tensor *x = a, *y = b;

    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* No byte belongs to two tensors of a file, which are those from first on. */
static int check_apart(struct checkpoint *c, int64_t first, struct err *e)
{
    int64_t i, n = c->n - first;
    struct checkpoint_tensor *t = n > 0 ? c->t + first : NULL;

    if (n > 0) qsort(t, (size_t)n, sizeof *t, by_place);
    for (i = 1; i < n; i++)
        if (t[i - 1].at + t[i - 1].bytes > t[i].at)
            return err_set(e, ERR_INPUT, "%s: %s.data_offsets: lies over %s "
                           "(a damaged file?)", c->file[t[i].file].path,
                           t[i].name, t[i - 1].name);
    return ERR_OK;
}

/* The header alone: tensors stay in the file until they are asked for. */
static int read_file(struct checkpoint *c, int64_t index, struct err *e)
{
    int64_t first = c->n;
    const struct shard *f = &c->file[index];
    int64_t header = 0, size = 0;
    json_t *root = NULL, *value;
    const char *name;
    struct js top;
    int rc = file_sizes(f, &header, &size, e);

    if (rc == ERR_OK) rc = read_header(f, header, &root, e);
    if (rc != ERR_OK) return rc;
    top = js_top(root, f->path);
    rc = js_object(&top, NULL, e);
    if (rc == ERR_OK)
        json_object_foreach(root, name, value) {
            struct js o = js_get(&top, name);

            if (strcmp(name, "__metadata__") == 0) continue;
            rc = read_entry(c, &o, name, index, 8 + header, size - 8 - header,
                            e);
            if (rc != ERR_OK) break;
        }
    json_decref(root);
    return rc == ERR_OK ? check_apart(c, first, e) : rc;
}

/* ---- the folder ---------------------------------------------------------- */

static int add_file(struct checkpoint *c, const char *folder,
                    const char *name, struct err *e)
{
    struct shard *p = realloc(c->file, (size_t)(c->n_file + 1) * sizeof *p);
    struct buf path = BUF_INIT;
    int rc;

    if (p == NULL) return err_nomem(e);
    c->file = p;
    buf_printf(&path, "%s/%s", folder, name);
    if (path.failed) return err_nomem(e);
    p[c->n_file] = (struct shard){path.data, -1};
    rc = file_open(path.data, &p[c->n_file].fd, e);
    if (rc != ERR_OK) p[c->n_file].fd = -1;
    c->n_file++;
    return rc == ERR_OK ? read_file(c, c->n_file - 1, e) : rc;
}

static int by_string(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The files named by the index, each once. A name with a slash would leave
** the folder. */
static int add_indexed(struct checkpoint *c, const char *folder, json_t *root,
                       const char *origin, struct err *e)
{
    struct js top = js_top(root, origin), map;
    const char **names = NULL, *key;
    json_t *value;
    size_t n = 0, i;
    int rc = js_need(&top, "weight_map", &map, e);

    if (rc == ERR_OK) rc = js_object(&map, NULL, e);
    if (rc != ERR_OK) return rc;
    names = calloc(json_object_size(map.v) + 1, sizeof *names);
    if (names == NULL) return err_nomem(e);
    json_object_foreach(map.v, key, value) {
        struct js s = js_get(&map, key);

        rc = js_string(&s, &names[n++], e);
        if (rc == ERR_OK && strchr(names[n - 1], '/') != NULL)
            rc = js_error(&s, e, "must be a file of this folder");
        if (rc != ERR_OK) break;
    }
    if (rc == ERR_OK) qsort(names, n, sizeof *names, by_string);
    for (i = 0; rc == ERR_OK && i < n; i++)
        if (i == 0 || strcmp(names[i - 1], names[i]) != 0)
            rc = add_file(c, folder, names[i], e);
    free(names);
    return rc;
}

static int is_safetensors(const struct dirent *d)
{
    size_t n = strlen(d->d_name);

    return n > 12 && strcmp(d->d_name + n - 12, ".safetensors") == 0;
}

static int add_all(struct checkpoint *c, const char *folder, struct err *e)
{
    struct dirent **list = NULL;
    int n = scandir(folder, &list, is_safetensors, alphasort), i;
    int rc = ERR_OK;

    if (n < 0) return file_error(e, folder, errno);
    if (n == 0)
        rc = err_set(e, ERR_INPUT, "%s: no *.safetensors file in this folder",
                     folder);
    for (i = 0; i < n; i++) {
        if (rc == ERR_OK) rc = add_file(c, folder, list[i]->d_name, e);
        free(list[i]);
    }
    free(list);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct checkpoint_tensor *)a)->name,
                  ((const struct checkpoint_tensor *)b)->name);
}

static int sort_names(struct checkpoint *c, struct err *e)
{
    int64_t i;

    if (c->n > 0) qsort(c->t, (size_t)c->n, sizeof *c->t, by_name);
    for (i = 1; i < c->n; i++)
        if (strcmp(c->t[i - 1].name, c->t[i].name) == 0)
            return err_set(e, ERR_INPUT, "%s: %s is in %s too",
                           c->file[c->t[i].file].path, c->t[i].name,
                           c->file[c->t[i - 1].file].path);
    return ERR_OK;
}

static int open_folder(struct checkpoint *c, const char *folder,
                       const char *index, struct err *e)
{
    json_t *root = NULL;
    int rc;

    if (access(index, F_OK) != 0) {
        rc = add_all(c, folder, e);
    } else {
        rc = js_load(index, HEADER_LIMIT, &root, e);
        if (rc == ERR_OK) rc = add_indexed(c, folder, root, index, e);
        json_decref(root);
    }
    return rc == ERR_OK ? sort_names(c, e) : rc;
}

int checkpoint_open_file(const char *path, struct checkpoint **out,
                         struct err *e)
{
    struct checkpoint *c = calloc(1, sizeof *c);
    const char *slash = strrchr(path, '/');
    int rc;

    if (c == NULL) return err_nomem(e);
    c->folder = slash == NULL ? strdup(".")
                              : strndup(path, (size_t)(slash - path) + 1);
    rc = c->folder == NULL ? err_nomem(e)
        : add_file(c, c->folder, slash == NULL ? path : slash + 1, e);
    if (rc == ERR_OK) rc = sort_names(c, e);
    if (rc != ERR_OK) {
        checkpoint_close(c);
        return rc;
    }
    *out = c;
    return ERR_OK;
}

int checkpoint_open(const char *folder, struct checkpoint **out,
                    struct err *e)
{
    struct checkpoint *c = calloc(1, sizeof *c);
    struct buf index = BUF_INIT;
    int rc;

    if (c == NULL) return err_nomem(e);
    buf_printf(&index, "%s/%s", folder, INDEX_NAME);
    c->folder = strdup(folder);
    rc = index.failed || c->folder == NULL ? err_nomem(e)
                      : open_folder(c, folder, index.data, e);
    buf_free(&index);
    if (rc != ERR_OK) {
        checkpoint_close(c);
        return rc;
    }
    *out = c;
    return ERR_OK;
}

void checkpoint_close(struct checkpoint *c)
{
    int64_t i;

    if (c == NULL) return;
    for (i = 0; i < c->n_file; i++) {
        if (c->file[i].fd >= 0) close(c->file[i].fd);
        free(c->file[i].path);
    }
    for (i = 0; i < c->n; i++) free(c->t[i].name);
    free(c->folder);
    free(c->file);
    free(c->t);
    free(c);
}

int64_t checkpoint_count(const struct checkpoint *c)
{
    return c->n;
}

/* ---- look up and read ---------------------------------------------------- */

const struct checkpoint_tensor *checkpoint_at(const struct checkpoint *c,
                                              int64_t i)
{
    assert(i >= 0 && i < c->n);
    return &c->t[i];
}

const struct checkpoint_tensor *checkpoint_get(const struct checkpoint *c,
                                               const char *name)
{
    struct checkpoint_tensor key = {.name = (char *)(uintptr_t)name};

    return c->n == 0 ? NULL
                     : bsearch(&key, c->t, (size_t)c->n, sizeof *c->t,
                               by_name);
}

const char *checkpoint_folder(const struct checkpoint *c)
{
    return c->folder;
}

const char *checkpoint_path(const struct checkpoint *c,
                            const struct checkpoint_tensor *t)
{
    return c->file[t->file].path;
}

static void put_shape(struct buf *b, const int64_t *dim, int64_t n)
{
    int64_t i;

    buf_putc(b, '[');
    for (i = 0; i < n; i++)
        buf_printf(b, "%s%lld", i > 0 ? ", " : "", (long long)dim[i]);
    buf_putc(b, ']');
}

static int misshaped(const struct checkpoint *c,
                     const struct checkpoint_tensor *t, const int64_t *dim,
                     int64_t n_dim, struct err *e)
{
    struct buf have = BUF_INIT, want = BUF_INIT;

    put_shape(&have, t->dim, t->n_dim);
    put_shape(&want, dim, n_dim);
    err_set(e, ERR_INPUT, "%s: %s has shape %s, the model needs %s",
            c->file[t->file].path, t->name, buf_text(&have), buf_text(&want));
    buf_free(&have);
    buf_free(&want);
    return ERR_INPUT;
}

static int find(const struct checkpoint *c, const char *name,
                const int64_t *dim, int64_t n_dim, enum checkpoint_type last,
                const struct checkpoint_tensor **out, struct err *e)
{
    const struct checkpoint_tensor *t = checkpoint_get(c, name);

    if (t == NULL)
        return err_set(e, ERR_INPUT, "%s: tensor %s is missing", c->folder,
                       name);
    if (t->type > last)
        return err_set(e, ERR_INPUT, "%s: %s is of a type or shape that is "
                       "not read here (BF16, F16, F32 and F64 of up to %d "
                       "dimensions are)", checkpoint_path(c, t), name,
                       CHECKPOINT_DIMS);
    if (t->n_dim != n_dim ||
        memcmp(t->dim, dim, (size_t)n_dim * sizeof *dim) != 0)
        return misshaped(c, t, dim, n_dim, e);
    *out = t;
    return ERR_OK;
}

int checkpoint_find(const struct checkpoint *c, const char *name,
                    const int64_t *dim, int64_t n_dim,
                    const struct checkpoint_tensor **out, struct err *e)
{
    assert(n_dim >= 0 && n_dim <= CHECKPOINT_DIMS);
    return find(c, name, dim, n_dim, CKPT_F64, out, e);
}

int checkpoint_find_any(const struct checkpoint *c, const char *name,
                        const int64_t *dim, int64_t n_dim,
                        const struct checkpoint_tensor **out, struct err *e)
{
    return find(c, name, dim, n_dim, CKPT_I64, out, e);
}

int checkpoint_read(const struct checkpoint *c,
                    const struct checkpoint_tensor *t, int64_t first,
                    int64_t n, double *out, struct err *e)
{
    unsigned char raw[READ_BLOCK * 8];
    int64_t width = type_bytes(t->type), i;

    if (first < 0 || n < 0 || first > t->count - n)
        return err_set(e, ERR_RUN, "%s: read outside its %lld elements",
                       t->name, (long long)t->count);
    while (n > 0) {
        int64_t part = n < READ_BLOCK ? n : READ_BLOCK;
        int rc = pread_all(c->file[t->file].fd, raw, (size_t)(part * width),
                           t->at + first * width);

        if (rc != 0)
            return file_error(e, c->file[t->file].path, rc) == ERR_RUN
                   ? ERR_RUN : err_wrap(e, "%s", t->name);
        for (i = 0; i < part; i++) {
            out[i] = safetensors_number(raw, t->type, i);
            if (isfinite(out[i])) continue;
            return err_set(e, ERR_INPUT, "%s: %s: element %lld is %s, not a "
                           "finite number", c->file[t->file].path, t->name,
                           (long long)(first + i), isnan(out[i]) ? "NaN"
                           : "infinite");
        }
        out += part;
        first += part;
        n -= part;
    }
    return ERR_OK;
}
