/*
** test_cuda_delta.c - the delta rule, the convolution and heads repeated:
** pieces around a chunk's length, states in and out, forks, narrow and full
** heads, rows of no piece, strong decay.
*/
#include "pair.h"

struct shape {
    int64_t rows, heads, kd, vd, states, n;
    const struct dev_piece *piece;
    double decay;               /* g is down to minus twice this */
};

static const struct dev_piece single[] = {{0, 1, -1, 0}};
static const struct dev_piece edges[] = {
    {0, 63, -1, 0}, {63, 64, -1, -1}, {128, 65, 1, 2}, {193, 0, 1, 3}
};
static const struct dev_piece forks[] = {
    {0, 70, 0, -1}, {71, 9, 0, 1}, {80, 130, -1, 2}, {210, 64, 0, 3}
};

static int64_t chunks(const struct shape *s)
{
    int64_t i, n = 0;

    for (i = 0; i < s->n; i++) n += (s->piece[i].len + 63) / 64;
    return n;
}

static void walk(struct pair *p, const struct shape *s)
{
    int64_t k = s->heads * s->kd, v = s->heads * s->vd, h = s->heads;
    int64_t size = k * s->vd, c = chunks(s);
    struct mat q = pair_in(p, "q", s->rows, k, 0.3, 0);
    struct mat km = pair_in(p, "k", s->rows, k, sqrt(3.0 / (double)s->kd), 0);
    struct mat vm = pair_in(p, "v", s->rows, v, 1, 0);
    struct mat g = pair_in_acc(p, "g", s->rows, h, s->decay, -s->decay);
    struct mat beta = pair_in_acc(p, "beta", s->rows, h, 0.5, 0.5);
    struct mat states = pair_changes(
        p, pair_in_acc(p, "states", s->states, size, 1, 0));
    struct mat o = pair_act(p, "o", s->rows, v);
    struct mat g_cum = pair_acc(p, "g_cum", s->rows, h);
    struct mat x = pair_act(p, "x", s->rows, h * 64);
    struct mat w = pair_scratch(p, "w", s->rows, k);
    struct mat u = pair_scratch(p, "u", s->rows, v);
    struct mat v_new = pair_scratch(p, "v_new", s->rows, v);
    struct mat hm = pair_scratch(p, "h", c, size);
    struct mat dw = pair_scratch(p, "dw", s->rows, k);
    struct mat du = pair_scratch(p, "du", s->rows, v);
    struct mat dh = pair_scratch(p, "dh", c, size);
    struct mat d_o = pair_in(p, "do", s->rows, v, 1, 0);
    struct mat dstates = pair_changes(
        p, pair_in_acc(p, "dstates", s->states, size, 1, 0));
    struct mat dq = pair_act(p, "dq", s->rows, k);
    struct mat dk = pair_act(p, "dk", s->rows, k);
    struct mat dv = pair_act(p, "dv", s->rows, v);
    struct mat dg = pair_acc(p, "dg", s->rows, h);
    struct mat dbeta = pair_acc(p, "dbeta", s->rows, h);

    if (p->f.d->act == DT_F32)      /* cancelling sums: model.md section 6 */
        p->x[p->n - 1].limit = p->x[p->n - 2].limit = 2e-5;
    BOTH(p, delta, .o = o, .states = states, .g_cum = g_cum, .x = x, .q = q,
         .k = km, .v = vm, .g = g, .beta = beta, .w = w, .u = u,
         .v_new = v_new, .h = hm, .heads = h, .k_dim = s->kd, .v_dim = s->vd,
         .scale = 0.35, .piece = s->piece, .n_piece = s->n);
    BOTH(p, delta_bwd, .dq = dq, .dk = dk, .dv = dv, .dg = dg, .dbeta = dbeta,
         .dstates = dstates, .d_o = d_o, .states = states, .g_cum = g_cum,
         .x = x, .q = q, .k = km, .v = vm, .beta = beta, .w = w, .u = u,
         .v_new = v_new, .h = hm, .dw = dw, .du = du, .dh = dh, .heads = h,
         .k_dim = s->kd, .v_dim = s->vd, .scale = 0.35, .piece = s->piece,
         .n_piece = s->n);
    pair_reset(p);
}

static void test_pieces(void **state)
{
    static const struct shape shapes[] = {
        {1, 1, 3, 5, 1, 1, single, 0.2}, {195, 2, 16, 16, 4, 4, edges, 0.2},
        {275, 2, 8, 40, 4, 4, forks, 0.2}, {195, 1, 33, 7, 4, 4, edges, 20},
        {5, 2, 4, 4, 1, 0, NULL, 1}, {0, 2, 4, 4, 1, 0, NULL, 1}
    };
    static const enum dtype types[] = {DT_F32, DT_BF16};
    static const int64_t pads[] = {0, 3, 8};
    size_t i;
    int t;

    (void)state;
    for (t = 0; t < 2; t++)
        for (i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            struct pair p;

            pair_open(&p, types[t]);
            p.pad = pads[i % 3];
            walk(&p, &shapes[i]);
            /* up to 275 rows that end beyond element 2^31 */
            p.pad = PAIR_FAR >> 6;
            if (i == 2 && pair_can_far()) walk(&p, &shapes[i]);
            pair_close(&p);
        }
}

