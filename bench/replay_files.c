/* replay_files.c - what "peakproof replay" writes beside its answer */
#include <inttypes.h>
#include <string.h>

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

bool replay_writes(const struct args *a)
{
    return args_has(a, "timeline") || args_has(a, "perfetto")
        || args_has(a, "folded");
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
