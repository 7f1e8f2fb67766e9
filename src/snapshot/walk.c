/*
** walk.c - see walk.h.
**
** Segments are tiled by blocks, in use or cached, linked in order of address
** and found by where they begin. Two cached blocks never meet, as in the
** allocator, so a cached block is what lies between two in use.
*/
#include "snapshot/walk.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "mem/state.h"
#include "snapshot/addr_map.h"
#include "snapshot/addr_tree.h"

#define MIB (UINT64_C(1) << 20)

enum { NONE = -1 };

struct tile {
    uint64_t addr, size;
    uint64_t requested;     /* in use */
    int64_t prev, next;     /* in the segment, or mapped next to it; NONE */
    bool in_use, pending, small, expandable;
};

struct walker {
    const struct snapshot_device *d;
    const struct mem_config *c;
    const char *origin;
    struct rewind_frees frees;
    struct addr_map at;     /* to tiles, by their first address */
    struct addr_map end;    /* to the last tiles of expandable pieces, by
                               their end */
    struct addr_tree order; /* all tiles, once one was looked for by an
                               address inside it: few traces need it */
    bool ordered;
    struct tile *tile;
    int64_t n, cap, unused; /* unused: linked by next */
    struct replay_bytes now;
    struct walk *out;
    struct err *e;
};

static int contradiction(const struct walker *w, int64_t i, const char *what)
{
    return err_set(w->e, ERR_INPUT, "%s: device %" PRId64 ", event %" PRId64
                   ": %s at 0x%" PRIx64 " does not fit what comes before it",
                   w->origin, w->out->device, i, what, w->d->event[i].addr);
}

static void raise_peak(uint64_t *peak, uint64_t now)
{
    if (now > *peak) *peak = now;
}

/* ---- tiles -------------------------------------------------------------- */

static int64_t new_tile(struct walker *w)
{
    int64_t t = w->unused;

    if (t != NONE) {
        w->unused = w->tile[t].next;
        return t;
    }
    if (w->n == w->cap) {
        int64_t cap = w->cap > 0 ? 2 * w->cap : 256;
        struct tile *p = realloc(w->tile, (size_t)cap * sizeof *p);

        if (p == NULL) return NONE;
        w->tile = p;
        w->cap = cap;
    }
    return w->n++;
}

/* Makes a tile one that is found. */
static bool place_tile(struct walker *w, int64_t t)
{
    uint64_t addr = w->tile[t].addr;

    return addr_map_put(&w->at, addr, t)
        && (!w->ordered || addr_tree_put(&w->order, addr, t));
}

static void drop_tile(struct walker *w, int64_t t)
{
    addr_map_remove(&w->at, w->tile[t].addr);
    if (w->ordered) addr_tree_remove(&w->order, w->tile[t].addr, t);
    w->tile[t].next = w->unused;
    w->unused = t;
}

/* Where an expandable piece ends is where more may be mapped. */
static bool note_end(struct walker *w, int64_t t)
{
    const struct tile *x = &w->tile[t];

    return !x->expandable || x->next != NONE
        || addr_map_put(&w->end, x->addr + x->size, t);
}

static void forget_end(struct walker *w, int64_t t)
{
    const struct tile *x = &w->tile[t];

    if (x->expandable && x->next == NONE)
        addr_map_remove(&w->end, x->addr + x->size);
}

/* Cuts a tile at size; the rest is a tile of its own, cached. */
static bool cut(struct walker *w, int64_t t, uint64_t size)
{
    int64_t rest = new_tile(w);
    struct tile *x, *r;

    if (rest == NONE) return false;
    forget_end(w, t);
    x = &w->tile[t];
    r = &w->tile[rest];
    *r = (struct tile){.addr = x->addr + size, .size = x->size - size,
                       .prev = t, .next = x->next, .small = x->small,
                       .expandable = x->expandable};
    if (r->next != NONE) w->tile[r->next].prev = rest;
    x->next = rest;
    x->size = size;
    return place_tile(w, rest) && note_end(w, rest);
}

/* Joins a cached tile with the next one when that is cached too. */
static bool join_next(struct walker *w, int64_t t)
{
    struct tile *x = &w->tile[t], *n;
    int64_t next = x->next;

    if (next == NONE || x->in_use || w->tile[next].in_use) return true;
    forget_end(w, next);
    n = &w->tile[next];
    x->size += n->size;
    x->next = n->next;
    if (x->next != NONE) w->tile[x->next].prev = t;
    drop_tile(w, next);
    return note_end(w, t);
}

static bool join(struct walker *w, int64_t t)
{
    int64_t prev = w->tile[t].prev;

    return join_next(w, t) && (prev == NONE || join_next(w, prev));
}

