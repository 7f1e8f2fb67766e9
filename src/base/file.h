/*
** file.h - whole files in, whole files out.
*/
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Reads a file ("-" is standard input) of at most limit bytes into out.
** ERR_INPUT names the path; a file over the limit is an error. */
int file_read(const char *path, size_t limit, struct buf *out, struct err *e)
    MUST_CHECK;
/* Writes path.tmp, syncs, renames over path: a reader sees the old bytes or
** the new ones. ERR_RUN names the path and the cause (a full disk too). */
int file_write(const char *path, const char *data, size_t len, struct err *e)
    MUST_CHECK;
/* mkdir -p. */
int file_make_dirs(const char *path, struct err *e) MUST_CHECK;

#endif
