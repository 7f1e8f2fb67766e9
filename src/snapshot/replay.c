/* replay.c - see replay.h */
#include "snapshot/replay.h"

#include <inttypes.h>
#include <stdlib.h>

#include "snapshot/addr_map.h"
#include "snapshot/rewind.h"
#include "mem/state.h"

#define MIB (UINT64_C(1) << 20)
#define ADDRESS_MOST (UINT64_C(1) << 63)
#define RANGE (UINT64_C(1) << 42)       /* more than a device has */

/* A block of the record, found by its recorded address. */
struct lived {
    struct mem_block *b;    /* NULL: ours did not get it */
    uint16_t lane;
    bool pending;           /* its free was requested */
};

struct run;

/* The allocator of a stream (and private pool). */
struct lane {
    struct run *run;
    struct mem *m;
    struct snapshot_event segment;  /* got in the record, not yet by us */
    bool expected;
    struct mem_ranges ranges;       /* expandable segments: */
    int64_t map, end_map;   /* events that may hold what was mapped in the
                               record, not yet by us */
};

struct run {
    const struct snapshot_device *d;
    const struct mem_config *c;
    const struct rewind *start;
    struct rewind_frees frees;
    struct lane *lane;      /* [n_lane] */
    int64_t n_lane;
    struct addr_map at;     /* to lived */
    struct lived *lived;
    int64_t n_lived, cap_lived;
    uint64_t made_up;       /* next address of a segment of our own */
    bool apart;             /* we hold a segment that the record gave back:
                               its addresses may come again */
    struct replay_bytes now;
    struct replay *out;
    struct err failure;     /* of an allocation; most are results */
    struct err *e;
};

/* ---- bytes -------------------------------------------------------------- */

static void raise_peak(uint64_t *peak, uint64_t now)
{
    if (now > *peak) *peak = now;
}

static void count_block(struct run *r, int64_t event,
                        const struct mem_block *b)
{
    r->now.allocated += mem_block_bytes(b);
    r->now.active += mem_block_bytes(b);
    r->now.requested += mem_requested(b);
    if (r->now.allocated > r->out->peak.allocated) r->out->peak_event = event;
    raise_peak(&r->out->peak.allocated, r->now.allocated);
    raise_peak(&r->out->peak.active, r->now.active);
    raise_peak(&r->out->peak.requested, r->now.requested);
}

/* ---- segments ----------------------------------------------------------- */

static int lane_get(void *ctx, uint64_t bytes, uint64_t *addr, struct err *e)
{
    struct lane *l = ctx;
    struct run *r = l->run;

    if (r->c->limit_bytes != 0
        && r->now.reserved + bytes > r->c->limit_bytes)
        return err_set(e, ERR_OOM, "limit");
    if (r->made_up + bytes > ADDRESS_MOST)
        return err_set(e, ERR_INPUT, "the trace takes more memory than there "
                       "are addresses");
    if (!l->expected || l->segment.bytes != bytes)
        r->out->segment_mismatches++;
    if (l->expected && l->segment.bytes == bytes && !r->apart) {
        *addr = l->segment.addr;
    } else {
        *addr = r->made_up;
        r->made_up += bytes;
    }
    l->expected = false;
    r->now.reserved += bytes;
    raise_peak(&r->out->peak.reserved, r->now.reserved);
    return ERR_OK;
}

static void lane_put(void *ctx, uint64_t addr, uint64_t bytes)
{
    struct lane *l = ctx;

    (void)addr;
    l->run->now.reserved -= bytes;
}

/* ---- expandable segments ------------------------------------------------ */

/* The next mapping that was recorded for a lane; NULL: there is none. */
static const struct snapshot_event *next_map(struct lane *l)
{
    const struct snapshot_event *v = l->run->d->event;

    for (; l->map < l->end_map; l->map++)
        if (v[l->map].action == SNAPSHOT_SEGMENT_MAP
            && &l->run->lane[v[l->map].lane] == l)
            return &v[l->map];
    return NULL;
}

/* The record tells where a range begins: where it is first mapped. */
static int lane_reserve(void *ctx, bool small, uint64_t *addr,
                        uint64_t *bytes, struct err *e)
{
    struct lane *l = ctx;
    struct run *r = l->run;
    const struct snapshot_event *v = next_map(l);

    (void)small;
    *bytes = RANGE;
    if (v != NULL && !r->apart) {
        *addr = v->addr;
        return ERR_OK;
    }
    if (r->made_up > ADDRESS_MOST - RANGE)
        return err_set(e, ERR_INPUT, "the trace takes more memory than there "
                       "are addresses");
    *addr = r->made_up;
    r->made_up += RANGE;
    return ERR_OK;
}

