/*
** chunks.h - a packed row cut into chunks, and how many (query, key) pairs
** each two chunks share.
**
** Every key row is seen by the later rows of its segment and by all rows
** below that segment, and in depth-first order those are one run of rows. So
** the part of a segment that lies in one chunk adds a triangle to the
** chunk's own cell and one rectangle below it, however deep the tree: the
** table costs segments + chunks^2, whatever the tokens.
** Inside src/plan.
*/
#ifndef PLAN_CHUNKS_H
#define PLAN_CHUNKS_H

#include <assert.h>

#include "plan/config.h"

struct chunks {
    int64_t n;
    int64_t *start;         /* [n + 1] packed rows; ascending */
    int64_t *sum;           /* triangle of prefix sums, see pairs_in */
    int64_t *last;          /* [n] last chunk with a query of this chunk's
                               keys; all chunks up to it have one */
};

static inline int64_t chunk_rows(const struct chunks *c, int64_t i)
{
    assert(i >= 0 && i < c->n);
    return c->start[i + 1] - c->start[i];
}

/* Pairs of queries in chunks [0, q) and keys in chunks [0, k). */
static inline int64_t pairs_below(const struct chunks *c, int64_t q, int64_t k)
{
    return c->sum[q * (q + 1) / 2 + (k < q ? k : q)];
}

/* Pairs of queries in chunks [q0, q1) and keys in chunks [k0, k1). */
static inline int64_t pairs_in(const struct chunks *c, int64_t q0, int64_t q1,
                               int64_t k0, int64_t k1)
{
    return pairs_below(c, q1, k1) - pairs_below(c, q0, k1)
         - pairs_below(c, q1, k0) + pairs_below(c, q0, k0);
}

/* Chunks of the planner's size (planner.md 2). False: out of memory. */
bool chunks_cut(const struct attention_config *c, int64_t tokens, int64_t cp,
                struct arena *a, struct chunks *out);
/* The chunk that holds a packed row. */
int64_t chunk_of(const struct chunks *c, int64_t row);
/* Fills sum and last. */
bool chunks_count_pairs(struct chunks *c, const struct batch *b,
                        struct arena *a, struct plan_work *work);

#endif
