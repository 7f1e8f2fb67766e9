/*
** terminal.h - whether a stream is a terminal that may be written to as one:
** colours, a line that is rewritten.
*/
#ifndef BASE_TERMINAL_H
#define BASE_TERMINAL_H

#include <stdbool.h>

/* False in a pipe, and where TERM is dumb or unset or NO_COLOR is set to
** anything. */
bool terminal_wants(int fd);

#endif
