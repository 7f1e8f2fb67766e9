/*
** line.h - the connections of rendezvous.h once all have met.
** Inside src/comm.
*/
#ifndef COMM_LINE_H
#define COMM_LINE_H

#include "comm/rendezvous.h"

/* fd is [size] on rank 0 (its own unused), else [1]; the line takes it over
** when it succeeds. */
int line_new(const struct rendezvous *r, int *fd, struct line **out,
             struct err *e) MUST_CHECK;

#endif
