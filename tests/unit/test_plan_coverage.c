/* Random small forests: what a plan says, checked token by token. The seed is
** printed on failure; PEAKPROOF_SEED replays it, PEAKPROOF_CASES sets how
** many are tried. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/config.h"
#include "plan_draw.h"

#define MAX_TOKENS 256

/* ---- one random plan ---------------------------------------------------- */

static struct batch random_batch(void)
{
    int64_t parent[24], tokens[24], n = pick(1, 24), left = MAX_TOKENS, i;
    int64_t longest = pick(0, 3) == 0 ? 60 : pick(1, 12);
    int64_t shape = pick(0, 3);
    struct batch b;
    struct err e;

    for (i = 0; i < n; i++) {
        tokens[i] = pick(1, longest < left - (n - i) ? longest : 1);
        left -= tokens[i];
        switch (shape) {
        case 0: parent[i] = -1; break;
        case 1: parent[i] = i - 1 - (i > 2 ? pick(0, 1) : 0); break;
        default: parent[i] = pick(-1, i - 1);
        }
    }
    if (batch_from_tree(parent, tokens, n, &b, &e) != ERR_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, e.text);
    return b;
}

static struct model hybrid, plain;

/* Small chunks, so that few tokens make many; chains at any length. */
static struct plan random_plan(const struct batch *b)
{
    static const int64_t ranks[] = {1, 2, 3, 4, 8};
    struct plan_options o = {
        .cp = ranks[pick(0, 4)], .ep = 1, .tp = 1,
        .profile = pick(0, 1) ? PLAN_NEW : PLAN_OLD, .owned_ms = -1
    };
    struct plan_config c;
    struct plan p;
    struct err e;

    if (o.cp > 1 && pick(0, 3) == 0) {
        static const int64_t cuts[] = {1, 3, 64, 65};
        o.cut_rows = pick(0, 1) ? cuts[pick(0, 3)] : pick(1, b->tokens);
        if (o.cut_rows > b->tokens) o.cut_rows = b->tokens;
        if (pick(0, 1)) o.gdn_cut_rows = pick(1, b->tokens);
    }
    plan_configure(pick(0, 3) ? &hybrid : &plain, &o, &c);
    c.attention.block = pick(1, 8);
    c.attention.chunk = pick(1, 8);
    c.attention.host = pick(0, 1) ? 0 : c.attention.host;
    c.attention.stage *= 1e-3;
    c.attention.comm *= 1e-3;
    c.attention.range *= 1e-3;
    c.attention.floor_pairs = c.attention.floor_rows = 1;
    c.attention.probe_gain = 0;
    c.attention.forward = (struct pair_cost){1, 1.1};
    c.attention.backward = (struct pair_cost){3, 3.3};
    c.attention.fetch = pick(0, 1) ? c.attention.fetch : (double)pick(1, 60);
    c.gdn.chunk = pick(1, 8);
    if (pick(0, 1)) c.gdn.gate = -1e3;
    if (plan_make_with(b, &o, &c, &p, &e) != ERR_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, e.text);
    return p;
}

/* ---- row numberings ----------------------------------------------------- */

struct rows { int64_t v[MAX_TOKENS * 2], n; };

/* Appends what ranges name, mapped through base when given. */
static void expand(struct rows *out, const struct range *r, int64_t n,
                   const struct rows *base)
{
    int64_t i, j;

    for (i = 0; i < n; i++) {
        CHECK(r[i].len >= 1 && r[i].start >= 0);
        for (j = r[i].start; j < r[i].start + r[i].len; j++) {
            CHECK(base == NULL || j < base->n);
            CHECK(out->n < MAX_TOKENS * 2);
            out->v[out->n++] = base == NULL ? j : base->v[j];
        }
    }
}

/* Ascending, and no two that touch. */
static void check_merged(const struct range *r, int64_t n)
{
    int64_t i;

    for (i = 1; i < n; i++) CHECK(r[i - 1].start + r[i - 1].len < r[i].start);
}

static struct rows held[8], held_gdn[8];

static void check_partition(const struct plan *p, struct rows *by_rank,
                            enum layer_kind layout)
{
    int64_t r, i, n, seen[MAX_TOKENS] = {0};

    for (r = 0; r < p->cp; r++) {
        const struct range *v = plan_layout(p, r, layout, &n);
        by_rank[r].n = 0;
        check_merged(v, n);
        expand(&by_rank[r], v, n, NULL);
        CHECK(by_rank[r].n == (layout == LAYER_GDN
                               ? p->rank[r].gdn_rows
                               : p->rank[r].attention_rows));
        for (i = 0; i < by_rank[r].n; i++) seen[by_rank[r].v[i]]++;
    }
    for (i = 0; i < p->tokens; i++) CHECK(seen[i] == 1);
}

/* ---- attention ---------------------------------------------------------- */

static uint8_t pairs[MAX_TOKENS][MAX_TOKENS];

