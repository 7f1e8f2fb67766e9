/* The search for an attention layout against a plain one, written from
** planner.md 5 step by step (scores are the tested ones of test_plan_cost),
** on random forests, ranks and both profiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/search.h"
#include "plan_draw.h"
#include "plan_moe35.h"

#define MAX_CHUNKS 160

/* ---- the plain search ------------------------------------------------- */

struct plain {
    const struct attention_config *c;
    const struct chunks *chunks;
    struct search *score;
    int64_t n, ranks;
    int steps, candidates, rounds;
    double pairs[MAX_CHUNKS];   /* of a chunk's queries */
};

static void set_limits(struct plain *p)
{
    p->steps = p->n < 64 ? 8 : p->n < 128 ? 4 : 2;
    p->candidates = p->n < 64 ? 8 : p->n < 128 ? 6 : 4;
    p->rounds = p->n < 64 ? 4 : p->n < 128 ? 3 : 2;
    if (p->rounds > p->n) p->rounds = (int)p->n;
}

static void split(const struct plain *p, uint8_t *owner)
{
    double prefix[MAX_CHUNKS + 1] = {0};
    int64_t bound[PLAN_MAX_RANKS + 1] = {0}, s, b, i;

    for (i = 0; i < p->n; i++)
        prefix[i + 1] = prefix[i]
            + (p->c->start_by_rows
               ? p->pairs[i] * (p->c->forward.local + p->c->backward.local)
                 + (double)chunk_rows(p->chunks, i) * p->c->owned
               : p->pairs[i]);
    for (s = 1; s < p->ranks; s++) {
        double aim = prefix[p->n] * (double)s / (double)p->ranks;
        int64_t last = p->n - (p->ranks - s);
        bound[s] = bound[s - 1];
        if (last < bound[s - 1] + 1) continue;
        bound[s] = bound[s - 1] + 1;
        for (b = bound[s] + 1; b <= last; b++)
            if (fabs(prefix[b] - aim) < fabs(prefix[bound[s]] - aim))
                bound[s] = b;
    }
    bound[p->ranks] = p->n;
    for (s = 0; s < p->ranks; s++)
        for (i = bound[s]; i < bound[s + 1]; i++) owner[i] = (uint8_t)s;
}

static bool has(const int64_t *list, int n, int64_t x)
{
    int i;

    for (i = 0; i < n; i++)
        if (list[i] == x) return true;
    return false;
}

/* All candidates in their order, then cut to limit. */
static int candidates(const struct plain *p, const uint8_t *owner,
                      int64_t slow, int limit, int64_t *out)
{
    int64_t mine[MAX_CHUNKS], all[2 * MAX_CHUNKS], i;
    int n = 0, m = 0, j, k;

    for (i = 0; i < p->n; i++)
        if (owner[i] == slow) mine[m++] = i;
    if (m <= limit) {
        for (j = 0; j < m; j++) out[j] = mine[j];
        return m;
    }
    for (j = 0; j < m; j++) {
        i = mine[j];
        if (i == 0 || i == p->n - 1 || owner[i - 1] != slow ||
            owner[i + 1] != slow)
            all[n++] = i;
    }
    for (j = 0; j < m; j++)         /* by falling pairs, then index */
        for (k = m - 1; k > j; k--)
            if (p->pairs[mine[k]] > p->pairs[mine[k - 1]]) {
                i = mine[k];
                mine[k] = mine[k - 1];
                mine[k - 1] = i;
            }
    for (j = 0; j < limit; j++)
        if (!has(all, n, mine[j])) all[n++] = mine[j];
    if (n > limit) n = limit;
    for (j = 0; j < n; j++) out[j] = all[j];
    return n;
}

static bool allowed(const struct plain *p, const uint8_t *owner, int64_t i,
                    int64_t to)
{
    uint8_t moved[MAX_CHUNKS];
    int64_t r;

    if (owner[i] == to) return false;
    if (p->c->adjacent && !(i > 0 && owner[i - 1] == to) &&
        !(i < p->n - 1 && owner[i + 1] == to))
        return false;
    if (p->n < p->ranks) return true;
    memcpy(moved, owner, (size_t)p->n);
    moved[i] = (uint8_t)to;
    for (r = 0; r < p->ranks; r++)
        if (memchr(moved, (int)r, (size_t)p->n) == NULL) return false;
    return true;
}