static int lane_map(void *ctx, uint64_t addr, uint64_t bytes, struct err *e)
{
    struct lane *l = ctx;
    struct run *r = l->run;
    const struct snapshot_event *v;

    if (r->c->limit_bytes != 0
        && r->now.reserved + bytes > r->c->limit_bytes)
        return err_set(e, ERR_OOM, "limit");
    v = next_map(l);
    if (v == NULL || v->addr != addr || v->bytes != bytes)
        r->out->segment_mismatches++;
    if (v != NULL) l->map++;
    r->now.reserved += bytes;
    raise_peak(&r->out->peak.reserved, r->now.reserved);
    return ERR_OK;
}

static void lane_unmap(void *ctx, uint64_t addr, uint64_t bytes)
{
    struct lane *l = ctx;

    (void)addr;
    l->run->now.reserved -= bytes;
}

/* What was mapped in the record before an allocation and not by us. */
static void end_maps(struct lane *l)
{
    for (; next_map(l) != NULL; l->map++) l->run->out->segment_mismatches++;
}

/* Above everything recorded. */
static uint64_t first_made_up(const struct run *r)
{
    uint64_t most = UINT64_C(1) << 40;

    for (int64_t i = 0; i < r->d->n_event; i++)
        if (r->d->event[i].action < SNAPSHOT_OOM)
            raise_peak(&most, r->d->event[i].addr + r->d->event[i].bytes);
    for (int64_t i = 0; i < r->start->n_segment; i++) {
        const struct snapshot_segment *s = &r->start->segment[i];

        raise_peak(&most, s->addr + s->size);
    }
    return (most / (UINT64_C(2) << 20) + 1) * (UINT64_C(2) << 20);
}

/* ---- the start ---------------------------------------------------------- */

static int add_lived(struct run *r, uint64_t addr, struct lived v)
{
    if (r->n_lived == r->cap_lived) {
        int64_t cap = r->cap_lived > 0 ? 2 * r->cap_lived : 256;
        struct lived *p = realloc(r->lived, (size_t)cap * sizeof *p);

        if (p == NULL) return err_nomem(r->e);
        r->lived = p;
        r->cap_lived = cap;
    }
    if (!addr_map_put(&r->at, addr, r->n_lived)) return err_nomem(r->e);
    r->lived[r->n_lived++] = v;
    return ERR_OK;
}

static int start_lanes(struct run *r)
{
    struct mem_config c = *r->c;
    int rc = ERR_OK;

    c.limit_bytes = 0;      /* it holds for all lanes together */
    c.trace = false;
    r->lane = calloc((size_t)r->n_lane + 1, sizeof *r->lane);
    if (r->lane == NULL) return err_nomem(r->e);
    for (int64_t i = 0; i < r->n_lane && rc == ERR_OK; i++) {
        struct lane *l = &r->lane[i];

        l->run = r;
        rc = mem_new(&c, (struct mem_source){l, lane_get, lane_put}, &l->m,
                     r->e);
        l->ranges = (struct mem_ranges){l, lane_reserve, lane_map,
                                        lane_unmap};
        if (rc == ERR_OK && c.expandable) l->m->ranges = &l->ranges;
    }
    return rc;
}

/* Pieces of one pool's range. */
static bool same_range(const struct snapshot_segment *a,
                       const struct snapshot_segment *b)
{
    return a->expandable && b->expandable && a->lane == b->lane
        && a->small == b->small && b->addr - a->addr < RANGE;
}

/* Counts n blocks that were adopted. */
static int count_adopted(struct run *r, uint16_t lane,
                         const struct snapshot_block *b, int64_t n,
                         struct mem_block **blocks)
{
    int rc = ERR_OK;

    for (int64_t i = 0; i < n && rc == ERR_OK; i++) {
        count_block(r, -1, blocks[i]);
        if (b[i].pending) r->now.allocated -= b[i].size;
        rc = add_lived(r, b[i].addr, (struct lived){blocks[i], lane,
                                                    b[i].pending});
    }
    return rc;
}

/* Room for what is adopted at once. */
struct adopting {
    struct adopted *use;
    struct mem_block **blocks;
    struct adopted_piece *piece;
};

static void list_use(const struct run *r, const struct snapshot_segment *s,
                     struct adopted *use)
{
    const struct snapshot_block *b = &r->start->block[s->block];

    for (int64_t i = 0; i < s->n_block; i++)
        use[i] = (struct adopted){b[i].addr, b[i].size, b[i].requested};
}

static int adopt(struct run *r, const struct snapshot_segment *s,
                 const struct adopting *a)
{
    list_use(r, s, a->use);
    if (!mem_adopt(r->lane[s->lane].m, s->addr, s->size, s->small, a->use,
                   s->n_block, a->blocks))
        return err_nomem(r->e);
    r->now.reserved += s->size;
    return count_adopted(r, s->lane, &r->start->block[s->block], s->n_block,
                         a->blocks);
}