/* Memory that was got: one cached tile, beside others where expandable. */
static int add_memory(struct walker *w, uint64_t addr, uint64_t bytes,
                      bool small, bool expandable, int64_t *out)
{
    int64_t t = new_tile(w), prev, next;
    struct tile *x;

    if (t == NONE) return err_nomem(w->e);
    prev = expandable ? addr_map_get(&w->end, addr) : NONE;
    next = expandable ? addr_map_get(&w->at, addr + bytes) : NONE;
    if (next != NONE && (!w->tile[next].expandable
                         || w->tile[next].prev != NONE))
        next = NONE;
    x = &w->tile[t];
    *x = (struct tile){.addr = addr, .size = bytes, .prev = prev,
                       .next = next, .small = small,
                       .expandable = expandable};
    if (prev != NONE) {
        addr_map_remove(&w->end, addr);
        w->tile[prev].next = t;
    }
    if (next != NONE) w->tile[next].prev = t;
    if (!place_tile(w, t) || !note_end(w, t))
        return err_nomem(w->e);
    w->now.reserved += bytes;
    raise_peak(&w->out->peak.reserved, w->now.reserved);
    *out = t;
    return ERR_OK;
}

/* ---- the cached tile at an address -------------------------------------- */

static int put_in_order(struct walker *w)
{
    for (int64_t t = 0; t < w->n; t++) {
        uint64_t addr = w->tile[t].addr;

        if (addr_map_get(&w->at, addr) == t
            && !addr_tree_put(&w->order, addr, t))
            return err_nomem(w->e);
    }
    w->ordered = true;
    return ERR_OK;
}

/* The cached tile that addr lies in, NONE if there is no such. */
static int find_holding(struct walker *w, uint64_t addr, int64_t *out)
{
    int rc = w->ordered ? ERR_OK : put_in_order(w);
    int64_t t;

    *out = NONE;
    if (rc != ERR_OK) return rc;
    t = addr_tree_up_to(&w->order, addr);
    if (t >= 0 && !w->tile[t].in_use
        && addr - w->tile[t].addr < w->tile[t].size)
        *out = t;
    return ERR_OK;
}

/* The cached tile that begins at addr, cut free of what comes before it when
** there is such (a block always begins one, pages that are unmapped need
** not); NONE: memory that is not there, or in use. */
static int cached_at(struct walker *w, uint64_t addr, bool block,
                     int64_t *out)
{
    int64_t t = addr_map_get(&w->at, addr);
    int rc;

    *out = t != NONE && !w->tile[t].in_use ? t : NONE;
    if (t != NONE) return ERR_OK;
    if (block) w->out->misfits++;
    rc = find_holding(w, addr, &t);
    if (rc != ERR_OK || t == NONE) return rc;
    if (!cut(w, t, addr - w->tile[t].addr)) return err_nomem(w->e);
    *out = w->tile[t].next;
    return ERR_OK;
}

/* ---- events ------------------------------------------------------------- */

static void count_block(struct walker *w, int64_t event, const struct tile *x)
{
    struct replay_bytes *peak = &w->out->peak;

    w->now.allocated += x->size;
    w->now.active += x->size;
    w->now.requested += x->requested;
    if (w->now.allocated > peak->allocated) {
        peak->allocated = w->now.allocated;
        w->out->peak_event = event;
    }
    raise_peak(&peak->active, w->now.active);
    raise_peak(&peak->requested, w->now.requested);
}

/* A.7: the low part is handed out, the rest stays when it is worth it. */
static bool keeps_rest(const struct walker *w, const struct tile *x,
                       uint64_t size)
{
    uint64_t rest = x->size - size;

    if (x->small || x->expandable) return rest >= 512;
    return rest > MIB && (w->c->max_split_bytes == 0
                          || size < w->c->max_split_bytes);
}

static int do_alloc(struct walker *w, int64_t i)
{
    const struct snapshot_event *v = &w->d->event[i];
    uint64_t size = mem_round(w->c, v->bytes);
    int64_t t;
    int rc = cached_at(w, v->addr, true, &t);

    if (rc != ERR_OK) return rc;
    if (t == NONE || w->tile[t].size < v->bytes)
        return contradiction(w, i, "alloc");
    if (size > w->tile[t].size) size = w->tile[t].size;
    if (keeps_rest(w, &w->tile[t], size) && !cut(w, t, size))
        return err_nomem(w->e);
    w->tile[t].in_use = true;
    w->tile[t].pending = false;
    w->tile[t].requested = v->bytes;
    w->out->size[i] = w->tile[t].size;
    count_block(w, i, &w->tile[t]);
    return ERR_OK;
}

