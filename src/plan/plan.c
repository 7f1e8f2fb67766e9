/* plan.c - plans as values: freed, summed up, recorded; see plan.h */
#include "plan/plan.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/num.h"

void plan_free(struct plan *p)
{
    arena_free(&p->arena);
    *p = (struct plan){0};
}

/* ---- recorded layouts --------------------------------------------------- */

static int bad_stage(int64_t rank, int64_t stage, struct err *e,
                     const char *why)
{
    return err_set(e, ERR_INPUT, "layout: rank %" PRId64 ": stage %" PRId64
                   ": %s", rank, stage, why);
}

/* A recorded layout comes from outside: what no plan could have is named. */
static int check_stage(const struct rank_plan *r, int64_t rank, int64_t i,
                       struct err *e)
{
    const struct stage *s = &r->stage[i];

    if (s->local != (i == 0))
        return bad_stage(rank, i, e, "the local stage comes first, and once");
    if (s->q < 0 || s->k < 0 || s->q_len < 0 || s->k_len < 0)
        return bad_stage(rank, i, e, "negative rows");
    if (s->q > r->attention_rows)
        return bad_stage(rank, i, e, "more queries than the rank has rows");
    if (s->local && s->k > r->attention_rows)
        return bad_stage(rank, i, e, "more local keys than the rank has rows");
    if ((s->q == 0) != (s->k == 0))
        return bad_stage(rank, i, e, "queries without keys, or the reverse");
    if (s->q_len < s->q || s->k_len < s->k)
        return bad_stage(rank, i, e, "q_len or k_len below its rows");
    if (s->q_len > BATCH_MAX_TOKENS || s->k_len > BATCH_MAX_TOKENS)
        return bad_stage(rank, i, e, "too many rows");
    if (s->q_full && s->q != r->attention_rows)
        return bad_stage(rank, i, e, "q_full, but q is not all of the rank's "
                         "rows");
    return ERR_OK;
}

static int check_rank(const struct rank_plan *r, int64_t rank, struct err *e)
{
    int64_t i;
    int rc = ERR_OK;

    if (r->attention_rows < 0 || r->attention_rows > BATCH_MAX_TOKENS ||
        r->gdn_rows < 0 || r->gdn_rows > BATCH_MAX_TOKENS)
        return err_set(e, ERR_INPUT, "layout: rank %" PRId64 ": rows out of "
                       "bounds (0 to %" PRId64 ")", rank, BATCH_MAX_TOKENS);
    for (i = 0; i < r->n_stage && rc == ERR_OK; i++)
        rc = check_stage(r, rank, i, e);
    return rc;
}

/* Sizes only: no array of *from but its stages is read. */
static bool copy_rank(struct plan *p, struct rank_plan *to,
                      const struct rank_plan *from)
{
    int64_t i;

    to->attention_rows = from->attention_rows;
    to->gdn_rows = from->gdn_rows;
    to->n_stage = from->n_stage;
    to->stage = ARENA_TAKE(&p->arena, from->n_stage, struct stage);
    if (to->stage == NULL) return false;
    for (i = 0; i < from->n_stage; i++) {
        const struct stage *s = &from->stage[i];
        to->stage[i] = (struct stage){
            .local = s->local, .q_full = s->q_full,
            .k_full = s->local && s->k > 0 && s->k == from->attention_rows,
            .q = s->q, .k = s->k, .q_len = s->q_len, .k_len = s->k_len
        };
    }
    return true;
}

int plan_from_layout(int64_t cp, const struct rank_plan *ranks,
                     struct plan *out, struct err *e)
{
    struct plan p = {.cp = cp, .arena = ARENA_INIT};
    int64_t i, gdn = 0;
    int rc = ERR_OK;

    assert(ranks != NULL);
    if (cp < 1 || cp > PLAN_MAX_RANKS)
        return err_set(e, ERR_INPUT, "layout: %" PRId64 " ranks (1 to %d are "
                       "possible)", cp, PLAN_MAX_RANKS);
    for (i = 0; i < cp && rc == ERR_OK; i++) {
        rc = check_rank(&ranks[i], i, e);
        p.tokens += ranks[i].attention_rows;
        gdn += ranks[i].gdn_rows;
        p.rounds = num_max(p.rounds, ranks[i].n_stage - 1);
    }
    if (rc == ERR_OK && gdn != p.tokens)
        rc = err_set(e, ERR_INPUT, "layout: %" PRId64 " attention rows but %"
                     PRId64 " gdn rows in all", p.tokens, gdn);
    if (rc != ERR_OK) return rc;
    p.rank = ARENA_TAKE(&p.arena, cp, struct rank_plan);
    for (i = 0; p.rank != NULL && i < cp; i++)
        if (!copy_rank(&p, &p.rank[i], &ranks[i])) break;
    if (p.rank == NULL || i < cp) {
        plan_free(&p);
        return err_nomem(e);
    }
    *out = p;
    return ERR_OK;
}

/* ---- rows of exact plans ------------------------------------------------ */

const struct range *plan_layout(const struct plan *p, int64_t rank,
                                enum layer_kind layout, int64_t *n)
{
    const struct rank_plan *r = &p->rank[rank];

    assert(p->exact && rank >= 0 && rank < p->cp);
    *n = layout == LAYER_GDN ? r->n_gdn : r->n_attention;
    return layout == LAYER_GDN ? r->gdn : r->attention;
}

/* The segment that holds a packed row. */
static int64_t segment_of(const struct batch *b, int64_t row)
{
    int64_t lo = 0, hi = b->n_seg;

    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (b->seg[mid].start <= row)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

void plan_positions(const struct plan *p, int64_t rank,
                    enum layer_kind layout, int32_t *out)
{
    int64_t n, i, row, s;
    const struct range *r = plan_layout(p, rank, layout, &n);

    for (i = 0; i < n; i++) {
        s = segment_of(p->batch, r[i].start);
        for (row = r[i].start; row < r[i].start + r[i].len; row++) {
            const struct segment *seg = &p->batch->seg[s];
            if (row == seg->start + seg->tokens) seg = &p->batch->seg[++s];
            *out++ = (int32_t)(seg->position + row - seg->start);
        }
    }
}

void plan_gather(const struct plan *p, int64_t rank, enum layer_kind layout,
                 const void *packed, size_t size, void *out)
{
    const unsigned char *from = packed;
    unsigned char *to = out;
    int64_t n, i;
    const struct range *r = plan_layout(p, rank, layout, &n);

    for (i = 0; i < n; i++) {
        size_t bytes = (size_t)r[i].len * size;
        memcpy(to, from + (size_t)r[i].start * size, bytes);
        to += bytes;
    }
}
