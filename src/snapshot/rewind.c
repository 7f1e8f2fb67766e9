/*
** rewind.c - see rewind.h.
**
** A trace's events name requested bytes, not block sizes. A block that is
** still there at the end has its size in the file. Of others, the next block
** placed behind one tells it, because that starts where the one ends. Else
** the split rule (allocator.md A.7) does: a cached large block is over 1 MiB,
** so a smaller gap behind a large block belongs to it. Before a larger gap the
** size is open: a slack of up to 1 MiB may come before what is cached. It is
** assumed to be the rounded one, until a prediction shows (replay_settle) that
** what would be cached then would have been handed out and was not. In an
** expandable segment it is the rounded one always.
**
** What is mapped of an expandable segment is kept in pieces, as segments are,
** and put together at the end.
*/
#include "snapshot/rewind.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "snapshot/addr_map.h"
#include "mem/state.h"

#define MIB (UINT64_C(1) << 20)

struct undo {
    const struct snapshot_device *d;
    const char *origin;
    int64_t device;
    struct rewind_frees frees;
    struct addr_map at_block, at_segment;   /* to those that are there */
    struct free_set segments, blocks;   /* those that are there, by address:
                                           stand-ins of one size */
    struct block_store store;
    struct rewind r;        /* also those that are gone again */
    int64_t cap_block, cap_segment;
    struct err *e;
};

struct rewind_frees rewind_frees(const struct snapshot_device *d)
{
    struct rewind_frees f = {false, false};

    for (int64_t i = 0; i < d->n_event; i++) {
        if (d->event[i].action == SNAPSHOT_FREE_REQUESTED) f.requests = true;
        if (d->event[i].action == SNAPSHOT_FREE_COMPLETED) f.completes = true;
    }
    return f;
}

static int contradiction(const struct undo *u, int64_t i, const char *what)
{
    return err_set(u->e, ERR_INPUT, "%s: device %" PRId64 ", event %" PRId64
                   ": %s at 0x%" PRIx64 " does not fit what comes after it",
                   u->origin, u->device, i, what, u->d->event[i].addr);
}

/* ---- what is there ------------------------------------------------------ */

static bool order_add(struct undo *u, struct free_set *set, uint64_t addr)
{
    struct mem_block *b;

    if (!block_reserve(&u->store, 1)) return false;
    b = block_take(&u->store);
    *b = (struct mem_block){.addr = addr, .size = 512};
    free_set_insert(set, b);
    return true;
}

static void order_remove(struct undo *u, struct free_set *set, uint64_t addr)
{
    struct mem_block *b = free_set_find(set, 512, addr);

    free_set_remove(set, b);
    block_drop(&u->store, b);
}

/* The address of the nearest before (after) addr; 0: none. */
static uint64_t order_before(struct free_set *set, uint64_t addr)
{
    struct mem_block probe = {.addr = addr, .size = 512};
    const struct mem_block *b = free_set_previous(set, &probe);

    return b != NULL ? b->addr : 0;
}

static uint64_t order_after(struct free_set *set, uint64_t addr)
{
    struct mem_block probe = {.addr = addr, .size = 512};
    const struct mem_block *b = free_set_next(set, &probe);

    return b != NULL ? b->addr : 0;
}

static int add_block(struct undo *u, struct snapshot_block b)
{
    if (u->r.n_block == u->cap_block) {
        int64_t cap = u->cap_block > 0 ? 2 * u->cap_block : 256;
        struct snapshot_block *p = realloc(u->r.block,
                                           (size_t)cap * sizeof *p);

        if (p == NULL) return err_nomem(u->e);
        u->r.block = p;
        u->cap_block = cap;
    }
    if (!addr_map_put(&u->at_block, b.addr, u->r.n_block)
        || !order_add(u, &u->blocks, b.addr))
        return err_nomem(u->e);
    u->r.block[u->r.n_block++] = b;
    return ERR_OK;
}

/* Segments that are there at one time never overlap. */
static bool overlaps(struct undo *u, const struct snapshot_segment *s)
{
    uint64_t after = order_after(&u->segments, s->addr);
    uint64_t before = order_before(&u->segments, s->addr);

    if (after != 0 && after - s->addr < s->size) return true;
    if (before == 0) return false;
    return s->addr - before
         < u->r.segment[addr_map_get(&u->at_segment, before)].size;
}

