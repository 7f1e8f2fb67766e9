/*
** gdn_flow.h - how recurrent states and convolution halos move between the
** pieces of segments, over ranks and from parents to children.
**
** Pieces are sorted into levels: a piece stands one level above the piece it
** starts from, so the pieces of one level wait only for lower levels. Before
** a level runs, the states that its pieces need from other ranks are
** exchanged (backward: their gradients go back and are added). State row i
** of a rank is the final state of its piece i; rows behind those are copies
** of other ranks' final states, in the order (level, source, piece), which
** sender and receiver derive alike from the plan.
**
** Recorded layouts know no pieces: a rank's rows then count as one.
*/
#ifndef STEP_GDN_FLOW_H
#define STEP_GDN_FLOW_H

#include "step/rank_state.h"

struct gdn_level {
    struct dev_piece *piece;    /* of this rank; state rows as above */
    int64_t n_piece;
    bool crosses;               /* some rank sends before this level */
    const struct range *send;   /* state rows to send, by destination; in
                                   the flow's send */
    int64_t *send_first;        /* [cp + 1] */
    int64_t recv_row;           /* first state row that is received */
    int64_t *recv_first;        /* [cp + 1] offsets from recv_row, by source */
};

struct gdn_flow {
    int64_t n_state;            /* rows of state and halo tables */
    int64_t chunks;             /* 64-row chunks of all pieces */
    struct gdn_level *level;
    int64_t n_level;
    struct range *send;         /* of all levels, owned */
};

/* How many states a rank holds, and which crosses where (gdn_flow.c). */
int gdn_flow_new(struct step *s);
void gdn_flow_free(struct gdn_flow *f);

/* table [n_state, width]: rows that level l needs arrive from other ranks. */
void gdn_flow_fetch(struct step *s, int64_t l, struct mat table,
                    const char *what);
/* The way back: gradients of received rows are added at their owners. */
void gdn_flow_return(struct step *s, int64_t l, struct mat table,
                     const char *what);

#endif
