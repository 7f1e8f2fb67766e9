/*
** test_dev_delta.c - the delta rule and the convolution: chunk form against
** token form, forward and backward, at lengths around a chunk; a piece cut
** in two against the whole; isolation; NaN.
*/
#include "dev_fixture.h"

enum { HEADS = 2, K = 8, V = 4, SIZE = HEADS * K * V, TAPS = 4 };
#define SCALE 0.35

/* ---- the token form (model.md 2.3.6, 3.12), one piece, f64 -------------- */

struct token {
    int64_t rows;
    double (*s)[K][V];          /* [rows + 1]: states */
    double (*decayed)[K][V];    /* [rows]: S'_t */
    double (*u)[V], (*m)[V];
};

struct io {
    struct mat q, k, v, g, beta, o, s, d_o, dq, dk, dv, dg, dbeta, ds;
};

static void token_forward(const struct io *x, struct token *w, int64_t h)
{
    int64_t t, i, j;

    for (i = 0; i < K * V; i++)
        w->s[0][i / V][i % V] = fix_get(x->s, 0, h * K * V + i);
    for (t = 0; t < w->rows; t++) {
        double decay = exp(fix_get(x->g, t, h));
        double beta = fix_get(x->beta, t, h);
        for (i = 0; i < K * V; i++)
            w->decayed[t][i / V][i % V] = decay * w->s[t][i / V][i % V];
        for (j = 0; j < V; j++) {
            double m = 0;
            for (i = 0; i < K; i++)
                m += w->decayed[t][i][j] * fix_get(x->k, t, h * K + i);
            w->m[t][j] = m;
            w->u[t][j] = beta * (fix_get(x->v, t, h * V + j) - m);
        }
        for (j = 0; j < V; j++) {
            double o = 0;
            for (i = 0; i < K; i++) {
                w->s[t + 1][i][j] = w->decayed[t][i][j]
                    + fix_get(x->k, t, h * K + i) * w->u[t][j];
                o += w->s[t + 1][i][j] * SCALE * fix_get(x->q, t, h * K + i);
            }
            fix_set(x->o, t, h * V + j, o);
        }
    }
}

/* One token of 3.12; g is dL/dS_t on entry, dL/dS_(t-1) on return. */
static void token_back(const struct io *x, const struct token *w, int64_t t,
                       int64_t h, double g[K][V])
{
    double beta = fix_get(x->beta, t, h), du[V] = {0}, dbeta = 0, dg = 0;
    int64_t i, j;

    for (i = 0; i < K; i++) {
        double dq = 0;
        for (j = 0; j < V; j++) {
            double d_o = fix_get(x->d_o, t, h * V + j);
            g[i][j] += SCALE * fix_get(x->q, t, h * K + i) * d_o;
            dq += SCALE * w->s[t + 1][i][j] * d_o;
            du[j] += g[i][j] * fix_get(x->k, t, h * K + i);
        }
        fix_set(x->dq, t, h * K + i, dq);
    }
    for (j = 0; j < V; j++) {
        fix_set(x->dv, t, h * V + j, beta * du[j]);
        dbeta += du[j] * (fix_get(x->v, t, h * V + j) - w->m[t][j]);
    }
    for (i = 0; i < K; i++) {
        double dk = 0, k = fix_get(x->k, t, h * K + i);
        for (j = 0; j < V; j++) {
            dk += g[i][j] * w->u[t][j] - beta * w->decayed[t][i][j] * du[j];
            g[i][j] -= beta * k * du[j];
            dg += g[i][j] * w->decayed[t][i][j];
            g[i][j] *= exp(fix_get(x->g, t, h));
        }
        fix_set(x->dk, t, h * K + i, dk);
    }
    fix_set(x->dg, t, h, dg);
    fix_set(x->dbeta, t, h, dbeta);
}

