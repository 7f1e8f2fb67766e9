/*
** alloc.c - allocation, release and giving segments back, see mem.h.
**
** Section numbers are allocator.md's: what PyTorch's native allocator does
** with one stream and without expandable segments.
*/
#include "mem/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "mem/count.h"

#define MIB (UINT64_C(1) << 20)

/* A.1 */
#define MIN_BLOCK UINT64_C(512)
#define SMALL_MAX MIB                   /* also the largest unsplit slack */
#define SMALL_SEGMENT (2 * MIB)
#define LARGE_SEGMENT (20 * MIB)
#define LARGE_MIN (10 * MIB)
#define LARGE_ROUND (2 * MIB)
#define REQUEST_MAX (UINT64_C(1) << 60)

enum { POOL_SMALL, POOL_LARGE };

/* ---- settings ----------------------------------------------------------- */

/* PyTorch's own bounds: a setting beyond them would mean something else
** there. */
static int check_config(const struct mem_config *c, struct err *e)
{
    if (c->max_split_bytes != 0 && c->max_split_bytes < LARGE_SEGMENT)
        return err_set(e, ERR_USAGE, "max_split_size: at least 20 MiB");
    if (c->max_non_split_rounding != 0
        && (c->max_non_split_rounding < LARGE_SEGMENT
            || c->max_non_split_rounding > REQUEST_MAX))
        return err_set(e, ERR_USAGE,
                       "max_non_split_rounding: 20 MiB to 1 EiB");
    if (c->large_segment_bytes != 0
        && (c->large_segment_bytes < LARGE_MIN
            || c->large_segment_bytes > REQUEST_MAX
            || c->large_segment_bytes % MIN_BLOCK != 0))
        return err_set(e, ERR_USAGE, "large_segment_size: 10 MiB to 1 EiB, "
                       "a multiple of 512 B");
    for (int i = 0; i < 16; i++) {
        uint32_t d = c->roundup_divisions[i];
        if ((d & (d - 1)) != 0)
            return err_set(e, ERR_USAGE, "roundup_power2_divisions: %" PRIu32
                           " is not a power of two", d);
    }
    return ERR_OK;
}

static void set_defaults(struct mem_config *c)
{
    if (c->max_split_bytes == 0) c->max_split_bytes = UINT64_MAX;
    if (c->max_non_split_rounding == 0)
        c->max_non_split_rounding = LARGE_SEGMENT;
    if (c->large_segment_bytes == 0) c->large_segment_bytes = LARGE_SEGMENT;
}

int mem_new(const struct mem_config *c, struct mem_source src,
            struct mem **out, struct err *e)
{
    struct mem *m;
    int rc = check_config(c, e);

    if (rc != ERR_OK) return rc;
    m = calloc(1, sizeof *m);
    if (m == NULL) return err_nomem(e);
    m->config = *c;
    set_defaults(&m->config);
    for (int i = 0; i < 16; i++) m->divides |= c->roundup_divisions[i] > 1;
    for (int i = 0; i < 2; i++) free_set_init(&m->pool[i]);
    m->edge.state = BLOCK_EDGE;
    m->source = src;
    mem_mark_peak(m);
    *out = m;
    return ERR_OK;
}

void mem_free_all(struct mem *m)
{
    if (m == NULL) return;
    for (struct block_chunk *c = m->store.chunks; c != NULL; c = c->next) {
        for (int i = 0; i < BLOCK_CHUNK; i++) {
            struct mem_block *b = &c->block[i];
            uint64_t bytes = 0;

            if (!block_is_first(b) || b->expandable) continue;
            for (struct mem_block *t = b; t->state != BLOCK_EDGE; t = t->next)
                bytes += t->size;
            m->source.put(m->source.ctx, b->addr, bytes);
        }
    }
    block_store_free(&m->store);
    free(m->trace);
    free(m->segment_trace);
    free(m);
}

/* ---- sizes -------------------------------------------------------------- */

/* to is a power of two. */
static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) & ~(to - 1);
}

