/* text.c - the rendered rows of a case, and their way through a pipe. */
#include <string.h>

#include "record/record.h"

void record_text_free(struct record_text *t)
{
    int f;

    for (f = 0; f < RECORD_CASE_FILES; f++) buf_free(&t->file[f]);
}

/* Lengths first, each eight bytes of this machine's order (both ends of a
** pipe are), then the texts. */
void record_text_pack(const struct record_text *t, struct buf *out)
{
    int f;

    for (f = 0; f < RECORD_CASE_FILES; f++) {
        uint64_t n = t->file[f].len;
        buf_put(out, (const char *)&n, sizeof n);
    }
    for (f = 0; f < RECORD_CASE_FILES; f++)
        buf_put(out, buf_text(&t->file[f]), t->file[f].len);
}

int record_text_unpack(const char *data, size_t len, struct record_text *out,
                       struct err *e)
{
    uint64_t n[RECORD_CASE_FILES];
    size_t at = sizeof n;
    int f;

    if (len < sizeof n) goto bad;
    memcpy(n, data, sizeof n);
    for (f = 0; f < RECORD_CASE_FILES; f++) {
        if (n[f] > len - at) goto bad;
        at += n[f];
    }
    if (at != len) goto bad;
    for (f = 0, at = sizeof n; f < RECORD_CASE_FILES; at += n[f++])
        buf_put(&out->file[f], data + at, n[f]);
    for (f = 0; f < RECORD_CASE_FILES; f++) {
        if (!out->file[f].failed) continue;
        record_text_free(out);
        return err_nomem(e);
    }
    return ERR_OK;
bad:
    return err_set(e, ERR_RUN, "a worker's answer of %zu bytes is cut short",
                   len);
}
