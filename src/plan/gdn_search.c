/* gdn_search.c - the search for a chained set; see gdn.h, planner.md 7.8 */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "plan/gdn.h"

#define MAX_CHANGES 16
#define MAX_BEAM 2
#define MAX_BRANCH 4
#define MAX_STALE 2
/* Sets scored in all: the first two, then every neighbour of every step. */
#define MAX_SETS 64

/* Segments added to a set or taken from it together. */
struct change { uint64_t *bits; };

struct chain_search {
    struct gdn *g;
    struct arena *arena;
    struct change change[MAX_CHANGES];
    int n_change;
    struct chain_set seen[MAX_SETS];    /* every set scored so far */
    int n_seen;
    struct chain_set beam[MAX_BEAM];
    int n_beam;
    bool failed;                        /* out of memory */
};

/* ---- sets --------------------------------------------------------------- */

static bool same_bits(const struct gdn *g, const uint64_t *x,
                      const uint64_t *y)
{
    return memcmp(x, y, (size_t)g->words * sizeof *x) == 0;
}

/* Order of decisions: score, size, then the segments themselves. */
static bool comes_before(const struct gdn *g, const struct chain_set *x,
                         const struct chain_set *y)
{
    int64_t w;

    if (x->score != y->score) return x->score < y->score;
    if (x->size != y->size) return x->size < y->size;
    for (w = 0; w < g->words; w++) {
        uint64_t differ = x->bits[w] ^ y->bits[w];
        if (differ != 0) return (x->bits[w] & (differ & -differ)) != 0;
    }
    return false;
}

/* The set of these bits with its score; bits are copied. */
static struct chain_set score_set(struct chain_search *s, const uint64_t *bits)
{
    struct gdn *g = s->g;
    struct chain_set new = {0};
    int64_t w;
    int i;

    for (i = 0; i < s->n_seen; i++)
        if (same_bits(g, s->seen[i].bits, bits)) return s->seen[i];
    new.bits = ARENA_TAKE(s->arena, g->words, uint64_t);
    if (new.bits == NULL) {
        s->failed = true;
        return new;
    }
    memcpy(new.bits, bits, (size_t)g->words * sizeof *bits);
    for (w = 0; w < g->words; w++)
        new.size += __builtin_popcountll(bits[w]);
    new.score = plan_gdn_score(g, &new);
    if (s->n_seen < MAX_SETS) s->seen[s->n_seen++] = new;
    return new;
}

/* Puts x in its place among the best limit sets of list. */
static void keep_best(const struct gdn *g, struct chain_set *list, int *n,
                      int limit, const struct chain_set *x)
{
    int i, at = *n;

    for (i = 0; i < *n; i++)
        if (same_bits(g, list[i].bits, x->bits)) return;
    while (at > 0 && comes_before(g, x, &list[at - 1])) at--;
    if (at >= limit) return;
    if (*n < limit) (*n)++;
    for (i = *n - 1; i > at; i--) list[i] = list[i - 1];
    list[at] = *x;
}

/* ---- changes ------------------------------------------------------------- */

/* A single legal segment or all legal children of one parent: members
** [first, first + n) of the list by parent. */
struct candidate {
    int64_t first, n;
    int64_t earliest;           /* its first segment, as index into legal */
    int64_t relief, length, locality, moved;
};

static int compare_candidates(const void *x, const void *y)
{
    const struct candidate *a = x, *b = y;

    if (a->relief != b->relief) return a->relief < b->relief ? 1 : -1;
    if (a->length != b->length) return a->length < b->length ? 1 : -1;
    if (a->locality != b->locality) return a->locality < b->locality ? 1 : -1;
    if (a->moved != b->moved) return a->moved > b->moved ? 1 : -1;
    if (a->n != b->n) return a->n < b->n ? 1 : -1;
    return (a->earliest > b->earliest) - (a->earliest < b->earliest);
}

static void add_change(struct chain_search *s, const uint64_t *bits)
{
    struct gdn *g = s->g;
    int64_t w;
    bool empty = true;
    int i;

    if (s->n_change == num_min(MAX_CHANGES, g->config->candidates)) return;
    for (w = 0; w < g->words; w++) empty = empty && bits[w] == 0;
    for (i = 0; i < s->n_change; i++)
        if (same_bits(g, s->change[i].bits, bits)) return;
    if (empty) return;
    s->change[i].bits = ARENA_TAKE(s->arena, g->words, uint64_t);
    if (s->change[i].bits == NULL) {
        s->failed = true;
        return;
    }
    memcpy(s->change[i].bits, bits, (size_t)g->words * sizeof *bits);
    s->n_change++;
}

