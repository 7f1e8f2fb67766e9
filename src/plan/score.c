/* score.c - what an attention layout costs; see search.h.
**
** All quantities are counted in whole chunks, as the published cost model
** does: coarser than the stages that are executed. Ownership is taken as
** runs of chunks, and the pairs between runs come from the prefix sums, so a
** score costs about as many steps as there are chunks, not chunk pairs. */
#include <assert.h>
#include <string.h>

#include "base/num.h"
#include "plan/search.h"

/* Chunks [first, end) of one rank. */
struct run { int64_t first, end, rank; };

/* Rows and the runs of consecutive chunks they stand in. */
struct count { int64_t rows, ranges; };

/* One rank's part in one round. */
struct tally {
    int64_t pairs;
    struct count q, recv, send;
    int64_t reach;          /* last chunk that sees a key fetched so far */
    int64_t q_end;          /* chunk after the last query chunk counted */
};

bool search_init(struct search *s, const struct attention_config *config,
                 const struct chunks *chunks, int64_t cp, struct arena *a,
                 struct plan_work *work)
{
    assert(cp >= 1 && cp <= PLAN_MAX_RANKS);
    *s = (struct search){.config = config, .chunks = chunks, .cp = cp,
                         .work = work};
    s->run = ARENA_TAKE(a, chunks->n, struct run);
    s->need = ARENA_TAKE(a, chunks->n, uint64_t);
    s->tally = ARENA_TAKE(a, cp * PLAN_MAX_ROUNDS, struct tally);
    s->local_pairs = ARENA_TAKE(a, cp, int64_t);
    s->own_rows = ARENA_TAKE(a, cp, int64_t);
    s->own_ranges = ARENA_TAKE(a, cp, int64_t);
    return s->run != NULL && s->need != NULL && s->tally != NULL &&
           s->local_pairs != NULL && s->own_rows != NULL &&
           s->own_ranges != NULL;
}

static int64_t find_runs(const struct search *s, const uint8_t *owner)
{
    int64_t i, n = 0;

    for (i = 0; i < s->chunks->n; i++) {
        if (i == 0 || owner[i] != owner[i - 1])
            s->run[n++] = (struct run){i, i, owner[i]};
        s->run[n - 1].end = i + 1;
    }
    return n;
}

/* need[j]: bit r is set when a later query of rank r sees keys of chunk j. */
static void find_needs(struct search *s, int64_t n_run)
{
    const int64_t *last = s->chunks->last;
    int64_t i, j;

    memset(s->need, 0, (size_t)s->chunks->n * sizeof *s->need);
    for (i = 1; i < n_run; i++) {
        const struct run *r = &s->run[i];
        uint64_t bit = UINT64_C(1) << r->rank;
        for (j = 0; j < r->first; j++)
            if (last[j] >= r->first) s->need[j] |= bit;
    }
}

static struct tally *tally_of(const struct search *s, int64_t rank,
                              int64_t round)
{
    return &s->tally[rank * PLAN_MAX_ROUNDS + round];
}

/* Pairs of run q's queries with the keys of run k, or of itself. */
static void add_pairs(struct search *s, const struct layout *l,
                      const struct run *q, const struct run *k)
{
    int64_t j = k->first, end;

    if (q->rank == k->rank) {
        s->local_pairs[q->rank] +=
            pairs_in(s->chunks, q->first, q->end, k->first, k->end);
        return;
    }
    for (; j < k->end; j = end) {
        for (end = j + 1; end < k->end && l->round[end] == l->round[j];) end++;
        tally_of(s, q->rank, l->round[j])->pairs +=
            pairs_in(s->chunks, q->first, q->end, j, end);
    }
}

/* Chunk j as a source of keys: the ranks that newly need it start a range,
** those that needed the chunk before it (of the same owner and round) continue
** one. Ranges so count by source; the stage that reads them is taken to count
** them alike, which the description leaves open and three ranks can tell. A
** sender counts every peer and, once more, their union: a quirk of the
** published model that is kept. */
static void count_keys(struct search *s, const struct layout *l, int64_t j)
{
    int64_t owner = l->owner[j], rows = chunk_rows(s->chunks, j);
    uint64_t peers = s->need[j] & ~(UINT64_C(1) << owner), before = 0, m;
    struct tally *from = tally_of(s, owner, l->round[j]);

    if (peers == 0) return;
    if (j > 0 && l->owner[j - 1] == owner && l->round[j - 1] == l->round[j])
        before = s->need[j - 1];
    for (m = peers; m != 0; m &= m - 1) {
        int64_t rank = __builtin_ctzll(m);
        struct tally *to = tally_of(s, rank, l->round[j]);
        bool starts = (before >> rank & 1) == 0;
        to->recv.rows += rows;
        to->recv.ranges += starts;
        from->send.rows += rows;
        from->send.ranges += starts;
        to->reach = num_max(to->reach, s->chunks->last[j]);
    }
    from->send.rows += rows;
    from->send.ranges += (before & ~(UINT64_C(1) << owner)) == 0;
}