static int add_segment(struct undo *u, struct snapshot_segment s)
{
    if (addr_map_get(&u->at_segment, s.addr) >= 0 || overlaps(u, &s))
        return err_set(u->e, ERR_INPUT, "%s: device %" PRId64 ": segments "
                       "overlap at 0x%" PRIx64, u->origin, u->device, s.addr);
    if (u->r.n_segment == u->cap_segment) {
        int64_t cap = u->cap_segment > 0 ? 2 * u->cap_segment : 64;
        struct snapshot_segment *p = realloc(u->r.segment,
                                             (size_t)cap * sizeof *p);

        if (p == NULL) return err_nomem(u->e);
        u->r.segment = p;
        u->cap_segment = cap;
    }
    if (!addr_map_put(&u->at_segment, s.addr, u->r.n_segment)
        || !order_add(u, &u->segments, s.addr))
        return err_nomem(u->e);
    u->r.segment[u->r.n_segment++] = s;
    return ERR_OK;
}

static int add_end(struct undo *u)
{
    int rc = ERR_OK;

    for (int64_t i = 0; i < u->d->n_segment && rc == ERR_OK; i++)
        rc = add_segment(u, u->d->segment[i]);
    for (int64_t i = 0; i < u->d->n_block && rc == ERR_OK; i++)
        rc = add_block(u, u->d->block[i]);
    return rc;
}

/* ---- one event back ----------------------------------------------------- */

/* The block before a new one, in the same segment, ends where that starts. */
static void learn_size(struct undo *u, uint64_t addr)
{
    uint64_t segment = order_before(&u->segments, addr + 1);
    uint64_t before = order_before(&u->blocks, addr);
    struct snapshot_block *b;

    if (before == 0 || before < segment) return;
    b = &u->r.block[addr_map_get(&u->at_block, before)];
    if (b->size == 0) b->size = addr - before;
}

static int undo_alloc(struct undo *u, int64_t i)
{
    uint64_t addr = u->d->event[i].addr;

    if (addr_map_get(&u->at_block, addr) < 0)
        return contradiction(u, i, "alloc");
    learn_size(u, addr);
    addr_map_remove(&u->at_block, addr);
    order_remove(u, &u->blocks, addr);
    return ERR_OK;
}

static int undo_free(struct undo *u, int64_t i)
{
    const struct snapshot_event *x = &u->d->event[i];
    int64_t at = addr_map_get(&u->at_block, x->addr);
    bool last = x->action == SNAPSHOT_FREE_COMPLETED || !u->frees.completes;

    if (last != (at < 0)) return contradiction(u, i, "free");
    if (last)
        return add_block(u, (struct snapshot_block){
            .addr = x->addr, .requested = x->bytes,
            .pending = u->frees.completes && u->frees.requests});
    u->r.block[at].pending = false;
    return ERR_OK;
}

static int undo_segment(struct undo *u, int64_t i)
{
    const struct snapshot_event *x = &u->d->event[i];
    int64_t at = addr_map_get(&u->at_segment, x->addr);

    if (x->action == SNAPSHOT_SEGMENT_FREE) {
        return add_segment(u, (struct snapshot_segment){
            .addr = x->addr, .size = x->bytes, .lane = x->lane,
            .small = x->bytes == 2 * MIB});
    }
    if (at < 0 || u->r.segment[at].size != x->bytes)
        return contradiction(u, i, "segment_alloc");
    addr_map_remove(&u->at_segment, x->addr);
    order_remove(u, &u->segments, x->addr);
    return ERR_OK;
}

