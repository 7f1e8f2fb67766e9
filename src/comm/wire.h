/*
** wire.h - TCP with deadlines. Times are of wire_now_ms; end is when to give
** up.
** Inside src/comm.
*/
#ifndef COMM_WIRE_H
#define COMM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

int64_t wire_now_ms(void);
/* Whole or not at all; false on an error, the peer's end, or too late. */
bool wire_put(int fd, const void *data, size_t n, int64_t end);
bool wire_get(int fd, void *data, size_t n, int64_t end);
/* What has come so far, without waiting: its bytes, 0 for nothing, -1 when
** the peer has gone and all it sent has been read. */
int64_t wire_peek(int fd, void *data, size_t n);
bool wire_ready(int fd, int64_t end);       /* there is something to read */

/* A socket that listens at this address of this host alone, -1 and ERR_RUN. */
int wire_listen(const char *addr, int port, int backlog, struct err *e);
/* One try; -1 and why (an errno's text, or the resolver's). */
int wire_dial(const char *addr, int port, int64_t end, const char **why);

#endif
