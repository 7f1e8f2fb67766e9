/*
** The executor's records mean something: what is poisoned before the backward
** changes the gradients, but for the few that executor.h names.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "step/executor.h"
#include "step_world.h"

/* ---- one pass of the executor on every rank ----------------------------- */

/* Which tensor of which stage of the last rank is poisoned; -1: none. */
static int64_t poison_stage;
static size_t poison_at;

/* Gradients dq, dk, dv of every rank, back to back. */
static double *grads[2];
static int64_t n_grads[2];

static struct tensor random_rows(struct step *s, const char *op, int64_t rows,
                                 int64_t cols, uint64_t stream)
{
    struct tensor x = ten_act(s, CAT_OTHER, op, rows, cols);

    RUN(s, random, .x = x.m, .seed = 3, .stream = stream, .scale = 1);
    return x;
}

static void keep(struct step *s, struct tensor *t, int64_t rank)
{
    int64_t n = t->m.rows * t->m.cols;

    memcpy(grads[rank] + n_grads[rank], t->m.p, (size_t)n * sizeof(double));
    n_grads[rank] += n;
    ten_free(s, t);
}

static struct tensor *record_at(struct step *s)
{
    struct stage_record *r = &stage_records(s)[poison_stage];

    return (struct tensor *)(void *)((char *)r + poison_at);
}

/* All bits set: NaN in f64, and -1 as an index, which skips the row. */
static void poison(struct step *s, int64_t rank)
{
    struct tensor *t;

    if (rank != s->cp - 1 || poison_stage < 0) return;
    t = record_at(s);
    memset(t->m.p, 0xff, (size_t)mem_requested(t->b));
}

static void *rank_pass(void *arg)
{
    struct world_rank *r = arg;
    struct step *s = r->s;
    int64_t rank = s->c.rank, own = s->rp->attention_rows;
    uint64_t at = (uint64_t)rank * 10;
    struct tensor q, k, v, out, dout, dq, dk, dv;

    s->layer = 0;
    s->e = &r->e;
    q = random_rows(s, "test.q", own, model_q(s->m), at);
    k = random_rows(s, "test.k", own, model_kv(s->m), at + 1);
    v = random_rows(s, "test.v", own, model_kv(s->m), at + 2);
    dout = random_rows(s, "test.dout", own, model_q(s->m), at + 3);
    out = executor_forward(s, q.m, k.m, v.m, true);
    poison(s, rank);
    executor_backward(s, dout.m, &dq, &dk, &dv);
    n_grads[rank] = 0;
    keep(s, &dq, rank);
    keep(s, &dk, rank);
    keep(s, &dv, rank);
    ten_free(s, &q);
    ten_free(s, &k);
    ten_free(s, &v);
    ten_free(s, &out);
    ten_free(s, &dout);
    r->rc = s->rc;
    return NULL;
}

/* ---- every record of the last rank -------------------------------------- */

#define FIELD(name, cover) {#name, offsetof(struct stage_record, name), cover}

/* A record is not read when the one beside it exists: its padded or cut copy
** is (executor.h). */
#define NONE SIZE_MAX
static const struct { const char *name; size_t at, covered_by; } field[] = {
    FIELD(q_rows, offsetof(struct stage_record, q)), FIELD(q, NONE),
    FIELD(k_rows, offsetof(struct stage_record, k)),
    FIELD(v_rows, offsetof(struct stage_record, v)),
    FIELD(k, NONE), FIELD(v, NONE),
    FIELD(fetch, offsetof(struct stage_record, k)),
    FIELD(out, NONE), FIELD(lse, NONE),
    FIELD(lse_natural, offsetof(struct stage_record, lse_cut)),
    FIELD(out_cut, NONE), FIELD(lse_cut, NONE), FIELD(row, NONE),
    FIELD(tape_o, NONE), FIELD(tape_lse, NONE),
};
#define FIELDS (sizeof field / sizeof field[0])

/* How often a field was live and read, over all plans of the test. */
static int seen[FIELDS], covered[FIELDS];