/* Allocated bytes fall at the request, the others at the completion. */
static int do_free(struct walker *w, int64_t i)
{
    const struct snapshot_event *v = &w->d->event[i];
    int64_t t = addr_map_get(&w->at, v->addr);
    struct tile *x;

    if (t == NONE || !w->tile[t].in_use) return contradiction(w, i, "free");
    x = &w->tile[t];
    if (!x->pending) w->now.allocated -= x->size;
    x->pending = true;
    if (w->frees.completes && v->action != SNAPSHOT_FREE_COMPLETED)
        return ERR_OK;
    x->in_use = false;
    w->now.active -= x->size;
    w->now.requested -= x->requested;
    return join(w, t) ? ERR_OK : err_nomem(w->e);
}

/* A whole cached segment. */
static int do_segment_free(struct walker *w, int64_t i)
{
    const struct snapshot_event *v = &w->d->event[i];
    int64_t t = addr_map_get(&w->at, v->addr);
    const struct tile *x = t != NONE ? &w->tile[t] : NULL;

    if (x == NULL || x->in_use || x->size != v->bytes || x->prev != NONE
        || x->next != NONE)
        return contradiction(w, i, "segment_free");
    forget_end(w, t);
    drop_tile(w, t);
    w->now.reserved -= v->bytes;
    return ERR_OK;
}

/* Whole pages out of a cached tile. */
static int do_unmap(struct walker *w, int64_t i)
{
    const struct snapshot_event *v = &w->d->event[i];
    struct tile *x;
    int64_t t;
    int rc = cached_at(w, v->addr, false, &t);

    if (rc != ERR_OK) return rc;
    if (t == NONE || w->tile[t].size < v->bytes || !w->tile[t].expandable)
        return contradiction(w, i, "segment_unmap");
    if (w->tile[t].size > v->bytes && !cut(w, t, v->bytes))
        return err_nomem(w->e);
    forget_end(w, t);
    x = &w->tile[t];
    if (x->next != NONE) w->tile[x->next].prev = NONE;
    if (x->prev != NONE) {
        int64_t prev = x->prev;

        w->tile[prev].next = NONE;
        if (!note_end(w, prev)) return err_nomem(w->e);
    }
    drop_tile(w, t);
    w->now.reserved -= v->bytes;
    return ERR_OK;
}

static int do_memory(struct walker *w, int64_t i, bool expandable)
{
    const struct snapshot_event *v = &w->d->event[i];
    int64_t t;
    int rc;

    if (addr_map_get(&w->at, v->addr) != NONE)
        return contradiction(w, i, expandable ? "segment_map"
                                              : "segment_alloc");
    rc = add_memory(w, v->addr, v->bytes, !expandable && v->bytes == 2 * MIB,
                    expandable, &t);
    if (rc != ERR_OK || !expandable) return rc;
    return join(w, t) ? ERR_OK : err_nomem(w->e);
}

static int do_oom(struct walker *w, int64_t i)
{
    const struct snapshot_event *v = &w->d->event[i];
    int64_t n = w->out->n_oom;
    struct walk_oom *p = w->out->oom;

    if ((n & (n - 1)) == 0) {
        p = realloc(p, (n > 0 ? 2 * (size_t)n : 1) * sizeof *p);
        if (p == NULL) return err_nomem(w->e);
        w->out->oom = p;
    }
    p[w->out->n_oom++] = (struct walk_oom){i, v->bytes, v->addr, w->now};
    return ERR_OK;
}

static int do_event(struct walker *w, int64_t i)
{
    switch (w->d->event[i].action) {
    case SNAPSHOT_ALLOC: return do_alloc(w, i);
    case SNAPSHOT_FREE_REQUESTED:
    case SNAPSHOT_FREE_COMPLETED: return do_free(w, i);
    case SNAPSHOT_SEGMENT_ALLOC: return do_memory(w, i, false);
    case SNAPSHOT_SEGMENT_MAP: return do_memory(w, i, true);
    case SNAPSHOT_SEGMENT_FREE: return do_segment_free(w, i);
    case SNAPSHOT_SEGMENT_UNMAP: return do_unmap(w, i);
    case SNAPSHOT_OOM: return do_oom(w, i);
    default: return ERR_OK;
    }
}

/* ---- start and end ------------------------------------------------------ */

/* One segment and its blocks as they lie at the start. */
static int start_segment(struct walker *w, const struct rewind *from,
                         const struct snapshot_segment *s)
{
    int64_t t = NONE;
    int rc = add_memory(w, s->addr, s->size, s->small, s->expandable, &t);

    for (int64_t i = s->block; i < s->block + s->n_block && rc == ERR_OK;
         i++) {
        const struct snapshot_block *b = &from->block[i];

        if (b->addr > w->tile[t].addr) {
            if (!cut(w, t, b->addr - w->tile[t].addr))
                return err_nomem(w->e);
            t = w->tile[t].next;
        }
        if (b->size < w->tile[t].size && !cut(w, t, b->size))
            return err_nomem(w->e);
        w->tile[t].in_use = true;
        w->tile[t].pending = b->pending;
        w->tile[t].requested = b->requested;
        count_block(w, -1, &w->tile[t]);
        if (b->pending) w->now.allocated -= b->size;
        if (w->tile[t].next != NONE) t = w->tile[t].next;
    }
    return rc;
}