/* A.2; roundup_power2_divisions (A.10) has a setting for each power of two. */
uint64_t mem_round(const struct mem_config *c, uint64_t n)
{
    int log2;
    uint64_t d;

    if (n < MIN_BLOCK) return MIN_BLOCK;
    log2 = 63 - __builtin_clzll(n);
    d = c->roundup_divisions[log2 < 20 ? 0 : log2 > 35 ? 15 : log2 - 20];
    /* the step 2^log2 / d is a multiple of 512 */
    if (d > 1 && n > MIN_BLOCK * d)
        return round_up(n, (UINT64_C(1) << log2) / d);
    return round_up(n, MIN_BLOCK);
}

/* A.3 */
static int pool_of(uint64_t size)
{
    return size <= SMALL_MAX ? POOL_SMALL : POOL_LARGE;
}

static uint64_t segment_bytes(const struct mem *m, uint64_t size)
{
    if (size <= SMALL_MAX) return SMALL_SEGMENT;
    if (size < LARGE_MIN) return m->config.large_segment_bytes;
    return round_up(size, LARGE_ROUND);
}

/* ---- segments ----------------------------------------------------------- */

/* A cached segment that is no range. */
static bool is_whole(const struct mem_block *b)
{
    return !b->expandable && !block_is_split(b);
}

/* b is free and a whole segment. */
static void put_segment(struct mem *m, struct mem_block *b)
{
    free_set_remove(&m->pool[b->pool], b);
    mem_count_segment(m, b->pool, b->addr, b->size, true);
    m->source.put(m->source.ctx, b->addr, b->size);
    block_drop(&m->store, b);
}

bool mem_put_segment(struct mem *m, uint64_t addr, uint64_t bytes)
{
    for (int pool = POOL_SMALL; pool <= POOL_LARGE; pool++) {
        struct mem_block *b = free_set_find(&m->pool[pool], bytes, addr);

        if (b == NULL || !is_whole(b)) continue;
        put_segment(m, b);
        return true;
    }
    return false;
}

/* The whole pages of the expandable blocks that are cached now. What stays
** cached of them is smaller than a page and comes before the others. */
static void unmap_cached(struct mem *m, int pool)
{
    struct mem_block *b = free_set_last(&m->pool[pool]), *smaller;

    for (; b != NULL; b = smaller) {
        smaller = free_set_previous(&m->pool[pool], b);
        if (b->expandable) (void)mem_unmap_block(m, b);
    }
}

/* A.9: whole cached segments, the large pool's first. */
void mem_empty_cache(struct mem *m)
{
    for (int pool = POOL_LARGE; pool >= POOL_SMALL; pool--) {
        struct mem_block *b = free_set_fit(&m->pool[pool], MIN_BLOCK), *next;

        for (; b != NULL; b = next) {
            next = free_set_next(&m->pool[pool], b);
            if (is_whole(b)) put_segment(m, b);
        }
        if (m->ranges != NULL) unmap_cached(m, pool);
    }
}

/* A.9, release_available_cached_blocks: with max_split_size set, one cached
** segment that is large enough, or the largest ones until their sum is.
** False when that falls short. A part of a segment cannot go back and is
** passed over. */
static bool put_oversize(struct mem *m, int pool, uint64_t size)
{
    struct free_set *set = &m->pool[pool];
    uint64_t least = m->config.max_split_bytes, freed = 0;
    uint64_t wanted = size > least ? size : least;
    struct mem_block *b;

    if (least == UINT64_MAX) return false;
    for (b = free_set_fit(set, wanted); b != NULL; b = free_set_next(set, b)) {
        if (!is_whole(b)) continue;
        put_segment(m, b);
        return true;
    }
    b = free_set_last(set);
    while (b != NULL && freed < wanted && b->size >= least) {
        struct mem_block *smaller = free_set_previous(set, b);

        if (is_whole(b)) {
            freed += b->size;
            put_segment(m, b);
        }
        b = smaller;
    }
    return freed >= wanted;
}

/* One try for a segment; on success it is one block, in no set. */
static int get_segment(struct mem *m, uint64_t bytes, int pool,
                       struct mem_block **out, struct err *e)
{
    uint64_t limit = m->config.limit_bytes, addr;
    struct mem_block *b;
    int rc;