/* Two groups one after the other, [a, b) and [b, c) of v, never see the same
** keys: they would be one. */
static void check_apart(const struct slice *v, int64_t a, int64_t b,
                        int64_t c)
{
    int64_t i;
    bool same = c - b == b - a;

    for (i = a; same && i < b; i++) {
        const struct slice *x = &v[i], *y = &v[b + i - a];
        same = x->k == y->k && x->causal == y->causal &&
               (x->causal || x->n_k == y->n_k);
    }
    CHECK(!same);
}

/* Groups of slices as plan.h promises them, each pair marked. */
static void check_slices(const struct stage *s, const struct rows *q,
                         const struct rows *k)
{
    bool used[MAX_TOKENS] = {false};
    int64_t i, x, y, row = 0, before = -1, j;

    for (i = 0; i < s->n_slice; i++) {
        const struct slice *v = &s->slice[i], *u = v - 1;
        CHECK(v->n_q >= 1 && v->n_k >= 1 && v->k >= 0);
        CHECK(v->k + v->n_k <= s->k);
        CHECK(!v->causal || v->n_k == v->diag + v->n_q);
        CHECK(v->causal || v->diag == 0);
        if (i > 0 && v->q == u->q) {
            CHECK(v->n_q == u->n_q);
            CHECK(!u->causal && u->k + u->n_k < v->k);
        } else {
            CHECK(v->q == row);
            row += v->n_q;
            for (j = i + 1; j < s->n_slice && s->slice[j].q == v->q;) j++;
            if (before >= 0) check_apart(s->slice, before, i, j);
            before = i;
        }
        for (x = 0; x < v->n_q; x++)
            for (y = 0; y < v->n_k; y++) {
                if (v->causal && y > x + v->diag) continue;
                used[v->k + y] = true;
                pairs[q->v[v->q + x]][k->v[v->k + y]]++;
            }
    }
    CHECK(row == s->q);
    for (i = 0; i < s->k; i++) CHECK(used[i]);
}

static int64_t round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

static void check_stage(const struct plan *p, int64_t rank, int64_t i)
{
    const struct stage *s = &p->rank[rank].stage[i];
    int64_t own = p->rank[rank].attention_rows, block = 1;
    struct rows q = {.n = 0}, k = {.n = 0};

    CHECK(s->local == (i == 0));
    check_merged(s->q_range, s->n_q_range);
    expand(&q, s->q_range, s->n_q_range, &held[rank]);
    expand(&k, s->k_range, s->n_k_range, s->local ? &held[rank] : NULL);
    CHECK(q.n == s->q && k.n == s->k);
    CHECK((q.n == 0) == (k.n == 0));
    CHECK(s->q_full == (q.n > 0 && q.n == own));
    CHECK(s->k_full == (s->local && k.n > 0));
    while (block < 9 && !(round_up(s->q, block) == s->q_len &&
                          round_up(s->k, block) == s->k_len))
        block++;
    CHECK(block < 9);
    if (s->local) CHECK(q.n == own && k.n == own);
    check_slices(s, &q, &k);
}

/* What peers send is what the stage reads, in its order. */
static void check_fetch(const struct plan *p, int64_t rank, int64_t i)
{
    const struct stage *s = &p->rank[rank].stage[i];
    struct rows got = {.n = 0}, want = {.n = 0};
    int64_t r, before, j;

    for (r = 0; r < p->cp; r++) {
        const struct stage *t = &p->rank[r].stage[i];
        before = got.n;
        check_merged(t->send + t->send_first[rank],
                     t->send_first[rank + 1] - t->send_first[rank]);
        expand(&got, t->send + t->send_first[rank],
               t->send_first[rank + 1] - t->send_first[rank], &held[r]);
        CHECK(got.n - before == s->recv_rows[r]);
        CHECK(r != rank || got.n == before);
    }
    if (s->local) {
        CHECK(got.n == 0);
        return;
    }
    expand(&want, s->k_range, s->n_k_range, NULL);
    CHECK(got.n == want.n);
    for (j = 0; j < got.n; j++) CHECK(got.v[j] == want.v[j]);
}

static void check_attention(const struct plan *p)
{
    int64_t r, i, q, k;

    memset(pairs, 0, sizeof pairs);
    for (r = 0; r < p->cp; r++) {
        CHECK(p->rank[r].n_stage == p->rounds + 1);
        for (i = 0; i < p->rank[r].n_stage; i++) {
            check_stage(p, r, i);
            check_fetch(p, r, i);
        }
    }
    for (q = 0; q < p->tokens; q++)
        for (k = 0; k < p->tokens; k++)
            CHECK(pairs[q][k] == visible(p->batch, q, k));
}

/* ---- GDN ---------------------------------------------------------------- */

/* The piece that ends segment s before its token offset, searched plainly. */
static void check_state(const struct plan *p, const struct gdn_piece *x)
{
    int64_t segment = x->segment, offset = x->offset, r, i;

    if (offset == 0) {
        segment = p->batch->seg[segment].parent;
        if (segment >= 0) offset = p->batch->seg[segment].tokens;
    }
    if (segment < 0) {
        CHECK(x->from_rank == -1 && x->from_piece == -1);
        return;
    }
    for (r = 0; r < p->cp; r++)
        for (i = 0; i < p->rank[r].n_piece; i++) {
            const struct gdn_piece *y = &p->rank[r].piece[i];
            if (y->segment != segment || y->offset + y->len != offset)
                continue;
            CHECK(x->from_rank == r && x->from_piece == i);
            return;
        }
    CHECK(!"a piece without the one before it");
}

