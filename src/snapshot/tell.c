/* tell.c - a device of a snapshot as text, see account.h */
#include <inttypes.h>
#include <string.h>

#include "snapshot/account.h"

static void put_right(struct buf *b, int64_t n, size_t width)
{
    struct buf t = BUF_INIT;

    buf_put_grouped(&t, n);
    buf_printf(b, "%*s", (int)width, buf_text(&t));
    if (t.failed) b->failed = true;
    buf_free(&t);
}

static void put_percent(struct buf *b, uint64_t part, uint64_t all)
{
    uint64_t tenths = all > 0
        ? (uint64_t)((double)part / (double)all * 1000 + 0.5) : 0;

    buf_printf(b, "  %3" PRIu64 ".%" PRIu64 " %%", tenths / 10, tenths % 10);
}

static void put_row(struct buf *b, const struct account *a, const char *name,
                    const uint64_t *n)
{
    buf_printf(b, "  %-10s", name);
    if (a->history) put_right(b, (int64_t)n[0], 20);
    if (a->is_set) put_right(b, (int64_t)n[1], 20);
    put_right(b, (int64_t)n[2], 20);
    buf_putc(b, '\n');
}

/* Peaks and end, and beside them those under other settings. */
static void put_table(struct buf *b, const struct account *a)
{
    const struct replay_bytes *p = &a->walk.peak, *s = &a->set.peak;
    const struct replay_bytes *f = &a->walk.final;

    buf_printf(b, "  %-10s", "bytes");
    if (a->history) buf_printf(b, "%20s", a->is_set ? "peak, recorded"
                                                    : "peak");
    if (a->is_set) buf_printf(b, "%20s", "peak, --set");
    buf_printf(b, "%20s\n", "end");
    put_row(b, a, "allocated", (uint64_t[]){p->allocated, s->allocated,
                                            f->allocated});
    put_row(b, a, "reserved", (uint64_t[]){p->reserved, s->reserved,
                                           f->reserved});
    put_row(b, a, "requested", (uint64_t[]){p->requested, s->requested,
                                            f->requested});
    put_row(b, a, "active", (uint64_t[]){p->active, s->active, f->active});
}

static void put_limit(struct buf *b, const struct account *a)
{
    if (a->least_limit == 0) return;
    buf_printf(b, "  least limit under which every request succeeds%s: ",
               a->walk.n_oom > 0 ? ", those that failed too" : "");
    buf_put_grouped(b, (int64_t)a->least_limit);
    buf_puts(b, " B");
    if (a->below.first_oom >= 0)
        buf_printf(b, "; 2 MiB less fails first at event %" PRId64,
                   a->below.first_oom);
    buf_putc(b, '\n');
}

static void put_groups(struct buf *b, const struct composition *c, int rows)
{
    int64_t n = rows > 0 && rows < c->n_group ? rows : c->n_group;
    uint64_t rest = 0;

    for (int64_t i = 0; i < n; i++) {
        put_right(b, (int64_t)c->group[i].bytes, 20);
        put_percent(b, c->group[i].bytes, c->allocated);
        buf_printf(b, "  %s", c->group[i].key);
        if (c->group[i].blocks > 1)
            buf_printf(b, "  x %" PRId64, c->group[i].blocks);
        buf_putc(b, '\n');
    }
    if (n == c->n_group) return;
    for (int64_t i = n; i < c->n_group; i++) rest += c->group[i].bytes;
    put_right(b, (int64_t)rest, 20);
    put_percent(b, rest, c->allocated);
    buf_printf(b, "  in %" PRId64 " more (--rows 0 shows all)\n",
               c->n_group - n);
}

static void put_largest(struct buf *b, const struct account *a,
                        const struct account_ask *ask,
                        const struct composition *c)
{
    char key[512];

    buf_puts(b, "  largest blocks then:\n");
    for (int i = 0; i < c->n_largest; i++) {
        const struct live_block *l = &c->largest[i];

        compose_key(a->s, ask->by, ask->patterns, l, c->event, key,
                    sizeof key);
        put_right(b, (int64_t)l->size, 20);
        if (l->event < 0)
            buf_puts(b, "  from before the trace");
        else
            buf_printf(b, "  event %" PRId64, l->event);
        buf_printf(b, "  %s\n", key);
    }
}

