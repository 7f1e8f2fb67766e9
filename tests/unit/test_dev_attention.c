/*
** test_dev_attention.c - attention over slices: against a row-by-row
** reference, rows that see nothing, stages and their merge (forms A and B),
** isolation, NaN.
*/
#include "dev_fixture.h"

enum { D = 8 };

/* ---- a reference, row by row, in f64 ------------------------------------ */

static bool sees(const struct slice *s, int64_t i, int64_t j)
{
    return i >= s->q && i < s->q + s->n_q && j >= s->k && j < s->k + s->n_k
        && (!s->causal || j - s->k <= i - s->q + s->diag);
}

static double score(struct mat q, struct mat k, int64_t i, int64_t j,
                    int64_t head, int64_t kv)
{
    double s = 0;
    int64_t c;

    for (c = 0; c < D; c++)
        s += fix_get(q, i, head * D + c) * fix_get(k, j, kv * D + c);
    return s / sqrt((double)D);
}

static void reference_row(struct mat out, struct mat lse, struct mat q,
                          struct mat k, struct mat v, int64_t rep, int64_t i,
                          int64_t head, const struct slice *s, int64_t n)
{
    double sum = 0, o[D] = {0};
    int64_t j, x, c;

    for (j = 0; j < k.rows; j++)
        for (x = 0; x < n; x++) {
            double p;
            if (!sees(&s[x], i, j)) continue;
            p = exp(score(q, k, i, j, head, head / rep));
            sum += p;
            for (c = 0; c < D; c++)
                o[c] += p * fix_get(v, j, head / rep * D + c);
        }
    for (c = 0; c < D; c++)
        fix_set(out, i, head * D + c, sum > 0 ? o[c] / sum : 0);
    fix_set(lse, i, head, sum > 0 ? log(sum) : -(double)INFINITY);
}

/* ---- one problem -------------------------------------------------------- */

struct problem {
    struct mat q, k, v, out, lse, dout, dlse, dq, dk, dv;
    int64_t heads, kv;
    const struct slice *slice;
    int64_t n_slice;
};

static struct problem problem(struct fix *f, int64_t rows, int64_t keys,
                              int64_t heads, int64_t kv,
                              const struct slice *slice, int64_t n)
{
    return (struct problem){
        fix_in(f, "q", rows, heads * D, 1, 0),
        fix_in(f, "k", keys, kv * D, 1, 0),
        fix_in(f, "v", keys, kv * D, 1, 0), fix_act(f, rows, heads * D),
        fix_acc(f, rows, heads), fix_in(f, "dout", rows, heads * D, 1, 0),
        fix_in_acc(f, "dlse", rows, heads, 1, 0),
        fix_act(f, rows, heads * D), fix_acc(f, keys, kv * D),
        fix_acc(f, keys, kv * D), heads, kv, slice, n
    };
}

static void forward(struct fix *f, struct problem *p)
{
    CALL(f, attention, .out = p->out, .lse = p->lse, .q = p->q, .k = p->k,
         .v = p->v, .heads = p->heads, .kv_heads = p->kv,
         .scale = 1 / sqrt((double)D), .slice = p->slice,
         .n_slice = p->n_slice);
}

static void backward(struct fix *f, struct problem *p)
{
    CALL(f, attention_bwd, .dq = p->dq, .dk = p->dk, .dv = p->dv, .q = p->q,
         .k = p->k, .v = p->v, .out = p->out, .lse = p->lse,
         .dout = p->dout, .dlse = p->dlse, .heads = p->heads,
         .kv_heads = p->kv, .scale = 1 / sqrt((double)D), .slice = p->slice,
         .n_slice = p->n_slice);
}