    if (limit != 0 && bytes > limit - m->reserved.now)
        return err_set(e, ERR_OOM, "limit %" PRIu64 " B", limit);
    rc = m->source.get(m->source.ctx, bytes, &addr, e);
    if (rc != ERR_OK) return rc;
    mem_count_segment(m, pool, addr, bytes, false);
    count_decision(m, bytes);
    b = block_take(&m->store);
    *b = (struct mem_block){.addr = addr, .size = bytes, .event = b->event,
                            .prev = &m->edge, .next = &m->edge,
                            .pool = (uint8_t)pool};
    *out = b;
    return ERR_OK;
}

/* One try for size bytes or more. */
static int get_memory(struct mem *m, uint64_t size, int pool,
                      struct mem_block **out, struct err *e)
{
    if (m->ranges == NULL)
        return get_segment(m, segment_bytes(m, size), pool, out, e);
    if (!block_reserve(&m->store, 3)) return err_nomem(e);
    return mem_expand(m, size, pool, out, e);
}

/* size: the block's, of which a segment was asked for; 0: none was. */
static int out_of_memory(const struct mem *m, uint64_t bytes, uint64_t size,
                         struct mem_tag tag, const char *why, struct err *e)
{
    char segment[64] = "";

    if (size > 0 && m->ranges == NULL)
        snprintf(segment, sizeof segment, ", a segment of %" PRIu64 " B",
                 segment_bytes(m, size));
    return err_set(e, ERR_OOM, "out of device memory: %s (layer %d, %s, %s) "
                   "requests %" PRIu64 " B%s; allocated %" PRIu64
                   " B, reserved %" PRIu64 " B, %s",
                   tag.op != NULL ? tag.op : "unnamed", tag.layer,
                   mem_phase_name(tag.phase), category_name(tag.category),
                   bytes, segment, m->allocated.now, m->reserved.now, why);
}

/* A.5, steps 5 and 6: a segment, after giving back what is cached if the
** device is full. */
static int new_segment(struct mem *m, uint64_t size, int pool,
                       struct mem_block **out, struct err *e)
{
    int rc = get_memory(m, size, pool, out, e);

    if (rc == ERR_OOM && put_oversize(m, pool, size))
        rc = get_memory(m, size, pool, out, e);
    if (rc == ERR_OOM) {
        mem_empty_cache(m);
        m->retries++;
        rc = get_memory(m, size, pool, out, e);
    }
    if (rc == ERR_OOM) m->ooms++;
    return rc;
}

/* ---- allocate ----------------------------------------------------------- */

/* A.6: only the best fit is looked at; taken out of the pool. */
static inline struct mem_block *take_cached(struct mem *m,
                                            struct free_set *set,
                                            uint64_t size)
{
    struct mem_block *b = free_set_fit(set, size);
    uint64_t max = m->config.max_split_bytes;

    if (b == NULL) return NULL;
    if (m->ranges != NULL) b = mem_expand_fit(m, b);
    if (size < max && b->size >= max) return NULL;
    if (size >= max && b->size - size >= m->config.max_non_split_rounding)
        return NULL;
    free_set_remove(set, b);
    return b;
}

/* A.7: is what is left worth caching? */
static inline bool is_rest(const struct mem *m, const struct mem_block *b,
                           uint64_t size)
{
    uint64_t rest = b->size - size;

    if (b->pool == POOL_SMALL || m->ranges != NULL || m->config.rounded)
        return rest >= MIN_BLOCK;
    return rest > SMALL_MAX && size < m->config.max_split_bytes;
}

static void count_split(struct mem *m, const struct mem_block *b,
                        uint64_t size, bool rest)
{
    int64_t part = (int64_t)size, whole = (int64_t)b->size;

    if (b->expandable) return;
    if (block_is_split(b))
        mem_counters_split(m, b->pool, rest ? 0 : -1, rest ? -part : -whole);
    else if (rest)
        mem_counters_split(m, b->pool, 1, whole - part);
}

/* A.7: the low part is handed out, the rest is cached. b is in no set. */
static inline void split(struct mem *m, struct free_set *set,
                         struct mem_block *b, uint64_t size)
{
    struct mem_block *r = block_take(&m->store);

