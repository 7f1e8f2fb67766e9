/*
** layout.c - batch.layout{...}: recorded rows and stages of each rank, for
** batches whose tokens are not public.
*/
#include <inttypes.h>
#include <stdlib.h>

#include "base/num.h"
#include "script/api.h"

#define MAX_STAGES 64

void api_free_layout(struct rank_plan *layout, int64_t cp)
{
    for (int64_t r = 0; layout != NULL && r < cp; r++) free(layout[r].stage);
    free(layout);
}

/* ---- stages --------------------------------------------------------- */

static const struct field stage_fields[] = {
    {"q", FIELD_OTHER, 0, 0, 0},
    {"k", FIELD_OTHER, 0, 0, 0},
    {"q_len", FIELD_OTHER, 0, 0, 0},
    {"k_len", FIELD_OTHER, 0, 0, 0},
    {"q_full", FIELD_OTHER, 0, 0, 0},
    {"remote", FIELD_OTHER, 0, 0, 0},
    {NULL, FIELD_OTHER, 0, 0, 0},
};

/* The table on top is stage number v of a rank with own rows of total. */
static void read_stage(lua_State *L, const struct decl *layout, int64_t rank,
                       int64_t v, int64_t own, int64_t total,
                       struct stage *st)
{
    struct decl d = DECL_INIT(L);
    bool remote = v > 0;

    decl_open(&d, L, -1, stage_fields, "batch.layout: stage %" PRId64
              " of rank %" PRId64, v, rank);
    d.line = layout->line;
    decl_flag(&d, "remote", &remote);
    if (!remote && v > 0)
        decl_fail(&d, "remote", "only a rank's first stage can be local");
    st->local = !remote;
    decl_need(&d, "q");
    decl_need(&d, "k");
    decl_int(&d, "q", 0, own, &st->q);
    decl_int(&d, "k", 0, remote ? total - own : own, &st->k);
    st->q_len = num_round_up(st->q, PLAN_STAGE_BLOCK);
    st->k_len = num_round_up(st->k, PLAN_STAGE_BLOCK);
    decl_int(&d, "q_len", st->q, API_MAX_ROWS, &st->q_len);
    decl_int(&d, "k_len", st->k, API_MAX_ROWS, &st->k_len);
    st->q_full = st->q > 0 && st->q == own;
    st->k_full = st->local && st->k > 0 && st->k == own;
    decl_flag(&d, "q_full", &st->q_full);
    if (st->q_full && st->q != own)
        decl_fail(&d, "q_full", "is true, but q is %" PRId64 " and the rank "
                  "holds %" PRId64 " rows", st->q, own);
}

/* The list on top holds one rank's stages. */
static void read_stages(lua_State *L, const struct decl *d, int64_t rank,
                        struct api_batch *b)
{
    struct rank_plan *p = &b->layout[rank];
    int64_t n = decl_list(d, "stages", -1, MAX_STAGES);

    p->stage = decl_alloc(L, n, sizeof *p->stage);
    b->held += (uint64_t)n * sizeof *p->stage;
    p->n_stage = n;
    for (int64_t v = 0; v < n; v++) {
        lua_rawgeti(L, -1, v + 1);
        read_stage(L, d, rank, v, p->attention_rows, b->tokens, &p->stage[v]);
        lua_pop(L, 1);
    }
}

/* With one rank there is nothing to say: it attends to its own rows. */
static void local_stage(lua_State *L, struct api_batch *b)
{
    struct rank_plan *p = &b->layout[0];
    struct stage *st = decl_alloc(L, 1, sizeof *st);

    b->held += sizeof *st;
    p->stage = st;
    p->n_stage = 1;
    st->local = st->q_full = st->k_full = true;
    st->q = st->k = p->attention_rows;
    st->q_len = st->k_len = num_round_up(st->q, PLAN_STAGE_BLOCK);
}

/* ---- rows ----------------------------------------------------------- */

