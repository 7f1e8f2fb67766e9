/* err.c - see err.h */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clean.h"

/* What a file, an estimator or another process says is no command to a
** terminal (base/clean.h); lines stay. */
static void clean(char *s)
{
    for (;;) {
        size_t n = strcspn(s, "\n");
        char end = s[n];

        s[n] = '\0';
        text_clean(s);
        s[n] = end;
        if (end == '\0') return;
        s += n + 1;
    }
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
    if (e != NULL) {
        va_list ap;
        e->code = code;
        va_start(ap, fmt);
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
        clean(e->text);
    }
    return code;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    char prefix[256];
    char old[sizeof e->text];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, ap);
    va_end(ap);
    memcpy(old, e->text, sizeof old);
    snprintf(e->text, sizeof e->text, "%s: %.*s", prefix,
             (int)(sizeof e->text - sizeof prefix - 3), old);
    clean(e->text);         /* either may have been cut inside a character */
    return e->code;
}

int err_nomem(struct err *e)
{
    return err_set(e, ERR_RUN, "out of host memory");
}