/* Row 0 of s and ds: the first state and its gradient; row 1: the last. */
static void token_form(struct fix *f, const struct io *x)
{
    struct token w = {.rows = x->q.rows};
    size_t n = (size_t)w.rows + 1;
    double g[K][V];
    int64_t t, h, i;

    w.s = fix_bytes(f, n * sizeof *w.s);
    w.decayed = fix_bytes(f, n * sizeof *w.decayed);
    w.u = fix_bytes(f, n * sizeof *w.u);
    w.m = fix_bytes(f, n * sizeof *w.m);
    for (h = 0; h < HEADS; h++) {
        token_forward(x, &w, h);
        for (i = 0; i < K * V; i++) {
            fix_set(x->s, 1, h * K * V + i, w.s[w.rows][i / V][i % V]);
            g[i / V][i % V] = fix_get(x->ds, 1, h * K * V + i);
        }
        for (t = w.rows - 1; t >= 0; t--) token_back(x, &w, t, h, g);
        for (i = 0; i < K * V; i++)
            fix_set(x->ds, 0, h * K * V + i, g[i / V][i % V]);
    }
}

/* ---- the kernels on the same problem ------------------------------------ */

static struct io problem(struct fix *f, int64_t rows)
{
    struct io x = {
        fix_in(f, "q", rows, HEADS * K, 0.5, 0),
        fix_in(f, "k", rows, HEADS * K, 0.5, 0),
        fix_in(f, "v", rows, HEADS * V, 1, 0),
        fix_in_acc(f, "g", rows, HEADS, 0.2, -0.2),
        fix_in_acc(f, "beta", rows, HEADS, 0.5, 0.5),
        fix_act(f, rows, HEADS * V), fix_acc(f, 2, SIZE),
        fix_in(f, "do", rows, HEADS * V, 1, 0),
        fix_act(f, rows, HEADS * K), fix_act(f, rows, HEADS * K),
        fix_act(f, rows, HEADS * V), fix_acc(f, rows, HEADS),
        fix_acc(f, rows, HEADS), fix_zero(fix_acc(f, 2, SIZE))
    };

    fix_fill(fix_rows(x.s, 0, 1), "s0", 1, 0);
    fix_fill(fix_rows(x.ds, 1, 1), "ds", 1, 0);
    return x;
}

static void chunk_forward(struct fix *f, const struct io *x,
                          const struct dev_piece *p, int64_t n,
                          struct mat g_cum, struct mat xm)
{
    CALL(f, delta, .o = x->o, .states = x->s, .g_cum = g_cum, .x = xm,
         .q = x->q, .k = x->k, .v = x->v, .g = x->g, .beta = x->beta,
         .heads = HEADS, .k_dim = K, .v_dim = V, .scale = SCALE, .piece = p,
         .n_piece = n);
}

static void chunk_form(struct fix *f, const struct io *x,
                       const struct dev_piece *p, int64_t n)
{
    struct mat g_cum = fix_acc(f, x->q.rows, HEADS);
    struct mat xm = fix_act(f, x->q.rows, HEADS * 64);

    chunk_forward(f, x, p, n, g_cum, xm);
    CALL(f, delta_bwd, .dq = x->dq, .dk = x->dk, .dv = x->dv, .dg = x->dg,
         .dbeta = x->dbeta, .dstates = x->ds, .d_o = x->d_o, .states = x->s,
         .g_cum = g_cum, .x = xm, .q = x->q, .k = x->k, .v = x->v,
         .beta = x->beta, .heads = HEADS, .k_dim = K, .v_dim = V,
         .scale = SCALE, .piece = p, .n_piece = n);
}

static void compare(const struct io *a, const struct io *b, double limit)
{
    fix_near("o", a->o, b->o, limit);
    fix_near("states", a->s, b->s, limit);
    fix_near("dq", a->dq, b->dq, limit);
    fix_near("dk", a->dk, b->dk, limit);
    fix_near("dv", a->dv, b->dv, limit);
    fix_near("dg", a->dg, b->dg, 4 * limit);
    fix_near("dbeta", a->dbeta, b->dbeta, 4 * limit);
    fix_near("dstates", a->ds, b->ds, limit);
}

