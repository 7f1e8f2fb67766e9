/* replay_files.c - what "peakproof replay" writes beside its answer */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "bench/snapshots.h"
#include "snapshot/series.h"

enum { PICTURE_COLUMNS = 1080, TRACE_COLUMNS = 20000 };

static int put(const char *path, struct buf *b, struct err *e)
{
    int rc = b->failed ? err_nomem(e) : ERR_OK;

    if (rc == ERR_OK && strcmp(path, "-") == 0) return out_put(b, e);
    if (rc == ERR_OK) rc = file_write(path, buf_text(b), b->len, e);
    buf_free(b);
    return rc;
}

static bool ends(const char *s, const char *with)
{
    size_t n = strlen(s), m = strlen(with);

    return n >= m && strcmp(s + n - m, with) == 0;
}

static int put_series(const struct account *x, const struct account_ask *ask,
                      const char *path, const char *title, bool perfetto,
                      struct err *e)
{
    struct buf b = BUF_INIT;
    struct series s;
    int rc = series_make(x, ask, perfetto ? TRACE_COLUMNS : PICTURE_COLUMNS,
                         &s, e);

    if (rc != ERR_OK) return rc;
    if (perfetto)
        series_perfetto(&s, x, &b);
    else
        series_svg(&s, x, title, ends(path, ".html"), &b);
    series_free(&s);
    return put(path, &b, e);
}

static const char *const writing[] = {"timeline", "perfetto", "folded", NULL};

bool replay_writes(const struct args *a)
{
    int i;

    for (i = 0; writing[i] != NULL; i++)
        if (args_has(a, writing[i])) return true;
    return false;
}

/* A regular file that begins as pickles do: what was recorded comes once. */
static bool is_pickle(const char *path)
{
    struct stat st;
    int first = EOF;
    FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rb")
                                                          : NULL;

    if (f == NULL) return false;
    first = fgetc(f);
    fclose(f);
    return first == 0x80;
}

int replay_writes_check(const struct args *a, struct err *e)
{
    int i, k;

    for (i = 0; writing[i] != NULL; i++) {
        const char *path = args_text(a, writing[i]);
        if (path == NULL || strcmp(path, "-") == 0) continue;
        if (is_pickle(path))
            return err_set(e, ERR_USAGE, "replay: --%s: %s is a snapshot, "
                           "which would be lost (name another file; - is "
                           "standard output)", writing[i], path);
        for (k = 0; k < i; k++)
            if (args_has(a, writing[k]) &&
                strcmp(args_text(a, writing[k]), path) == 0)
                return err_set(e, ERR_USAGE, "replay: --%s and --%s name one "
                               "file", writing[k], writing[i]);
    }
    return ERR_OK;
}

int replay_write(const struct args *a, const struct account *x,
                 const struct account_ask *ask, const char *origin,
                 struct err *e)
{
    const char *timeline = args_text(a, "timeline");
    const char *perfetto = args_text(a, "perfetto");
    const char *folded = args_text(a, "folded");
    struct buf b = BUF_INIT;
    int rc = ERR_OK;

    if (!x->history && (timeline != NULL || perfetto != NULL))
        return err_set(e, ERR_INPUT, "%s: device %" PRId64 ": no history was "
                       "recorded, so there is no timeline", origin,
                       x->device);
    if (timeline != NULL) {
        buf_printf(&b, "%s, device %" PRId64, origin, x->device);
        rc = b.failed ? err_nomem(e)
           : put_series(x, ask, timeline, buf_text(&b), false, e);
        buf_free(&b);
    }
    if (rc == ERR_OK && perfetto != NULL)
        rc = put_series(x, ask, perfetto, origin, true, e);
    if (rc != ERR_OK || folded == NULL) return rc;
    rc = series_folded(x, x->point[x->n_at > 0 ? x->i_at
                       : x->i_peak >= 0 ? x->i_peak : x->i_end].is.event, &b,
                       e);
    if (rc == ERR_OK) return put(folded, &b, e);
    buf_free(&b);
    return rc;
}