/* Which point, then its groups; a point without any is not shown. */
static void put_point(struct buf *b, const struct account *a,
                      const struct account_ask *ask,
                      const struct account_point *p)
{
    if (p->is.n_group == 0) return;
    if (p->is.event < 0)
        buf_printf(b, "\n  %s: ", a->history ? "at the start" : "the state");
    else if (p == &a->point[a->i_end])
        buf_printf(b, "\n  at the end: ");
    else
        buf_printf(b, "\n  at the %s, event %" PRId64 " of %" PRId64 ": ",
                   strcmp(p->name, "peak") == 0 ? "peak"
                   : strcmp(p->name, "oom") == 0 ? "out-of-memory" : "point",
                   p->is.event, a->walk.events);
    buf_put_grouped(b, (int64_t)p->is.allocated);
    buf_puts(b, " B allocated");
    if (p->is.before > 0 && p->is.before < p->is.allocated) {
        buf_puts(b, ", ");
        buf_put_grouped(b, (int64_t)p->is.before);
        buf_puts(b, " of them from before the trace");
    }
    buf_putc(b, '\n');
    put_groups(b, &p->is, ask->rows);
    if (p != &a->point[a->i_end] || !a->history)
        put_largest(b, a, ask, &p->is);
}

/* What became more since the point, the largest first. */
static int put_growth(struct buf *b, const struct account *a,
                      const struct account_ask *ask, struct err *e)
{
    const struct composition *from, *to = &a->point[a->i_to].is;
    struct change *c;
    int64_t n, shown = 0;
    int rc;

    if (a->i_since < 0) return ERR_OK;
    from = &a->point[a->i_since].is;
    rc = compose_change(from, to, &c, &n, e);
    if (rc != ERR_OK) return rc;
    if (a->i_to == a->i_end)
        buf_printf(b, "\n  growth from event %" PRId64 " to the end: ",
                   from->event);
    else
        buf_printf(b, "\n  growth from event %" PRId64 " to event %" PRId64
                   ": ", from->event, to->event);
    buf_put_grouped(b, (int64_t)to->allocated - (int64_t)from->allocated);
    buf_puts(b, " B\n");
    for (int64_t i = 0; i < n; i++) {
        if (c[i].before == c[i].after) continue;
        if (ask->rows > 0 && shown++ == ask->rows) break;
        put_right(b, c[i].after - c[i].before, 20);
        buf_printf(b, "  %s\n", c[i].key);
    }
    free(c);
    return ERR_OK;
}

/* Annotations with their own peaks: which wave it was. */
static void put_phases(struct buf *b, const struct account *a,
                       const struct account_ask *ask)
{
    int64_t n = a->phases.n;

    if (n == 0) return;
    if (ask->rows > 0 && n > 2 * ask->rows) n = 2 * ask->rows;
    buf_printf(b, "\n  %-28s%20s%20s%20s\n", "annotation", "at its start",
               "peak", "rise");
    for (int64_t i = 0; i < n; i++) {
        const struct phase *p = &a->phases.at[i];

        buf_printf(b, "  %-28.28s", p->name);
        put_right(b, (int64_t)p->start, 20);
        put_right(b, (int64_t)p->peak, 20);
        put_right(b, (int64_t)(p->peak - p->start), 20);
        buf_puts(b, p->open ? "  (did not end)\n" : "\n");
    }
    if (n < a->phases.n)
        buf_printf(b, "  and %" PRId64 " more (--rows 0 shows all)\n",
                   a->phases.n - n);
}

int account_tell(const struct account *a, const struct account_ask *ask,
                 const char *origin, struct buf *b, struct err *e)
{
    json_t *notes = account_notes(a, ask), *note;
    const char *with = a->s->settings;
    size_t i;
    int rc;

    if (notes == NULL) return err_nomem(e);
    buf_printf(b, "%s, device %" PRId64 ": ", origin, a->device);
    buf_put_grouped(b, a->walk.events);
    buf_printf(b, " events%s%.200s\n",
               with == NULL ? ", settings not recorded"
               : with[0] == '\0' ? ", default settings" : ", ",
               with != NULL ? with : "");
    json_array_foreach(notes, i, note)
        buf_printf(b, "  ! %s\n", json_string_value(note));
    json_decref(notes);
    if (a->predicted && a->replay.address_mismatches == 0
        && a->replay.segment_mismatches == 0)
        buf_puts(b, "  predicted: every block and segment where it was "
                 "recorded\n");
    if (a->is_set) buf_printf(b, "  --set: %.300s\n", ask->set_text);
    put_table(b, a);
    put_limit(b, a);
    for (int k = 0; k < a->n_point; k++)
        if (k != a->i_since) put_point(b, a, ask, &a->point[k]);
    rc = put_growth(b, a, ask, e);
    put_phases(b, a, ask);
    return rc;
}
