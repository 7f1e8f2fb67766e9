/* out.c - see command.h: standard output, warnings, the data folder */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/version.h"
#include "bench/command.h"

static int lost;        /* errno of the first write that failed */

void out_text(const char *s, size_t n)
{
    errno = 0;
    if (n > 0 && fwrite(s, 1, n, stdout) != n && lost == 0)
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

void say_warning(const char *fmt, ...)
{
    va_list ap;

    fputs("peakproof: warning: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

static bool is_data_dir(const char *path)
{
    struct buf b = BUF_INIT;
    struct stat st;
    bool yes;

    buf_printf(&b, "%s/models", path);
    yes = !b.failed && stat(buf_text(&b), &st) == 0 && S_ISDIR(st.st_mode);
    buf_free(&b);
    return yes;
}

/* The folder the program lies in, without a final slash; "" if unknown. */
static void program_dir(char *out, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", out, cap - 1);
    char *slash;

    out[n > 0 ? n : 0] = '\0';
    slash = strrchr(out, '/');
    if (slash != NULL) *slash = '\0';
}

int data_dir(char **out, struct err *e)
{
    const char *set = getenv("PEAKPROOF_DATA");
    char exe[4096], place[3][4200];
    int i;

    if (set != NULL && *set != '\0') {
        if (!is_data_dir(set))
            return err_set(e, ERR_RUN, "PEAKPROOF_DATA: %s has no folder "
                           "models (unset it, or name the data folder)", set);
        *out = strdup(set);
        return *out != NULL ? ERR_OK : err_nomem(e);
    }
    program_dir(exe, sizeof exe);
    snprintf(place[0], sizeof place[0], "%s/../lua", exe);
    snprintf(place[1], sizeof place[1], "%s/../share/peakproof", exe);
    snprintf(place[2], sizeof place[2], "%s/share/peakproof",
             peakproof_prefix);
    for (i = 0; i < 3 && !is_data_dir(place[i]); i++) continue;
    if (i == 3)
        return err_set(e, ERR_RUN, "no data folder: neither %s nor %s nor %s "
                       "(set PEAKPROOF_DATA)", place[0], place[1], place[2]);
    *out = realpath(place[i], NULL);
    return *out != NULL ? ERR_OK : err_nomem(e);
}
