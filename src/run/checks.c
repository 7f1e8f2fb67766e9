/*
** checks.c - see run.h: what "run --check" checks beside tolerances.
**
** Each check draws its cases from a fixed seed, so that checks.csv is the
** same for every run.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/random.h"
#include "run/work.h"
#include "step/executor_check.h"

enum {
    SEED = 20250601,
    MIRROR_CASES = 10000, BOUND_CASES = 10000, COVERAGE_CASES = 2000
};

/* From lo to hi. */
static int64_t between(uint64_t *state, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(random_next(state) % (uint64_t)(hi - lo + 1));
}

static int64_t size_of(int64_t n)
{
    return n < 0 ? -n : n;
}

/* ---- mirror against executor -------------------------------------------- */

/* The one stated exception. Without a local stage the executor's first remote
** stage by index records no merge tape, while the mirror drops the smallest:
** the difference is the first tape less the smallest. */
static int64_t tape_exception(const struct model *m, const struct stage *s,
                              int64_t n, int64_t own)
{
    int64_t row = m->q_heads * (m->head_dim + 1) * 4;
    int64_t first = -1, least = 0, tape, i;

    for (i = 0; i < n; i++) {
        if (s[i].q == 0 || s[i].k == 0) continue;
        if (s[i].local) return 0;
        tape = s[i].q_full ? own * row : s[i].q * (row + 8);
        least = first < 0 ? tape : num_min(least, tape);
        if (first < 0) first = tape;
    }
    return first < 0 ? 0 : first - least;
}

/* The sizes that are priced against those that the executor allocates. */
static int check_mirror(const struct model *m, struct record_check *c,
                        struct err *e)
{
    struct stage stage[EXECUTOR_STAGES];
    uint64_t state = c->seed;
    int64_t own, n, mirror, executor, off;
    int rc = ERR_OK;

    for (; c->cases < MIRROR_CASES; c->cases++) {
        n = executor_random_stages(&state, stage, &own);
        rc = executor_records(m, stage, n, own, PRICE_Q_BLOCK, PRICE_K_BLOCK,
                              &executor, e);
        if (rc != ERR_OK) return rc;
        mirror = price_stage_records(m, stage, n, own, PRICE_Q_BLOCK,
                                     PRICE_K_BLOCK);
        off = size_of(mirror - executor - tape_exception(m, stage, n, own));
        c->failed += off != 0;
        c->worst = num_max(c->worst, off);
    }
    c->note = "worst: bytes off, beside the tape that the mirror drops where "
              "no local stage ran";
    return ERR_OK;
}

/* ---- lower bound -------------------------------------------------------- */

/* The bound and the cost of one random way to split some sequences. */
static int random_split(const struct model *m, uint64_t *state, int64_t *bound,
                        int64_t *cost, struct estimate *x, struct err *e)
{
    int64_t length[8], n = between(state, 1, 8), sum = 0, i;
    struct plan_options o = {.cp = 2, .ep = 2, .profile = PLAN_NEW,
                             .owned_ms = -1};
    struct batch b = {0};
    struct plan p = {0};
    struct price_facts f;
    int rc;

    for (i = 0; i < n; i++) sum += length[i] = between(state, 1, 20000);
    o.cut_rows = sum > 1 ? between(state, 1, sum - 1) : 0;
    rc = batch_from_lengths(length, n, &b, e);
    if (rc == ERR_OK) rc = plan_make(m, &b, &o, &p, e);
    if (rc == ERR_OK) rc = price_facts_from_plan(m, &p, 2, 8, &f, e);
    if (rc == ERR_OK) {
        f.cold = true;
        rc = price_per_rank(&f, x, e);
        if (rc == ERR_OK) rc = price_lower_bound(&f, bound, e);
        price_facts_free(&f);
    }
    *cost = x->raw;
    plan_free(&p);
    batch_free(&b);
    return rc;
}

