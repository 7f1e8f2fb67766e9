/* differ.c - see differ.h */
#include "snapshot/differ.h"

#include <inttypes.h>
#include <string.h>

static const struct composition *at_peak(const struct account *a)
{
    return &a->point[a->i_peak >= 0 ? a->i_peak : a->i_end].is;
}

static const struct replay_bytes *bytes_of(const struct account *a)
{
    return a->history ? &a->walk.peak : &a->walk.final;
}

struct row { const char *name; int64_t before, after; };

static void rows(const struct account *a, const struct account *b,
                 struct row out[4])
{
    const struct replay_bytes *x = bytes_of(a), *y = bytes_of(b);

    out[0] = (struct row){"allocated", (int64_t)x->allocated,
                          (int64_t)y->allocated};
    out[1] = (struct row){"reserved", (int64_t)x->reserved,
                          (int64_t)y->reserved};
    out[2] = (struct row){"requested", (int64_t)x->requested,
                          (int64_t)y->requested};
    out[3] = (struct row){"active", (int64_t)x->active, (int64_t)y->active};
}

int differ_any(const struct account *a, const struct account *b)
{
    struct change *c;
    struct err e;
    int64_t n;
    bool any = memcmp(bytes_of(a), bytes_of(b),
                      sizeof(struct replay_bytes)) != 0;

    if (compose_change(at_peak(a), at_peak(b), &c, &n, &e) != ERR_OK)
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (c[i].before != c[i].after) any = true;
    free(c);
    return any;
}

/* ---- text --------------------------------------------------------------- */

static void put_number(struct buf *b, int64_t n, bool sign)
{
    struct buf t = BUF_INIT;

    if (sign && n > 0) buf_putc(&t, '+');
    buf_put_grouped(&t, n);
    buf_printf(b, "%20s", buf_text(&t));
    if (t.failed) b->failed = true;
    buf_free(&t);
}

static int put_notes(struct buf *b, const struct account *a,
                     const struct account_ask *ask, const char *name,
                     struct err *e)
{
    json_t *notes = account_notes(a, ask), *note;
    size_t i;

    if (notes == NULL) return err_nomem(e);
    json_array_foreach(notes, i, note)
        buf_printf(b, "  ! %s: %s\n", name, json_string_value(note));
    json_decref(notes);
    return ERR_OK;
}

/* The largest changes, then how many are not shown. */
static void put_changes(struct buf *b, const struct change *c, int64_t n,
                        int most)
{
    int64_t same = 0, shown = 0, left = 0;

    for (int64_t i = 0; i < n; i++) {
        if (c[i].before == c[i].after) {
            same++;
        } else if (most > 0 && shown == most) {
            left++;
        } else {
            put_number(b, c[i].before, false);
            put_number(b, c[i].after, false);
            put_number(b, c[i].after - c[i].before, true);
            buf_printf(b, "  %s\n", c[i].key);
            shown++;
        }
    }
    if (left > 0)
        buf_printf(b, "  %" PRId64 " more changed (--rows 0 shows all)\n",
                   left);
    buf_printf(b, "  %" PRId64 " the same\n", same);
}

int differ_tell(const struct account *a, const char *a_name,
                const struct account *b, const char *b_name,
                const struct account_ask *ask, struct buf *text,
                struct err *e)
{
    struct change *c;
    struct row row[4];
    int64_t n;
    int rc = compose_change(at_peak(a), at_peak(b), &c, &n, e);

    if (rc != ERR_OK) return rc;
    buf_printf(text, "%s against %s, device %" PRId64 "\n", a_name, b_name,
               a->device);
    rc = put_notes(text, a, ask, a_name, e);
    if (rc == ERR_OK) rc = put_notes(text, b, ask, b_name, e);
    rows(a, b, row);
    buf_printf(text, "%20s%20s%20s\n", a->history ? "peak before"
                                                  : "state before",
               b->history ? "peak after" : "state after", "change");
    for (int i = 0; i < 4; i++) {
        put_number(text, row[i].before, false);
        put_number(text, row[i].after, false);
        put_number(text, row[i].after - row[i].before, true);
        buf_printf(text, "  %s\n", row[i].name);
    }
    buf_printf(text, "\n  of the allocated bytes then, by %s:\n",
               ask->by == BY_PATTERN ? "pattern" : compose_names[ask->by]);
    put_changes(text, c, n, ask->rows);
    free(c);
    return rc;
}

/* ---- JSON --------------------------------------------------------------- */

static bool put_change(json_t *list, const char *key, int64_t before,
                       int64_t after)
{
    return json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I}",
        "key", key, "before_bytes", (json_int_t)before, "after_bytes",
        (json_int_t)after, "change_bytes", (json_int_t)(after - before)))
        == 0;
}

/* Peaks and groups; what is equal in both is left out. */
static json_t *differ_lists(const struct account *a, const struct account *b,
                            const struct account_ask *ask,
                            const struct change *c, int64_t n)
{
    json_t *peaks = json_array(), *by = json_array();
    struct row row[4];
    bool ok = peaks != NULL && by != NULL;

    rows(a, b, row);
    for (int i = 0; i < 4 && ok; i++)
        ok = put_change(peaks, row[i].name, row[i].before, row[i].after);
    for (int64_t i = 0; i < n && ok; i++)
        if (c[i].before != c[i].after)
            ok = put_change(by, c[i].key, c[i].before, c[i].after);
    if (!ok) {
        json_decref(peaks);
        json_decref(by);
        return NULL;
    }
    return json_pack("{s:I, s:[o, o], s:o, s:s, s:o}", "device",
        (json_int_t)a->device, "notes", account_notes(a, ask),
        account_notes(b, ask), "peaks", peaks, "grouped_by",
        ask->by == BY_PATTERN ? "pattern" : compose_names[ask->by], "by", by);
}

json_t *differ_json(const struct account *a, const struct account *b,
                    const struct account_ask *ask)
{
    struct change *c;
    struct err e;
    json_t *v;
    int64_t n;

    if (compose_change(at_peak(a), at_peak(b), &c, &n, &e) != ERR_OK)
        return NULL;
    v = differ_lists(a, b, ask, c, n);
    free(c);
    return v;
}
