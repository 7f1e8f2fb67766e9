/*
** file.h - whole files in, whole files out.
*/
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"

/* The error for a file or folder that cannot be opened or read, why being an
** errno: ERR_INPUT, or ERR_RUN where the machine is at its end (descriptors,
** memory, a disk that does not answer), which is no fault of the file. */
int file_error(struct err *e, const char *path, int why);
/* Opens a regular file for reading, through links; the caller closes *fd.
** What is none (a FIFO, a device, a folder) is ERR_INPUT and never waited
** for. */
int file_open(const char *path, int *fd, struct err *e) MUST_CHECK;
/* The same as a stream, which the caller closes (fclose). */
int file_stream(const char *path, FILE **f, struct err *e) MUST_CHECK;
/* Reads a regular file ("-" is standard input, whatever that is) of at most
** limit bytes into out. ERR_INPUT names the path; a file over the limit is an
** error. */
int file_read(const char *path, size_t limit, struct buf *out, struct err *e)
    MUST_CHECK;
/* Writes a new file (".peakproof-" and a name that none can foresee) in
** path's folder, syncs, renames it over path: a reader sees the old bytes or
** the new ones, several writers do not disturb each other, a link at path
** goes, not what it points to, and a device or pipe is written into. ERR_RUN
** names the path and the cause (a full disk too). */
int file_write(const char *path, const char *data, size_t len, struct err *e)
    MUST_CHECK;
/* mkdir -p. */
int file_make_dirs(const char *path, struct err *e) MUST_CHECK;

#endif