static void test_token_form(void **state)
{
    static const int64_t rows[] = {1, 7, 63, 64, 65, 128, 200};
    size_t i;
    int t;

    (void)state;
    for (i = 0; i < sizeof rows / sizeof *rows; i++)
        for (t = 0; t < 2; t++) {
            struct dev_piece p = {0, rows[i], 0, 1};
            struct io a, b;
            struct fix f;
            fix_open(&f, t == 0 ? DT_F64 : DT_F32);
            a = problem(&f, rows[i]);
            b = problem(&f, rows[i]);
            chunk_form(&f, &a, &p, 1);
            token_form(&f, &b);
            compare(&a, &b, t == 0 ? 1e-11 : 5e-6);
            fix_close(&f);
        }
}

/* Decays so strong that e^-b alone would overflow. */
static void test_strong_decay(void **state)
{
    struct dev_piece p = {0, 150, 0, 1};
    struct io a, b;
    struct fix f;

    (void)state;
    fix_open(&f, DT_F32);
    a = problem(&f, 150);
    b = problem(&f, 150);
    fix_fill(a.g, "strong", 20, -20);
    fix_fill(b.g, "strong", 20, -20);
    chunk_form(&f, &a, &p, 1);
    token_form(&f, &b);
    compare(&a, &b, 5e-6);
    fix_close(&f);
}

/* A sequence cut at any row, the state passed on, and its gradient back,
** gives the same; a cut at 64 the same bits. */
static void test_cut(void **state)
{
    static const int64_t cuts[] = {1, 3, 64, 65, 139};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        struct dev_piece whole = {0, 140, 0, 1};
        struct dev_piece part[] = {{0, cuts[i], 0, 2},
                                   {cuts[i], 140 - cuts[i], 2, 1}};
        struct mat g_cum, xm, s3, ds3;
        struct io a, b;
        struct fix f;
        fix_open(&f, DT_F32);
        a = problem(&f, 140);
        b = problem(&f, 140);
        chunk_form(&f, &a, &whole, 1);
        s3 = fix_acc(&f, 3, SIZE);
        ds3 = fix_zero(fix_acc(&f, 3, SIZE));
        CALL(&f, copy, .dst = fix_rows(s3, 0, 2), .src = b.s);
        CALL(&f, copy, .dst = fix_rows(ds3, 0, 2), .src = b.ds);
        g_cum = fix_acc(&f, 140, HEADS);
        xm = fix_act(&f, 140, HEADS * 64);
        b.s = s3;
        b.ds = ds3;
        chunk_forward(&f, &b, &part[0], 1, g_cum, xm);
        chunk_forward(&f, &b, &part[1], 1, g_cum, xm);
        if (cuts[i] == 64) fix_equal("o", a.o, b.o);
        chunk_form(&f, &b, &part[1], 1);
        chunk_form(&f, &b, &part[0], 1);
        b.s = fix_rows(s3, 0, 2);
        b.ds = fix_rows(ds3, 0, 2);
        compare(&a, &b, 5e-6);
        fix_close(&f);
    }
}

/* Two children of one state: their gradients of it add up. Rows between the
** pieces are nobody's and stay what they were. */
static void test_forks(void **state)
{
    static const struct dev_piece p[] = {{0, 70, 0, -1}, {71, 9, 0, 1}};
    struct io x, y, z;
    struct fix f;
    int64_t i;

    (void)state;
    fix_open(&f, DT_F64);
    x = problem(&f, 80);
    y = problem(&f, 80);
    z = problem(&f, 80);
    chunk_form(&f, &x, p, 2);
    chunk_form(&f, &y, &p[0], 1);
    chunk_form(&f, &z, &p[1], 1);
    for (i = 0; i < SIZE; i++)
        assert_true(fabs(fix_get(x.ds, 0, i) - fix_get(y.ds, 0, i)
                         - fix_get(z.ds, 0, i)) < 1e-13);
    assert_true(isnan(fix_get(x.o, 70, 0)) && isnan(fix_get(x.dq, 70, 0)));
    fix_equal("second piece", fix_rows(x.dk, 71, 9), fix_rows(z.dk, 71, 9));
    fix_close(&f);
}

