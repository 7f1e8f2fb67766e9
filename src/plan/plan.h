/*
** plan.h - who holds which rows, and in which stages attention runs.
**
** A plan is what price and step share, beside the model and its parameter
** list. For each rank it holds the rows in attention layout, the rows in GDN
** layout and the attention stages. Plans made from tokens also hold the
** ranges behind the sizes ("exact"), which devices that compute need;
** recorded layouts have sizes only.
*/
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/range.h"
#include "batch/batch.h"
#include "model/model.h"

/* One attention stage of one rank. Stage 0 is the local one; stage v + 1
** holds the keys fetched in wave v. A stage without work has q = k = 0. */
struct stage {
    bool local;
    bool q_full;            /* q ranges are exactly [0, own rows) */
    bool k_full;            /* local, and k ranges are exactly [0, own) */
    int64_t q, k;           /* logical rows */
    int64_t q_len, k_len;   /* the planner's lengths: rounded up to 128 */
    /* exact plans only, else NULL and 0: */
    struct slice *slice;    /* [n_slice] sorted by q, then k */
    int64_t n_slice;
    struct range *q_range;  /* rank-local rows gathered as queries */
    int64_t n_q_range;
    struct range *k_range;  /* local: own rows; remote: rows in the order in
                               which they are received, by source */
    int64_t n_k_range;
    struct range *send;     /* own rows sent, all peers concatenated */
    int64_t *send_first;    /* [cp + 1] index into send, by peer */
    int64_t *recv_rows;     /* [cp] rows received from each source */
};

/* A piece of a segment on one rank in GDN layout. Pieces of one segment
** follow each other over ranks in rank order ("chained"), or there is one
** piece. State flows prev -> this; children start from the end of their
** parent's last piece. */
struct gdn_piece {
    int64_t segment;
    int64_t row;            /* first row in the rank's GDN layout */
    int64_t len;
    int64_t offset;         /* first token within the segment */
    int32_t depth;
    int32_t from_rank;      /* rank holding the state it starts from; -1: 0 */
    int64_t from_piece;     /* piece index on that rank */
};

/* Rows that change place when a layout is converted: for every peer, ranges
** of local source rows, and where they go. Peer r's k-th range arrives as
** r's k-th range from here. */
struct exchange {
    struct range *send;     /* [n] source-layout rows, by destination rank */
    int64_t *send_first;    /* [cp + 1] */
    struct range *recv;     /* [n] target-layout rows, by source rank */
    int64_t *recv_first;    /* [cp + 1] */
};

struct rank_plan {
    int64_t attention_rows;
    int64_t gdn_rows;       /* equals attention_rows where there is no GDN */
    struct stage *stage;    /* [n_stage] local first */
    int64_t n_stage;
    /* exact plans only: */
    struct range *attention;    /* packed rows held, in local order */
    int64_t n_attention;
    struct range *gdn;
    int64_t n_gdn;
    struct gdn_piece *piece;    /* in local row order */
    int64_t n_piece;
    struct exchange to_gdn;     /* attention layout -> GDN layout */
    struct exchange to_attention;
};

struct plan {
    int64_t cp;
    int64_t tokens;
    int64_t chunk, chunks;  /* planner's chunk; 0 for recorded layouts */
    int64_t fetch_waves;
    bool exact;
    bool chained;           /* some GDN segment is split over ranks */
    double score_ms;        /* modelled cost of the attention layout */
    struct rank_plan *rank; /* [cp] */
    const struct batch *batch;  /* borrowed; NULL for recorded layouts */
};

void plan_free(struct plan *p);

/* Largest of all ranks' attention and GDN rows, at least 1. */
int64_t plan_busiest_rows(const struct plan *p);

/* Constants of the published planner, old and new (planner.md 4 and 7.3). */
enum plan_profile { PLAN_OLD, PLAN_NEW };

struct plan_options {
    int64_t cp, ep, tp;
    enum plan_profile profile;
    double owned_ms;        /* < 0: from the model's shape and ep */
    int64_t cut_rows;       /* > 0: forces rank 0's attention rows (tests) */
};

/* Plans one wave. Work grows with segments and chunks, never with tokens.
** b must outlive *out. */
int plan_make(const struct model *m, const struct batch *b,
              const struct plan_options *o, struct plan *out, struct err *e)
    MUST_CHECK;

/* A recorded layout: rows and stages as given (deep copy). Ranges unknown. */
int plan_from_layout(int64_t cp, const struct rank_plan *ranks,
                     struct plan *out, struct err *e) MUST_CHECK;

#endif
