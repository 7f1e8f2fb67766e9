/*
** executor.h - context-parallel attention: a local stage and stages on
** fetched keys, folded into f32 accumulators and back (model.md 3.6, 3.8
** form A, 4.1).
**
** Stages run in order, the local one first. What each leaves for the backward
** is a record: copies of its queries, keys and values (gathered where a stage
** does not take all rows, padded where the kernel's blocks ask for it), its
** output, two log-sum-exps and, from the second stage on, the accumulators
** before its fold (the merge tape). Records are CAT_ATTENTION_RECORDS; they
** stand in the executor, by layer. With one rank there is no executor
** (core.c).
**
** Some records are held as the traced executor holds them, although no
** backward here reads them: a gathered copy of queries, keys or values that
** was padded afterwards (the input of the padding), and the second
** log-sum-exp of a padded stage (its logical-length copy is read).
** Inside src/step.
*/
#ifndef STEP_EXECUTOR_H
#define STEP_EXECUTOR_H

#include "step/tensor.h"

struct stage_record {
    struct tensor q_rows, q;    /* gathered; padded or contiguous */
    struct tensor k_rows, v_rows, k, v;
    struct tensor fetch;        /* remote: k rows, then v rows */
    struct tensor out, lse, lse_natural;    /* [padded queries] */
    struct tensor out_cut, lse_cut;         /* [queries], where padded */
    struct tensor row;          /* own row of each query, i64; with a tape */
    struct tensor tape_o, tape_lse;
};

/* What is known of a stage before any wave. */
struct stage_plan {
    struct stage st;            /* borrowed lists; no work: q = k = 0 */
    int64_t q_pad, k_pad;
    int64_t sent;               /* own rows that the peers fetch with it */
    int64_t *sent_first;        /* [cp + 1] the same by peer; exact plans */
    int64_t *recv_first;        /* [cp + 1] rows received by source; exact */
    int64_t *row;               /* [q] own rows of the queries; computing
                                   devices, where q is not full */
};

struct executor {
    struct stage_plan *plan;    /* [n], the local stage and every fetch wave */
    struct stage_record *record;    /* [layers][n] */
    int64_t n;
    int64_t first;              /* first stage that works, or n */
    int64_t held;               /* requested bytes of live records */
};

int executor_new(struct step *s);       /* fills s->exec; s->rc and *s->e */
void executor_free(struct executor *x);

/* Attention of q on k and v, all of this rank's rows [own, heads * d],
** rotated; v may be strided. Returns the merged output [own, q_heads * d] in
** the activation type. save: records are kept for the backward. */
struct tensor executor_forward(struct step *s, struct mat q, struct mat k,
                               struct mat v, bool save);
/* Gradients of q, k, v in the activation type from that of the output; the
** records are freed. */
void executor_backward(struct step *s, struct mat dout, struct tensor *dq,
                       struct tensor *dk, struct tensor *dv);

/* Shared by executor_forward.c and executor_backward.c. */
static inline bool stage_works(const struct stage_plan *p)
{
    return p->st.q > 0 && p->st.k > 0;
}
static inline struct stage_record *stage_records(const struct step *s)
{
    return s->exec->record + s->layer * s->exec->n;
}
void executor_drop(struct step *s);     /* the current layer's records */
static inline struct mat stage_q(const struct stage_record *r)
{
    return r->q.b != NULL ? r->q.m : r->q_rows.m;
}
struct mat stage_k(const struct stage_plan *p, const struct stage_record *r);
struct mat stage_v(const struct stage_plan *p, const struct stage_record *r);
/* Output and log-sum-exp of the logical rows, as the merge reads them. */
struct mat stage_out(const struct stage_record *r);
struct mat stage_lse(const struct stage_record *r);
/* The own rows of a stage's queries on the device; empty when q is full. */
struct tensor stage_rows(struct step *s, const struct stage_plan *p,
                         enum category c);
void stage_records_free(struct step *s, struct stage_record *r);

#endif