/* No split of the rows may cost less than the lower bound says. */
static int check_bound(const struct model *m, struct record_check *c,
                       char *note, size_t cap, struct err *e)
{
    struct estimate *x = malloc(sizeof *x);
    uint64_t state = c->seed;
    int64_t bound, cost, least = 1000, most = 0;
    int rc = x == NULL ? err_nomem(e) : ERR_OK;

    c->worst = INT64_MIN;
    for (; rc == ERR_OK && c->cases < BOUND_CASES; c->cases++) {
        rc = random_split(m, &state, &bound, &cost, x, e);
        if (rc != ERR_OK) break;
        c->failed += bound > cost;
        c->worst = num_max(c->worst, bound - cost);
        least = num_min(least, bound * 1000 / cost);
        most = num_max(most, bound * 1000 / cost);
    }
    snprintf(note, cap, "worst: bytes of the bound beyond the cost; the bound "
             "is %" PRId64 ".%" PRId64 " to %" PRId64 ".%" PRId64 " %% of the "
             "cost", least / 10, least % 10, most / 10, most % 10);
    c->note = note;
    free(x);
    return rc;
}

/* ---- coverage ----------------------------------------------------------- */

/* Up to 24 segments of up to 400 tokens, each a root or below another. */
static int random_tree(uint64_t *state, struct batch *out, struct err *e)
{
    int64_t parent[24], tokens[24], n = between(state, 1, 24), i;

    for (i = 0; i < n; i++) {
        parent[i] = between(state, 0, 3) == 0 ? -1
                                              : between(state, -1, i - 1);
        tokens[i] = between(state, 1, 400);
    }
    return batch_from_tree(parent, tokens, n, out, e);
}

/* (query, key) pairs of the mask: a token sees its own segment's earlier
** tokens, itself, and its prefix. */
static int64_t mask_pairs(const struct batch *b)
{
    int64_t i, sum = 0;

    for (i = 0; i < b->n_seg; i++) {
        int64_t n = b->seg[i].tokens;
        sum += n * b->seg[i].position + n * (n + 1) / 2;
    }
    return sum;
}

static int64_t slice_pairs(const struct slice *s)
{
    int64_t i, sum = 0;

    if (!s->causal) return s->n_q * s->n_k;
    for (i = 0; i < s->n_q; i++)
        sum += num_max(0, num_min(s->n_k, i + s->diag + 1));
    return sum;
}

/* How far the plan's pairs and rows are from the mask's and the tokens. */
static int64_t uncovered(const struct plan *p)
{
    int64_t pairs = 0, attention = 0, gdn = 0, r, i, k;

    for (r = 0; r < p->cp; r++) {
        const struct rank_plan *a = &p->rank[r];
        attention += a->attention_rows;
        gdn += a->gdn_rows;
        for (i = 0; i < a->n_stage; i++)
            for (k = 0; k < a->stage[i].n_slice; k++)
                pairs += slice_pairs(&a->stage[i].slice[k]);
    }
    return size_of(pairs - mask_pairs(p->batch)) +
           size_of(attention - p->tokens) + size_of(gdn - p->tokens);
}

/* Every row held once, every pair seen once, on trees that nobody chose. */
static int check_coverage(const struct model *m, struct record_check *c,
                          struct err *e)
{
    struct plan_options o = {.profile = PLAN_NEW, .owned_ms = -1};
    uint64_t state = c->seed;
    int64_t off;
    int rc = ERR_OK;

    for (; rc == ERR_OK && c->cases < COVERAGE_CASES; c->cases++) {
        struct batch b = {0};
        struct plan p = {0};
        o.cp = (int64_t)1 << between(&state, 1, 3);
        rc = random_tree(&state, &b, e);
        if (rc == ERR_OK) rc = plan_make(m, &b, &o, &p, e);
        off = rc == ERR_OK ? uncovered(&p) : 0;
        c->failed += off != 0;
        c->worst = num_max(c->worst, off);
        plan_free(&p);
        batch_free(&b);
    }
    c->note = "worst: pairs and rows off; trees at CP 2, 4, 8";
    return rc;
}

/* ---- routing sensitivity ------------------------------------------------ */

