/* replay_start.c - the state in which a prediction begins, see replaying.h */
#include <stdlib.h>

#include "snapshot/replaying.h"

static void above(uint64_t *most, uint64_t x)
{
    if (x > *most) *most = x;
}

/* Above everything recorded. */
static uint64_t first_made_up(const struct run *r)
{
    uint64_t most = UINT64_C(1) << 40;

    for (int64_t i = 0; i < r->d->n_event; i++)
        if (r->d->event[i].action < SNAPSHOT_OOM)
            above(&most, r->d->event[i].addr + r->d->event[i].bytes);
    for (int64_t i = 0; i < r->start->n_segment; i++) {
        const struct snapshot_segment *s = &r->start->segment[i];

        above(&most, s->addr + s->size);
    }
    return (most / (UINT64_C(2) << 20) + 1) * (UINT64_C(2) << 20);
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
        rc = mem_new(&c, replaying_source(l), &l->m, r->e);
        l->ranges = replaying_ranges(l);
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
                         int64_t first, int64_t n, struct mem_block **blocks)
{
    int rc = ERR_OK;

    for (int64_t i = 0; i < n && rc == ERR_OK; i++) {
        const struct snapshot_block *b = &r->start->block[first + i];

        replaying_count(r, -1, blocks[i]);
        if (b->pending) r->now.allocated -= b->size;
        rc = replaying_add(r, b->addr, (struct lived){blocks[i], lane,
                                                      b->pending, first + i});
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
    for (int64_t i = 0; i < s->n_block; i++) {
        const struct snapshot_block *b = &r->start->block[s->block + i];

        use[i] = (struct adopted){b->addr, b->size, b->requested};
    }
}

static int adopt(struct run *r, const struct snapshot_segment *s,
                 const struct adopting *a)
{
    list_use(r, s, a->use);
    if (!mem_adopt(r->lane[s->lane].m, s->addr, s->size, s->small, a->use,
                   s->n_block, a->blocks))
        return err_nomem(r->e);
    r->now.reserved += s->size;
    return count_adopted(r, s->lane, s->block, s->n_block, a->blocks);
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
        rc = count_adopted(r, s[k].lane, s[k].block, s[k].n_block,
                           a->blocks + n_use);
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

int replaying_start(struct run *r)
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
