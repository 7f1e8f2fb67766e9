/*
** states.c - states of the delta rule that ranks hold of a plan, and hand to
** each other (model.md 4.2). From the plan's pieces alone: a test holds them
** against a slow count.
*/
#include <stdlib.h>

#include "base/num.h"
#include "price/internal.h"

static int by_key(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Entries of a list of n keys that are different, then in front and sorted. */
static int64_t distinct(int64_t *key, int64_t n)
{
    int64_t i, sum = 0;

    qsort(key, (size_t)n, sizeof *key, by_key);
    for (i = 0; i < n; i++)
        if (i == 0 || key[i] != key[sum - 1]) key[sum++] = key[i];
    return sum;
}

/* In how many steps states come to a piece, by rank and piece; of rank r from
** first[r] on. */
struct levels { int64_t first[PRICE_MAX_RANKS], *of; };

static const struct gdn_piece *piece_at(const struct plan *p, int64_t rank,
                                        int64_t i)
{
    return &p->rank[rank].piece[i];
}

/* Up from a piece to one whose level is known; then back, each a step more:
** twice, so that no stack is needed. */
static void put_level(const struct plan *p, struct levels *l, int64_t rank,
                      int64_t i)
{
    const struct gdn_piece *x;
    int64_t steps = 0, r = rank, k = i;

    while (l->of[l->first[r] + k] < 0) {
        x = piece_at(p, r, k);
        if (x->from_rank < 0) break;
        r = x->from_rank;
        k = x->from_piece;
        steps++;
    }
    if (l->of[l->first[r] + k] < 0) l->of[l->first[r] + k] = 0;
    steps += l->of[l->first[r] + k];
    while (l->of[l->first[rank] + i] < 0) {
        x = piece_at(p, rank, i);
        l->of[l->first[rank] + i] = steps--;
        rank = x->from_rank;
        i = x->from_piece;
    }
}

static int make_levels(const struct plan *p, struct levels *l)
{
    int64_t r, i, n = 0;

    for (r = 0; r < p->cp; r++) {
        l->first[r] = n;
        n += p->rank[r].n_piece;
    }
    l->of = malloc(((size_t)n + 1) * sizeof *l->of);
    if (l->of == NULL) return ERR_RUN;
    for (i = 0; i < n; i++) l->of[i] = -1;
    for (r = 0; r < p->cp; r++)
        for (i = 0; i < p->rank[r].n_piece; i++) put_level(p, l, r, i);
    return ERR_OK;
}

/* States that a rank holds: its pieces' own, and each that comes from another
** rank once. */
static int64_t states_of(const struct plan *p, int64_t rank, int64_t *key)
{
    int64_t i, n = 0;

    for (i = 0; i < p->rank[rank].n_piece; i++) {
        const struct gdn_piece *x = piece_at(p, rank, i);
        if (x->from_rank < 0 || x->from_rank == rank) continue;
        key[n++] = x->from_rank * PRICE_MAX_ROWS / 8 + x->from_piece;
    }
    return p->rank[rank].n_piece + distinct(key, n);
}

/* Of those that it hands to others, to each once, the most of one level: their
** gradients come back together. */
static int64_t sent_at_once(const struct plan *p, const struct levels *l,
                            int64_t rank, int64_t *key)
{
    int64_t r, i, n = 0, run = 0, most = 0;

    for (r = 0; r < p->cp; r++)
        for (i = 0; i < p->rank[r].n_piece; i++) {
            const struct gdn_piece *x = piece_at(p, r, i);
            if (x->from_rank != rank || r == rank) continue;
            key[n++] = x->from_piece * PRICE_MAX_RANKS + r;
        }
    n = distinct(key, n);
    for (i = 0; i < n; i++)
        key[i] = l->of[l->first[rank] + key[i] / PRICE_MAX_RANKS];
    qsort(key, (size_t)n, sizeof *key, by_key);
    for (i = 0; i < n; i++) {
        run = i > 0 && key[i] == key[i - 1] ? run + 1 : 1;
        most = num_max(most, run);
    }
    return most;
}

int price_count_states(const struct plan *p, struct price_group *g)
{
    struct levels l;
    int64_t r, n = 1, *key;
    int rc = make_levels(p, &l);

    for (r = 0; r < p->cp; r++) n += p->rank[r].n_piece;
    key = malloc((size_t)n * sizeof *key);
    for (r = 0; rc == ERR_OK && key != NULL && r < p->cp; r++) {
        g->gdn_states[r] = states_of(p, r, key);
        g->gdn_sent[r] = sent_at_once(p, &l, r, key);
    }
    if (key == NULL) rc = ERR_RUN;
    free(key);
    free(l.of);
    return rc;
}