/* Whether what is mapped at event i is for the small pool: the allocation that
** needs it comes next. */
static bool maps_small(const struct run *r, int64_t i)
{
    uint16_t lane = r->d->event[i].lane;

    while (i < r->d->n_event && (r->d->event[i].action != SNAPSHOT_ALLOC
                                 || r->d->event[i].lane != lane))
        i++;
    return i < r->d->n_event && mem_round(r->c, r->d->event[i].bytes) <= MIB;
}

/* Where a range begins: at its first piece, or before it where the trace maps
** pages that were given back. */
static uint64_t range_base(const struct run *r,
                           const struct snapshot_segment *first)
{
    uint64_t base = first->addr;

    for (int64_t i = 0; i < r->d->n_event; i++) {
        const struct snapshot_event *v = &r->d->event[i];

        if (v->action != SNAPSHOT_SEGMENT_MAP || v->lane != first->lane
            || v->addr >= base || base - v->addr >= RANGE / 2)
            continue;
        if (maps_small(r, i) == first->small) base = v->addr;
    }
    return base;
}

/* The pieces of one pool's expandable segment, from the i-th on: one range, as
** long as a device's memory does not fill it. Their blocks lie in a row. */
static int adopt_range(struct run *r, int64_t i, const struct adopting *a)
{
    const struct snapshot_segment *s = r->start->segment;
    int64_t n = 0, n_use = 0;
    uint64_t base;
    int rc = ERR_OK;

    for (int64_t k = i; k < r->start->n_segment; k++) {
        if (!same_range(&s[i], &s[k])) continue;
        list_use(r, &s[k], a->use + n_use);
        a->piece[n++] = (struct adopted_piece){s[k].addr, s[k].size,
                                               s[k].n_block};
        n_use += s[k].n_block;
        r->now.reserved += s[k].size;
    }
    base = range_base(r, &s[i]);
    if (!mem_adopt_range(r->lane[s[i].lane].m, s[i].small, base, base + RANGE,
                         a->piece, n, a->use, a->blocks))
        return err_nomem(r->e);
    n_use = 0;
    for (int64_t k = i; k < r->start->n_segment && rc == ERR_OK; k++) {
        if (!same_range(&s[i], &s[k])) continue;
        rc = count_adopted(r, s[k].lane, &r->start->block[s[k].block],
                           s[k].n_block, a->blocks + n_use);
        n_use += s[k].n_block;
    }
    return rc;
}

/* Every segment, or range of pieces. Without expandable segments pieces are
** segments. */
static int adopt_all(struct run *r, const struct adopting *a)
{
    const struct snapshot_segment *s = r->start->segment;
    int rc = ERR_OK;

    for (int64_t i = 0; i < r->start->n_segment && rc == ERR_OK; i++) {
        int64_t k = 0;

        if (!s[i].expandable || !r->c->expandable) {
            rc = adopt(r, &s[i], a);
            continue;
        }
        while (!same_range(&s[k], &s[i])) k++;
        if (k == i) rc = adopt_range(r, i, a);
    }
    return rc;
}

static int start(struct run *r)
{
    size_t n = (size_t)r->start->n_block + 1;
    size_t pieces = (size_t)r->start->n_segment + 1;
    struct adopting a = {malloc(n * sizeof *a.use),
                         malloc(n * sizeof *a.blocks),
                         malloc(pieces * sizeof *a.piece)};
    int rc = a.use != NULL && a.blocks != NULL && a.piece != NULL
           ? start_lanes(r) : err_nomem(r->e);

    if (rc == ERR_OK) rc = adopt_all(r, &a);
    r->out->initial = r->out->peak = r->now;
    r->out->peak_event = -1;
    r->out->assumed_sizes = (uint64_t)r->start->assumed;
    r->made_up = first_made_up(r);
    free(a.use);
    free(a.blocks);
    free(a.piece);
    return rc;
}

/* ---- one event ---------------------------------------------------------- */

static int play_alloc(struct run *r, int64_t i)
{
    const struct snapshot_event *x = &r->d->event[i];
    static const struct mem_tag tag = {CAT_OTHER, PHASE_NONE, -1, NULL};
    struct lane *l = &r->lane[x->lane];
    struct mem_block *b = NULL;
    int rc = mem_alloc(l->m, x->bytes, tag, &b, &r->failure);

    if (l->expected) r->out->segment_mismatches++;
    l->expected = false;
    end_maps(l);
    if (rc == ERR_OOM) {
        if (r->out->ooms++ == 0) r->out->first_oom = i;
    } else if (rc != ERR_OK) {
        return err_set(r->e, (enum err_code)rc, "%s", r->failure.text);
    } else {
        count_block(r, i, b);
    }
    if (mem_addr(b) != x->addr) r->out->address_mismatches++;
    return add_lived(r, x->addr, (struct lived){b, x->lane, false});
}

