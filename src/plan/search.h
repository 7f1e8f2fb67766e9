/*
** search.h - which rank owns which chunk, and in which round its keys are
** fetched: the attention layout (planner.md 4 and 5).
** Inside src/plan.
*/
#ifndef PLAN_SEARCH_H
#define PLAN_SEARCH_H

#include "plan/chunks.h"

#define PLAN_MAX_ROUNDS 4

struct layout {
    uint8_t *owner;         /* [chunks] rank */
    uint8_t *round;         /* [chunks] round its keys are fetched in */
    int64_t rounds;
    double score;           /* the slowest rank's modelled ms */
};

/* Everything a score needs; made once for a wave of tokens. */
struct search {
    const struct attention_config *config;
    const struct chunks *chunks;
    int64_t cp;
    struct plan_work *work;
    /* scratch of one score, see score.c */
    struct run *run;        /* [chunks] */
    uint64_t *need;         /* [chunks] */
    struct tally *tally;    /* [cp][PLAN_MAX_ROUNDS] */
    int64_t *local_pairs;   /* [cp] */
    int64_t *own_rows;      /* [cp] */
    int64_t *own_ranges;    /* [cp] */
};

bool search_init(struct search *s, const struct attention_config *config,
                 const struct chunks *chunks, int64_t cp, struct arena *a,
                 struct plan_work *work);

/* Modelled ms of every rank into rank_ms[cp]; returns the largest. */
double search_score(struct search *s, const struct layout *l, double *rank_ms);

/* round[i] for a number of rounds: chunks in equal shares, in order. */
void search_set_rounds(const struct search *s, struct layout *l,
                       int64_t rounds);

/* The layout the planner takes. out's arrays come from the arena. */
bool search_run(struct search *s, struct arena *a, struct layout *out);

#endif