/* Takes [addr, end) out of the piece that holds addr; *to is where that ends,
** or end. */
static int cut_piece(struct undo *u, int64_t i, uint64_t addr, uint64_t end,
                     uint64_t *to)
{
    uint64_t first = order_before(&u->segments, addr + 1);
    int64_t at = addr_map_get(&u->at_segment, first);
    struct snapshot_segment s, rest;
    int rc = ERR_OK;

    if (first == 0 || u->r.segment[at].addr + u->r.segment[at].size <= addr
        || !u->r.segment[at].expandable)
        return contradiction(u, i, "segment_map");
    s = u->r.segment[at];
    addr_map_remove(&u->at_segment, first);
    order_remove(u, &u->segments, first);
    *to = s.addr + s.size < end ? s.addr + s.size : end;
    rest = s;
    rest.addr = *to;
    rest.size = s.addr + s.size - *to;
    s.size = addr - s.addr;
    if (s.size > 0) rc = add_segment(u, s);
    if (rest.size > 0 && rc == ERR_OK) rc = add_segment(u, rest);
    return rc;
}

static int undo_map(struct undo *u, int64_t i)
{
    const struct snapshot_event *x = &u->d->event[i];
    uint64_t at = x->addr, end = x->addr + x->bytes;
    int rc = ERR_OK;

    while (at < end && rc == ERR_OK) rc = cut_piece(u, i, at, end, &at);
    return rc;
}

/* Whole pages are unmapped, of 20 MiB in the large pool unless that is set. Of
** which pool they are is seen later, by what is allocated there. */
static int undo_unmap(struct undo *u, int64_t i)
{
    const struct snapshot_event *x = &u->d->event[i];

    return add_segment(u, (struct snapshot_segment){
        .addr = x->addr, .size = x->bytes, .lane = x->lane,
        .small = x->bytes % (20 * MIB) != 0, .expandable = true,
        .guessed = true});
}

static int undo_event(struct undo *u, int64_t i)
{
    switch (u->d->event[i].action) {
    case SNAPSHOT_ALLOC: return undo_alloc(u, i);
    case SNAPSHOT_FREE_REQUESTED:
    case SNAPSHOT_FREE_COMPLETED: return undo_free(u, i);
    case SNAPSHOT_SEGMENT_ALLOC:
    case SNAPSHOT_SEGMENT_FREE: return undo_segment(u, i);
    case SNAPSHOT_SEGMENT_MAP: return undo_map(u, i);
    case SNAPSHOT_SEGMENT_UNMAP: return undo_unmap(u, i);
    default: return ERR_OK;
    }
}

/* ---- the state that is left --------------------------------------------- */

static int block_order(const void *a, const void *b)
{
    const struct snapshot_block *x = a, *y = b;

    return (x->addr > y->addr) - (x->addr < y->addr);
}

static int segment_order(const void *a, const void *b)
{
    const struct snapshot_segment *x = a, *y = b;

    return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Puts pieces of expandable segments together, ordered by address. */
static void join_pieces(struct rewind *r)
{
    int64_t n = 0;

    for (int64_t i = 0; i < r->n_segment; i++) {
        struct snapshot_segment *s = &r->segment[i], *b = s;

        if (n > 0) b = &r->segment[n - 1];
        if (n > 0 && b->expandable && s->expandable && b->lane == s->lane
            && b->addr + b->size == s->addr) {
            b->size += s->size;
            if (b->guessed) b->small = s->small;
            b->guessed = b->guessed && s->guessed;
        } else {
            r->segment[n++] = *s;
        }
    }
    r->n_segment = n;
}

/* The segment that holds addr; NULL: none. */
static struct snapshot_segment *holding(struct rewind *r, uint64_t addr)
{
    int64_t lo = 0, hi = r->n_segment;

    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;

        if (r->segment[mid].addr <= addr)
            lo = mid;
        else
            hi = mid;
    }
    if (lo == hi || addr < r->segment[lo].addr
        || addr - r->segment[lo].addr >= r->segment[lo].size)
        return NULL;
    return &r->segment[lo];
}

/* A block that is allocated in the trace tells the pool of its memory. */
static void learn_pools(struct undo *u, const struct mem_config *c)
{
    for (int64_t i = 0; i < u->d->n_event; i++) {
        const struct snapshot_event *v = &u->d->event[i];
        struct snapshot_segment *s;

        if (v->action != SNAPSHOT_ALLOC
            && v->action != SNAPSHOT_FREE_COMPLETED)
            continue;
        s = holding(&u->r, v->addr);
        if (s == NULL || !s->guessed) continue;
        s->small = mem_round(c, v->bytes) <= MIB;
        s->guessed = false;
    }
}

