/* segments.c - see segments.h */
#include "run/segments.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- noting ------------------------------------------------------------- */

/* Room for one more, so that what was asked of the device can be noted. */
static bool reserve(struct segment_log *l)
{
    size_t cap = l->cap > 0 ? 2 * l->cap : 256;
    struct segment_event *all;

    if (l->n < l->cap) return true;
    all = realloc(l->event, cap * sizeof *all);
    if (all == NULL) return false;
    l->event = all;
    l->cap = cap;
    return true;
}

static int note_get(void *ctx, uint64_t bytes, uint64_t *addr, struct err *e)
{
    struct segment_log *l = ctx;
    int rc;

    if (!reserve(l)) return err_nomem(e);
    rc = l->from.get(l->from.ctx, bytes, addr, e);
    if (rc == ERR_OK || rc == ERR_OOM)
        l->event[l->n++] =
            (struct segment_event){bytes, rc == ERR_OK ? *addr : 0, false};
    return rc;
}

static void note_put(void *ctx, uint64_t addr, uint64_t bytes)
{
    struct segment_log *l = ctx;

    if (reserve(l))
        l->event[l->n++] = (struct segment_event){bytes, addr, true};
    else
        l->lost = true;
    l->from.put(l->from.ctx, addr, bytes);
}

struct mem_source segment_note(struct segment_log *l, struct mem_source from)
{
    l->from = from;
    return (struct mem_source){l, note_get, note_put};
}

void segment_log_free(struct segment_log *l)
{
    free(l->event);
    *l = (struct segment_log){0};
}

/* ---- once more ---------------------------------------------------------- */

/* Whether the next event is this one; from the first that is not, dry goes on
** by itself, so that its own requests can be held beside the rank's. */
static bool as_noted(struct segment_again *a, uint64_t bytes, bool put)
{
    const struct segment_log *l = a->log;

    if (!a->parted && a->next < l->n && l->event[a->next].put == put &&
        l->event[a->next].bytes == bytes) return true;
    a->parted = true;
    return false;
}

static int again_get(void *ctx, uint64_t bytes, uint64_t *addr, struct err *e)
{
    struct segment_again *a = ctx;

    if (!as_noted(a, bytes, false))
        return a->alone.get(a->alone.ctx, bytes, addr, e);
    *addr = a->log->event[a->next++].addr;
    return *addr != 0 ? ERR_OK
                      : err_set(e, ERR_OOM, "the device was full here");
}

static void again_put(void *ctx, uint64_t addr, uint64_t bytes)
{
    struct segment_again *a = ctx;

    if (!as_noted(a, bytes, true)) return;
    a->parted = a->log->event[a->next].addr != addr;
    if (!a->parted) a->next++;
}

struct mem_source segment_repeat(struct segment_again *a,
                                 const struct segment_log *l)
{
    *a = (struct segment_again){.log = l};
    a->alone = mem_dry_source(&a->made_up, 0);
    return (struct mem_source){a, again_get, again_put};
}

int segment_all(const struct segment_again *a, struct err *e)
{
    if (a->log->lost) return err_nomem(e);
    if (!a->parted && a->next == a->log->n) return ERR_OK;
    return err_set(e, ERR_WRONG, "dry has another segment event %zu of %zu "
                   "than the device", a->next, a->log->n);
}
