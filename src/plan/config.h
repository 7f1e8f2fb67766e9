/*
** config.h - every constant of the planner, in one struct.
**
** The values are the published planner's (planner.md 2, 4 and 7.3), in its
** two profiles. A test may change one of them and plan with the result; the
** rest of the program calls plan_make. Times are milliseconds.
** Inside src/plan.
*/
#ifndef PLAN_CONFIG_H
#define PLAN_CONFIG_H

#include "plan/plan.h"

/* One direction's cost of a pair of a query and a key. */
struct pair_cost { double local, remote; };

struct attention_config {
    int64_t block;              /* stage lengths round up to it */
    int64_t chunk;              /* rows of a chunk, unless too many */
    int64_t budget_base, budget_per_rank;   /* most chunks wanted */
    double stage, comm, range;  /* of a stage, an exchange, a range in them */
    double merge;               /* per query row of a stage */
    double fetch, reduce;       /* per row, forward and backward */
    struct pair_cost forward, backward;
    double floor_rows, floor_pairs, underfill;
    double host;                /* per remote stage and direction */
    double owned;               /* per row held */
    bool start_by_rows;         /* the start weighs rows beside pairs */
    bool adjacent;              /* chunks move to a neighbour's owner only */
    double probe_gain;          /* what a probe move must gain, CP 4 to 7 */
};

struct gdn_config {
    bool present;               /* the model has GDN layers */
    int64_t chunk;              /* rows of the delta rule's chunk */
    int beam, branch, candidates, steps;
    double gate;                /* a chained layout must gain more */
    double exchange;            /* per row that changes rank */
    double local_rate, chain_rate;      /* rows per ms */
    double local_launch, chain_launch;  /* per bucket: depth with work */
    double segment_launch;
    double summary;             /* exchanging one segment's summary */
    double summary_rate, scan_rate;     /* segments per ms */
    double scan;                /* per bucket */
    double parent_state;        /* one parent state sent */
    double dense_rate;          /* rows per ms; 0: not counted */
};

struct plan_config {
    struct attention_config attention;
    struct gdn_config gdn;
};

/* The constants for a model; o's counts must be at least 1. */
void plan_configure(const struct model *m, const struct plan_options *o,
                    struct plan_config *out);

/* plan_make with constants of the caller's choice. */
int plan_make_with(const struct batch *b, const struct plan_options *o,
                   const struct plan_config *c, struct plan *out,
                   struct err *e) MUST_CHECK;

/* Cost of one stage in one direction (planner.md 4). */
struct stage_load {
    double pairs;
    int64_t q, k, q_ranges, k_ranges;
};
double plan_stage_cost(const struct attention_config *c, bool backward,
                       bool remote, const struct stage_load *l);
/* Cost of moving rows in ranges; per_row is c->fetch or c->reduce. */
double plan_comm_cost(const struct attention_config *c, double per_row,
                      int64_t rows, int64_t ranges);

#endif
