/* The GDN planner against a plain one, written from planner.md 7.4 to 7.8 with
** recursion, token lists and plain sets, on random small forests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/gdn.h"
#include "plan_draw.h"
#include "plan_moe35.h"

#define N 14                /* segments */
#define TOKENS 160
#define RANKS 4
#define GROUPS 16

/* ---- the plain planner -------------------------------------------------- */

struct set { bool has[N]; };

struct plain {
    const struct gdn_config *c;
    const struct batch *b;
    const struct chunks *chunks;
    const uint8_t *owner;       /* of chunks */
    int64_t ranks;
    struct set legal;
    int64_t shard[N][RANKS];
    /* of the placement made last */
    int64_t load[RANKS], cross, rank[N];
};

/* Tokens of rows [start, end) that a rank holds in attention layout. */
static int64_t held(const struct plain *p, int64_t r, int64_t start,
                    int64_t end)
{
    int64_t row, n = 0;

    for (row = start; row < end; row++)
        n += p->owner[chunk_of(p->chunks, row)] == r;
    return n;
}

static int64_t rows_in(const struct plain *p, int64_t j, int64_t start,
                       int64_t end)
{
    int64_t a = p->chunks->start[j], b = p->chunks->start[j + 1];

    if (a < start) a = start;
    if (b > end) b = end;
    return b > a ? b - a : 0;
}

static void find_shards(struct plain *p, int64_t i)
{
    const struct segment *s = &p->b->seg[i];
    int64_t end = s->start + s->tokens, r, j, full = s->tokens / p->c->chunk;
    int64_t order[TOKENS], n = 0;
    bool aligned = true;

    p->legal.has[i] = s->tokens >= p->ranks && full >= p->ranks;
    for (j = 0; j < p->chunks->n; j++)
        if (rows_in(p, j, s->start, end) > 0) order[n++] = j;
    if (n != p->ranks) aligned = false;
    for (r = 0; aligned && r < p->ranks; r++) {
        p->shard[i][r] = rows_in(p, order[r], s->start, end);
        aligned = p->owner[order[r]] == r &&
                  (r == p->ranks - 1 || p->shard[i][r] % p->c->chunk == 0);
    }
    if (aligned) return;
    for (r = 0; r < p->ranks; r++)
        p->shard[i][r] = (full / p->ranks + (r < full % p->ranks))
                       * p->c->chunk;
    p->shard[i][p->ranks - 1] += s->tokens % p->c->chunk;
}

static int64_t place_group(struct plain *p, int64_t start, int64_t end)
{
    int64_t r, q, best = -1, best_cross = 0, len = end - start;
    double best_t = 0, best_x = 0;

    for (r = 0; r < p->ranks; r++) {
        double t = 0, x;
        int64_t cross = len - held(p, r, start, end);
        for (q = 0; q < p->ranks; q++)
            t = fmax(t, (double)(p->load[q] + (q == r ? len : 0))
                        / p->c->local_rate);
        x = cross <= 0 ? 0 : (double)cross * p->c->exchange;
        t += x;
        if (best < 0 || t < best_t || (t == best_t && x < best_x) ||
            (t == best_t && x == best_x && cross < best_cross)) {
            best = r;
            best_t = t;
            best_x = x;
            best_cross = cross;
        }
    }
    p->load[best] += len;
    p->cross += best_cross;
    return best;
}

static bool any_in(const struct plain *p, const struct set *c, int64_t i)
{
    int64_t j;
    bool any = c->has[i];

    for (j = i + 1; j < p->b->n_seg; j++)
        if (p->b->seg[j].parent == i) any = any_in(p, c, j) || any;
    return any;
}

static void set_rank(struct plain *p, int64_t i, int64_t rank)
{
    int64_t j;

    p->rank[i] = rank;
    for (j = i + 1; j < p->b->n_seg; j++)
        if (p->b->seg[j].parent == i) set_rank(p, j, rank);
}