/* What a candidate's segments cost chained and whole, for its order. */
static void measure_candidate(const struct gdn *g, const int64_t *member,
                              struct candidate *c)
{
    int64_t i, r;

    c->earliest = member[c->first];
    for (i = c->first; i < c->first + c->n; i++) {
        const struct segment *s = &g->batch->seg[g->legal[member[i]]];
        int64_t shard = 0, local = 0;
        for (r = 0; r < g->cp; r++) {
            int64_t here = ownership_overlap(g->own, r, s->start,
                                             s->start + s->tokens);
            shard = num_max(shard, g->shard[member[i] * g->cp + r]);
            local = num_max(local, here);
        }
        c->relief += s->tokens - shard;
        c->length += s->tokens;
        c->locality = num_max(c->locality, local);
        c->moved += s->tokens - local;
    }
}

/* Legal segments so that those of one parent stand together: by counting,
** roots (parent -1) first. */
static bool sort_by_parent(const struct gdn *g, struct arena *a,
                           int64_t *member)
{
    int64_t *at = ARENA_TAKE(a, g->batch->n_seg + 2, int64_t), i;

    if (at == NULL) return false;
    for (i = 0; i < g->n_legal; i++)
        at[g->batch->seg[g->legal[i]].parent + 2]++;
    for (i = 0; i <= g->batch->n_seg; i++) at[i + 1] += at[i];
    for (i = 0; i < g->n_legal; i++)
        member[at[g->batch->seg[g->legal[i]].parent + 1]++] = i;
    return true;
}

static int64_t parent_of(const struct gdn *g, int64_t legal)
{
    return g->batch->seg[g->legal[legal]].parent;
}

/* Singles and sibling sets, best first. Which of equals comes first is
** undetermined upstream: here the earlier segment. */
static bool list_candidates(struct chain_search *s, int64_t *member,
                            struct candidate **out, int64_t *n_out)
{
    struct gdn *g = s->g;
    struct candidate *c = ARENA_TAKE(s->arena, 2 * g->n_legal,
                                     struct candidate);
    int64_t i, j, n = 0;

    if (c == NULL || !sort_by_parent(g, s->arena, member)) return false;
    for (i = 0; i < g->n_legal; i = j) {
        for (j = i; j < g->n_legal && parent_of(g, member[j]) ==
                                      parent_of(g, member[i]); j++)
            c[n++] = (struct candidate){.first = j, .n = 1};
        if (j - i > 1) c[n++] = (struct candidate){.first = i, .n = j - i};
    }
    for (i = 0; i < n; i++) measure_candidate(g, member, &c[i]);
    qsort(c, (size_t)n, sizeof *c, compare_candidates);
    *out = c;
    *n_out = n;
    return true;
}

/* All, all roots, all others; then singles and siblings. */
static void find_changes(struct chain_search *s, uint64_t *all)
{
    struct gdn *g = s->g;
    uint64_t *bits = ARENA_TAKE(s->arena, g->words, uint64_t);
    int64_t *member = ARENA_TAKE(s->arena, g->n_legal, int64_t), i, j, n, w;
    struct candidate *c;

    if (bits == NULL || member == NULL ||
        !list_candidates(s, member, &c, &n)) {
        s->failed = true;
        return;
    }
    add_change(s, all);
    for (i = 0; i < g->n_legal; i++)
        if (parent_of(g, i) < 0) bits[i / 64] |= UINT64_C(1) << (i % 64);
    add_change(s, bits);
    for (w = 0; w < g->words; w++) bits[w] ^= all[w];
    add_change(s, bits);
    for (i = 0; i < n && s->n_change < MAX_CHANGES && !s->failed; i++) {
        memset(bits, 0, (size_t)g->words * sizeof *bits);
        for (j = c[i].first; j < c[i].first + c[i].n; j++)
            bits[member[j] / 64] |= UINT64_C(1) << (member[j] % 64);
        add_change(s, bits);
    }
}

/* ---- search ------------------------------------------------------------- */

