/*
** plan.h - who holds which rows, and in which stages attention runs.
**
** A plan is what price and step share, beside the model and its parameter
** list. For each rank it holds the rows in attention layout, the rows in GDN
** layout and the attention stages. Plans made from tokens also hold the
** ranges behind the sizes ("exact"), which devices that compute need;
** recorded layouts have sizes only.
**
** Three numberings of rows occur. Packed rows: the whole wave, as in
** batch.h. Local rows of a layout: what one rank holds, its packed rows in
** ascending order, back to back. Stage rows: the queries (q_range) and the
** keys of one stage, back to back.
*/
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/range.h"
#include "batch/batch.h"
#include "model/model.h"

#define PLAN_MAX_RANKS 64

/* The lengths of a stage are its rows rounded up to this. */
enum { PLAN_STAGE_BLOCK = 128 };
/* Rows of a chunk where nobody says otherwise (planner.md 2). */
enum { PLAN_CHUNK_ROWS = 512 };

/* One attention stage of one rank. Stage 0 is the local one; stage v + 1
** holds the keys fetched in round v. All ranks have the same number of
** stages; one without work has q = k = 0 and q_full false.
**
** Exact plans: slices are in stage rows. They come in bands of equal
** (q, n_q): the bands' query ranges are disjoint and ascend, inside a band
** the key ranges are disjoint and ascend, and only a band's last slice may be
** causal. Every query of a stage sees at least one key.
**
** A remote stage's keys arrive from rank 0, 1, ... in turn, recv_rows[s] of
** them from rank s, each rank's in ascending order: stage key row i is the
** i-th row received. What rank s sends to rank r in this stage is
** send[send_first[r] .. send_first[r + 1]) of s's own stage of the same
** index, in ranges of its local rows, and has recv_rows[s] rows of r.
** Gradients of keys and values take the same way back and add up there. */
struct stage {
    bool local;
    bool q_full;            /* q ranges are exactly [0, own rows) */
    bool k_full;            /* local, and k ranges are exactly [0, own) */
    int64_t q, k;           /* logical rows */
    int64_t q_len, k_len;   /* rounded up to PLAN_STAGE_BLOCK */
    /* exact plans only, else NULL and 0: */
    struct slice *slice;    /* [n_slice] */
    int64_t n_slice;
    struct range *q_range;  /* local rows gathered as queries, ascending */
    int64_t n_q_range;
    struct range *k_range;  /* local: own local rows, ascending; remote: the
                               packed rows received, in that order */
    int64_t n_k_range;
    struct range *send;     /* own local rows sent, by peer */
    int64_t *send_first;    /* [cp + 1] index into send */
    int64_t *recv_rows;     /* [cp] rows received from each source */
};

/* A piece of a segment on one rank in GDN layout. Pieces of one segment
** follow each other over ranks in rank order ("chained"), or there is one
** piece. Tokens flow prev -> this: a piece starts from the end state of the
** piece before it in its segment, else of its parent segment's last piece,
** else from zero. All ranks walking their pieces in order never wait for
** each other in a circle: a piece depends only on packed rows before it. */
struct gdn_piece {
    int64_t segment;
    int64_t row;            /* first row in the rank's GDN layout */
    int64_t len;            /* >= 1 */
    int64_t offset;         /* first token within the segment */
    int32_t depth;          /* of the segment */
    int32_t from_rank;      /* rank holding the state it starts from; -1: 0 */
    int64_t from_piece;     /* piece index on that rank; -1: none */
};

/* Rows that change place when a layout is converted, those that stay on the
** rank (peer = self) included: for every peer, ranges of local source rows,
** and where they go. send[send_first[p] + k] of rank r has the length of
** recv[recv_first[r] + k] of rank p: the same packed rows. */
struct exchange {
    struct range *send;     /* source-layout rows, by destination rank */
    int64_t *send_first;    /* [cp + 1] */
    struct range *recv;     /* target-layout rows, by source rank */
    int64_t *recv_first;    /* [cp + 1] */
};