static void visit(struct plain *p, const struct set *c, int64_t i)
{
    const struct segment *s = &p->b->seg[i];
    int64_t start = s->start, r, j, cap = p->b->tokens / p->ranks;

    if (c->has[i]) {
        p->rank[i] = GDN_CHAINED;
        for (r = 0; r < p->ranks; r++) {
            p->load[r] += p->shard[i][r];
            p->cross += p->shard[i][r]
                      - held(p, r, start, start + p->shard[i][r]);
            start += p->shard[i][r];
        }
    } else if (!any_in(p, c, i) &&
               batch_subtree_end(p->b, i) - start <= (cap > 1 ? cap : 1)) {
        set_rank(p, i, place_group(p, start, batch_subtree_end(p->b, i)));
        return;
    } else {
        p->rank[i] = place_group(p, start, start + s->tokens);
    }
    for (j = i + 1; j < p->b->n_seg; j++)
        if (p->b->seg[j].parent == i) visit(p, c, j);
}

static void place(struct plain *p, const struct set *c)
{
    int64_t i;

    memset(p->load, 0, sizeof p->load);
    p->cross = 0;
    for (i = 0; i < p->b->n_seg; i++)
        if (p->b->seg[i].parent < 0) visit(p, c, i);
}

/* One rank's time; buckets and segments that are chained, the same for all
** ranks, are counted on the side. */
static double rank_time(const struct plain *p, int64_t r, int64_t *buckets,
                        int64_t *chained)
{
    double t = 0;
    int64_t d, i;

    *buckets = *chained = 0;
    for (d = 0; d < N; d++) {
        int64_t longest = 0, n = 0, shard = 0, m = 0;
        for (i = 0; i < p->b->n_seg; i++) {
            if (p->b->seg[i].depth != d) continue;
            if (p->rank[i] == r) {
                n++;
                if (p->b->seg[i].tokens > longest)
                    longest = p->b->seg[i].tokens;
            } else if (p->rank[i] == GDN_CHAINED) {
                m++;
                if (p->shard[i][r] > shard) shard = p->shard[i][r];
            }
        }
        t += (double)(longest * n) / p->c->local_rate
           + (double)(shard * m) / p->c->chain_rate
           + (double)n * p->c->segment_launch;
        if (n > 0) t += p->c->local_launch;
        *buckets += m > 0;
        *chained += m;
    }
    if (p->c->dense_rate > 0) t += (double)p->load[r] / p->c->dense_rate;
    return t;
}

static double plain_score(struct plain *p, const struct set *c)
{
    int64_t i, r, buckets = 0, chained = 0, states = 0;
    double t = 0;

    place(p, c);
    for (r = 0; r < p->ranks; r++)
        t = fmax(t, rank_time(p, r, &buckets, &chained));
    t += (double)buckets * p->c->chain_launch + (double)chained * p->c->summary
       + (double)chained / p->c->summary_rate + (double)buckets * p->c->scan
       + (double)chained / p->c->scan_rate;
    for (i = 0; i < p->b->n_seg; i++) {
        int64_t up = p->b->seg[i].parent;
        states += up >= 0 && p->rank[up] != GDN_CHAINED &&
                  p->rank[i] != p->rank[up];
    }
    return t + (double)p->cross * p->c->exchange
             + (double)states * p->c->parent_state;
}

/* ---- its search --------------------------------------------------------- */

static int size_of(const struct set *s)
{
    int i, n = 0;

    for (i = 0; i < N; i++) n += s->has[i];
    return n;
}

static bool same(const struct set *x, const struct set *y)
{
    return memcmp(x, y, sizeof *x) == 0;
}

/* (score, size, sorted segments); scores a hair apart count as equal: the two
** planners add in different orders. */
static bool before(double sx, const struct set *x, double sy,
                   const struct set *y)
{
    int i, j;

    if (fabs(sx - sy) > 1e-11) return sx < sy;
    if (size_of(x) != size_of(y)) return size_of(x) < size_of(y);
    for (i = j = 0; i < N && j < N; i++, j++) {
        while (i < N && !x->has[i]) i++;
        while (j < N && !y->has[j]) j++;
        if (i != j) return i < j;
    }
    return false;
}

struct scored { struct set s; double score; };

static void insert(struct scored *list, int *n, int limit,
                   const struct scored *x)
{
    int i, at;

    for (i = 0; i < *n; i++)
        if (same(&list[i].s, &x->s)) return;
    for (at = 0; at < *n && !before(x->score, &x->s, list[at].score,
                                    &list[at].s);)
        at++;
    if (*n < limit) (*n)++;
    for (i = *n - 1; i > at; i--) list[i] = list[i - 1];
    if (at < limit) list[at] = *x;
}

struct ranked { struct set s; int64_t v[5]; };