/* One step with a limit of candidates: the best move, if any. */
static bool step(struct plain *p, struct layout *l, int limit, double gain)
{
    double ms[PLAN_MAX_RANKS], best, now = search_score(p->score, l, ms);
    int64_t list[MAX_CHUNKS], slow = 0, r, to, chunk = -1, where = 0;
    int n, i;

    for (r = 1; r < p->ranks; r++)
        if (ms[r] > ms[slow]) slow = r;
    n = candidates(p, l->owner, slow, limit, list);
    best = now;
    for (i = 0; i < n; i++)
        for (to = 0; to < p->ranks; to++) {
            double score;
            if (!allowed(p, l->owner, list[i], to)) continue;
            l->owner[list[i]] = (uint8_t)to;
            score = search_score(p->score, l, ms);
            l->owner[list[i]] = (uint8_t)slow;
            if (!(score + 1e-9 < best)) continue;
            best = score;
            chunk = list[i];
            where = to;
        }
    if (chunk < 0 || now - best < gain) return false;
    l->owner[chunk] = (uint8_t)where;
    return true;
}

static void plain_search(struct plain *p, struct layout *l, uint8_t *best)
{
    double ms[PLAN_MAX_RANKS], best_score = 0;
    uint8_t start[MAX_CHUNKS];
    int w, best_w = 0, s;

    set_limits(p);
    split(p, start);
    for (w = 1; w <= p->rounds; w++) {
        int64_t i;
        double score;
        memcpy(l->owner, start, (size_t)p->n);
        l->rounds = w;
        for (i = 0; i < p->n; i++) l->round[i] = (uint8_t)(i * w / p->n);
        s = 0;
        if (p->ranks >= 8 || p->ranks < 2) s = p->steps;
        if (p->ranks >= 4 && p->ranks < 8)
            s = step(p, l, p->candidates < 2 ? p->candidates : 2,
                     p->c->probe_gain) ? 1 : p->steps;
        while (s++ < p->steps && step(p, l, p->candidates, 0)) continue;
        score = search_score(p->score, l, ms);
        if (w > 1 && !(score + 1e-9 < best_score)) continue;
        best_score = score;
        best_w = w;
        memcpy(best, l->owner, (size_t)p->n);
    }
    l->rounds = best_w;
    l->score = best_score;
}

/* ---- both on one forest ----------------------------------------------- */

static struct batch random_batch(int64_t chunk, int64_t chunks)
{
    int64_t parent[9], tokens[9], n = pick(1, 9), i;
    struct batch b;
    struct err e;

    for (i = 0; i < n; i++) {
        parent[i] = pick(0, 2) == 0 ? -1 : pick(-1, i - 1);
        tokens[i] = pick(1, 1 + 2 * chunk * chunks / n);
        if (pick(0, 2) == 0) tokens[i] = chunk * (1 + tokens[i] / chunk);
    }
    assert_int_equal(batch_from_tree(parent, tokens, n, &b, &e), ERR_OK);
    return b;
}

static void one_case(void)
{
    struct plan_options o = {.cp = pick(1, 9), .ep = 1, .tp = 1,
                             .owned_ms = -1,
                             .profile = pick(0, 1) ? PLAN_NEW : PLAN_OLD};
    struct arena a = ARENA_INIT;
    struct plan_work work = {0};
    struct plan_config c;
    struct batch b = random_batch(512, pick(0, 3) ? pick(1, 40) : 70);
    uint8_t owner[MAX_CHUNKS], round[MAX_CHUNKS], best[MAX_CHUNKS];
    struct layout l = {owner, round, 1, 0}, got;
    struct chunks chunks = {0};
    struct search s;
    struct plain p;
    int64_t i;

    plan_configure(&moe35, &o, &c);
    if (pick(0, 2) == 0) c.attention.host = 0;
    if (pick(0, 2) == 0) c.attention.owned = 0.0033;
    if (pick(0, 1)) c.attention.fetch *= (double)pick(1, 30);
    assert_true(chunks_cut(&c.attention, b.tokens, o.cp, &a, &chunks));
    if (chunks.n <= MAX_CHUNKS) {
        assert_true(chunks_count_pairs(&chunks, &b, &a, &work));
        assert_true(search_init(&s, &c.attention, &chunks, o.cp, &a, &work));
        assert_true(search_run(&s, &a, &got));
        p = (struct plain){.c = &c.attention, .chunks = &chunks, .score = &s,
                           .n = chunks.n, .ranks = o.cp};
        for (i = 0; i < chunks.n; i++)
            p.pairs[i] = (double)pairs_in(&chunks, i, i + 1, 0, chunks.n);
        plain_search(&p, &l, best);
        CHECK(got.rounds == l.rounds);
        CHECK(memcmp(got.owner, best, (size_t)chunks.n) == 0);
        CHECK(got.score == l.score);
    }
    arena_free(&a);
    batch_free(&b);
}

static void random_forests(void **state)
{
    (void)state;
    each_seed(0x5ea4c000u, 1500, one_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_forests),
    };
    return cmocka_run_group_tests(tests, moe35_load, moe35_free);
}