/* Drops what is gone and orders the rest. */
static void keep_present(struct undo *u)
{
    struct rewind *r = &u->r;
    int64_t n = 0;

    for (int64_t i = 0; i < r->n_block; i++)
        if (addr_map_get(&u->at_block, r->block[i].addr) == i)
            r->block[n++] = r->block[i];
    r->n_block = n;
    n = 0;
    for (int64_t i = 0; i < r->n_segment; i++)
        if (addr_map_get(&u->at_segment, r->segment[i].addr) == i)
            r->segment[n++] = r->segment[i];
    r->n_segment = n;
    if (r->n_block > 0)
        qsort(r->block, (size_t)r->n_block, sizeof *r->block, block_order);
    if (r->n_segment > 0)
        qsort(r->segment, (size_t)r->n_segment, sizeof *r->segment,
              segment_order);
    join_pieces(r);
}

/* A block with rest bytes behind its rounded ones: up to 1 MiB of them may be
** its slack, if over 1 MiB is left. */
static void assume(struct undo *u, struct snapshot_block *b, uint64_t rest)
{
    uint64_t slack = rest - MIB - 512;

    b->open = slack < MIB ? slack : MIB;
    u->r.assumed++;
    u->r.open_bytes += b->open;
}

/* Sets a block's size, given the bytes up to the next one in use. */
static bool set_size(struct undo *u, struct snapshot_block *b, uint64_t gap,
                     bool exact, const struct mem_config *c)
{
    uint64_t size = mem_round(c, b->requested);

    if (b->size != 0) return b->size >= b->requested && b->size <= gap;
    if (size > gap) return false;
    if (!exact) {
        if (gap - size <= MIB || (c->max_split_bytes != 0
                                  && size >= c->max_split_bytes))
            size = gap;
        else
            assume(u, b, gap - size);
    }
    b->size = size;
    return true;
}

static int misplaced(const struct undo *u, uint64_t addr)
{
    return err_set(u->e, ERR_INPUT, "%s: device %" PRId64 ": at the start of "
                   "the trace the block at 0x%" PRIx64 " overlaps another or "
                   "lies in no segment", u->origin, u->device, addr);
}

/* Gives each segment its blocks, and the blocks their sizes. */
static int place(struct undo *u, const struct mem_config *c)
{
    struct rewind *r = &u->r;
    int64_t at = 0;

    for (int64_t i = 0; i < r->n_segment; i++) {
        struct snapshot_segment *s = &r->segment[i];
        uint64_t end = s->addr + s->size;

        s->block = at;
        for (; at < r->n_block && r->block[at].addr < end; at++) {
            struct snapshot_block *b = &r->block[at];
            uint64_t next = at + 1 < r->n_block && b[1].addr < end
                          ? b[1].addr : end;

            if (b->addr < s->addr
                || !set_size(u, b, next - b->addr, s->small || s->expandable,
                             c))
                return misplaced(u, b->addr);
        }
        s->n_block = at - s->block;
    }
    return at < r->n_block ? misplaced(u, r->block[at].addr) : ERR_OK;
}

int rewind_device(const struct snapshot *s, int64_t device, const char *origin,
                  struct rewind *out, struct err *e)
{
    struct undo u = {.d = &s->device[device], .origin = origin,
                     .device = device, .e = e};
    int rc;

    assert(device >= 0 && device < s->n_device);
    free_set_init(&u.segments);
    free_set_init(&u.blocks);
    u.frees = rewind_frees(u.d);
    rc = add_end(&u);
    for (int64_t i = u.d->n_event; i-- > 0 && rc == ERR_OK;)
        rc = undo_event(&u, i);
    if (rc == ERR_OK) {
        keep_present(&u);
        if (s->config.expandable) learn_pools(&u, &s->config);
        rc = place(&u, &s->config);
    }
    addr_map_free(&u.at_block);
    addr_map_free(&u.at_segment);
    block_store_free(&u.store);
    if (rc != ERR_OK) {
        rewind_free(&u.r);
        return rc;
    }
    *out = u.r;
    return ERR_OK;
}

void rewind_free(struct rewind *r)
{
    free(r->segment);
    free(r->block);
    *r = (struct rewind){0};
}