static void rank_set(const struct plain *p, struct ranked *x)
{
    int64_t i, r;

    memset(x->v, 0, sizeof x->v);
    for (i = 0; i < p->b->n_seg; i++) {
        const struct segment *s = &p->b->seg[i];
        int64_t most = 0, shard = 0;
        if (!x->s.has[i]) continue;
        for (r = 0; r < p->ranks; r++) {
            int64_t on = held(p, r, s->start, s->start + s->tokens);
            if (on > most) most = on;
            if (p->shard[i][r] > shard) shard = p->shard[i][r];
        }
        x->v[0] += s->tokens - shard;
        x->v[1] += s->tokens;
        if (most > x->v[2]) x->v[2] = most;
        x->v[3] -= s->tokens - most;
        x->v[4]++;
    }
}

static bool ranks_before(const struct ranked *x, const struct ranked *y)
{
    int i;

    for (i = 0; i < 5; i++)
        if (x->v[i] != y->v[i]) return x->v[i] > y->v[i];
    for (i = 0; i < N; i++)
        if (x->s.has[i] != y->s.has[i]) return x->s.has[i];
    return false;
}

static void add_group(struct set *group, int *n, const struct set *x)
{
    int i;

    if (*n == GROUPS || size_of(x) == 0) return;
    for (i = 0; i < *n; i++)
        if (same(&group[i], x)) return;
    group[(*n)++] = *x;
}

static int find_groups(const struct plain *p, struct set *group)
{
    struct ranked list[2 * N], swap;
    struct set roots = {{0}}, others = {{0}};
    int n = 0, m = 0, i, j;
    int64_t up;

    for (i = 0; i < p->b->n_seg; i++) {
        if (!p->legal.has[i]) continue;
        (p->b->seg[i].parent < 0 ? &roots : &others)->has[i] = true;
        memset(&list[m], 0, sizeof list[m]);
        list[m++].s.has[i] = true;
    }
    for (up = -1; up < p->b->n_seg; up++) {
        struct ranked x = {.s = {{0}}};
        for (i = 0; i < p->b->n_seg; i++)
            x.s.has[i] = p->legal.has[i] && p->b->seg[i].parent == up;
        if (size_of(&x.s) >= 2) list[m++] = x;
    }
    add_group(group, &n, &p->legal);
    add_group(group, &n, &roots);
    add_group(group, &n, &others);
    for (i = 0; i < m; i++) rank_set(p, &list[i]);
    for (i = 0; i < m; i++) {
        for (j = i + 1; j < m; j++) {
            if (!ranks_before(&list[j], &list[i])) continue;
            swap = list[i];
            list[i] = list[j];
            list[j] = swap;
        }
        add_group(group, &n, &list[i].s);
    }
    return n;
}

static int common(const struct set *x, const struct set *y)
{
    int i, n = 0;

    for (i = 0; i < N; i++) n += x->has[i] && y->has[i];
    return n;
}

static void neighbours(struct plain *p, const struct set *from,
                       const struct set *group, int n_group,
                       struct scored *list, int *n)
{
    int chosen[4], taken = 0, i, k;

    for (i = 0; i < n_group && taken < 4; i++)
        if (common(&group[i], from) < size_of(&group[i])) chosen[taken++] = i;
    for (i = n_group - 1; i >= 0 && taken < 4; i--) {
        bool old = false;
        for (k = 0; k < taken; k++) old = old || chosen[k] == i;
        if (!old && common(&group[i], from) > 0) chosen[taken++] = i;
    }
    for (k = 0; k < taken; k++) {
        const struct set *g = &group[chosen[k]];
        bool inside = common(g, from) == size_of(g);
        struct scored x = {*from, 0};
        for (i = 0; i < N; i++)
            if (g->has[i]) x.s.has[i] = !inside;
        x.score = plain_score(p, &x.s);
        insert(list, n, 2 + 8, &x);
    }
}

static struct set plain_search(struct plain *p)
{
    struct set group[GROUPS];
    struct scored beam[2], best = {{{0}}, 0}, full = {p->legal, 0};
    int n_beam = 0, n_group, steps, stale = 0, i;