/* Live fields of the last rank's stages, noted while a pass runs. */
static bool live[8][FIELDS];

static void *rank_note(void *arg)
{
    struct world_rank *r = arg;
    struct step *s = r->s;
    int64_t own = s->rp->attention_rows, i;
    struct mat q = {NULL, own, model_q(s->m), model_q(s->m), DT_F64};
    struct mat kv = {NULL, own, model_kv(s->m), model_kv(s->m), DT_F64};
    const struct kernels *k = s->k;
    struct comm *comm = s->comm;
    struct tensor out;
    size_t f;

    s->layer = 0;
    s->k = NULL;            /* sizes only */
    s->comm = NULL;
    out = executor_forward(s, q, kv, kv, true);
    for (i = 0; s->c.rank == s->cp - 1 && i < s->exec->n; i++)
        for (f = 0; f < FIELDS; f++)
            live[i][f] = ((struct tensor *)(void *)
                ((char *)&stage_records(s)[i] + field[f].at))->b != NULL;
    for (i = 0; i < s->exec->n; i++)
        stage_records_free(s, &stage_records(s)[i]);
    ten_free(s, &out);
    s->k = k;
    s->comm = comm;
    return NULL;
}

static size_t field_index(size_t at)
{
    size_t f;

    for (f = 0; f < FIELDS; f++)
        if (field[f].at == at) return f;
    return FIELDS;
}

static void check_field(struct session *x, double *const clean[2], int64_t i,
                        size_t f)
{
    size_t cover = field_index(field[f].covered_by);
    bool read = cover == FIELDS || !live[i][cover];
    bool same = true;
    int r;

    poison_stage = i;
    poison_at = field[f].at;
    each_rank(x, rank_pass);
    for (r = 0; r < 2; r++)
        if (memcmp(clean[r], grads[r],
                   (size_t)n_grads[r] * sizeof(double)) != 0)
            same = false;
    if (same == read)
        fail_msg("stage %d, %s: poison %s", (int)i, field[f].name,
                 read ? "went unnoticed" : "was read");
    seen[f] += read;
    covered[f] += !read;
}

static void poison_all(const struct world *w, int64_t cut)
{
    struct run run = {.cp = 2, .ep = 1, .lora = 4, .act = DT_F64, .cut = cut};
    struct session *x = world_open(w, &run);
    double *clean[2];
    int64_t i;
    size_t f, bytes = (size_t)(w->b.tokens * (model_q(&w->m) +
                                              2 * model_kv(&w->m))) * 8;
    int r;

    for (r = 0; r < 2; r++) {
        grads[r] = malloc(bytes);
        clean[r] = malloc(bytes);
    }
    each_rank(x, rank_note);
    poison_stage = -1;
    each_rank(x, rank_pass);
    for (r = 0; r < 2; r++)
        memcpy(clean[r], grads[r], (size_t)n_grads[r] * sizeof(double));
    for (i = 0; i < x->r[1].s->exec->n; i++)
        for (f = 0; f < FIELDS; f++)
            if (live[i][f]) check_field(x, clean, i, f);
    for (r = 0; r < 2; r++) {
        free(grads[r]);
        free(clean[r]);
    }
    world_close(x);
}

/* Aligned and full; padded; queries gathered, with and without padding. */
static void test_poison(void **state)
{
    static const int64_t lone[] = {-1, -1};
    static const struct { int64_t tokens[2], cut; } t[] = {
        {{255, 1}, 128}, {{150, 50}, 100}, {{228, 28}, 100},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof t / sizeof t[0]; i++) {
        struct world w;

        world_new(&w, world_hybrid, lone, t[i].tokens, 2);
        poison_all(&w, t[i].cut);
        world_free(&w);
    }
    for (i = 0; i < FIELDS; i++) {
        /* exact plans give the local stage all rows: nothing to gather */
        bool local = strcmp(field[i].name, "k_rows") == 0 ||
                     strcmp(field[i].name, "v_rows") == 0;

        if (!local) assert_true(seen[i] > 0);
        if (!local && field[i].covered_by != NONE) assert_true(covered[i] > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_poison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
