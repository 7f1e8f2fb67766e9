/* out.c - see command.h: standard output, warnings */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "bench/command.h"

static int lost;        /* errno of the first write that failed */
static bool muted;

void out_mute(bool on) { muted = on; }

void out_text(const char *s, size_t n)
{
    errno = 0;
    if (!muted && n > 0 && fwrite(s, 1, n, stdout) != n && lost == 0)
        lost = errno != 0 ? errno : EIO;
}

void out_flush(void)
{
    errno = 0;
    if (fflush(stdout) != 0 && lost == 0) lost = errno != 0 ? errno : EIO;
}

int out_put(struct buf *b, struct err *e)
{
    bool failed = b->failed;

    if (!failed) out_text(buf_text(b), b->len);
    buf_free(b);
    return failed ? err_nomem(e) : ERR_OK;
}

bool out_finish(void)
{
    out_flush();
    errno = 0;
    if (fclose(stdout) != 0 && lost == 0) lost = errno != 0 ? errno : EIO;
    if (lost == 0) return true;
    if (lost == EPIPE) return false;    /* "| head" has seen enough */
    fprintf(stderr, "peakproof: cannot write standard output: %s\n",
            strerror(lost));
    return false;
}

int out_json(json_t *v, struct err *e)
{
    struct buf b = BUF_INIT;

    if (v == NULL) return err_nomem(e);
    js_put(&b, v);
    json_decref(v);
    return out_put(&b, e);
}

void say_error(const struct err *e)
{
    out_flush();
    fprintf(stderr, "peakproof: %s\n", e->text);
}

void say_warning(const char *fmt, ...)
{
    va_list ap;

    fputs("peakproof: warning: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}