/* Allocated bytes fall at the request, the others at the completion. The
** rewind has seen that every free has its block. */
static void play_free(struct run *r, const struct snapshot_event *x)
{
    struct lived *v = &r->lived[addr_map_get(&r->at, x->addr)];

    if (!v->pending) r->now.allocated -= mem_block_bytes(v->b);
    v->pending = true;
    if (r->frees.completes && x->action != SNAPSHOT_FREE_COMPLETED) return;
    addr_map_remove(&r->at, x->addr);
    if (v->b == NULL) return;
    r->now.active -= mem_block_bytes(v->b);
    r->now.requested -= mem_requested(v->b);
    mem_release(r->lane[v->lane].m, v->b);
}

/* What the record did, on blocks of ours that lie elsewhere. */
static int give_back(struct run *r, struct lane *l)
{
    r->out->segment_mismatches++;
    r->apart = true;
    mem_empty_cache(l->m);
    return ERR_OK;
}

static int play(struct run *r, int64_t i)
{
    const struct snapshot_event *x = &r->d->event[i];
    struct lane *l = &r->lane[x->lane];

    switch (x->action) {
    case SNAPSHOT_ALLOC:
        return play_alloc(r, i);
    case SNAPSHOT_FREE_REQUESTED:
    case SNAPSHOT_FREE_COMPLETED:
        play_free(r, x);
        return ERR_OK;
    case SNAPSHOT_SEGMENT_ALLOC:
        if (l->expected) r->out->segment_mismatches++;
        l->segment = *x;
        l->expected = true;
        return ERR_OK;
    case SNAPSHOT_SEGMENT_MAP:
        if (l->map >= l->end_map) l->map = i;
        l->end_map = i + 1;
        return ERR_OK;
    case SNAPSHOT_SEGMENT_UNMAP:
        if (mem_unmap_at(l->m, x->addr, x->bytes)) return ERR_OK;
        return give_back(r, l);
    case SNAPSHOT_SEGMENT_FREE:
        if (mem_put_segment(l->m, x->addr, x->bytes)) return ERR_OK;
        return give_back(r, l);
    default:
        return ERR_OK;
    }
}

/* ---- the end ------------------------------------------------------------ */

static void finish(struct run *r)
{
    struct replay *out = r->out;

    for (int64_t i = 0; i < r->n_lane; i++) {
        if (r->lane[i].expected) out->segment_mismatches++;
        end_maps(&r->lane[i]);
    }
    out->final = r->now;
    for (int64_t i = 0; i < r->d->n_segment; i++)
        out->recorded.reserved += r->d->segment[i].size;
    for (int64_t i = 0; i < r->d->n_block; i++) {
        const struct snapshot_block *b = &r->d->block[i];
        int64_t at = addr_map_get(&r->at, b->addr);
        const struct mem_block *ours = at >= 0 ? r->lived[at].b : NULL;

        out->recorded.active += b->size;
        out->recorded.requested += b->requested;
        if (!b->pending) out->recorded.allocated += b->size;
        if (mem_addr(ours) != b->addr || mem_block_bytes(ours) != b->size)
            out->block_mismatches++;
    }
}

static void run_free(struct run *r)
{
    for (int64_t i = 0; r->lane != NULL && i < r->n_lane; i++)
        mem_free_all(r->lane[i].m);
    free(r->lane);
    free(r->lived);
    addr_map_free(&r->at);
}

int replay_from(const struct snapshot *s, int64_t device,
                const struct rewind *from, const struct mem_config *c,
                walk_seen *seen, void *ctx, struct replay *out,
                struct err *e)
{
    struct replay result = {.device = device, .first_oom = -1};
    struct run r = {.d = &s->device[device], .n_lane = s->n_lane, .c = c,
                    .start = from, .out = &result, .e = e};
    int rc = start(&r);

    r.frees = rewind_frees(r.d);
    for (int64_t i = 0; i < r.d->n_event && rc == ERR_OK; i++) {
        rc = play(&r, i);
        if (seen != NULL && rc == ERR_OK) seen(ctx, i, &r.now);
    }
    if (rc == ERR_OK) {
        finish(&r);
        result.events = (uint64_t)r.d->n_event;
        *out = result;
    }
    run_free(&r);
    return rc;
}

int replay_device(const struct snapshot *s, int64_t device, const char *origin,
                  const struct mem_config *c, struct replay *out,
                  struct err *e)
{
    struct rewind from = {0};
    int rc = rewind_device(s, device, origin, &from, e);

    if (rc == ERR_OK)
        rc = replay_from(s, device, &from, c, NULL, NULL, out, e);
    rewind_free(&from);
    return rc;
}