static const struct field layout_fields[] = {
    {"attention_rows", FIELD_OTHER, 0, 0, 0},
    {"gdn_rows", FIELD_OTHER, 0, 0, 0},
    {"routed_rows", FIELD_INT, offsetof(struct api_batch, routed_rows), 0,
     API_MAX_ROWS},
    {"stages", FIELD_OTHER, 0, 0, 0},
    {NULL, FIELD_OTHER, 0, 0, 0},
};

/* One number for each rank, through a list that Lua owns; their sum. */
static int64_t read_rows(const struct decl *d, const char *key, int64_t cp,
                         struct rank_plan *layout, bool attention)
{
    lua_State *L = d->L;
    int64_t sum = 0;

    if (!decl_table(d, key)) decl_fail(d, NULL, "'%s' is missing", key);
    if (decl_list(d, key, -1, PLAN_MAX_RANKS) != cp)
        decl_fail(d, key, "must hold one number for each of the %" PRId64
                  " ranks of attention_rows", cp);
    for (int64_t r = 0; r < cp; r++) {
        int exact;
        int64_t rows;
        lua_rawgeti(L, -1, r + 1);
        rows = lua_tointegerx(L, -1, &exact);
        if (lua_type(L, -1) != LUA_TNUMBER || !exact || rows < 0 ||
            rows > API_MAX_ROWS)
            decl_fail(d, key, "item %" PRId64 " must be an integer from 0 to "
                      "%" PRId64, r + 1, (int64_t)API_MAX_ROWS);
        lua_pop(L, 1);
        if (attention)
            layout[r].attention_rows = rows;
        else
            layout[r].gdn_rows = rows;
        sum += rows;
    }
    lua_pop(L, 1);
    return sum;
}

/* As many ranks as attention_rows has; all other lists are held to that. */
static void read_ranks(const struct decl *d, struct api_batch *b)
{
    lua_State *L = d->L;

    if (!decl_table(d, "attention_rows"))
        decl_fail(d, NULL, "'attention_rows' is missing");
    b->cp = 0;
    int64_t cp = decl_list(d, "attention_rows", -1, PLAN_MAX_RANKS);
    lua_pop(L, 1);
    if (cp == 0) decl_fail(d, "attention_rows", "must not be empty");
    b->layout = decl_alloc(L, cp, sizeof *b->layout);
    b->held += (uint64_t)cp * sizeof *b->layout;
    b->cp = cp;
    b->tokens = read_rows(d, "attention_rows", cp, b->layout, true);
    if (b->tokens == 0) decl_fail(d, "attention_rows", "has no rows at all");
    if (!decl_has(d, "gdn_rows")) {
        for (int64_t r = 0; r < cp; r++)
            b->layout[r].gdn_rows = b->layout[r].attention_rows;
    } else if (read_rows(d, "gdn_rows", cp, b->layout, false) != b->tokens) {
        decl_fail(d, "gdn_rows", "must have the same sum as attention_rows, "
                  "%" PRId64, b->tokens);
    }
}

int api_layout(lua_State *L)
{
    struct decl d = DECL_INIT(L);
    struct api_batch *b;

    lua_settop(L, 1);
    decl_open(&d, L, 1, layout_fields, "batch.layout");
    b = api_new_batch(L, BATCH_LAYOUT);
    read_ranks(&d, b);
    decl_fields(&d, layout_fields, b);
    if (!decl_table(&d, "stages")) {
        if (b->cp > 1)
            decl_fail(&d, NULL, "'stages' is missing (a list of stages for "
                      "each of the %" PRId64 " ranks)", b->cp);
        local_stage(L, b);
        return 1;
    }
    if (decl_list(&d, "stages", -1, PLAN_MAX_RANKS) != b->cp)
        decl_fail(&d, "stages", "must hold one list for each of the %" PRId64
                  " ranks", b->cp);
    for (int64_t r = 0; r < b->cp; r++) {
        lua_rawgeti(L, -1, r + 1);
        read_stages(L, &d, r, b);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return 1;
}