struct rank_plan {
    int64_t attention_rows;
    int64_t gdn_rows;       /* equals attention_rows where there is no GDN */
    struct stage *stage;    /* [n_stage] local first */
    int64_t n_stage;
    /* exact plans only: */
    struct range *attention;    /* packed rows held, ascending, merged */
    int64_t n_attention;
    struct range *gdn;
    int64_t n_gdn;
    struct gdn_piece *piece;    /* in local row order; none without GDN */
    int64_t n_piece;
    struct exchange to_gdn;     /* attention layout -> GDN layout */
    struct exchange to_attention;
};

/* What planning took, in units that do not depend on the machine. */
struct plan_work {
    int64_t parts;          /* segment x chunk parts walked for the pairs */
    int64_t cells;          /* cells of the chunk x chunk pair table */
    int64_t scores;         /* attention layouts scored */
    int64_t chain_scores;   /* GDN layouts scored */
    int64_t slices;         /* slices of all ranks' stages */
    int64_t allocations;    /* host allocations, scratch included */
};

struct plan {
    int64_t cp;
    int64_t tokens;
    int64_t chunk, chunks;  /* planner's chunk; 0 for recorded layouts */
    int64_t rounds;         /* of fetches: "fetch_waves" */
    bool exact;
    bool chained;           /* some GDN segment is split over ranks */
    double score_ms;        /* modelled cost of the attention layout */
    struct rank_plan *rank; /* [cp] */
    const struct batch *batch;  /* borrowed; NULL for recorded layouts */
    struct plan_work work;
    int64_t id;             /* of one in a cache: no other ever there has it */
    struct arena arena;     /* holds every array above */
};

void plan_free(struct plan *p);     /* an all-zero plan is fine */

/* Constants of the published planner, old and new (planner.md 4 and 7.3). */
enum plan_profile { PLAN_OLD, PLAN_NEW };

struct plan_options {
    int64_t cp, ep, tp;     /* 0 reads as 1 */
    enum plan_profile profile;
    double owned_ms;        /* < 0: from the model's shape and ep */
    /* Forced cuts, for tests; 0: none. Rank 0 holds rows [0, cut) and the
    ** others share the rest, at any row, in one round. cut_rows cuts attention
    ** and, unless gdn_cut_rows says otherwise, GDN layout; segments that lie
    ** across the cut are chained there. */
    int64_t cut_rows, gdn_cut_rows;
};

/* Plans one wave. Work grows with segments and chunks, never with tokens.
** b must outlive *out. ERR_USAGE: cp, ep, tp or cut out of bounds. */
int plan_make(const struct model *m, const struct batch *b,
              const struct plan_options *o, struct plan *out, struct err *e)
    MUST_CHECK;

/* A recorded layout: rows and stages as given (deep copy of the sizes).
** Ranges unknown. k_full is set where a local stage's k are all own rows.
** ERR_INPUT names the rank and stage: negative rows, q or k that cannot be,
** lengths below the rows, layouts that differ in their sum. */
int plan_from_layout(int64_t cp, const struct rank_plan *ranks,
                     struct plan *out, struct err *e) MUST_CHECK;

/* ---- rows of exact plans ------------------------------------------------- */

/* The packed rows that a rank holds in a layout, ascending. */
const struct range *plan_layout(const struct plan *p, int64_t rank,
                                enum layer_kind layout, int64_t *n);
/* out[i] = position within its sequence of the rank's local row i: the
** rotary position. out has the layout's rows. */
void plan_positions(const struct plan *p, int64_t rank,
                    enum layer_kind layout, int32_t *out);
/* Copies a rank's rows out of an array over packed rows (ids, targets,
** weights), size bytes a row. */
void plan_gather(const struct plan *p, int64_t rank, enum layer_kind layout,
                 const void *packed, size_t size, void *out);

#endif