/* What one sequence holds, a NaN even, changes no bit of another; it does
** change its own. */
static void test_isolation(void **state)
{
    static const struct dev_piece p[] = {
        {0, 70, -1, -1}, {70, 65, 0, 1}, {135, 5, -1, -1}
    };
    struct io a, b;
    struct fix f;

    (void)state;
    fix_open(&f, DT_F32);
    a = problem(&f, 140);
    b = problem(&f, 140);
    fix_fill(fix_rows(b.v, 70, 65), "other", 3, 1);
    fix_set(b.k, 80, 0, (double)NAN);
    chunk_form(&f, &a, p, 3);
    chunk_form(&f, &b, p, 3);
    fix_equal("o", fix_rows(a.o, 0, 70), fix_rows(b.o, 0, 70));
    fix_equal("dk", fix_rows(a.dk, 0, 70), fix_rows(b.dk, 0, 70));
    fix_equal("dg", fix_rows(a.dg, 135, 5), fix_rows(b.dg, 135, 5));
    assert_true(isnan(fix_get(b.o, 80, 0)) && isnan(fix_get(b.o, 134, 0)));
    assert_true(isnan(fix_get(b.s, 1, 0)) && isnan(fix_get(b.dv, 70, 0)));
    fix_close(&f);
}

/* ---- convolution -------------------------------------------------------- */

enum { CHANNELS = 5 };

struct cv { struct mat x, w, y, halo, dy, dx, dhalo; };

static struct cv conv_problem(struct fix *f, int64_t rows)
{
    return (struct cv){
        fix_in(f, "x", rows, CHANNELS, 2, 0),
        fix_in(f, "w", CHANNELS, TAPS, 1, 0), fix_act(f, rows, CHANNELS),
        fix_in(f, "halo", 2 * (TAPS - 1), CHANNELS, 2, 0),
        fix_in(f, "dy", rows, CHANNELS, 1, 0), fix_act(f, rows, CHANNELS),
        fix_zero(fix_acc(f, 2 * (TAPS - 1), CHANNELS))
    };
}

static void conv_forward(struct fix *f, const struct cv *c,
                         const struct dev_piece *p, int64_t n)
{
    CALL(f, conv, .y = c->y, .x = c->x, .w = c->w, .halo = c->halo,
         .piece = p, .n_piece = n);
}

static void conv_backward(struct fix *f, const struct cv *c,
                          const struct dev_piece *p, int64_t n)
{
    CALL(f, conv_bwd, .dx = c->dx, .dhalo = c->dhalo, .dy = c->dy, .x = c->x,
         .w = c->w, .halo = c->halo, .piece = p, .n_piece = n);
}

static void conv_both(struct fix *f, const struct cv *c,
                      const struct dev_piece *p, int64_t n)
{
    conv_forward(f, c, p, n);
    conv_backward(f, c, p, n);
}

