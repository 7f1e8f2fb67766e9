/* search.c - the start and the local search; see search.h */
#include "plan/search.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/num.h"

/* Scores closer than this are equal. */
#define SAME_MS 1e-9
/* From this many ranks on the start is taken as it is. */
#define NO_MOVES_CP 8
/* From this many on a first, cheap move must pay before more are tried. */
#define PROBE_CP 4
#define PROBE_CANDIDATES 2
#define MAX_CANDIDATES 8

struct limits { int64_t steps, candidates, rounds; };

static struct limits limits_for(int64_t chunks)
{
    if (chunks < 64) return (struct limits){8, 8, PLAN_MAX_ROUNDS};
    if (chunks < 128) return (struct limits){4, 6, 3};
    return (struct limits){2, 4, 2};
}

void search_set_rounds(const struct search *s, struct layout *l,
                       int64_t rounds)
{
    int64_t i;

    assert(rounds >= 1 && rounds <= PLAN_MAX_ROUNDS);
    l->rounds = rounds;
    for (i = 0; i < s->chunks->n; i++)
        l->round[i] = (uint8_t)(i * rounds / s->chunks->n);
}

/* ---- start -------------------------------------------------------------- */

/* What weighs a chunk in the start: its queries' pairs. The new profile
** weighs rows too; how is undetermined upstream. Taken here: both in the
** cost model's milliseconds, local rates of both directions. */
static double weight(const struct search *s, int64_t i)
{
    const struct attention_config *c = s->config;
    double pairs = (double)pairs_in(s->chunks, i, i + 1, 0, s->chunks->n);

    if (!c->start_by_rows) return pairs;
    return pairs * (c->forward.local + c->backward.local)
         + (double)chunk_rows(s->chunks, i) * c->owned;
}

/* One run of chunks a rank: every boundary as near to its even share as the
** weights allow, the smaller one on ties. prefix has n + 1 entries. */
static void split_evenly(const struct search *s, double *prefix,
                         uint8_t *owner)
{
    int64_t n = s->chunks->n, split, b = 0, i, hi, best;
    double total;

    for (i = 0; i < n; i++) prefix[i + 1] = prefix[i] + weight(s, i);
    total = prefix[n];
    for (split = 1; split < s->cp; split++) {
        double share = total * (double)split / (double)s->cp;
        hi = n - (s->cp - split);
        best = b;
        for (i = b + 1; i <= hi; i++)
            if (best == b || fabs(prefix[i] - share) <
                             fabs(prefix[best] - share))
                best = i;
        for (i = b; i < best; i++) owner[i] = (uint8_t)(split - 1);
        b = best;
    }
    for (i = b; i < n; i++) owner[i] = (uint8_t)(s->cp - 1);
}

/* ---- moves -------------------------------------------------------------- */

static int64_t slowest(const double *ms, int64_t cp)
{
    int64_t r, worst = 0;

    for (r = 1; r < cp; r++)
        if (ms[r] > ms[worst]) worst = r;
    return worst;
}

static bool at_boundary(const uint8_t *owner, int64_t i, int64_t n)
{
    return i == 0 || i == n - 1 || owner[i - 1] != owner[i] ||
           owner[i + 1] != owner[i];
}

static bool listed(const int64_t *list, int64_t n, int64_t x)
{
    while (n > 0)
        if (list[--n] == x) return true;
    return false;
}

/* The rank's heaviest chunk that is not in taken, the first on ties; -1. */
static int64_t heaviest(const struct search *s, const uint8_t *owner,
                        int64_t rank, const int64_t *taken, int64_t n)
{
    int64_t i, best = -1, most = -1;

    for (i = 0; i < s->chunks->n; i++) {
        int64_t pairs;
        if (owner[i] != rank) continue;
        pairs = pairs_in(s->chunks, i, i + 1, 0, s->chunks->n);
        if (pairs > most && !listed(taken, n, i)) {
            most = pairs;
            best = i;
        }
    }
    return best;
}

