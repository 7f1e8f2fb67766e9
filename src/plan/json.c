/* json.c - see json.h */
#include "plan/json.h"

static json_t *rows_to_json(const struct plan *p, enum layer_kind layout)
{
    json_t *v = json_array();
    int64_t r;

    for (r = 0; r < p->cp; r++)
        json_array_append_new(v, json_integer(layout == LAYER_GDN
                                              ? p->rank[r].gdn_rows
                                              : p->rank[r].attention_rows));
    return v;
}

static json_t *stage_to_json(const struct stage *s)
{
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:b}", "local", s->local,
                     "q", (json_int_t)s->q, "k", (json_int_t)s->k,
                     "q_len", (json_int_t)s->q_len,
                     "k_len", (json_int_t)s->k_len, "q_full", s->q_full);
}

static json_t *ranks_to_json(const struct plan *p)
{
    json_t *ranks = json_array();
    int64_t r, i;

    for (r = 0; r < p->cp; r++) {
        json_t *stages = json_array();
        for (i = 0; i < p->rank[r].n_stage; i++)
            json_array_append_new(stages,
                                  stage_to_json(&p->rank[r].stage[i]));
        json_array_append_new(ranks, json_pack("{s:o}", "stages", stages));
    }
    return ranks;
}

json_t *plan_to_json(const struct plan *p, double plan_ms)
{
    json_t *ms = plan_ms < 0 ? json_null() : json_real(plan_ms);

    return json_pack("{s:i, s:I, s:I, s:I, s:I, s:o, s:o, s:b, s:f, s:o, s:o}",
                     "format", 1, "tokens", (json_int_t)p->tokens,
                     "chunk", (json_int_t)p->chunk,
                     "chunks", (json_int_t)p->chunks,
                     "fetch_waves", (json_int_t)p->rounds,
                     "attention_rows", rows_to_json(p, LAYER_ATTENTION),
                     "gdn_rows", rows_to_json(p, LAYER_GDN),
                     "chained", p->chained, "score_ms", p->score_ms,
                     "plan_ms", ms, "ranks", ranks_to_json(p));
}