static void check_forward(struct fix *f, struct problem *p)
{
    struct mat out = fix_new(f, p->q.rows, p->heads * D, DT_F64);
    struct mat lse = fix_new(f, p->q.rows, p->heads, DT_F64);
    int64_t i, h;

    for (i = 0; i < p->q.rows; i++)
        for (h = 0; h < p->heads; h++)
            reference_row(out, lse, p->q, p->k, p->v, p->heads / p->kv, i, h,
                          p->slice, p->n_slice);
    forward(f, p);
    fix_near("out", p->out, out, 1e-12);
    fix_near("lse", p->lse, lse, 1e-12);
}

/* f(q, k, v) = <dout, out> + <dlse, lse over rows that see something>. */
static double value(struct fix *f, struct problem *p)
{
    double s;
    int64_t i, h;

    forward(f, p);
    s = fix_inner(p->out, p->dout);
    for (i = 0; i < p->lse.rows; i++)
        for (h = 0; h < p->lse.cols; h++)
            if (!isinf(fix_get(p->lse, i, h)))
                s += fix_get(p->lse, i, h) * fix_get(p->dlse, i, h);
    return s;
}

static void move(struct mat x, struct mat direction, double step)
{
    int64_t r, c;

    for (r = 0; r < x.rows; r++)
        for (c = 0; c < x.cols; c++)
            fix_set(x, r, c, fix_get(x, r, c)
                             + step * fix_get(direction, r, c));
}

static void check_slope(struct fix *f, struct problem *p, const char *what,
                        struct mat x, struct mat dx)
{
    struct mat way = fix_in(f, what, x.rows, x.cols, 1, 0);
    double want = fix_inner(dx, way), up, down;

    move(x, way, 1e-5);
    up = value(f, p);
    move(x, way, -2e-5);
    down = value(f, p);
    move(x, way, 1e-5);
    fix_differ(what, fabs((up - down) / 2e-5 / want - 1), 1e-6);
}

static void check_backward(struct fix *f, struct problem *p)
{
    forward(f, p);
    backward(f, p);
    check_slope(f, p, "slope of q", p->q, p->dq);
    check_slope(f, p, "slope of k", p->k, p->dk);
    check_slope(f, p, "slope of v", p->v, p->dv);
}

/* ---- tests -------------------------------------------------------------- */

/* Causal with a shift either way, full, nested and overlapping query rows,
** blocks of queries and keys that end anywhere, rows that see nothing. */
static void test_slices(void **state)
{
    static const struct slice one[] = {{0, 1, 0, 1, 0, true}};
    static const struct slice shifted[] = {
        {0, 150, 0, 290, 140, true}, {150, 40, 290, 30, -10, true}
    };
    static const struct slice nested[] = {
        {2, 200, 0, 9, 0, false}, {2, 60, 9, 60, 0, true},
        {62, 1, 69, 1, 0, true}, {70, 132, 70, 132, 0, true},
        {100, 50, 202, 5, 0, false}
    };
    static const struct { int64_t rows, keys, heads, kv, n;
                          const struct slice *s; } sizes[] = {
        {1, 1, 1, 1, 1, one}, {192, 325, 4, 2, 2, shifted},
        {205, 210, 3, 3, 5, nested}, {205, 210, 6, 1, 5, nested},
        {7, 3, 2, 1, 0, NULL}, {0, 3, 2, 1, 0, NULL}, {3, 0, 2, 2, 0, NULL}
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct problem p;
        struct fix f;
        fix_open(&f, DT_F64);
        p = problem(&f, sizes[i].rows, sizes[i].keys, sizes[i].heads,
                    sizes[i].kv, sizes[i].s, sizes[i].n);
        check_forward(&f, &p);
        if (sizes[i].n > 0) check_backward(&f, &p);
        fix_close(&f);
    }
}

