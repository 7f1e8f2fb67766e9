/*
** exact.h - from owners of chunks to the ranges of rows that a plan holds.
** Functions return false when memory is short.
** Inside src/plan.
*/
#ifndef PLAN_EXACT_H
#define PLAN_EXACT_H

#include "plan/search.h"

/* Packed rows [start, end) that rank holds and whose keys go in one round. */
struct region { int64_t start, end, rank, round; };

/* Packed rows [start, end) that stand from row on in some other numbering. */
struct place { int64_t start, end, row; };

struct places { struct place *v; int64_t n; };

/* Packed rows [start, end) that stand on a rank from its local row on. Lists
** of these ascend and cover all rows: one layout of all ranks. */
struct held { int64_t start, end, rank, row; };

struct held_list { struct held *v; int64_t n; };

/* The attention layout as ranges. */
struct ownership {
    int64_t cp, rounds;
    struct region *region;      /* ascending, covering all rows */
    int64_t n_region;
    struct held_list held;
    struct places *own;         /* [cp] the same by rank */
};

bool ownership_make(const struct chunks *c, const struct layout *l,
                    int64_t cp, struct arena *a, struct ownership *out);
/* Rows of [start, end) that a rank holds. */
int64_t ownership_overlap(const struct ownership *o, int64_t rank,
                          int64_t start, int64_t end);

/* Index of the first place that ends after row; n if there is none. */
int64_t places_find(const struct places *p, int64_t row);
/* Appends [start, end) as the next rows, joined to the last if adjacent;
** *row counts the rows so far. v must have room. */
void places_add(struct places *p, int64_t start, int64_t end, int64_t *row);
/* The same as ranges in the plan's arena; NULL on failure. */
struct range *places_ranges(const struct places *p, struct arena *a);

/* Appends rows [start, end) of rank, whose local rows so far are *row. */
void held_add(struct held_list *h, int64_t start, int64_t end, int64_t rank,
              int64_t *row);

/* Fills attention rows and stages of p's ranks (cp, batch set, ranks
** zeroed). ERR_INPUT when the tree needs too many slices. */
int stages_make(struct plan *p, const struct ownership *o, int64_t block,
                struct arena *scratch, struct err *e) MUST_CHECK;

/* The GDN layout: for every segment its shards in rank order. */
struct shards {
    int64_t *first;             /* [segments + 1] */
    struct shard { int64_t rank, len; } *v;
};

/* Fills gdn rows, ranges and pieces; out lists the layout. */
bool pieces_make(struct plan *p, const struct shards *s, struct arena *scratch,
                 struct held_list *out);
/* The GDN layout of a model without GDN layers: the attention layout. */
void pieces_none(struct plan *p);

/* Fills both exchanges of every rank. */
bool exchanges_make(struct plan *p, const struct held_list *attention,
                    const struct held_list *gdn, struct arena *scratch);

#endif