static bool contains(const struct gdn *g, const struct chain_set *set,
                     const uint64_t *bits)
{
    int64_t w;

    for (w = 0; w < g->words; w++)
        if (bits[w] & ~set->bits[w]) return false;
    return true;
}

static bool intersects(const struct gdn *g, const struct chain_set *set,
                       const uint64_t *bits)
{
    int64_t w;

    for (w = 0; w < g->words; w++)
        if (bits[w] & set->bits[w]) return true;
    return false;
}

/* What to change a set by: in order what it does not hold, then from the end
** what it has a part in. */
static int choose_changes(const struct chain_search *s,
                         const struct chain_set *set, int limit, int *chosen)
{
    bool taken[MAX_CHANGES] = {false};
    int n = 0, i;

    for (i = 0; i < s->n_change && n < limit; i++) {
        if (contains(s->g, set, s->change[i].bits)) continue;
        taken[i] = true;
        chosen[n++] = i;
    }
    for (i = s->n_change - 1; i >= 0 && n < limit; i--)
        if (!taken[i] && intersects(s->g, set, s->change[i].bits))
            chosen[n++] = i;
    return n;
}

/* Adds set's neighbours to list, its best four. */
static void add_neighbours(struct chain_search *s, const struct chain_set *set,
                           uint64_t *bits, struct chain_set *list, int *n)
{
    struct gdn *g = s->g;
    int limit = (int)num_min(MAX_BRANCH, g->config->branch);
    int chosen[MAX_BRANCH], count = choose_changes(s, set, limit, chosen), i;
    int64_t w;

    for (i = 0; i < count && !s->failed; i++) {
        const uint64_t *change = s->change[chosen[i]].bits;
        bool has = contains(g, set, change);
        struct chain_set x;
        for (w = 0; w < g->words; w++)
            bits[w] = has ? set->bits[w] & ~change[w]
                          : set->bits[w] | change[w];
        x = score_set(s, bits);
        if (!s->failed)
            keep_best(g, list, n, MAX_BEAM * (MAX_BRANCH + 1), &x);
    }
}

static void step(struct chain_search *s, uint64_t *bits)
{
    struct chain_set list[MAX_BEAM * (MAX_BRANCH + 1)];
    int beam = (int)num_min(MAX_BEAM, s->g->config->beam), n = 0, i;

    for (i = 0; i < s->n_beam; i++)
        keep_best(s->g, list, &n, MAX_BEAM * (MAX_BRANCH + 1), &s->beam[i]);
    for (i = 0; i < s->n_beam; i++)
        add_neighbours(s, &s->beam[i], bits, list, &n);
    s->n_beam = n < beam ? n : beam;
    memcpy(s->beam, list, (size_t)s->n_beam * sizeof *list);
}

/* The best set: it gains more than the gate over nothing, and over each one
** taken before it. */
static struct chain_set climb(struct chain_search *s, uint64_t *all,
                              uint64_t *bits)
{
    struct gdn *g = s->g;
    struct chain_set best = score_set(s, bits), full = score_set(s, all);
    int steps, stale = 0;

    if (s->failed) return best;
    keep_best(g, s->beam, &s->n_beam, MAX_BEAM, &best);
    keep_best(g, s->beam, &s->n_beam, MAX_BEAM, &full);
    if (best.score - full.score > g->config->gate) best = full;
    find_changes(s, all);
    for (steps = 0; steps < g->config->steps && stale < MAX_STALE; steps++) {
        if (s->failed) break;
        step(s, bits);
        if (best.score - s->beam[0].score > g->config->gate) {
            best = s->beam[0];
            stale = 0;
        } else {
            stale++;
        }
    }
    return best;
}

bool plan_gdn_search(struct gdn *g, struct arena *a)
{
    struct chain_search s = {.g = g, .arena = a};
    uint64_t *all = ARENA_TAKE(a, g->words, uint64_t);
    uint64_t *bits = ARENA_TAKE(a, g->words, uint64_t);
    struct chain_set best = {0};
    int64_t i;

    if (all == NULL || bits == NULL) return false;
    for (i = 0; i < g->n_legal; i++) all[i / 64] |= UINT64_C(1) << (i % 64);
    best.bits = bits;
    if (g->cp > 1 && g->n_legal > 0) best = climb(&s, all, bits);
    if (s.failed) return false;
    plan_gdn_score(g, &best);        /* leaves its placement */
    return true;
}