/* A sequence cut twice, the middle part as short as nothing: a part's halo is
** the last rows before it, wherever they lie, its dhalo goes back onto
** them. */
static void test_conv_cut(void **state)
{
    static const int64_t cuts[][2] = {{1, 1}, {2, 0}, {3, 2}, {9, 3}, {1, 9}};
    size_t i;
    int j;

    (void)state;
    for (i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        const int64_t n = cuts[i][0], m = cuts[i][1], rows = 14;
        struct dev_piece whole = {0, rows, -1, -1};
        struct dev_piece part[] = {{0, n, -1, 0}, {n, m, 0, 1},
                                   {n + m, rows - n - m, 1, -1}};
        struct cv a, b;
        struct fix f;
        fix_open(&f, DT_F64);
        a = conv_problem(&f, rows);
        b = conv_problem(&f, rows);
        conv_both(&f, &a, &whole, 1);
        for (j = 0; j < 3; j++) conv_forward(&f, &b, &part[j], 1);
        for (j = 2; j >= 0; j--) conv_backward(&f, &b, &part[j], 1);
        fix_equal("y", a.y, b.y);
        fix_near("dx", b.dx, a.dx, 1e-15);
        fix_close(&f);
    }
}

/* Isolation, and rows of no piece. Pieces without a halo need no view. */
static void test_conv_isolation(void **state)
{
    static const struct dev_piece p[] = {{0, 2, -1, -1}, {2, 6, -1, -1},
                                         {9, 1, -1, -1}};
    struct cv a, b;
    struct fix f;

    (void)state;
    fix_open(&f, DT_F32);
    a = conv_problem(&f, 10);
    b = conv_problem(&f, 10);
    a.halo.p = a.dhalo.p = NULL;
    fix_set(b.x, 4, 0, (double)NAN);
    conv_both(&f, &a, p, 3);
    conv_both(&f, &b, p, 3);
    fix_equal("before", fix_rows(a.y, 0, 4), fix_rows(b.y, 0, 4));
    fix_equal("after", fix_rows(a.y, 9, 1), fix_rows(b.y, 9, 1));
    fix_equal("dx", fix_rows(a.dx, 0, 2), fix_rows(b.dx, 0, 2));
    assert_true(isnan(fix_get(b.y, 7, 0)) && isnan(fix_get(b.dx, 2, 0)));
    assert_true(isnan(fix_get(b.y, 8, 0)));
    assert_true(!isnan(fix_get(b.y, 4, 1)));
    fix_close(&f);
}

static void test_refusals(void **state)
{
    static const struct dev_piece outside[] = {{2, 9, -1, -1}};
    static const struct dev_piece no_state[] = {{0, 5, 2, -1}};
    static const struct dev_piece no_room[] = {{0, 5, -1, 2}};
    struct cv c;
    struct io x;
    struct fix f;

    (void)state;
    fix_open(&f, DT_F32);
    c = conv_problem(&f, 10);
    x = problem(&f, 10);
    assert_int_equal(CALL_RC(&f, conv, .y = c.y, .x = c.x, .w = c.w,
                             .halo = c.halo, .piece = outside, .n_piece = 1),
                     ERR_RUN);
    assert_int_equal(CALL_RC(&f, conv, .y = c.y, .x = c.x, .w = c.w,
                             .halo = c.halo, .piece = no_state, .n_piece = 1),
                     ERR_RUN);
    assert_int_equal(CALL_RC(&f, conv, .y = c.y, .x = c.x, .w = c.w,
                             .halo = c.halo, .piece = no_room, .n_piece = 1),
                     ERR_RUN);
    assert_int_equal(CALL_RC(&f, delta, .o = x.o, .states = x.s,
                             .g_cum = x.dg, .x = fix_act(&f, 10, HEADS * 64),
                             .q = x.q, .k = x.k, .v = x.v, .g = x.g,
                             .beta = x.beta, .heads = HEADS, .k_dim = K,
                             .v_dim = V, .piece = no_state, .n_piece = 1),
                     ERR_RUN);
    assert_non_null(strstr(f.e.text, "state of piece"));
    fix_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_form), cmocka_unit_test(test_strong_decay),
        cmocka_unit_test(test_cut), cmocka_unit_test(test_forks),
        cmocka_unit_test(test_isolation), cmocka_unit_test(test_conv_cut),
        cmocka_unit_test(test_conv_isolation), cmocka_unit_test(test_refusals)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
