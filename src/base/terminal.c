/* terminal.c - see terminal.h */
#include "base/terminal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool terminal_wants(int fd)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");

    if (!isatty(fd)) return false;
    if (term == NULL || *term == '\0' || strcmp(term, "dumb") == 0)
        return false;
    return no_color == NULL || *no_color == '\0';
}
