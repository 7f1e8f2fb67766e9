/* move.c - see move.h */
#include "comm/move.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Staging of devices whose memory the host cannot touch. */
#define STAGE_BYTES ((int64_t)4 << 20)

static bool on_host(const struct dev *d)
{
    return strcmp(d->ops->name, "cpu") == 0;
}

int move_sync(struct dev *d, struct err *e)
{
    if (!d->ops->computes || d->ops->sync == NULL) return ERR_OK;
    return d->ops->sync(d, e);
}

bool move_has_marks(const struct dev *d)
{
    return d->ops->computes && d->ops->copy != NULL && d->ops->mark != NULL;
}

int move_mark(struct dev *d, int i, struct err *e)
{
    return move_has_marks(d) ? d->ops->mark(d, i, e) : move_sync(d, e);
}

int move_after(struct dev *d, struct dev *other, int i, struct err *e)
{
    if (d == other || !move_has_marks(d)) return ERR_OK;
    return d->ops->after(d, other, i, e);
}

static int pull_staged(struct dev *d, char *dst, const char *src,
                       int64_t bytes, struct err *e)
{
    size_t room = (size_t)(bytes < STAGE_BYTES ? bytes : STAGE_BYTES);
    void *stage = malloc(room);
    int rc = ERR_OK;

    if (stage == NULL) return err_nomem(e);
    while (bytes > 0 && rc == ERR_OK) {
        size_t n = bytes < STAGE_BYTES ? (size_t)bytes : room;

        rc = d->ops->download(d, stage, src, n, e);
        if (rc == ERR_OK) rc = d->ops->upload(d, dst, stage, n, e);
        dst += n;
        src += n;
        bytes -= (int64_t)n;
    }
    free(stage);
    return rc;
}

int move_pull(struct dev *d, void *dst, const void *src, int64_t bytes,
              struct err *e)
{
    assert(bytes >= 0);
    if (!d->ops->computes || bytes == 0 || dst == src) return ERR_OK;
    if (move_has_marks(d))
        return d->ops->copy(d, dst, src, (size_t)bytes, e);
    if (!on_host(d)) return pull_staged(d, dst, src, bytes, e);
    memmove(dst, src, (size_t)bytes);
    return ERR_OK;
}

/* ---- sums --------------------------------------------------------------- */

/* The device's own addition rounds at every step: of bf16 it is right for two
** summands, of f32, which are summed in f32, for any number. */
bool move_can_sum(const struct dev *d, enum dtype t, int n)
{
    return move_has_marks(d) && d->k != NULL &&
           (t == DT_F32 || (t == DT_BF16 && n == 2));
}

int move_sum_all(struct dev *d, void *const *x, int n, enum dtype t,
                 int64_t first, int64_t count, struct err *e)
{
    struct mat part[2];
    int rc = ERR_OK;

    for (int i = 0; i < n; i++) {
        struct mat *m = &part[i > 0];

        *m = (struct mat){(char *)x[i] + first * dtype_bytes(t), 1, count,
                          count, t};
        if (i > 0 && rc == ERR_OK)
            rc = d->k->add(d, &(struct k_add){part[0], part[0], *m}, e);
    }
    for (int i = 1; i < n && rc == ERR_OK; i++) {
        part[1].p = (char *)x[i] + first * dtype_bytes(t);
        rc = d->k->copy(d, &(struct k_copy){part[1], part[0]}, e);
    }
    return rc;
}

static float from_bf16(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

/* To nearest, ties to even; a NaN stays one. */
static uint16_t to_bf16(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    if (f != f) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

int move_sum_start(struct dev *d, int64_t n, enum dtype t,
                   struct move_sum *out, struct err *e)
{
    size_t acc = t == DT_F64 ? sizeof(double) : sizeof(float);
    struct move_sum s = {.n = n, .t = t};

    assert(n >= 0);
    assert(t == DT_BF16 || t == DT_F32 || t == DT_F64);
    *out = s;
    if (!d->ops->computes || n == 0) return ERR_OK;
    s.acc = malloc((size_t)n * acc);
    s.buffer = on_host(d) ? NULL : malloc((size_t)(n * dtype_bytes(t)));
    if (s.acc == NULL || (s.buffer == NULL && !on_host(d))) {
        move_sum_free(&s);
        return err_nomem(e);
    }
    *out = s;
    return ERR_OK;
}

static void add_bf16(float *acc, const uint16_t *x, int64_t n, bool first)
{
    for (int64_t i = 0; i < n; i++)
        acc[i] = first ? from_bf16(x[i]) : acc[i] + from_bf16(x[i]);
}

static void add_f32(float *acc, const float *x, int64_t n, bool first)
{
    for (int64_t i = 0; i < n; i++) acc[i] = first ? x[i] : acc[i] + x[i];
}

static void add_f64(double *acc, const double *x, int64_t n, bool first)
{
    for (int64_t i = 0; i < n; i++) acc[i] = first ? x[i] : acc[i] + x[i];
}

int move_sum_add(struct move_sum *s, struct dev *d, const void *src,
                 bool first, struct err *e)
{
    size_t bytes = (size_t)(s->n * dtype_bytes(s->t));

    if (s->acc == NULL) return ERR_OK;
    if (s->buffer != NULL) {
        int rc = d->ops->download(d, s->buffer, src, bytes, e);

        if (rc != ERR_OK) return rc;
        src = s->buffer;
    }
    switch (s->t) {
    case DT_BF16: add_bf16(s->acc, src, s->n, first); break;
    case DT_F32: add_f32(s->acc, src, s->n, first); break;
    default: add_f64(s->acc, src, s->n, first); break;
    }
    return ERR_OK;
}

int move_sum_store(struct move_sum *s, struct dev *d, void *dst,
                   struct err *e)
{
    size_t bytes = (size_t)(s->n * dtype_bytes(s->t));
    void *to = s->buffer != NULL ? s->buffer : dst;

    if (s->acc == NULL) return ERR_OK;
    if (s->t == DT_BF16)
        for (int64_t i = 0; i < s->n; i++)
            ((uint16_t *)to)[i] = to_bf16(((const float *)s->acc)[i]);
    else
        memcpy(to, s->acc, bytes);
    return to == dst ? ERR_OK : d->ops->upload(d, dst, to, bytes, e);
}

void move_sum_free(struct move_sum *s)
{
    free(s->acc);
    free(s->buffer);
    s->acc = s->buffer = NULL;
}
