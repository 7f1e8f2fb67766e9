/* replay.c - see replay.h */
#include "snapshot/replay.h"

#include <assert.h>
#include <stdlib.h>

#include "snapshot/replaying.h"

enum { ROUNDS = 32 };       /* of settling */

/* ---- bytes -------------------------------------------------------------- */

static void raise_peak(uint64_t *peak, uint64_t now)
{
    if (now > *peak) *peak = now;
}

void replaying_count(struct run *r, int64_t event,
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

/* A segment where the record has one, if it asks for the same bytes; else
** apart. */
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

struct mem_source replaying_source(struct lane *l)
{
    return (struct mem_source){l, lane_get, lane_put};
}

struct mem_ranges replaying_ranges(struct lane *l)
{
    return (struct mem_ranges){l, lane_reserve, lane_map, lane_unmap};
}

/* ---- one event ---------------------------------------------------------- */

int replaying_add(struct run *r, uint64_t addr, struct lived v)
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

/* Makes a live block larger by bytes of the cached one behind it. */
static void enlarge(struct run *r, struct lane *l, struct mem_block *b,
                    uint64_t bytes)
{
    struct mem_block *next = b->next;

    free_set_remove(&l->m->pool[next->pool], next);
    next->addr += bytes;
    next->size -= bytes;
    b->size += bytes;
    free_set_insert(&l->m->pool[next->pool], next);
    r->now.allocated += bytes;
    r->now.active += bytes;
    assert(r->now.active >= r->now.allocated);      /* what waits to be freed */
}

/* What we would hand out, and the record did not, behind a block of open size:
** then it is too small for the request, and the block larger. */
static void settle(struct run *r, struct lane *l,
                   const struct snapshot_event *x)
{
    uint64_t size = mem_round(&l->m->config, x->bytes), more;

    while (size > MIB) {
        struct mem_block *b = free_set_fit(&l->m->pool[1], size);
        int64_t at, start;

        if (b == NULL || b->addr == x->addr || block_is_first(b)) return;
        if (size < l->m->config.max_split_bytes
            && b->size >= l->m->config.max_split_bytes)
            return;
        at = addr_map_get(&r->at, b->prev->addr);
        start = at >= 0 ? r->lived[at].start : -1;
        more = b->size - size + 512;
        if (start < 0 || more > r->settle->block[start].open) return;
        enlarge(r, l, b->prev, more);
        r->settle->block[start].size += more;
        r->settle->block[start].open -= more;
        r->settle->open_bytes -= more;
        r->settled++;
    }
}

/* An alloc under our allocator, beside where the record put it. */
static int play_alloc(struct run *r, int64_t i)
{
    const struct snapshot_event *x = &r->d->event[i];
    static const struct mem_tag tag = {CAT_OTHER, PHASE_NONE, -1, NULL};
    struct lane *l = &r->lane[x->lane];
    struct mem_block *b = NULL;
    int rc;

    if (r->settle != NULL) settle(r, l, x);
    rc = mem_alloc(l->m, x->bytes, tag, &b, &r->failure);
    if (l->expected) r->out->segment_mismatches++;
    l->expected = false;
    end_maps(l);
    if (rc == ERR_OOM) {
        if (r->out->ooms++ == 0) r->out->first_oom = i;
    } else if (rc != ERR_OK) {
        return err_set(r->e, (enum err_code)rc, "%s", r->failure.text);
    } else {
        replaying_count(r, i, b);
    }
    if (mem_addr(b) != x->addr) r->out->address_mismatches++;
    return replaying_add(r, x->addr, (struct lived){b, x->lane, false, -1});
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

/* A request that failed in the record, under a limit of our own. */
static int play_oom(struct run *r, int64_t i)
{
    static const struct mem_tag tag = {CAT_OTHER, PHASE_NONE, -1, NULL};
    const struct snapshot_event *x = &r->d->event[i];
    struct mem *m = r->lane[x->lane].m;
    struct mem_block *b = NULL;
    int rc;

    if (r->c->limit_bytes == 0 || x->bytes == 0) return ERR_OK;
    rc = mem_alloc(m, x->bytes, tag, &b, &r->failure);
    if (rc == ERR_OOM) {
        if (r->out->ooms++ == 0) r->out->first_oom = i;
        return ERR_OK;
    }
    if (rc != ERR_OK)
        return err_set(r->e, (enum err_code)rc, "%s", r->failure.text);
    mem_release(m, b);
    return ERR_OK;
}

/* One recorded event; what our allocator does by itself is only expected. */
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
    case SNAPSHOT_OOM:
        return play_oom(r, i);
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

/* Our end beside the recorded one, block by block. */
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

static int replay_run(struct run *r, walk_seen *seen, void *ctx)
{
    int rc = replaying_start(r);

    r->frees = rewind_frees(r->d);
    for (int64_t i = 0; i < r->d->n_event && rc == ERR_OK; i++) {
        rc = play(r, i);
        if (seen != NULL && rc == ERR_OK) seen(ctx, i, &r->now);
    }
    if (rc == ERR_OK) finish(r);
    run_free(r);
    return rc;
}

int replay_from(const struct snapshot *s, int64_t device,
                const struct rewind *from, const struct mem_config *c,
                walk_seen *seen, void *ctx, struct replay *out,
                struct err *e)
{
    struct replay result = {.device = device, .first_oom = -1};
    struct run r = {.d = &s->device[device], .n_lane = s->n_lane, .c = c,
                    .start = from, .out = &result, .e = e};
    int rc = replay_run(&r, seen, ctx);

    assert(device >= 0 && device < s->n_device);
    result.events = (uint64_t)r.d->n_event;
    if (rc == ERR_OK) *out = result;
    return rc;
}

int replay_settle(const struct snapshot *s, int64_t device,
                  struct rewind *from, struct err *e)
{
    int rc = ERR_OK;

    assert(device >= 0 && device < s->n_device);
    for (int i = 0; i < ROUNDS && rc == ERR_OK; i++) {
        struct replay unused = {0};
        struct run r = {.d = &s->device[device], .n_lane = s->n_lane,
                        .c = &s->config, .start = from, .settle = from,
                        .out = &unused, .e = e};

        rc = replay_run(&r, NULL, NULL);
        if (r.settled == 0) break;
    }
    return rc;
}
