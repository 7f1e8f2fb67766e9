/*
** buf.h - a growing byte string, for output that is built and then written
** once. A failed allocation is remembered ("failed") and makes later
** appends do nothing, so a writer checks once, at the end.
*/
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data;     /* NUL-terminated when not NULL; owned */
    size_t len;     /* bytes, the NUL not counted */
    size_t cap;
    bool failed;
};

#define BUF_INIT {NULL, 0, 0, false}

void buf_free(struct buf *b);               /* back to BUF_INIT */
void buf_put(struct buf *b, const char *s, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* "1,234,567"; returns out. */
const char *buf_grouped(int64_t n, char out[32]);
void buf_put_grouped(struct buf *b, int64_t n);
/* The text, "" when empty; borrowed until the next change. */
const char *buf_text(const struct buf *b);

#endif
