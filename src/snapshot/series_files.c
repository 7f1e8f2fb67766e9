/* series_files.c - a series for Perfetto, stacks for flame graphs; see
** series.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "snapshot/series.h"

/* ---- Perfetto ----------------------------------------------------------- */

/* A key as a JSON string: it is clean already, so only these two matter. */
static void put_string(struct buf *b, const char *s)
{
    buf_putc(b, '"');
    for (; *s != '\0'; s++) {
        if (*s == '"' || *s == '\\') buf_putc(b, '\\');
        buf_putc(b, *s);
    }
    buf_putc(b, '"');
}

static int64_t time_of(const struct account *a, int64_t event)
{
    const struct snapshot_device *d = &a->s->device[a->device];

    if (d->n_event == 0 || d->event[d->n_event - 1].time_us == 0)
        return event + 1;
    return d->event[event < 0 ? 0 : event].time_us;
}

static void put_counter(struct buf *b, const struct account *a, int64_t event,
                        const char *name)
{
    buf_printf(b, ",\n{\"ph\":\"C\",\"pid\":%" PRId64 ",\"ts\":%" PRId64
               ",\"name\":\"%s\",\"args\":{", a->device, time_of(a, event),
               name);
}

static void put_slices(struct buf *b, const struct account *a)
{
    const struct snapshot *s = a->s;

    for (int64_t i = 0; i < s->n_note; i++) {
        const struct snapshot_note *n = &s->note[i];

        if ((n->device >= 0 && n->device != a->device)
            || n->end_us == INT64_MAX)
            continue;
        buf_printf(b, ",\n{\"ph\":\"X\",\"pid\":%" PRId64 ",\"tid\":1,"
                   "\"ts\":%" PRId64 ",\"dur\":%" PRId64 ",\"name\":",
                   a->device, n->start_us, n->end_us - n->start_us);
        put_string(b, n->name);
        buf_putc(b, '}');
    }
}

void series_perfetto(const struct series *s, const struct account *a,
                     struct buf *b)
{
    buf_printf(b, "{\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":%" PRId64
               ",\"name\":\"process_name\",\"args\":{\"name\":\"device %"
               PRId64 "\"}}", a->device, a->device);
    for (int64_t i = 0; i < s->n; i++) {
        put_counter(b, a, s->event[i], "allocated bytes");
        for (int k = 0; k < s->n_group; k++) {
            if (k > 0) buf_putc(b, ',');
            put_string(b, s->key[k]);
            buf_printf(b, ":%" PRIu64, s->bytes[i * s->n_group + k]);
        }
        buf_puts(b, "}}");
        put_counter(b, a, s->event[i], "reserved bytes");
        buf_printf(b, "\"reserved\":%" PRIu64 "}}", s->reserved[i]);
    }
    put_slices(b, a);
    buf_puts(b, "\n],\"displayTimeUnit\":\"ms\"}\n");
}

/* ---- folded stacks ------------------------------------------------------ */

static void put_frame(struct buf *b, const struct stack_frame *f)
{
    struct buf t = BUF_INIT;

    buf_printf(&t, "%s (%s:%" PRIu64 ")", f->name, f->file, f->line);
    if (t.data != NULL) {
        text_clean(t.data);
        for (char *c = t.data; *c != '\0'; c++)
            if (*c == ';') *c = ',';
        buf_puts(b, t.data);
    }
    if (t.failed) b->failed = true;
    buf_free(&t);
}

/* Outermost first. */
static void put_stack(struct buf *b, const struct stacks *s, uint32_t stack,
                      const char *none, uint64_t bytes)
{
    uint32_t n = stacks_depth(s, stack);

    for (uint32_t i = n; i-- > 0;) {
        put_frame(b, stacks_at(s, stack, i));
        if (i > 0) buf_putc(b, ';');
    }
    buf_printf(b, "%s %" PRIu64 "\n", n == 0 ? none : "", bytes);
}

static bool sum_stacks(const struct live *l, uint64_t *sum, uint64_t *before)
{
    for (int64_t i = 0; i < l->n; i++) {
        const struct live_block *b = &l->block[i];

        if (b->stack == 0 && b->event < 0)
            *before += b->size;
        else
            sum[b->stack] += b->size;
    }
    return true;
}

int series_folded(const struct account *a, int64_t event, struct buf *b,
                  struct err *e)
{
    const struct stacks *s = &a->s->stacks;
    uint64_t *sum = calloc((size_t)s->n_stack + 1, sizeof *sum), before = 0;
    struct live_block gone;
    struct live l = {0};
    bool ok = sum != NULL && live_start(&l, a->s, &a->start, &a->walk);

    for (int64_t i = 0; ok && i <= event; i++) ok = live_step(&l, i, &gone);
    ok = ok && sum_stacks(&l, sum, &before);
    for (uint32_t i = 0; ok && i < s->n_stack; i++)
        if (sum[i] > 0) put_stack(b, s, i, "(no frames)", sum[i]);
    if (ok && s->n_stack == 0 && sum[0] > 0)
        put_stack(b, s, 0, "(no frames)", sum[0]);
    if (ok && before > 0) put_stack(b, s, 0, "(before the trace)", before);
    live_free(&l);
    free(sum);
    return ok && !b->failed ? ERR_OK : err_nomem(e);
}