    r->addr = b->addr + size;
    r->size = b->size - size;
    r->pool = b->pool;
    r->expandable = b->expandable;
    r->prev = b;
    r->next = b->next;
    r->next->prev = r;
    b->next = r;
    b->size = size;
    free_set_insert(set, r);
}

/* b, in no set, of size bytes or more, becomes the allocation. */
static inline void hand_out(struct mem *m, struct free_set *set,
                            struct mem_block *b, uint64_t bytes,
                            uint64_t size, struct mem_tag tag)
{
    bool rest = is_rest(m, b, size);

    count_decision(m, (uint64_t)b->event << 1 | rest);
    if (m->config.counters) count_split(m, b, size, rest);
    if (rest) split(m, set, b, size);
    b->state = BLOCK_LIVE;
    b->u.live.requested = bytes;
    b->u.live.tag = tag;
    count_alloc(m, b);
}

/* A block when none is cached. Apart from mem_alloc, which is kept free of a
** struct err. */
static int take_new(struct mem *m, uint64_t bytes, uint64_t size,
                    struct mem_tag tag, struct mem_block **out, struct err *e)
{
    struct err why;
    int rc = new_segment(m, size, pool_of(size), out, &why);

    if (rc == ERR_OOM) return out_of_memory(m, bytes, size, tag, why.text, e);
    return rc == ERR_OK ? ERR_OK : err_set(e, why.code, "%s", why.text);
}

/* The two records that a call may take, and its event in the trace. */
static inline bool make_room(struct mem *m)
{
    return (m->store.n_unused >= 2 || block_reserve(&m->store, 2))
        && (!m->config.trace || mem_trace_reserve(m));
}

int mem_alloc(struct mem *m, uint64_t bytes, struct mem_tag tag,
              struct mem_block **out, struct err *e)
{
    struct free_set *set;
    struct mem_block *b;
    uint64_t size;

    assert(tag.category < CAT_COUNT && tag.category != CAT_ROUNDING);
    if (bytes == 0) {
        *out = NULL;
        return ERR_OK;
    }
    if (bytes >= REQUEST_MAX)
        return out_of_memory(m, bytes, 0, tag, "no request may reach 1 EiB",
                             e);
    if (!make_room(m)) return err_nomem(e);
    size = m->divides ? mem_round(&m->config, bytes)
                      : round_up(bytes, MIN_BLOCK);
    set = size <= SMALL_MAX ? &m->pool[POOL_SMALL] : &m->pool[POOL_LARGE];
    b = take_cached(m, set, size);
    if (b == NULL) {
        int rc = take_new(m, bytes, size, tag, out, e);
        if (rc != ERR_OK) return rc;
        b = *out;
    }
    hand_out(m, set, b, bytes, size, tag);
    *out = b;
    return ERR_OK;
}

/* ---- release ------------------------------------------------------------ */

/* Takes in b's next block, which is in no set. */
static inline void absorb_next(struct mem *m, struct mem_block *b)
{
    struct mem_block *n = b->next;

    b->size += n->size;
    b->next = n->next;
    b->next->prev = b;
    block_drop(&m->store, n);
}

/* A.8: coalesces with free neighbours, so two of them never meet. */
void mem_release(struct mem *m, struct mem_block *b)
{
    struct free_set *set;

    if (b == NULL) return;
    assert(b->state == BLOCK_LIVE);
    set = &m->pool[b->pool];
    count_free(m, b);
    if (m->config.counters) mem_counters_merge(m, b);
    if (b->prev->state == BLOCK_FREE) {
        b = b->prev;
        free_set_remove(set, b);
        absorb_next(m, b);
    }
    if (b->next->state == BLOCK_FREE) {
        free_set_remove(set, b->next);
        absorb_next(m, b);
    }
    free_set_insert(set, b);
}

uint64_t mem_addr(const struct mem_block *b)
{
    return b != NULL ? b->addr : 0;
}

uint64_t mem_requested(const struct mem_block *b)
{
    return b != NULL ? b->u.live.requested : 0;
}

uint64_t mem_block_bytes(const struct mem_block *b)
{
    return b != NULL ? b->size : 0;
}