/* Rows that see no key may hold NaN in q and dout, keys that nobody sees in
** k and v; a row's dlse is -inf's gradient and must not matter. */
static void test_unseen_rows(void **state)
{
    static const struct slice s[] = {{0, 5, 0, 6, -2, true},
                                     {8, 4, 8, 4, 0, true}};
    struct problem p, clean;
    struct fix f;
    int64_t c;

    (void)state;
    fix_open(&f, DT_F32);
    clean = problem(&f, 14, 14, 2, 1, s, 2);
    p = problem(&f, 14, 14, 2, 1, s, 2);
    for (c = 0; c < 2 * D; c++) {
        fix_set(p.q, 1, c, (double)NAN);
        fix_set(p.dout, 1, c, (double)NAN);
        fix_set(p.q, 13, c, (double)NAN);
        fix_set(p.dout, 13, c, (double)NAN);
    }
    for (c = 0; c < D; c++) {
        fix_set(p.k, 6, c, (double)NAN);
        fix_set(p.v, 13, c, (double)NAN);
    }
    forward(&f, &clean);
    forward(&f, &p);
    for (c = 0; c < 2; c++)
        assert_true(fix_get(p.lse, 1, c) == -(double)INFINITY);
    assert_true(fix_inner(fix_rows(p.out, 0, 2), fix_rows(p.out, 0, 2)) == 0);
    fix_equal("out", p.out, clean.out);
    fix_equal("lse", p.lse, clean.lse);
    backward(&f, &clean);
    backward(&f, &p);
    fix_equal("dq", p.dq, clean.dq);
    fix_equal("dk", p.dk, clean.dk);
    fix_equal("dv", p.dv, clean.dv);
    fix_close(&f);
}

/* A row whose lse is -inf gives nothing, whatever it holds. */
static void test_no_weight(void **state)
{
    static const struct slice s[] = {{0, 4, 0, 4, 0, true}};
    struct problem p;
    struct fix f;
    int64_t c;

    (void)state;
    fix_open(&f, DT_F32);
    p = problem(&f, 4, 4, 1, 1, s, 1);
    forward(&f, &p);
    fix_set(p.lse, 2, 0, -(double)INFINITY);
    for (c = 0; c < D; c++) {
        fix_set(p.q, 2, c, (double)NAN);
        fix_set(p.dout, 2, c, (double)NAN);
    }
    backward(&f, &p);
    assert_true(!fix_has_nan(p.dk) && !fix_has_nan(p.dv));
    assert_true(fix_inner(fix_rows(p.dq, 2, 1), fix_rows(p.dq, 2, 1)) == 0);
    fix_close(&f);
}

/* A NaN or an infinity that is seen shows, and in no other sequence (earlier
** rows of its own may show it too: a weight of 0 times NaN). */
static void test_poison(void **state)
{
    static const struct slice s[] = {{0, 40, 0, 40, 0, true},
                                     {40, 50, 40, 50, 0, true}};
    struct problem p, clean;
    struct fix f;

    (void)state;
    fix_open(&f, DT_F32);
    clean = problem(&f, 90, 90, 4, 2, s, 2);
    p = problem(&f, 90, 90, 4, 2, s, 2);
    fix_set(p.k, 60, 3, (double)NAN);
    fix_set(p.v, 70, 3, (double)INFINITY);
    forward(&f, &clean);
    forward(&f, &p);
    fix_equal("out of the other", fix_rows(p.out, 0, 40),
              fix_rows(clean.out, 0, 40));
    assert_true(isnan(fix_get(p.out, 60, 0)));
    assert_true(isnan(fix_get(p.lse, 60, 0)));
    assert_true(!isfinite(fix_get(p.out, 80, 3)));
    backward(&f, &clean);
    backward(&f, &p);
    assert_true(fix_has_nan(fix_rows(p.dq, 60, 30)));
    assert_true(fix_has_nan(fix_rows(p.dk, 40, 50)));
    fix_equal("dq of the other", fix_rows(p.dq, 0, 40),
              fix_rows(clean.dq, 0, 40));
    fix_equal("dk of the other", fix_rows(p.dk, 0, 40),
              fix_rows(clean.dk, 0, 40));
    fix_close(&f);
}

