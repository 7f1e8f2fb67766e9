/*
** gdn_flow.h - which rows the delta rule runs together, and how recurrent
** states and convolution halos move between them.
**
** Rows run in buckets, one after another. One rank alone (gdn_bucket.c)
** follows the traced planner: roots without children are one bucket; roots
** with children another, cut down to whole 64-row chunks, whose final states
** are kept until their children begin; then the segments of each depth, those
** of depth 1 with their root's cut off rows in front, run again for every
** child. A bucket's rows are copies, gathered from the packed rows.
**
** Ranks of context parallelism (gdn_flow.c) run all their rows as one bucket.
** Pieces of segments are sorted into levels: a piece stands one level above
** the piece it starts from, so the pieces of one level wait only for lower
** levels. Before a level runs, the states that its pieces need from other
** ranks are exchanged (backward: their gradients go back and are added).
** State row i of a rank is the final state of its piece i; rows behind those
** are copies of other ranks' final states, in the order (level, source,
** piece), which sender and receiver derive alike from the plan.
**
** Recorded layouts know no pieces: a rank's rows then count as one.
** Inside src/step.
*/
#ifndef STEP_GDN_FLOW_H
#define STEP_GDN_FLOW_H

#include "step/tensor.h"

struct gdn_level {
    struct dev_piece *piece;    /* of this rank; state rows as above */
    int64_t n_piece;
    bool crosses;               /* some rank sends before this level */
    const struct range *send;   /* state rows to send, by destination; in
                                   the bucket's send */
    int64_t *send_first;        /* [cp + 1] */
    int64_t recv_row;           /* first state row that is received */
    int64_t *recv_first;        /* [cp + 1] offsets from recv_row, by source */
};

/* Packed rows [start, start + len) as rows from at on of a bucket. Rows that
** several runs hold are written by one of them. */
struct gdn_run { int64_t start, len, at; bool writes; };

struct gdn_bucket {
    int64_t rows;
    int64_t chunks;             /* 64-row chunks of all pieces */
    int64_t n_state;            /* rows of state and halo tables */
    int64_t n_kept;             /* the first of them, kept for backward */
    struct gdn_run *run;        /* NULL: all rows as they lie */
    int64_t n_run;
    int64_t parent;             /* bucket whose final states it begins with,
                                   or -1 */
    int64_t *init;              /* [n_kept] row of the parent's table, -1:
                                   zero; NULL: nothing is set ahead */
    struct gdn_level *level;
    int64_t n_level;
    struct range *send;         /* of all levels, owned */
};

/* What a bucket of one layer keeps for its backward. */
struct gdn_kept {
    struct tensor m;            /* q|k|v before the convolution */
    struct tensor beta;
    struct tensor qn, kn, v;    /* normed and repeated q, k; v */
    struct tensor q_rnorm, k_rnorm;
    struct tensor g_cum, x;
    struct tensor states, halo; /* [n_kept] and [n_kept * (conv - 1)] rows */
    struct tensor segment, place;   /* of the framework's convolution: i32 a
                                       row, whose it is and where in it */
};

/* State and halo tables that other buckets still read, or their gradients. */
struct gdn_table { struct tensor states, halo; };

struct gdn_flow {
    struct gdn_bucket *bucket;
    int64_t n_bucket;
    struct gdn_kept *kept;      /* [layers][n_bucket] */
    struct gdn_table *table;    /* [n_bucket] of the current layer */
};

/* s->rc and *s->e on failure. */
int gdn_flow_new(struct step *s);
void gdn_flow_free(struct gdn_flow *f);
/* The buckets of a rank alone; recorded: all rows are one piece. ERR_OK or
** ERR_RUN (memory); gdn_flow_free in any case. */
int gdn_buckets_make(struct gdn_flow *f, const struct plan *p);
int gdn_bucket_recorded(struct gdn_flow *f, int64_t rows);

static inline struct gdn_kept *gdn_kept_of(const struct step *s)
{
    return s->flow->kept + s->layer * s->flow->n_bucket;
}
void gdn_drop(struct step *s);          /* the current layer's */

/* table [n_state, width]: rows that level l needs arrive from other ranks. */
void gdn_flow_fetch(struct step *s, const struct gdn_bucket *b, int64_t l,
                    struct mat table, const char *what);
/* The way back: gradients of received rows are added at their owners. */
void gdn_flow_return(struct step *s, const struct gdn_bucket *b, int64_t l,
                     struct mat table, const char *what);

/* ---- the delta rule over all buckets (gdn_rule.c) ----------------------- */

/* o [rows, value] of m [rows, conv channels], beta (act) and g (acc)
** [rows, value heads]; m and g are kept as the buckets' own where one runs all
** rows as they lie, else left. save: the buckets keep what the backward
** needs. */
struct tensor gdn_rule_forward(struct step *s, struct tensor *m,
                               struct mat beta, struct tensor *g, bool save);
struct gdn_gradients { struct tensor dm, dbeta, dg; };
/* Gradients of those from d_o, freed; what was kept is freed. */
struct gdn_gradients gdn_rule_backward(struct step *s, struct tensor *d_o);

#endif
