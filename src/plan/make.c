/* make.c - a plan from tokens: every step in order; see plan.h */
#include <inttypes.h>
#include <math.h>

#include "base/num.h"
#include "plan/config.h"
#include "plan/gdn.h"

/* What the steps pass on; all of it in scratch. */
struct steps {
    const struct plan_options *options;
    const struct plan_config *config;
    struct plan plan;
    struct arena scratch;
    struct chunks chunks;
    struct layout layout;
    struct ownership own;
    struct held_list gdn;
};

/* ---- forced cuts -------------------------------------------------------- */

/* Where rank r's rows begin: [0, cut) is rank 0's, the others share the rest
** evenly. */
static int64_t cut_start(int64_t tokens, int64_t cut, int64_t cp, int64_t r)
{
    if (r == 0) return 0;
    return r == cp ? tokens : cut + (tokens - cut) / (cp - 1) * (r - 1);
}

/* One chunk a rank, for ranks that get rows. */
static bool cut_chunks(struct steps *s)
{
    int64_t cp = s->plan.cp, tokens = s->plan.tokens, r, end;
    struct chunks *c = &s->chunks;
    struct layout *l = &s->layout;

    c->start = ARENA_TAKE(&s->scratch, cp + 1, int64_t);
    l->owner = ARENA_TAKE(&s->scratch, cp, uint8_t);
    l->round = ARENA_TAKE(&s->scratch, cp, uint8_t);
    l->rounds = 1;
    if (c->start == NULL || l->owner == NULL || l->round == NULL) return false;
    for (r = 0; r < cp; r++) {
        end = cut_start(tokens, s->options->cut_rows, cp, r + 1);
        if (end == c->start[c->n]) continue;
        l->owner[c->n] = (uint8_t)r;
        c->start[++c->n] = end;
    }
    return true;
}

/* Every segment goes where the cut puts it, whatever its length. */
static bool cut_shards(struct steps *s, int64_t cut, struct shards *out)
{
    const struct batch *b = s->plan.batch;
    int64_t cp = s->plan.cp, i, r = 0, n = 0;

    out->first = ARENA_TAKE(&s->scratch, b->n_seg + 1, int64_t);
    out->v = ARENA_TAKE(&s->scratch, b->n_seg + cp, struct shard);
    if (out->first == NULL || out->v == NULL) return false;
    for (i = 0; i < b->n_seg; i++) {
        int64_t row = b->seg[i].start, stop = row + b->seg[i].tokens, end;
        out->first[i] = n;
        for (; row < stop; row = end) {
            while (cut_start(b->tokens, cut, cp, r + 1) <= row) r++;
            end = num_min(stop, cut_start(b->tokens, cut, cp, r + 1));
            out->v[n++] = (struct shard){r, end - row};
        }
    }
    out->first[i] = n;
    return true;
}

/* ---- layouts ------------------------------------------------------------ */

static bool plan_chunks(struct steps *s)
{
    if (s->options->cut_rows > 0) {
        if (!cut_chunks(s)) return false;
    } else if (!chunks_cut(&s->config->attention, s->plan.tokens, s->plan.cp,
                           &s->scratch, &s->chunks)) {
        return false;
    }
    s->plan.chunk = chunk_rows(&s->chunks, 0);
    s->plan.chunks = s->chunks.n;
    return chunks_count_pairs(&s->chunks, s->plan.batch, &s->scratch,
                              &s->plan.work);
}

static bool plan_attention(struct steps *s)
{
    double rank_ms[PLAN_MAX_RANKS];
    struct search search;

    if (!search_init(&search, &s->config->attention, &s->chunks, s->plan.cp,
                     &s->scratch, &s->plan.work))
        return false;
    if (s->options->cut_rows > 0)
        s->layout.score = search_score(&search, &s->layout, rank_ms);
    else if (!search_run(&search, &s->scratch, &s->layout))
        return false;
    s->plan.score_ms = s->layout.score;
    return ownership_make(&s->chunks, &s->layout, s->plan.cp, &s->scratch,
                          &s->own);
}

