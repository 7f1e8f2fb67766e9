/* replay.c - see replay.h */
#include "snapshot/replay.h"

#include <inttypes.h>
#include <stdlib.h>

#include "snapshot/addr_map.h"
#include "snapshot/rewind.h"
#include "mem/state.h"

#define ADDRESS_MOST (UINT64_C(1) << 63)

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
    }
    return rc;
}

/* The blocks of one segment, from the arrays use and blocks. */
static int adopt(struct run *r, const struct snapshot_segment *s,
                 struct adopted *use, struct mem_block **blocks)
{
    const struct snapshot_block *b = &r->start->block[s->block];
    int rc = ERR_OK;

    for (int64_t i = 0; i < s->n_block; i++)
        use[i] = (struct adopted){b[i].addr, b[i].size, b[i].requested};
    if (!mem_adopt(r->lane[s->lane].m, s->addr, s->size, s->small, use,
                   s->n_block, blocks))
        return err_nomem(r->e);
    r->now.reserved += s->size;
    for (int64_t i = 0; i < s->n_block && rc == ERR_OK; i++) {
        count_block(r, -1, blocks[i]);
        if (b[i].pending) r->now.allocated -= b[i].size;
        rc = add_lived(r, b[i].addr, (struct lived){blocks[i], s->lane,
                                                    b[i].pending});
    }
    return rc;
}

static int start(struct run *r)
{
    size_t n = (size_t)r->start->n_block + 1;
    struct adopted *use = malloc(n * sizeof *use);
    struct mem_block **blocks = malloc(n * sizeof *blocks);
    int rc = use != NULL && blocks != NULL ? start_lanes(r) : err_nomem(r->e);

    for (int64_t i = 0; i < r->start->n_segment && rc == ERR_OK; i++)
        rc = adopt(r, &r->start->segment[i], use, blocks);
    r->out->initial = r->out->peak = r->now;
    r->out->peak_event = -1;
    r->out->assumed_sizes = (uint64_t)r->start->assumed;
    r->made_up = first_made_up(r);
    free(use);
    free(blocks);
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
    case SNAPSHOT_SEGMENT_FREE:
        if (mem_put_segment(l->m, x->addr, x->bytes)) return ERR_OK;
        r->out->segment_mismatches++;
        r->apart = true;
        mem_empty_cache(l->m);      /* what the record did, on our blocks */
        return ERR_OK;
    default:
        return ERR_OK;
    }
}

/* ---- the end ------------------------------------------------------------ */

static void finish(struct run *r)
{
    struct replay *out = r->out;

    for (int64_t i = 0; i < r->n_lane; i++)
        if (r->lane[i].expected) out->segment_mismatches++;
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
