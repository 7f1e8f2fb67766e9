/* executor_check.c - see executor_check.h */
#include "base/num.h"
#include "base/random.h"
#include "step/executor.h"
#include "step/executor_check.h"

/* The forward of one rank's stages with everything else left out. */
static int forward_only(struct step *s, int64_t own, int64_t *bytes)
{
    int64_t q = model_q(s->m), kv = model_kv(s->m);
    struct mat mq = {NULL, own, q, q, DT_BF16};
    struct mat mk = {NULL, own, kv, kv, DT_BF16};
    struct tensor out;
    struct mem_stats st;

    if (executor_new(s) != ERR_OK) return s->rc;
    s->phase = PHASE_RECOMPUTE;
    out = executor_forward(s, mq, mk, mk, true);
    ten_free(s, &out);
    mem_stats(s->mem, &st);
    *bytes = (int64_t)st.requested;
    return s->rc;
}

int executor_records(const struct model *m, const struct stage *stage,
                     int64_t n, int64_t own, int64_t q_block, int64_t k_block,
                     int64_t *bytes, struct err *e)
{
    struct mem_dry_source source;
    struct dev dev = {.ops = &dev_dry, .act = DT_BF16, .acc = DT_F32};
    struct stage *list = (struct stage *)(uintptr_t)stage;  /* only read */
    struct rank_plan ranks[2] = {{.attention_rows = own, .stage = list,
                                  .n_stage = n},
                                 {.attention_rows = own}};
    struct plan plan = {.cp = 2, .rank = ranks, .rounds = n};
    struct step s = {.m = m, .rp = ranks, .dev = &dev, .cp = 2, .e = e};
    struct mem_config config = {0};
    int rc;

    rc = mem_new(&config, mem_dry_source(&source, 0), &s.mem, e);
    if (rc != ERR_OK) return rc;
    s.c.model = m;
    s.c.plan = &plan;
    s.c.q_block = q_block;
    s.c.k_block = k_block;
    rc = forward_only(&s, own, bytes);
    executor_free(s.exec);
    mem_free_all(s.mem);
    return rc;
}

/* ---- random ranks ------------------------------------------------------- */

static int64_t below(uint64_t *state, int64_t n)
{
    return n <= 0 ? 0 : (int64_t)(random_next(state) % (uint64_t)n);
}

/* A number of rows up to max: tiny, aligned to 128, or any. */
static int64_t rows_up_to(uint64_t *state, int64_t max)
{
    switch (below(state, 4)) {
    case 0: return num_min(max, below(state, 4));
    case 1: return num_min(max, below(state, max / 128 + 1) * 128);
    case 2: return max;
    default: return below(state, max + 1);
    }
}

static struct stage random_stage(uint64_t *state, bool local, int64_t own)
{
    struct stage st = {.local = local};

    st.q = rows_up_to(state, own);
    st.k = rows_up_to(state, local ? own : 70000);
    if (st.q == 0 || st.k == 0) st.q = st.k = 0;
    st.q_len = num_round_up(st.q, 128);
    st.k_len = num_round_up(st.k, 128);
    st.q_full = st.q > 0 && st.q == own && below(state, 8) != 0;
    st.k_full = local && st.k > 0 && st.k == own && below(state, 8) != 0;
    return st;
}

int64_t executor_random_stages(uint64_t *state, struct stage *stage,
                               int64_t *own)
{
    static const int64_t size[] = {3, 130, 4096, 60000};
    int64_t n = 1 + below(state, EXECUTOR_STAGES), i;
    bool missing = below(state, 4) == 0;

    *own = 1 + rows_up_to(state, size[below(state, 4)]);
    for (i = 0; i < n; i++)
        stage[i] = random_stage(state, i == 0, *own);
    if (missing) stage[0] = (struct stage){.local = true};
    return n;
}