/* A forced cut, the search, or, without GDN layers, the attention layout. */
static bool plan_gdn(struct steps *s)
{
    int64_t cut = s->options->gdn_cut_rows > 0 ? s->options->gdn_cut_rows
                                               : s->options->cut_rows;
    struct shards shards;
    struct gdn g;

    if (!s->config->gdn.present) {
        pieces_none(&s->plan);
        s->gdn = s->own.held;
        return true;
    }
    if (cut > 0) {
        if (!cut_shards(s, cut, &shards)) return false;
    } else if (!plan_gdn_init(&g, &s->config->gdn, s->plan.batch, &s->chunks,
                              &s->layout, &s->own, &s->scratch,
                              &s->plan.work) ||
               !plan_gdn_search(&g, &s->scratch) ||
               !plan_gdn_shards(&g, &s->scratch, &shards)) {
        return false;
    }
    return pieces_make(&s->plan, &shards, &s->scratch, &s->gdn);
}

static int plan_all(struct steps *s, struct err *e)
{
    struct plan *p = &s->plan;
    int rc;

    p->rank = ARENA_TAKE(&p->arena, p->cp, struct rank_plan);
    if (p->rank == NULL || !plan_chunks(s) || !plan_attention(s))
        return err_nomem(e);
    p->rounds = s->own.rounds;
    rc = stages_make(p, &s->own, s->config->attention.block, &s->scratch, e);
    if (rc != ERR_OK) return rc;
    if (!plan_gdn(s) ||
        !exchanges_make(p, &s->own.held, &s->gdn, &s->scratch))
        return err_nomem(e);
    p->exact = true;
    return ERR_OK;
}

int plan_make_with(const struct batch *b, const struct plan_options *o,
                   const struct plan_config *c, struct plan *out,
                   struct err *e)
{
    struct steps s = {
        .options = o, .config = c, .scratch = ARENA_INIT,
        .plan = {.cp = o->cp, .tokens = b->tokens, .batch = b,
                 .arena = ARENA_INIT}
    };
    int rc = plan_all(&s, e);

    s.plan.work.allocations += s.scratch.blocks + s.plan.arena.blocks;
    arena_free(&s.scratch);
    if (rc != ERR_OK) {
        plan_free(&s.plan);
        return rc;
    }
    *out = s.plan;
    return ERR_OK;
}

/* ---- options ------------------------------------------------------------ */

static int check_cut(const char *name, int64_t cut, const struct batch *b,
                     int64_t cp, struct err *e)
{
    if (cut == 0) return ERR_OK;
    if (cp < 2)
        return err_set(e, ERR_USAGE, "%s: a cut needs cp of at least 2", name);
    if (cut < 0 || cut > b->tokens)
        return err_set(e, ERR_USAGE, "%s: %" PRId64 " is not in the batch "
                       "(1 to %" PRId64 " rows)", name, cut, b->tokens);
    return ERR_OK;
}

static int check_options(const struct plan_options *o, const struct batch *b,
                         struct err *e)
{
    int rc;

    if (o->cp < 1 || o->cp > PLAN_MAX_RANKS)
        return err_set(e, ERR_USAGE, "cp: %" PRId64 " (1 to %d ranks are "
                       "possible)", o->cp, PLAN_MAX_RANKS);
    if (o->ep < 1)
        return err_set(e, ERR_USAGE, "ep: %" PRId64 " (at least 1)", o->ep);
    if (o->tp < 1)
        return err_set(e, ERR_USAGE, "tp: %" PRId64 " (at least 1)", o->tp);
    if (!isfinite(o->owned_ms))
        return err_set(e, ERR_USAGE, "owned cost: not a finite number");
    rc = check_cut("cut", o->cut_rows, b, o->cp, e);
    if (rc != ERR_OK) return rc;
    return check_cut("gdn cut", o->gdn_cut_rows, b, o->cp, e);
}

int plan_make(const struct model *m, const struct batch *b,
              const struct plan_options *o, struct plan *out, struct err *e)
{
    struct plan_options filled = *o;
    struct plan_config config;
    int rc;

    if (filled.cp == 0) filled.cp = 1;
    if (filled.ep == 0) filled.ep = 1;
    if (filled.tp == 0) filled.tp = 1;
    rc = check_options(&filled, b, e);
    if (rc != ERR_OK) return rc;
    plan_configure(m, &filled, &config);
    return plan_make_with(b, &filled, &config, out, e);
}