/* Another sequence's contents do not change a bit. */
static void test_isolation(void **state)
{
    static const struct slice s[] = {{0, 70, 0, 70, 0, true},
                                     {70, 300, 70, 300, 0, true},
                                     {370, 1, 370, 1, 0, true}};
    static const enum dtype types[] = {DT_F32, DT_BF16, DT_F64};
    int t;

    (void)state;
    for (t = 0; t < 3; t++) {
        struct problem a, b;
        struct fix f;
        fix_open(&f, types[t]);
        a = problem(&f, 371, 371, 4, 2, s, 3);
        b = problem(&f, 371, 371, 4, 2, s, 3);
        fix_fill(fix_rows(b.q, 70, 300), "other q", 4, 1);
        fix_fill(fix_rows(b.k, 70, 300), "other k", 4, 1);
        fix_fill(fix_rows(b.v, 70, 300), "other v", 4, 1);
        fix_fill(fix_rows(b.dout, 70, 300), "other d", 4, 1);
        forward(&f, &a);
        forward(&f, &b);
        backward(&f, &a);
        backward(&f, &b);
        fix_equal("out", fix_rows(a.out, 0, 70), fix_rows(b.out, 0, 70));
        fix_equal("dq", fix_rows(a.dq, 0, 70), fix_rows(b.dq, 0, 70));
        fix_equal("dk", fix_rows(a.dk, 0, 70), fix_rows(b.dk, 0, 70));
        fix_equal("last", fix_rows(a.dv, 370, 1), fix_rows(b.dv, 370, 1));
        fix_close(&f);
    }
}

/* ---- stages ------------------------------------------------------------- */

/* The keys of "all" in two stages: the first 90 and the others, the second
** stage with a part of the queries only, in another order. */
struct stages {
    struct problem all, s1, s2;
    struct mat q2, map;
    struct mat o, lse, tape_o, tape_lse;
};

static const struct slice slice_all[] = {{0, 130, 0, 130, 0, true}};
static const struct slice slice_1[] = {{0, 130, 0, 90, 0, true}};
static const struct slice slice_2[] = {{2, 40, 0, 40, 0, true}};

static void stages_forward(struct fix *f, struct stages *s)
{
    const int64_t heads = 4, kv = 2, own = 130, part = 44;
    int64_t i;

    s->all = problem(f, own, own, heads, kv, slice_all, 1);
    s->s1 = problem(f, own, 90, heads, kv, slice_1, 1);
    s->s2 = problem(f, part, 40, heads, kv, slice_2, 1);
    s->s1.k = fix_rows(s->all.k, 0, 90);
    s->s1.v = fix_rows(s->all.v, 0, 90);
    s->s2.k = fix_rows(s->all.k, 90, 40);
    s->s2.v = fix_rows(s->all.v, 90, 40);
    s->map = fix_new(f, part, 1, DT_I64);
    for (i = 0; i < part; i++) {    /* rows 88.., padding first and last */
        bool used = i >= 2 && i < 42;
        fix_set(s->map, i, 0, used ? (double)(88 + i) : -1);
        if (used)
            CALL(f, copy, .dst = fix_rows(s->s2.q, i, 1),
                 .src = fix_rows(s->all.q, 88 + i, 1));
    }
    s->o = fix_zero(fix_acc(f, own, heads * D));
    s->lse = fix_acc(f, own, heads);
    s->tape_o = fix_acc(f, part, heads * D);
    s->tape_lse = fix_acc(f, part, heads);
    CALL(f, fill, .x = s->lse, .value = -(double)INFINITY);
    forward(f, &s->s1);
    forward(f, &s->s2);
    CALL(f, merge, .o_acc = s->o, .lse_acc = s->lse, .o = s->s1.out,
         .lse = s->s1.lse, .heads = heads);
    CALL(f, merge, .o_acc = s->o, .lse_acc = s->lse, .tape_o = s->tape_o,
         .tape_lse = s->tape_lse, .o = s->s2.out, .lse = s->s2.lse,
         .row = s->map.p, .heads = heads);
}