/* As in the full models: 128 x 128 states. */
static void test_full_heads(void **state)
{
    static const struct dev_piece piece[] = {{0, 90, 0, 1}};
    static const struct shape shape = {90, 1, 128, 128, 2, 1, piece, 0.1};
    struct pair p;

    (void)state;
    pair_open(&p, DT_BF16);
    walk(&p, &shape);
    pair_close(&p);
    pair_open(&p, DT_F32);
    walk(&p, &shape);
    pair_close(&p);
}

/* ---- convolution and heads --------------------------------------------- */

static void convolve(struct pair *p, int64_t rows, int64_t cols, int64_t taps,
                     const struct dev_piece *piece, int64_t n, int64_t states)
{
    struct mat x = pair_in(p, "x", rows, cols, 2, 0);
    struct mat w = pair_in(p, "w", cols, taps, 1, 0);
    struct mat halo = pair_changes(
        p, pair_in(p, "halo", states * (taps - 1), cols, 2, 0));
    struct mat dhalo = pair_changes(
        p, pair_in_acc(p, "dhalo", states * (taps - 1), cols, 1, 0));
    struct mat dy = pair_in(p, "dy", rows, cols, 1, 0);
    struct mat y = pair_act(p, "y", rows, cols);
    struct mat dx = pair_act(p, "dx", rows, cols);

    BOTH(p, conv, .y = y, .x = x, .w = w, .halo = halo, .piece = piece,
         .n_piece = n);
    BOTH(p, conv_bwd, .dx = dx, .dhalo = dhalo, .dy = dy, .x = x, .w = w,
         .halo = halo, .piece = piece, .n_piece = n);
    pair_reset(p);
}

static void test_conv(void **state)
{
    static const struct dev_piece none[] = {{0, 2, -1, -1}, {3, 5, -1, -1}};
    struct pair p;
    int t;

    (void)state;
    for (t = 0; t < 2; t++) {
        pair_open(&p, t == 0 ? DT_F32 : DT_BF16);
        convolve(&p, 275, 9, 4, forks, 4, 4);
        convolve(&p, 195, 130, 4, edges, 4, 4);
        /* columns that a thread walks down, and such that lie too badly */
        convolve(&p, 195, 132, 4, edges, 4, 4);
        p.pad = 8;
        convolve(&p, 275, 12, 4, forks, 4, 4);
        p.pad = 6;
        convolve(&p, 275, 10, 4, forks, 4, 4);
        p.pad = 3;
        convolve(&p, 9, 5, 2, none, 2, 0);
        convolve(&p, 9, 5, 1, none, 2, 0);
        convolve(&p, 0, 5, 4, NULL, 0, 0);
        p.pad = PAIR_FAR;
        if (pair_can_far()) convolve(&p, 9, 5, 2, none, 2, 0);
        pair_close(&p);
    }
}

static void test_heads(void **state)
{
    static const int64_t rows[] = {0, 1, 37};
    struct pair p;
    size_t i;

    (void)state;
    for (i = 0; i < (pair_can_far() ? 15 : 12); i++) {
        const int64_t dim = i < 6 ? 5 : 8;
        struct mat x, y, wide, sum;

        pair_open(&p, i < 12 && i % 6 < 3 ? DT_F32 : DT_BF16);
        p.pad = i > 11 ? PAIR_FAR : i % 2 == 0 ? 0 : 5;
        x = pair_in(&p, "x", rows[i % 3], 3 * dim, 1, 0);
        y = pair_act(&p, "y", rows[i % 3], 3 * dim * 4);
        wide = pair_in(&p, "wide", rows[i % 3], 3 * dim * 4, 1, 0);
        sum = pair_act(&p, "sum", rows[i % 3], 3 * dim);
        BOTH(&p, repeat_heads, .y = y, .x = x, .rep = 4, .head_dim = dim);
        BOTH(&p, sum_heads, .x = sum, .y = wide, .rep = 4, .head_dim = dim);
        pair_close(&p);
    }
}

static void test_refusals(void **state)
{
    static const struct dev_piece outside[] = {{2, 9, -1, -1}};
    static const struct dev_piece no_state[] = {{0, 5, 2, -1}};
    struct pair p;
    struct mat m, g, h, x, s;

    (void)state;
    pair_open(&p, DT_F32);
    m = pair_in(&p, "m", 10, 8, 1, 0);
    g = pair_in_acc(&p, "g", 10, 2, 1, 0);
    h = pair_in(&p, "h", 1, 32, 1, 0);
    x = pair_in(&p, "x", 10, 128, 1, 0);
    s = pair_in_acc(&p, "s", 2, 32, 1, 0);
#define DELTA(p_, n_, h_)                                                    \
    CUDA_RC(&p, delta, .o = m, .states = s, .g_cum = g, .x = x, .q = m,      \
            .k = m, .v = m, .g = g, .beta = g, .v_new = m, .h = h_,          \
            .heads = 2, .k_dim = 4, .v_dim = 4, .piece = p_, .n_piece = n_)
    assert_int_equal(DELTA(outside, 1, h), ERR_RUN);
    assert_int_equal(DELTA(no_state, 1, h), ERR_RUN);
    assert_int_equal(DELTA(single, 1, fix_rows(h, 0, 0)), ERR_RUN);
    assert_non_null(strstr(p.f.e.text, "1 chunks of 2 heads for 0"));
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces), cmocka_unit_test(test_full_heads),
        cmocka_unit_test(test_conv), cmocka_unit_test(test_heads),
        cmocka_unit_test(test_refusals)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