    best.score = plain_score(p, &best.s);
    if (size_of(&p->legal) == 0 || p->ranks < 2) return best.s;
    full.score = plain_score(p, &full.s);
    insert(beam, &n_beam, 2, &best);
    insert(beam, &n_beam, 2, &full);
    if (best.score - full.score > p->c->gate) best = full;
    n_group = find_groups(p, group);
    for (steps = 0; steps < 4 && stale < 2; steps++) {
        struct scored list[16];
        int n = 0;
        for (i = 0; i < n_beam; i++) insert(list, &n, 10, &beam[i]);
        for (i = 0; i < n_beam; i++)
            neighbours(p, &beam[i].s, group, n_group, list, &n);
        n_beam = n < 2 ? n : 2;
        memcpy(beam, list, (size_t)n_beam * sizeof *list);
        if (best.score - beam[0].score > p->c->gate) {
            best = beam[0];
            stale = 0;
        } else {
            stale++;
        }
    }
    return best.s;
}

/* ---- both on one forest ------------------------------------------------- */

static struct batch random_batch(void)
{
    int64_t parent[N], tokens[N], n = pick(1, N), i, even = pick(1, 10);
    struct batch b;
    struct err e;

    for (i = 0; i < n; i++) {
        parent[i] = pick(0, 4) == 0 ? -1 : pick(-1, i - 1);
        tokens[i] = pick(0, 2) ? even : pick(1, 11);
    }
    assert_int_equal(batch_from_tree(parent, tokens, n, &b, &e), ERR_OK);
    return b;
}

static void random_config(struct gdn_config *c)
{
    struct plan_options o = {.cp = 1, .ep = 1, .tp = 1, .owned_ms = -1,
                             .profile = pick(0, 1) ? PLAN_NEW : PLAN_OLD};
    struct plan_config whole;

    plan_configure(&moe35, &o, &whole);
    *c = whole.gdn;
    c->chunk = pick(1, 2);
    c->local_rate = (double)pick(1, 3);
    c->chain_rate = (double)pick(1, 3);
    c->exchange = (double)pick(0, 4) * 0.125;
    c->parent_state = (double)pick(0, 2) * 0.25;
    c->local_launch = c->chain_launch = (double)pick(0, 2) * 0.5;
    c->summary = c->scan = 0.25;
    c->summary_rate = c->scan_rate = 4;
    c->segment_launch = 0.25;
    if (c->dense_rate > 0) c->dense_rate = (double)pick(1, 4);
    c->gate = (double)pick(0, 8) * 0.5;
}

/* Chunks of one length, owned in runs or, at times, anyhow. */
static void random_layout(struct chunks *c, int64_t tokens, uint8_t *owner,
                          int64_t ranks)
{
    int64_t len = pick(1, 12), j, any = pick(0, 3);

    for (c->n = 0; c->n * len < tokens; c->n++) c->start[c->n] = c->n * len;
    c->start[c->n] = tokens;
    for (j = 0; j < c->n; j++)
        owner[j] = (uint8_t)(any == 0 ? pick(0, ranks - 1)
                           : any == 1 ? j % ranks : j * ranks / c->n);
}

static void one_case(void)
{
    struct batch b = random_batch();
    struct gdn_config c;
    int64_t start[TOKENS + 2], ranks = pick(1, RANKS), i, r;
    uint8_t owner[TOKENS + 2], round[TOKENS + 2] = {0};
    struct chunks chunks = {.start = start};
    struct layout l = {owner, round, 1, 0};
    struct plan_work work = {0};
    struct arena a = ARENA_INIT;
    struct ownership own;
    struct plain p = {0};
    struct set best;
    struct gdn g;

    random_config(&c);
    random_layout(&chunks, b.tokens, owner, ranks);
    p = (struct plain){.c = &c, .b = &b, .chunks = &chunks, .owner = owner,
                       .ranks = ranks};
    for (i = 0; i < b.n_seg; i++) find_shards(&p, i);
    best = plain_search(&p);
    place(&p, &best);
    CHECK(ownership_make(&chunks, &l, ranks, &a, &own));
    CHECK(plan_gdn_init(&g, &c, &b, &chunks, &l, &own, &a, &work));
    CHECK(plan_gdn_search(&g, &a));
    for (i = 0; i < b.n_seg; i++) {
        CHECK(g.owner[i] == p.rank[i]);
        CHECK((g.legal_of[i] >= 0) == p.legal.has[i]);
    }
    for (r = 0; r < ranks; r++) CHECK(g.load[r] == p.load[r]);
    arena_free(&a);
    batch_free(&b);
}

static void random_forests(void **state)
{
    (void)state;
    each_seed(0x6d100000u, 3000, one_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_forests),
    };
    return cmocka_run_group_tests(tests, moe35_load, moe35_free);
}