/* The peak of one cold wave when the most-loaded rank of EP2 receives
** percent / 100 of its share in every layer; -1: it has none. */
static int share_peak(const struct run_context *x, const struct model *m,
                      const struct plan *p, int64_t percent, int64_t *peak,
                      struct err *e)
{
    char bf16[] = "bf16", random[] = "random";
    struct record_rank rank[2];
    struct record_timing timing[2 + RUN_WAVE_TIMINGS];
    struct run_wave wave = {.cold = true, .rank = rank, .timing = timing};
    struct scenario_case c = {
        .layers = m->layers, .cp = 2, .ep = 2, .tp = 1, .pp = 1,
        .lora_rank = 8, .lora_alpha = 32, .waves = 1, .dtype = bf16,
        .weights = random, .head_rows = -1,
        .routing = {.kind = ROUTING_SHARE, .share = (double)percent / 100}
    };
    struct run_work w = {.x = x, .c = &c, .model = *m, .plan = p,
                         .wave = &wave};
    int rc = run_step(&w, e);

    *peak = run_peak(&w, 0);
    return rc;
}

/* More load on one rank may never make the peak smaller. */
static int check_routing(const struct run_context *x, const struct model *m,
                         struct record_check *c, char *note, size_t cap,
                         struct err *e)
{
    static const int64_t lengths[] = {52480, 44314};
    struct plan_options o = {.cp = 2, .ep = 2, .profile = PLAN_NEW,
                             .owned_ms = -1};
    struct batch b = {0};
    struct plan p = {0};
    int64_t peak, first = 0, last = 0, percent;
    int rc = batch_from_lengths(lengths, 2, &b, e);

    if (rc == ERR_OK) rc = plan_make(m, &b, &o, &p, e);
    for (percent = 100; rc == ERR_OK && percent <= 140; percent += 5) {
        rc = share_peak(x, m, &p, percent, &peak, e);
        if (percent == 100) first = peak;
        c->failed += peak < last;
        c->worst = num_max(c->worst, last - peak);
        last = peak;
        c->cases++;
    }
    snprintf(note, cap, "worst: bytes by which a peak falls when the "
             "most-loaded rank's share rises by 5 %%; from its even share to "
             "1.4 of it the peak rises by %" PRId64 " bytes", last - first);
    c->note = note;
    plan_free(&p);
    batch_free(&b);
    return rc;
}

/* ---- all ---------------------------------------------------------------- */

static int add_check(struct record *r, const struct record_check *c,
                     struct run_checked *sum, struct err *e)
{
    if (c->failed > 0)
        fprintf(stderr, "peakproof: check: %s: %" PRId64 " of %" PRId64
                " failed\n", c->check, c->failed, c->cases);
    sum->cases += c->cases;
    sum->failed += c->failed;
    return record_check(r, c, e);
}

static int check_all(const struct run_context *x, const struct model *m,
                     struct record *r, struct run_checked *sum, struct err *e)
{
    struct record_check mirror = {.check = "mirror-executor", .seed = SEED};
    struct record_check bound = {.check = "lower-bound", .seed = SEED};
    struct record_check cover = {.check = "plan-coverage", .seed = SEED};
    struct record_check route = {.check = "routing-sensitivity"};
    char note[256];
    int rc = check_mirror(m, &mirror, e);

    if (rc == ERR_OK) rc = add_check(r, &mirror, sum, e);
    if (rc == ERR_OK) rc = check_bound(m, &bound, note, sizeof note, e);
    if (rc == ERR_OK) rc = add_check(r, &bound, sum, e);
    if (rc == ERR_OK) rc = check_coverage(m, &cover, e);
    if (rc == ERR_OK) rc = add_check(r, &cover, sum, e);
    if (rc == ERR_OK) rc = check_routing(x, m, &route, note, sizeof note, e);
    if (rc == ERR_OK) rc = add_check(r, &route, sum, e);
    return rc;
}

int run_checks(const char *data, const atomic_int *interrupt,
               struct record *r, struct run_checked *sum, struct err *e)
{
    struct run_context dry = {.device = "dry", .ops = &dev_dry,
                              .interrupt = interrupt};
    struct buf path = BUF_INIT;
    struct model m;
    int rc;

    *sum = (struct run_checked){0, 0};
    buf_printf(&path, "%s/models/Qwen3.6-35B-A3B.json", data);
    rc = path.failed ? err_nomem(e) : model_load(path.data, 0, &m, e);
    buf_free(&path);
    if (rc != ERR_OK) return rc;
    rc = check_all(&dry, &m, r, sum, e);
    model_free(&m);
    return rc;
}
