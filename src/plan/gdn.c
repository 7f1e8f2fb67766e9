/* gdn.c - legal chains, placement and its cost; see gdn.h */
#include "plan/gdn.h"

#include <string.h>

#include "base/num.h"

/* ---- what may be chained ------------------------------------------------ */

static bool is_legal(const struct gdn *g, const struct segment *s)
{
    return s->tokens >= g->cp && s->tokens / g->config->chunk >= g->cp;
}

/* The attention layout's own cut serves as shards when every rank holds
** exactly one chunk of the segment, in rank order, whole delta chunks but for
** the last. Chunks count singly here, adjacent ones too, as upstream's
** ranges are not merged. */
static bool aligned_shards(const struct gdn *g, const struct segment *s,
                           const struct chunks *c, const struct layout *l,
                           int64_t *shard)
{
    int64_t j = chunk_of(c, s->start), end = s->start + s->tokens, r;

    for (r = 0; r < g->cp; r++, j++) {
        int64_t from, to;
        if (j >= c->n || l->owner[j] != r || c->start[j] >= end) return false;
        from = num_max(s->start, c->start[j]);
        to = num_min(end, c->start[j + 1]);
        shard[r] = to - from;
        if (r < g->cp - 1 && shard[r] % g->config->chunk != 0) return false;
    }
    return j == c->n || c->start[j] >= end;
}

static void even_shards(const struct gdn *g, int64_t tokens, int64_t *shard)
{
    int64_t chunk = g->config->chunk, full = tokens / chunk, r;

    for (r = 0; r < g->cp; r++)
        shard[r] = (full / g->cp + (r < full % g->cp)) * chunk;
    shard[g->cp - 1] += tokens % chunk;
}

/* Shard rows that do not lie on their rank already. */
static int64_t shard_cross(const struct ownership *own, int64_t start,
                           const int64_t *shard)
{
    int64_t r, cross = 0;

    for (r = 0; r < own->cp; r++) {
        cross += shard[r]
               - ownership_overlap(own, r, start, start + shard[r]);
        start += shard[r];
    }
    return cross;
}

/* Only segments that lie on several ranks can be chained at all. */
static bool find_legal(struct gdn *g, const struct chunks *chunks,
                       const struct layout *l, struct arena *a)
{
    int64_t i;

    for (i = 0; i < g->batch->n_seg; i++)
        if (is_legal(g, &g->batch->seg[i])) g->n_legal++;
    g->words = g->n_legal / 64 + 1;
    g->legal = ARENA_TAKE(a, g->n_legal, int64_t);
    g->cross = ARENA_TAKE(a, g->n_legal, int64_t);
    g->shard = ARENA_TAKE(a, g->n_legal * g->cp, int64_t);
    if (g->legal == NULL || g->cross == NULL || g->shard == NULL) return false;
    g->n_legal = 0;
    for (i = 0; i < g->batch->n_seg; i++) {
        const struct segment *s = &g->batch->seg[i];
        int64_t *shard = g->shard + g->n_legal * g->cp;
        g->legal_of[i] = -1;
        if (!is_legal(g, s)) continue;
        if (!aligned_shards(g, s, chunks, l, shard))
            even_shards(g, s->tokens, shard);
        g->cross[g->n_legal] = shard_cross(g->own, s->start, shard);
        g->legal_of[i] = g->n_legal;
        g->legal[g->n_legal++] = i;
    }
    return true;
}

static bool sort_by_depth(struct gdn *g, struct arena *a)
{
    const struct batch *b = g->batch;
    int64_t i, *next;

    for (i = 0; i < b->n_seg; i++)
        g->n_level = num_max(g->n_level, b->seg[i].depth + 1);
    g->level = ARENA_TAKE(a, b->n_seg, int64_t);
    g->level_first = ARENA_TAKE(a, g->n_level + 1, int64_t);
    next = ARENA_TAKE(a, g->n_level, int64_t);
    if (g->level == NULL || g->level_first == NULL || next == NULL)
        return false;
    for (i = 0; i < b->n_seg; i++) g->level_first[b->seg[i].depth + 1]++;
    for (i = 0; i < g->n_level; i++) {
        g->level_first[i + 1] += g->level_first[i];
        next[i] = g->level_first[i];
    }
    for (i = 0; i < b->n_seg; i++) g->level[next[b->seg[i].depth]++] = i;
    return true;
}

