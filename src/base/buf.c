/* buf.c - see buf.h */
#include "base/buf.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_free(struct buf *b)
{
    free(b->data);
    *b = (struct buf)BUF_INIT;
}

/* Failure sticks, so that callers append without asking and look once. */
static bool grow(struct buf *b, size_t need)
{
    size_t cap = b->cap ? b->cap : 64;
    char *p;

    if (b->failed) return false;
    if (need > SIZE_MAX / 2) {
        b->failed = true;
        return false;
    }
    while (cap < need) cap *= 2;
    if (cap == b->cap) return true;
    p = realloc(b->data, cap);
    if (p == NULL) {
        b->failed = true;
        return false;
    }
    b->data = p;
    b->cap = cap;
    return true;
}

void buf_put(struct buf *b, const char *s, size_t n)
{
    assert(s != NULL || n == 0);
    if (n == 0 || !grow(b, b->len + n + 1)) return;
    memcpy(b->data + b->len, s, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void buf_puts(struct buf *b, const char *s)
{
    buf_put(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
    buf_put(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n <= 0 || !grow(b, b->len + (size_t)n + 1)) return;
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

const char *buf_grouped(int64_t n, char out[32])
{
    char digits[24], *p = out;
    int len = snprintf(digits, sizeof digits, "%" PRId64, n);
    int i, first = digits[0] == '-';

    if (first) *p++ = '-';
    for (i = first; i < len; i++) {
        if (i > first && (len - i) % 3 == 0) *p++ = ',';
        *p++ = digits[i];
    }
    *p = '\0';
    return out;
}

void buf_put_grouped(struct buf *b, int64_t n)
{
    char text[32];

    buf_puts(b, buf_grouped(n, text));
}

const char *buf_text(const struct buf *b)
{
    return b->data ? b->data : "";
}