/* dq of the second stage added to the first's rows; dk, dv side by side. */
static void stages_compare(struct fix *f, struct stages *s, double limit)
{
    int64_t i;

    for (i = 2; i < 42; i++)
        CALL(f, add, .out = fix_rows(s->s1.dq, 88 + i, 1),
             .a = fix_rows(s->s1.dq, 88 + i, 1),
             .b = fix_rows(s->s2.dq, i, 1));
    fix_near("dq", s->s1.dq, s->all.dq, limit);
    fix_near("dk 1", s->s1.dk, fix_rows(s->all.dk, 0, 90), limit);
    fix_near("dk 2", s->s2.dk, fix_rows(s->all.dk, 90, 40), limit);
    fix_near("dv 1", s->s1.dv, fix_rows(s->all.dv, 0, 90), limit);
    fix_near("dv 2", s->s2.dv, fix_rows(s->all.dv, 90, 40), limit);
}

/* Form A: back through the folds, each stage with its own lse. */
static void form_a(struct fix *f, struct stages *s)
{
    struct mat d_acc = fix_acc(f, 130, 4 * D), dlse = fix_acc(f, 130, 4);

    CALL(f, copy, .dst = d_acc, .src = s->all.dout);
    CALL(f, copy, .dst = dlse, .src = s->all.dlse);
    CALL(f, merge_bwd, .d_acc = d_acc, .dlse_acc = dlse,
         .d_o = s->s2.dout, .dlse = s->s2.dlse, .tape_o = s->tape_o,
         .tape_lse = s->tape_lse, .o = s->s2.out, .lse = s->s2.lse,
         .row = s->map.p, .heads = 4);
    CALL(f, merge_bwd, .d_acc = d_acc, .dlse_acc = dlse,
         .d_o = s->s1.dout, .dlse = s->s1.dlse, .o = s->s1.out,
         .lse = s->s1.lse, .heads = 4);
    backward(f, &s->s1);
    backward(f, &s->s2);
}

/* Form B: every stage with the merged out and lse and the whole gradient
** (here without dlse). */
static void form_b(struct fix *f, struct stages *s)
{
    int64_t i;

    CALL(f, copy, .dst = s->s1.dout, .src = s->all.dout);
    CALL(f, copy, .dst = s->s1.out, .src = s->o);
    CALL(f, copy, .dst = s->s1.lse, .src = s->lse);
    for (i = 2; i < 42; i++) {
        CALL(f, copy, .dst = fix_rows(s->s2.dout, i, 1),
             .src = fix_rows(s->all.dout, 88 + i, 1));
        CALL(f, copy, .dst = fix_rows(s->s2.out, i, 1),
             .src = fix_rows(s->o, 88 + i, 1));
        CALL(f, copy, .dst = fix_rows(s->s2.lse, i, 1),
             .src = fix_rows(s->lse, 88 + i, 1));
    }
    s->s1.dlse.p = s->s2.dlse.p = s->all.dlse.p = NULL;
    backward(f, &s->s1);
    backward(f, &s->s2);
    backward(f, &s->all);
}

static void test_stages(void **state)
{
    static const enum dtype types[] = {DT_F64, DT_F32};
    int t;

    (void)state;
    for (t = 0; t < 2; t++) {
        double limit = t == 0 ? 1e-12 : 5e-6;
        struct stages s;
        struct fix f;
        fix_open(&f, types[t]);
        stages_forward(&f, &s);
        forward(&f, &s.all);
        backward(&f, &s.all);
        fix_near("merged out", s.o, s.all.out, limit);
        fix_near("merged lse", s.lse, s.all.lse, limit);
        form_a(&f, &s);
        assert_true(fix_inner(fix_rows(s.s2.dout, 42, 2),
                              fix_rows(s.s2.dout, 42, 2)) == 0);
        stages_compare(&f, &s, limit);
        form_b(&f, &s);
        stages_compare(&f, &s, limit);
        fix_close(&f);
    }
}

