/*
** chains.h - segments joined into runs that the attention mask treats alike.
**
** In depth-first order a first child follows its parent, so a segment, its
** first child, that one's first child and so on are one run of rows [start,
** end) in which every row sees all rows before it: a chain. All its rows
** also see the same rows outside: for the parent of its first segment, in
** chain "up", the rows of up before "cut", and what up's rows see outside.
** Chains cover all rows in order, so a deep path costs no more than a flat
** one: only a branch that is not first adds a range to what is seen.
** Inside src/plan.
*/
#ifndef PLAN_CHAINS_H
#define PLAN_CHAINS_H

#include "plan/exact.h"

struct chain {
    int64_t start, end;
    int64_t up, cut;        /* up is -1 when nothing outside is seen */
    int64_t depth;          /* ranges seen outside */
};

/* The rows of one chain that stand together on one rank. */
struct query { int64_t chain, start, end, rank, row; };

struct chains {
    struct chain *v;
    int64_t n;
    int64_t deepest;        /* largest depth */
    struct query *query;    /* by rank, then ascending */
    int64_t n_query;
    int64_t *first;         /* [cp + 1] index into query */
};

bool chains_make(const struct batch *b, const struct ownership *o,
                 struct arena *a, struct chains *out);

#endif