/* Chunk j as queries: it takes part in every round that fetched keys it sees.
** Keys come first, so the reach of earlier chunks decides. */
static void count_queries(struct search *s, const struct layout *l, int64_t j)
{
    int64_t v;

    for (v = 0; v < l->rounds; v++) {
        struct tally *t = tally_of(s, l->owner[j], v);
        if (t->reach < j) continue;
        t->q.rows += chunk_rows(s->chunks, j);
        t->q.ranges += t->q_end != j;
        t->q_end = j + 1;
    }
}

/* Everything that a score needs of a layout, in one pass over its runs. */
static void count_all(struct search *s, const struct layout *l)
{
    int64_t n_run = find_runs(s, l->owner), i, j;

    memset(s->local_pairs, 0, (size_t)s->cp * sizeof *s->local_pairs);
    memset(s->own_rows, 0, (size_t)s->cp * sizeof *s->own_rows);
    memset(s->own_ranges, 0, (size_t)s->cp * sizeof *s->own_ranges);
    for (i = 0; i < s->cp * PLAN_MAX_ROUNDS; i++)
        s->tally[i] = (struct tally){.reach = -1, .q_end = -1};
    for (i = 0; i < n_run; i++) {
        const struct run *r = &s->run[i];
        s->own_ranges[r->rank]++;
        s->own_rows[r->rank] += s->chunks->start[r->end]
                              - s->chunks->start[r->first];
        for (j = 0; j <= i; j++) add_pairs(s, l, r, &s->run[j]);
    }
    find_needs(s, n_run);
    for (j = 0; j < s->chunks->n; j++) {
        count_queries(s, l, j);
        count_keys(s, l, j);
    }
}

/* ---- time --------------------------------------------------------------- */

/* Forward hides a fetch behind the stage before it. */
static double forward_ms(const double *stage, const double *fetch, int64_t n,
                         double local)
{
    double t = local, ready = n > 0 ? fetch[0] : 0;
    int64_t i;

    for (i = 0; i < n; i++) {
        double start = t > ready ? t : ready;
        if (i + 1 < n) ready = start + fetch[i + 1];
        t = start + stage[i];
    }
    return t;
}

/* Backward runs the rounds first and hides a reduction behind what follows. */
static double backward_ms(const double *stage, const double *reduce, int64_t n,
                          double local)
{
    double t = 0, done = 0;
    int64_t i;

    for (i = 0; i < n; i++) {
        t += stage[i];
        if (t + reduce[i] > done) done = t + reduce[i];
    }
    t += local;
    return t > done ? t : done;
}

static bool is_active(const struct tally *t)
{
    return t->pairs > 0 || t->recv.rows > 0 || t->recv.ranges > 0;
}

/* Stages overlap with the fetch of the next one (planner.md 4). */
static double direction_ms(const struct search *s, int64_t rank, int64_t rounds,
                           bool backward)
{
    const struct attention_config *c = s->config;
    double per_row = backward ? c->reduce : c->fetch;
    double stage[PLAN_MAX_ROUNDS], comm[PLAN_MAX_ROUNDS], local = 0;
    struct stage_load own = {
        (double)s->local_pairs[rank], s->own_rows[rank], s->own_rows[rank],
        s->own_ranges[rank], s->own_ranges[rank]
    };
    int64_t v, n = 0;

    if (own.pairs > 0) local = plan_stage_cost(c, backward, false, &own);
    for (v = 0; v < rounds; v++) {
        const struct tally *t = tally_of(s, rank, v);
        struct stage_load load = {
            (double)t->pairs, t->q.rows, t->recv.rows, t->q.ranges,
            t->recv.ranges
        };
        if (!is_active(t)) continue;
        stage[n] = plan_stage_cost(c, backward, true, &load);
        comm[n++] = plan_comm_cost(c, per_row,
                                   num_max(t->send.rows, t->recv.rows),
                                   num_max(t->send.ranges, t->recv.ranges));
    }
    return backward ? backward_ms(stage, comm, n, local)
                    : forward_ms(stage, comm, n, local);
}

double search_score(struct search *s, const struct layout *l, double *rank_ms)
{
    double worst = 0;
    int64_t r;

    count_all(s, l);
    s->work->scores++;
    for (r = 0; r < s->cp; r++) {
        double owned = (double)s->own_rows[r] * s->config->owned;
        rank_ms[r] = direction_ms(s, r, l->rounds, false) + owned / 3
                   + direction_ms(s, r, l->rounds, true) + owned * (2.0 / 3);
        if (rank_ms[r] > worst) worst = rank_ms[r];
    }
    return worst;
}