static void check_pieces(const struct plan *p)
{
    int64_t next[24] = {0}, last[24], r, i, j;
    bool chained = false;

    for (i = 0; i < 24; i++) last[i] = -1;
    for (r = 0; r < p->cp; r++) {
        int64_t row = 0;
        for (i = 0; i < p->rank[r].n_piece; i++) {
            const struct gdn_piece *x = &p->rank[r].piece[i];
            const struct segment *s = &p->batch->seg[x->segment];
            CHECK(x->row == row && x->len >= 1);
            CHECK(x->offset == next[x->segment] && r > last[x->segment]);
            CHECK(x->depth == s->depth);
            for (j = 0; j < x->len; j++)
                CHECK(held_gdn[r].v[row + j] == s->start + x->offset + j);
            check_state(p, x);
            chained = chained || x->offset > 0;
            last[x->segment] = r;
            next[x->segment] += x->len;
            row += x->len;
        }
        CHECK(row == p->rank[r].gdn_rows);
    }
    CHECK(p->chained == chained);
    for (i = 0; i < p->batch->n_seg; i++)
        CHECK(next[i] == p->batch->seg[i].tokens);
}

/* Every rank's packed rows, sent from one layout, fill the other. */
static void check_exchange(const struct plan *p, bool to_gdn)
{
    const struct rows *from = to_gdn ? held : held_gdn;
    const struct rows *to = to_gdn ? held_gdn : held;
    int64_t r, s, i, j;

    for (r = 0; r < p->cp; r++) {
        const struct exchange *y = to_gdn ? &p->rank[r].to_gdn
                                          : &p->rank[r].to_attention;
        int64_t filled[MAX_TOKENS], rows = 0;
        memset(filled, 0, sizeof filled);
        for (s = 0; s < p->cp; s++) {
            const struct exchange *x = to_gdn ? &p->rank[s].to_gdn
                                              : &p->rank[s].to_attention;
            int64_t n = x->send_first[r + 1] - x->send_first[r];
            CHECK(n == y->recv_first[s + 1] - y->recv_first[s]);
            for (i = 0; i < n; i++) {
                struct range a = x->send[x->send_first[r] + i];
                struct range b = y->recv[y->recv_first[s] + i];
                CHECK(a.len == b.len && a.len >= 1);
                CHECK(b.start + b.len <= to[r].n);
                for (j = 0; j < a.len; j++) {
                    CHECK(from[s].v[a.start + j] == to[r].v[b.start + j]);
                    CHECK(filled[b.start + j]++ == 0);
                    rows++;
                }
            }
        }
        CHECK(rows == to[r].n);
    }
}

static void check_positions(const struct plan *p, const struct rows *rows,
                            enum layer_kind layout)
{
    int32_t position[MAX_TOKENS], ids[MAX_TOKENS], own[MAX_TOKENS];
    int64_t r, i;

    for (i = 0; i < MAX_TOKENS; i++) ids[i] = (int32_t)(i * 7);
    for (r = 0; r < p->cp; r++) {
        plan_positions(p, r, layout, position);
        plan_gather(p, r, layout, ids, sizeof *ids, own);
        for (i = 0; i < rows[r].n; i++) {
            int64_t row = rows[r].v[i], depth = 0, k;
            for (k = 0; k < row; k++) depth += visible(p->batch, row, k);
            CHECK(position[i] == depth);
            CHECK(own[i] == ids[row]);
        }
    }
}

/* ---- driver ------------------------------------------------------------- */

static void one_case(void)
{
    struct batch b = random_batch();
    struct plan p = random_plan(&b);

    CHECK(p.exact && p.tokens == b.tokens);
    check_partition(&p, held, LAYER_ATTENTION);
    check_partition(&p, held_gdn, LAYER_GDN);
    check_attention(&p);
    if (p.rank[0].n_piece + (p.cp > 1 ? p.rank[p.cp - 1].n_piece : 0) > 0)
        check_pieces(&p);
    check_exchange(&p, true);
    check_exchange(&p, false);
    check_positions(&p, held, LAYER_ATTENTION);
    check_positions(&p, held_gdn, LAYER_GDN);
    plan_free(&p);
    batch_free(&b);
}

static void random_forests(void **state)
{
    const char *cases = getenv("PEAKPROOF_CASES");

    (void)state;
    each_seed(0x5eed0000u, cases != NULL ? atoll(cases) : 3000, one_case);
}

static int load(void **state)
{
    struct err e;

    (void)state;
    return model_load("lua/models/Qwen3.6-35B-A3B.json", 0, &hybrid, &e) ||
           model_load("lua/models/Qwen3-30B-A3B.json", 0, &plain, &e);
}

static int unload(void **state)
{
    (void)state;
    model_free(&hybrid);
    model_free(&plain);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_forests),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