bool plan_gdn_init(struct gdn *g, const struct gdn_config *config,
                   const struct batch *b, const struct chunks *chunks,
                   const struct layout *l, const struct ownership *own,
                   struct arena *a, struct plan_work *work)
{
    *g = (struct gdn){.config = config, .batch = b, .own = own,
                      .cp = own->cp, .work = work};
    g->owner = ARENA_TAKE(a, b->n_seg, int32_t);
    g->legal_of = ARENA_TAKE(a, b->n_seg, int64_t);
    g->load = ARENA_TAKE(a, own->cp, int64_t);
    if (g->owner == NULL || g->legal_of == NULL || g->load == NULL)
        return false;
    return find_legal(g, chunks, l, a) && sort_by_depth(g, a);
}

/* ---- placement ---------------------------------------------------------- */

/* The rank for rows [start, end): the one with which all are done soonest,
** rows counted that must move there; on ties the one that holds most of the
** rows, then the lowest. */
static int32_t choose_owner(struct gdn *g, int64_t start, int64_t end,
                            int64_t *cross)
{
    int64_t len = end - start, most = 0, r;
    int32_t owner = -1;
    double best = 0;

    for (r = 0; r < g->cp; r++) most = num_max(most, g->load[r]);
    for (r = 0; r < g->cp; r++) {
        int64_t moved = len - ownership_overlap(g->own, r, start, end);
        double t = (double)num_max(most, g->load[r] + len)
                 / g->config->local_rate
                 + (double)moved * g->config->exchange;
        if (owner >= 0 && (t > best || (t == best && moved >= *cross)))
            continue;
        owner = (int32_t)r;
        best = t;
        *cross = moved;
    }
    g->load[owner] += len;
    return owner;
}

static void place_chained(struct gdn *g, int64_t legal)
{
    int64_t r;

    for (r = 0; r < g->cp; r++) g->load[r] += g->shard[legal * g->cp + r];
    g->owner[g->legal[legal]] = GDN_CHAINED;
}

/* Walks segments in order. A subtree without chained segments that fits one
** rank's even share stays together; of others each segment goes alone.
** Returns the rows that change rank. */
static int64_t place_all(struct gdn *g, const struct chain_set *s)
{
    const struct batch *b = g->batch;
    int64_t share = num_max(1, b->tokens / g->cp), total = 0, chain = 0, i, j;

    memset(g->load, 0, (size_t)g->cp * sizeof *g->load);
    for (i = 0; i < b->n_seg; i = j) {
        int64_t start = b->seg[i].start, end = batch_subtree_end(b, i);
        int64_t cross = 0;
        int32_t owner;
        /* the first chained segment from i on */
        while (chain < g->n_legal &&
               (g->legal[chain] < i || !chain_set_has(s, chain)))
            chain++;
        if (chain < g->n_legal && g->legal[chain] == i) {
            place_chained(g, chain);
            total += g->cross[chain];
            j = i + 1;
            continue;
        }
        j = b->seg[i].next;
        if (end - start > share ||
            (chain < g->n_legal && g->legal[chain] < j)) {
            j = i + 1;
            end = start + b->seg[i].tokens;
        }
        owner = choose_owner(g, start, end, &cross);
        total += cross;
        for (; i < j; i++) g->owner[i] = owner;
    }
    return total;
}

/* ---- cost --------------------------------------------------------------- */

/* Work of the ranks over all depths: per depth the longest segment (shard)
** times their number. */
struct extent {
    int64_t local[PLAN_MAX_RANKS], chained[PLAN_MAX_RANKS];
    int64_t buckets[PLAN_MAX_RANKS], segments[PLAN_MAX_RANKS];
    int64_t chain_buckets, chain_segments;
    int64_t parent_states;      /* sent to children elsewhere */
};

