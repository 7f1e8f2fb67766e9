/*
** gdn.h - which rank runs the delta net over which segments (planner.md 7).
**
** A segment is local, on one rank, or chained: cut into shards over all
** ranks, whose states pass from rank to rank. Given the set of chained
** segments a greedy walk places the rest, and a cost model scores the
** result; a beam search looks for a set that gains enough.
** Inside src/plan.
*/
#ifndef PLAN_GDN_H
#define PLAN_GDN_H

#include <assert.h>

#include "plan/exact.h"

#define GDN_CHAINED (-1)

/* A set of segments that may be chained, as bits over gdn.legal. */
struct chain_set {
    uint64_t *bits;
    int64_t size;
    double score;               /* modelled ms */
};

struct gdn {
    const struct gdn_config *config;
    const struct batch *batch;
    const struct ownership *own;
    int64_t cp;
    struct plan_work *work;
    /* segments that may be chained, ascending */
    int64_t *legal;
    int64_t n_legal, words;     /* words of a set's bits */
    int64_t *shard;             /* [n_legal][cp] rows on each rank */
    int64_t *cross;             /* [n_legal] rows that change rank */
    /* segments by depth */
    int64_t *level;             /* [n_seg] */
    int64_t *level_first;       /* [n_level + 1] */
    int64_t n_level;
    /* the placement scored last */
    int32_t *owner;             /* [n_seg] rank or GDN_CHAINED */
    int64_t *legal_of;          /* [n_seg] index into legal, or -1 */
    int64_t *load;              /* [cp] rows */
};

bool plan_gdn_init(struct gdn *g, const struct gdn_config *config,
                   const struct batch *b, const struct chunks *chunks,
                   const struct layout *l, const struct ownership *own,
                   struct arena *a, struct plan_work *work);

static inline bool chain_set_has(const struct chain_set *s, int64_t i)
{
    assert(i >= 0);
    return s->bits[i / 64] >> (i % 64) & 1;
}

/* Places all segments for a chained set; fills owner and load; returns the
** modelled ms. */
double plan_gdn_score(struct gdn *g, const struct chain_set *s);

/* The set the planner takes; its placement is then in owner and load. */
bool plan_gdn_search(struct gdn *g, struct arena *a);

/* The placement as shards. */
bool plan_gdn_shards(const struct gdn *g, struct arena *a, struct shards *out);

#endif