static int start(struct walker *w, const struct rewind *from)
{
    int rc = ERR_OK;

    for (int64_t i = 0; i < from->n_segment && rc == ERR_OK; i++)
        rc = start_segment(w, from, &from->segment[i]);
    w->out->initial = w->out->peak = w->now;
    w->out->peak_event = -1;
    w->out->assumed = from->assumed;
    return rc;
}

static void sum_recorded(struct walker *w)
{
    struct replay_bytes *sum = &w->out->recorded;

    for (int64_t i = 0; i < w->d->n_segment; i++)
        sum->reserved += w->d->segment[i].size;
    for (int64_t i = 0; i < w->d->n_block; i++) {
        const struct snapshot_block *b = &w->d->block[i];

        sum->active += b->size;
        sum->requested += b->requested;
        if (!b->pending) sum->allocated += b->size;
    }
}

static int go(struct walker *w, walk_seen *seen, void *ctx)
{
    int rc = ERR_OK;

    for (int64_t i = 0; i < w->d->n_event && rc == ERR_OK; i++) {
        rc = do_event(w, i);
        w->out->allocated[i] = w->now.allocated;
        w->out->reserved[i] = w->now.reserved;
        if (seen != NULL && rc == ERR_OK) seen(ctx, i, &w->now);
    }
    return rc;
}

int walk_device(const struct snapshot *s, int64_t device, const char *origin,
                const struct rewind *from, walk_seen *seen, void *ctx,
                struct walk *out, struct err *e)
{
    const struct snapshot_device *d = &s->device[device];
    struct walk result = {.device = device, .events = d->n_event};
    struct walker w = {.d = d, .c = &s->config, .origin = origin,
                       .frees = rewind_frees(d), .unused = NONE,
                       .out = &result, .e = e};
    size_t n = (size_t)d->n_event + 1;
    int rc = ERR_OK;

    assert(device >= 0 && device < s->n_device);
    result.size = calloc(n, sizeof *result.size);
    result.allocated = calloc(n, sizeof *result.allocated);
    result.reserved = calloc(n, sizeof *result.reserved);
    if (result.size == NULL || result.allocated == NULL
        || result.reserved == NULL)
        rc = err_nomem(e);
    if (rc == ERR_OK) rc = start(&w, from);
    if (rc == ERR_OK) rc = go(&w, seen, ctx);
    result.final = w.now;
    sum_recorded(&w);
    free(w.tile);
    addr_map_free(&w.at);
    addr_map_free(&w.end);
    addr_tree_free(&w.order);
    if (rc != ERR_OK) {
        walk_free(&result);
        return rc;
    }
    *out = result;
    return ERR_OK;
}

void walk_free(struct walk *w)
{
    free(w->size);
    free(w->allocated);
    free(w->reserved);
    free(w->oom);
    *w = (struct walk){0};
}

/* ---- what cannot be predicted ------------------------------------------- */

/* Both kinds of segments: expandable ones were switched on or off. */
static bool is_mixed(const struct snapshot *s, const struct snapshot_device *d)
{
    bool has[2] = {false, false};

    for (int64_t i = 0; i < d->n_segment; i++)
        has[d->segment[i].expandable] = true;
    for (int64_t i = 0; i < d->n_event; i++) {
        if (d->event[i].action == SNAPSHOT_SEGMENT_MAP) has[1] = true;
        if (d->event[i].action == SNAPSHOT_SEGMENT_ALLOC) has[0] = true;
    }
    return has[!s->config.expandable];
}

static bool is_private(const struct snapshot *s, uint16_t lane)
{
    return (s->lane[lane].pool[0] | s->lane[lane].pool[1]) != 0;
}

static bool has_private(const struct snapshot *s,
                        const struct snapshot_device *d)
{
    for (int64_t i = 0; i < d->n_segment; i++)
        if (is_private(s, d->segment[i].lane)) return true;
    for (int64_t i = 0; i < d->n_event; i++)
        if (d->event[i].action < SNAPSHOT_OOM
            && is_private(s, d->event[i].lane))
            return true;
    return false;
}

const char *walk_reason(const struct snapshot *s, int64_t device)
{
    const struct snapshot_device *d = &s->device[device];

    assert(device >= 0 && device < s->n_device);
    if (s->reason[0] != '\0') return s->reason;
    if (has_private(s, d)) return "private pools (CUDA graphs)";
    if (!is_mixed(s, d)) return "";
    return s->config.expandable ? "segments that are not expandable"
                                : "expandable segments";
}