/* One depth. */
struct level {
    int64_t longest[PLAN_MAX_RANKS], count[PLAN_MAX_RANKS];
    int64_t longest_shard[PLAN_MAX_RANKS], chained;
};

static void add_to_level(const struct gdn *g, int64_t i, struct level *d,
                         struct extent *x)
{
    const struct segment *s = &g->batch->seg[i];
    int32_t owner = g->owner[i];
    int64_t r;

    if (s->parent >= 0 && g->owner[s->parent] != GDN_CHAINED)
        x->parent_states += owner != g->owner[s->parent];
    if (owner != GDN_CHAINED) {
        d->longest[owner] = num_max(d->longest[owner], s->tokens);
        d->count[owner]++;
        return;
    }
    for (r = 0; r < g->cp; r++)
        d->longest_shard[r] = num_max(d->longest_shard[r],
                                      g->shard[g->legal_of[i] * g->cp + r]);
    d->chained++;
}

/* Work by depth: a level waits for the one above it. */
static void measure(const struct gdn *g, struct extent *x)
{
    int64_t d, i, r;

    for (d = 0; d < g->n_level; d++) {
        struct level level;
        memset(level.longest, 0, (size_t)g->cp * sizeof(int64_t));
        memset(level.count, 0, (size_t)g->cp * sizeof(int64_t));
        memset(level.longest_shard, 0, (size_t)g->cp * sizeof(int64_t));
        level.chained = 0;
        for (i = g->level_first[d]; i < g->level_first[d + 1]; i++)
            add_to_level(g, g->level[i], &level, x);
        for (r = 0; r < g->cp; r++) {
            x->local[r] += level.longest[r] * level.count[r];
            x->buckets[r] += level.count[r] > 0;
            x->segments[r] += level.count[r];
            x->chained[r] += level.longest_shard[r] * level.chained;
        }
        x->chain_buckets += level.chained > 0;
        x->chain_segments += level.chained;
    }
}

static double rank_ms(const struct gdn *g, const struct extent *x, int64_t r)
{
    const struct gdn_config *c = g->config;
    double t = (double)x->local[r] / c->local_rate
             + (double)x->buckets[r] * c->local_launch
             + (double)x->segments[r] * c->segment_launch
             + (double)x->chained[r] / c->chain_rate;

    if (c->dense_rate > 0) t += (double)g->load[r] / c->dense_rate;
    return t;
}

double plan_gdn_score(struct gdn *g, const struct chain_set *s)
{
    const struct gdn_config *c = g->config;
    struct extent x = {0};
    double total = (double)place_all(g, s) * c->exchange, slowest = 0;
    int64_t r;

    measure(g, &x);
    g->work->chain_scores++;
    for (r = 0; r < g->cp; r++) {
        double t = rank_ms(g, &x, r);
        if (t > slowest) slowest = t;
    }
    if (x.chain_buckets > 0)
        total += (double)x.chain_buckets * (c->chain_launch + c->scan)
               + (double)x.chain_segments
               * (c->summary + 1 / c->summary_rate + 1 / c->scan_rate);
    return slowest + total + (double)x.parent_states * c->parent_state;
}

/* ---- result ------------------------------------------------------------- */

bool plan_gdn_shards(const struct gdn *g, struct arena *a, struct shards *out)
{
    int64_t i, r, n = 0;

    for (i = 0; i < g->batch->n_seg; i++)
        n += g->owner[i] == GDN_CHAINED ? g->cp : 1;
    out->first = ARENA_TAKE(a, g->batch->n_seg + 1, int64_t);
    out->v = ARENA_TAKE(a, n, struct shard);
    if (out->first == NULL || out->v == NULL) return false;
    for (i = 0, n = 0; i < g->batch->n_seg; i++) {
        out->first[i] = n;
        if (g->owner[i] != GDN_CHAINED) {
            out->v[n++] = (struct shard){g->owner[i],
                                         g->batch->seg[i].tokens};
            continue;
        }
        for (r = 0; r < g->cp; r++)
            out->v[n++] = (struct shard){
                r, g->shard[g->legal_of[i] * g->cp + r]
            };
    }
    out->first[i] = n;
    return true;
}