/* Chunks of the slow rank to try, at most limit: all it has, if so few;
** else its boundary chunks, then its limit heaviest. */
static int64_t find_candidates(const struct search *s, const uint8_t *owner,
                               int64_t rank, int64_t limit, int64_t *out)
{
    int64_t heavy[MAX_CANDIDATES], owned = 0, n = 0, h = 0, i;

    for (i = 0; i < s->chunks->n; i++) owned += owner[i] == rank;
    for (i = 0; i < s->chunks->n && n < limit; i++)
        if (owner[i] == rank &&
            (owned <= limit || at_boundary(owner, i, s->chunks->n)))
            out[n++] = i;
    while (n < limit && h < limit) {
        i = heaviest(s, owner, rank, heavy, h);
        if (i < 0) break;
        heavy[h++] = i;
        if (!listed(out, n, i)) out[n++] = i;
    }
    return n;
}

/* Undetermined upstream for more than two ranks: here a chunk may go to the
** owner of either neighbour. Every rank then keeps one run of chunks. */
static bool may_move(const struct search *s, const uint8_t *owner, int64_t i,
                     int64_t to)
{
    int64_t n = s->chunks->n, j;

    if (owner[i] == to) return false;
    if (s->config->adjacent && !(i > 0 && owner[i - 1] == to) &&
        !(i + 1 < n && owner[i + 1] == to))
        return false;
    if (n < s->cp) return true;
    for (j = 0; j < n; j++)
        if (j != i && owner[j] == owner[i]) return true;
    return false;
}

/* Takes the best single move off the slowest rank, if it gains enough. l's
** score and ms (of its ranks, [PLAN_MAX_RANKS]) follow. */
static bool move_once(struct search *s, struct layout *l, double *ms,
                      int64_t limit, double gain)
{
    double try_ms[PLAN_MAX_RANKS], best_ms[PLAN_MAX_RANKS], best = l->score;
    int64_t candidate[MAX_CANDIDATES], n, i, to, best_chunk = -1, best_to = 0;
    int64_t slow = slowest(ms, s->cp);

    n = find_candidates(s, l->owner, slow, limit, candidate);
    for (i = 0; i < n; i++) {
        for (to = 0; to < s->cp; to++) {
            double score;
            if (!may_move(s, l->owner, candidate[i], to)) continue;
            l->owner[candidate[i]] = (uint8_t)to;
            score = search_score(s, l, try_ms);
            l->owner[candidate[i]] = (uint8_t)slow;
            if (score + SAME_MS >= best) continue;
            best = score;
            memcpy(best_ms, try_ms, sizeof best_ms);
            best_chunk = candidate[i];
            best_to = to;
        }
    }
    if (best_chunk < 0 || l->score - best < gain) return false;
    l->owner[best_chunk] = (uint8_t)best_to;
    l->score = best;
    memcpy(ms, best_ms, sizeof best_ms);
    return true;
}

static void climb(struct search *s, struct layout *l, struct limits limits)
{
    double ms[PLAN_MAX_RANKS];
    int64_t step = 0;

    l->score = search_score(s, l, ms);
    if (s->cp < 2 || s->cp >= NO_MOVES_CP) return;
    if (s->cp >= PROBE_CP) {
        if (!move_once(s, l, ms, num_min(limits.candidates, PROBE_CANDIDATES),
                       s->config->probe_gain))
            return;
        step = 1;
    }
    while (step++ < limits.steps)
        if (!move_once(s, l, ms, limits.candidates, 0)) return;
}

static bool take_layout(struct arena *a, int64_t n, struct layout *l)
{
    *l = (struct layout){0};
    l->owner = ARENA_TAKE(a, n, uint8_t);
    l->round = ARENA_TAKE(a, n, uint8_t);
    return l->owner != NULL && l->round != NULL;
}

bool search_run(struct search *s, struct arena *a, struct layout *out)
{
    int64_t n = s->chunks->n, rounds;
    struct limits limits = limits_for(n);
    double *prefix = ARENA_TAKE(a, n + 1, double);
    uint8_t *start = ARENA_TAKE(a, n, uint8_t);
    struct layout l, swap;

    if (prefix == NULL || start == NULL || !take_layout(a, n, out) ||
        !take_layout(a, n, &l))
        return false;
    split_evenly(s, prefix, start);
    for (rounds = 1; rounds <= num_min(limits.rounds, n); rounds++) {
        memcpy(l.owner, start, (size_t)n);
        search_set_rounds(s, &l, rounds);
        climb(s, &l, limits);
        if (rounds > 1 && l.score + SAME_MS >= out->score) continue;
        swap = *out;
        *out = l;
        l = swap;
    }
    return true;
}