/* Folding a stage that saw nothing changes nothing; two empty sides stay
** empty and their gradients are zero. */
static void test_empty_fold(void **state)
{
    struct mat o, lse, stage, l, d_acc, dl, d_o, dls;
    struct fix f;

    (void)state;
    fix_open(&f, DT_F32);
    o = fix_in_acc(&f, "o", 2, D, 1, 0);
    lse = fix_in_acc(&f, "lse", 2, 1, 1, 0);
    fix_set(lse, 1, 0, -(double)INFINITY);
    fix_zero(fix_rows(o, 1, 1));
    stage = fix_zero(fix_act(&f, 2, D));
    l = fix_acc(&f, 2, 1);
    CALL(&f, fill, .x = l, .value = -(double)INFINITY);
    d_acc = fix_in_acc(&f, "d", 2, D, 1, 0);
    dl = fix_in_acc(&f, "dl", 2, 1, 1, 0);
    d_o = fix_act(&f, 2, D);
    dls = fix_acc(&f, 2, 1);
    CALL(&f, merge_bwd, .d_acc = d_acc, .dlse_acc = dl, .d_o = d_o,
         .dlse = dls, .tape_o = o, .tape_lse = lse, .o = stage, .lse = l,
         .heads = 1);
    fix_equal("kept", fix_rows(d_acc, 0, 1),
              fix_rows(fix_in_acc(&f, "d", 2, D, 1, 0), 0, 1));
    assert_true(fix_inner(d_o, d_o) == 0 && fix_inner(dls, dls) == 0);
    assert_true(fix_get(d_acc, 1, 0) == 0 && fix_get(dl, 1, 0) == 0);
    CALL(&f, merge, .o_acc = o, .lse_acc = lse, .o = stage, .lse = l,
         .heads = 1);
    fix_equal("o", fix_rows(o, 0, 1),
              fix_rows(fix_in_acc(&f, "o", 2, D, 1, 0), 0, 1));
    assert_true(fix_get(lse, 1, 0) == -(double)INFINITY);
    assert_true(fix_get(o, 1, 0) == 0);
    fix_close(&f);
}

static void test_refusals(void **state)
{
    static const struct slice outside[] = {{0, 5, 0, 6, 0, true}};
    static const struct slice falling[] = {{3, 1, 0, 1, 0, true},
                                           {0, 1, 0, 1, 0, true}};
    struct problem p;
    struct fix f;

    (void)state;
    fix_open(&f, DT_F32);
    p = problem(&f, 5, 5, 2, 1, outside, 1);
    assert_int_equal(CALL_RC(&f, attention, .out = p.out, .lse = p.lse,
                             .q = p.q, .k = p.k, .v = p.v, .heads = 2,
                             .kv_heads = 1, .slice = outside, .n_slice = 1),
                     ERR_RUN);
    assert_int_equal(CALL_RC(&f, attention, .out = p.out, .lse = p.lse,
                             .q = p.q, .k = p.k, .v = p.v, .heads = 2,
                             .kv_heads = 1, .slice = falling, .n_slice = 2),
                     ERR_RUN);
    assert_int_equal(CALL_RC(&f, attention, .out = p.out, .lse = p.lse,
                             .q = p.q, .k = p.q, .v = p.v, .heads = 2,
                             .kv_heads = 1), ERR_RUN);
    assert_non_null(strstr(f.e.text, "a->k"));
    fix_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices), cmocka_unit_test(test_unseen_rows),
        cmocka_unit_test(test_no_weight),
        cmocka_unit_test(test_poison), cmocka_unit_test(test_isolation),
        cmocka_unit_test(test_stages), cmocka_unit_test(test_empty_fold),
        cmocka_unit_test(test_refusals)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
