/* Routing counts: sums, even shares, the law of drawn loads, histograms. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "batch/routing.h"

static void receive(const struct routing *r, int64_t layer, int64_t experts,
                    int64_t ep, int64_t total, int64_t *out)
{
    struct err e;
    int64_t sum = 0;
    int rc = routing_received(r, 0, layer, experts, ep, 0, total, out, &e);

    if (rc != ERR_OK) print_error("%s\n", e.text);
    assert_int_equal(rc, ERR_OK);
    for (int64_t i = 0; i < ep; i++) {
        assert_true(out[i] >= 0);
        sum += out[i];
    }
    assert_int_equal(sum, total);
}

static void test_balanced(void **state)
{
    struct routing r = {.kind = ROUTING_BALANCED};
    int64_t out[8];

    (void)state;
    receive(&r, 0, 256, 2, 774352, out);
    assert_true(out[0] == 387176 && out[1] == 387176);
    receive(&r, 0, 256, 8, 13, out);
    assert_true(out[0] == 2 && out[4] == 2 && out[5] == 1 && out[7] == 1);
    receive(&r, 0, 256, 4, 0, out);
    assert_true(out[0] == 0 && out[3] == 0);
    receive(&r, 3, 256, 1, 99, out);
    assert_int_equal(out[0], 99);
}

static void test_share(void **state)
{
    struct routing r = {.kind = ROUTING_SHARE, .share = 1.1};
    int64_t out[4];

    (void)state;
    receive(&r, 0, 256, 2, 774352, out);
    assert_true(out[0] == 425894 && out[1] == 348458);   /* 425,893.6 */
    r.share_rank = 2;
    r.share = 1.2;
    receive(&r, 9, 256, 4, 1000, out);
    assert_true(out[0] == 234 && out[1] == 233 && out[2] == 300 &&
                out[3] == 233);
    r.share = 4;
    receive(&r, 0, 256, 4, 1000, out);
    assert_true(out[2] == 1000 && out[0] == 0);
    r.share = 1;
    receive(&r, 0, 256, 4, 1000, out);
    assert_true(out[2] == 250 && out[0] == 250);
    receive(&r, 0, 256, 1, 7, out);      /* nobody to share with */
    assert_int_equal(out[0], 7);
}

/* ---- from wave to wave --------------------------------------------------- */

/* Rank 0's rows of 1,000,000 in a wave. */
static double share_in(const struct routing *r, int64_t wave)
{
    struct err e;
    int64_t out[2];

    assert_int_equal(routing_received(r, wave, 5, 256, 2, 0, 1000000, out,
                                      &e), ERR_OK);
    assert_int_equal(out[0] + out[1], 1000000);
    return (double)out[0];
}

/* With a drift d a wave's deviation is (1 - d) times the last one's and d
** times a fresh one: over many seeds that is what the law says. */
static void test_drift(void **state)
{
    struct routing r = {.kind = ROUTING_CV, .cv = 2};
    double here = 0, there = 0, both = 0;
    int i;

    (void)state;
    assert_true(share_in(&r, 0) == share_in(&r, 3));
    r.drift = 0.5;
    for (i = 0; i < 2000; i++) {
        double a, b;
        r.seed = (uint64_t)i;
        a = share_in(&r, 0) - 500000;
        b = share_in(&r, 1) - 500000;
        here += a * a;
        there += b * b;
        both += a * b;
    }
    /* variances 1 and 1/4 + 1/4; covariance 1/2 */
    assert_true(fabs(there / here - 0.5) < 0.05);
    assert_true(fabs(both / here - 0.5) < 0.05);
    r.drift = 1;        /* each wave by itself */
    assert_true(share_in(&r, 0) != share_in(&r, 1));
}

static void test_bursts(void **state)
{
    struct routing r = {.kind = ROUTING_CV, .cv = 0, .burst = 0.25,
                        .factor = 257};
    int i, hot = 0;

    (void)state;
    for (i = 0; i < 1000; i++) {
        double s = share_in(&r, i);
        /* half of all loads plus the hot one's 257 of 512 */
        assert_true(s == 500000 || s == 250000 || s == 750000);
        hot += s != 500000;
    }
    assert_true(hot > 200 && hot < 300);
}

static void test_hot_and_lists(void **state)
{
    struct routing each[2] = {
        {.kind = ROUTING_HOT, .expert = 200, .factor = 257},
        {.kind = ROUTING_SHARE, .share = 1.5, .share_rank = 1}
    };
    struct routing r = {.kind = ROUTING_LIST, .each = each, .n_each = 2};

    (void)state;
    assert_true(share_in(&r, 0) == 250000);
    assert_true(share_in(&r, 1) == 250000);
    each[1].share_rank = 0;
    assert_true(share_in(&r, 1) == 750000);
    assert_true(share_in(&r, 9) == 750000);     /* the last one stays */
}

static void fails(const struct routing *r, int64_t wave, int64_t layer,
                  int64_t experts, int64_t ep, int64_t total,
                  const char *wanted)
{
    int64_t out[64];
    struct err e;

    assert_int_equal(routing_received(r, wave, layer, experts, ep, 0, total,
                                      out, &e), ERR_INPUT);
    assert_string_equal(e.text, wanted);
}

static void test_errors(void **state)
{
    int64_t got[2];
    struct routing r = {.kind = ROUTING_SHARE, .share = 2.5};

    (void)state;
    fails(&r, 0, 0, 256, 2, 10, "routing: rank 0 cannot have 2.5 times its "
          "even share at ep 2");
    r.share = (double)NAN;
    fails(&r, 0, 0, 256, 2, 10, "routing: rank 0 cannot have nan times its "
          "even share at ep 2");
    r.share = 1;
    r.share_rank = 2;
    fails(&r, 0, 0, 256, 2, 10, "routing: rank 2 cannot have 1 times its "
          "even share at ep 2");
    fails(&r, 0, 0, 256, 3, 10, "routing: ep 3 does not divide 256 experts "
          "(at most 65536)");
    fails(&r, 0, 0, 0, 1, 10, "routing: ep 1 does not divide 0 experts (at "
          "most 65536)");
    r.kind = ROUTING_CV;
    r.cv = 17;
    fails(&r, 0, 0, 256, 2, 10, "routing: cv must be 0 or from 1e-09 to 16, "
          "not 17");
    r.cv = 5e-324;
    fails(&r, 0, 0, 256, 2, 10, "routing: cv must be 0 or from 1e-09 to 16, "
          "not 4.94066e-324");
    r.cv = ROUTING_MIN_CV;
    assert_int_equal(routing_received(&r, 0, 0, 256, 2, 0, 10, got, NULL), 0);
}

/* ---- drawn loads ---------------------------------------------------- */

struct moments { double mean, sd, skew; };

/* Of one rank's received rows over its even share, layer by layer. */
static struct moments measure(double cv, uint64_t seed, int64_t experts,
                              int64_t ep, int64_t layers)
{
    struct routing r = {.kind = ROUTING_CV, .cv = cv, .seed = seed};
    const int64_t total = INT64_C(1) << 40;
    double even = (double)total / (double)ep, n = (double)layers;
    double *x = malloc((size_t)layers * sizeof *x);
    int64_t *out = malloc((size_t)ep * sizeof *out);
    struct moments m = {0, 0, 0};

    assert_true(x != NULL && out != NULL);
    for (int64_t i = 0; i < layers; i++) {
        receive(&r, i, experts, ep, total, out);
        x[i] = (double)out[i % ep] / even;
        m.mean += x[i] / n;
    }
    for (int64_t i = 0; i < layers; i++) {
        double d = x[i] - m.mean;
        m.sd += d * d / n;
        m.skew += d * d * d / n;
    }
    m.sd = sqrt(m.sd);
    m.skew /= m.sd * m.sd * m.sd;
    free(x);
    free(out);
    return m;
}

static uint64_t seed_of_test(void)
{
    const char *s = getenv("PEAKPROOF_SEED");

    return s != NULL ? strtoull(s, NULL, 10) : 1;
}

/* The share of one of ep ranks is a beta variable: variance as in the
** header. At EP2 its standard deviation is 0.0625 cv. */
static void test_law_of_shares(void **state)
{
    static const double cv[] = {0.05, 0.65, 1.0, 1.2, 4.0};
    static const int64_t ep[] = {2, 8};
    const int64_t n = 1000;
    uint64_t seed = seed_of_test();

    (void)state;
    for (size_t i = 0; i < sizeof cv / sizeof *cv; i++) {
        for (size_t j = 0; j < sizeof ep / sizeof *ep; j++) {
            struct moments m = measure(cv[i], seed, 256, ep[j], n);
            double a = 256 / (cv[i] * cv[i]);
            double sd = sqrt((double)(ep[j] - 1) / (a + 1));
            /* five standard errors; that of a standard deviation is about
            ** sd / sqrt(2 n), more with the heavier tails of a large cv */
            double of_mean = 5 * sd / sqrt((double)n);
            double of_sd = 5 * sd / sqrt(2.0 * (double)n) * (1 + cv[i] / 4);
            if (fabs(m.mean - 1) > of_mean || fabs(m.sd - sd) > of_sd)
                print_error("PEAKPROOF_SEED=%" PRIu64 ": cv %g, ep %" PRId64
                            ": mean %g, sd %g, not %g\n", seed, cv[i], ep[j],
                            m.mean, m.sd, sd);
            assert_true(fabs(m.mean - 1) <= of_mean);
            assert_true(fabs(m.sd - sd) <= of_sd);
            if (ep[j] == 2 && cv[i] < 1.3)
                assert_true(fabs(sd / (0.0625 * cv[i]) - 1) < 0.003);
        }
    }
}

/* One expert of 4,096 has a load near gamma: sd cv, skewness 2 cv. */
static void test_law_of_loads(void **state)
{
    static const double cv[] = {0.3, 0.65, 1.0, 1.2};
    uint64_t seed = seed_of_test();

    (void)state;
    for (size_t i = 0; i < sizeof cv / sizeof *cv; i++) {
        struct routing r = {.kind = ROUTING_CV, .cv = cv[i], .seed = seed};
        const int64_t n = 4096, total = INT64_C(1) << 40;
        static int64_t out[4096];
        double mean = (double)total / (double)n, square = 0, cube = 0;
        for (int64_t layer = 0; layer < 8; layer++) {
            receive(&r, layer, n, n, total, out);
            for (int64_t k = 0; k < n; k++) {
                double d = (double)out[k] / mean - 1;
                square += d * d / (8.0 * (double)n);
                cube += d * d * d / (8.0 * (double)n);
            }
        }
        double sd = sqrt(square), skew = cube / (square * sd);
        if (fabs(sd / cv[i] - 1) > 0.04 || fabs(skew / (2 * cv[i]) - 1) > 0.2)
            print_error("PEAKPROOF_SEED=%" PRIu64 ": cv %g: sd %g, skewness "
                        "%g\n", seed, cv[i], sd, skew);
        assert_true(fabs(sd / cv[i] - 1) <= 0.04);
        assert_true(fabs(skew / (2 * cv[i]) - 1) <= 0.2);
    }
}

/* A draw depends on seed and layer alone, and on neither other layers nor
** the total; the very numbers are pinned, since every machine has them. */
static void test_draw_is_fixed(void **state)
{
    static const struct {
        double cv;
        uint64_t seed;
        int64_t layer, first;
    } pinned[] = {
        {0.65, 1, 0, 391978}, {1.0, 1, 0, 383751}, {1.0, 1, 39, 323200},
        {1.0, 2, 0, 389973}, {1.2, 1, 7, 420924}, {16, 3, 1, 323945},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++) {
        struct routing r = {.kind = ROUTING_CV, .cv = pinned[i].cv,
                            .seed = pinned[i].seed};
        int64_t a[2], b[2];
        receive(&r, pinned[i].layer, 256, 2, 774352, a);
        assert_int_equal(a[0], pinned[i].first);
        receive(&r, pinned[i].layer, 256, 2, INT64_C(1) << 43, b);
        assert_true(llabs(b[0] / ((INT64_C(1) << 43) / 774352) - a[0]) <= 1);
    }
}

static void test_no_spread(void **state)
{
    struct routing r = {.kind = ROUTING_CV, .cv = 0, .seed = 1};
    int64_t out[2];

    (void)state;
    receive(&r, 5, 256, 2, 774353, out);
    assert_true(out[0] == 387177 && out[1] == 387176);
    r.cv = 1e-9;
    receive(&r, 5, 256, 2, 774353, out);
    assert_in_range(out[0], 387176, 387177);
}

/* ---- histograms ----------------------------------------------------- */

static char path[] = "/tmp/peakproof-routing-XXXXXX";

static int load(const char *text, struct routing *r, struct err *e)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    return routing_load(path, r, e);
}

static void test_histogram(void **state)
{
    struct routing r;
    struct err e;
    int64_t out[4];

    (void)state;
    assert_int_equal(load("wave,layer,rank,expert,rows\n"
                          "0,1,0,0,5\n0,1,1,3,7\n0,1,0,2,1\n0,0,1,1,4\n",
                          &r, &e), ERR_OK);
    assert_int_equal(r.kind, ROUTING_HISTOGRAM);
    assert_true(r.waves == 1 && r.layers == 2 && r.ranks == 2 &&
                r.experts == 4);
    receive(&r, 1, 4, 2, 13, out);
    assert_true(out[0] == 5 && out[1] == 8);
    receive(&r, 0, 4, 4, 4, out);
    assert_true(out[0] == 0 && out[1] == 4 && out[2] == 0 && out[3] == 0);
    receive(&r, 1, 8, 2, 13, out);       /* experts 4 to 7 got nothing */
    assert_true(out[0] == 13 && out[1] == 0);
    /* one recorded wave holds for all */
    assert_int_equal(routing_received(&r, 3, 1, 4, 2, 0, 13, out, &e), ERR_OK);
    assert_int_equal(out[0], 5);
    /* an EP group takes what its own ranks send: these are not there */
    assert_int_equal(routing_received(&r, 0, 1, 4, 2, 2, 0, out, &e), ERR_OK);
    assert_true(out[0] == 0 && out[1] == 0);
    fails(&r, 0, 1, 4, 2, 14, "routing: the histogram has 13 pairs in wave "
          "0, layer 1, but the batch routes 14 (rows x top-k)");
    fails(&r, 0, 2, 4, 2, 13, "routing: the histogram has 1 waves, 2 layers "
          "and 4 experts; wave 0, layer 2 of 4 experts was asked for");
    fails(&r, 0, 1, 2, 2, 13, "routing: the histogram has 1 waves, 2 layers "
          "and 4 experts; wave 0, layer 1 of 2 experts was asked for");
    routing_free(&r);

    assert_int_equal(load("expert,rows,wave,layer,rank,more\n"
                          "0,5,0,0,0,x\n0,6,1,0,0,x\n", &r, &e), ERR_OK);
    assert_int_equal(routing_received(&r, 1, 0, 2, 2, 0, 6, out, &e), ERR_OK);
    assert_int_equal(out[0], 6);
    fails(&r, 2, 0, 2, 2, 6, "routing: the histogram has 2 waves, 1 layers "
          "and 1 experts; wave 2, layer 0 of 2 experts was asked for");
    routing_free(&r);
}

/* Loads of any total: what the batch routes, by them; every rank of every EP
** group sees the same. */
static void test_scaled(void **state)
{
    struct routing r;
    struct err e;
    int64_t out[4];

    (void)state;
    assert_int_equal(load("wave,layer,rank,expert,rows\n"
                          "0,0,0,0,5\n0,0,1,3,7\n0,0,0,2,1\n0,1,0,0,0\n",
                          &r, &e), ERR_OK);
    r.scaled = true;
    receive(&r, 0, 4, 2, 13, out);
    assert_true(out[0] == 5 && out[1] == 8);
    receive(&r, 0, 4, 2, 1300, out);
    assert_true(out[0] == 500 && out[1] == 800);
    receive(&r, 0, 4, 4, 6, out);       /* 30/13 = 2, 36/13 - 2 = 0, 4 */
    assert_true(out[0] == 2 && out[1] == 0 && out[2] == 0 && out[3] == 4);
    assert_int_equal(routing_received(&r, 0, 0, 4, 2, 2, 26, out, &e), ERR_OK);
    assert_true(out[0] == 10 && out[1] == 16);
    fails(&r, 0, 1, 4, 2, 9, "routing: a layer whose loads are all 0 cannot be "
          "scaled");
    routing_free(&r);
}

static void test_bad_histogram(void **state)
{
    static const struct { const char *text, *wanted; } c[] = {
        {"wave,layer,rank,expert,rows\n", ": no rows"},
        {"wave,layer,rank,expert\n0,0,0,0\n", "rows"},
        {"wave,layer,rank,expert,rows\n0,0,0,0,1\n0,0,0,0,2\n",
         ":3: rows: wave 0, layer 0, rank 0, expert 0 is there twice"},
        {"wave,layer,rank,expert,rows\n0,0,0,-1,1\n", ":2: expert: "},
        {"wave,layer,rank,expert,rows\n0,0,0,0,99999999999999\n",
         ":2: rows: "},
        {"wave,layer,rank,expert,rows\n0,0,0,0,x\n", ":2: rows: "},
        {"wave,layer,rank,expert,rows\n999,9999,63,65535,1\n",
         ": too many waves, layers, ranks and experts"},
    };
    struct routing r;
    struct err e;

    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        assert_int_equal(load(c[i].text, &r, &e), ERR_INPUT);
        assert_non_null(strstr(e.text, path));
        if (strstr(e.text, c[i].wanted) == NULL) print_error("%s\n", e.text);
        assert_non_null(strstr(e.text, c[i].wanted));
    }
    assert_int_equal(routing_load("/nowhere/h.csv", &r, &e), ERR_INPUT);
}

static int setup(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd < 0 || close(fd) != 0;
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

/* ---- drawing once -------------------------------------------------------- */

/* What is drawn once answers as what draws each time, in every wave; where
** nothing is drawn it is the same memory. */
static void check_drawn(const struct routing *r, bool draws, int64_t ep)
{
    struct routing drawn;
    struct err e;
    int64_t a[8], b[8];

    assert_int_equal(routing_draw(r, 3, 5, 24, &drawn, &e), ERR_OK);
    assert_int_equal(drawn.kind == ROUTING_HISTOGRAM && drawn.rows != r->rows,
                     draws);
    assert_true(routing_changes(&drawn) == routing_changes(r));
    for (int64_t i = 0; i < 3 * 5; i++) {
        int64_t total = 1 + i * 7919;
        assert_int_equal(routing_received(r, i % 3, i / 3, 24, ep, 0, total, a,
                                          &e), ERR_OK);
        assert_int_equal(routing_received(&drawn, i % 3, i / 3, 24, ep, 0,
                                          total, b, &e), ERR_OK);
        assert_memory_equal(a, b, (size_t)ep * sizeof *a);
    }
    routing_drawn_free(r, &drawn);
}

static void test_drawn_once(void **state)
{
    static const struct routing r[] = {
        {.kind = ROUTING_CV, .cv = 1, .seed = 3},
        {.kind = ROUTING_CV, .cv = 8, .seed = 4, .drift = 0.3},
        {.kind = ROUTING_CV, .cv = 0, .seed = 5, .burst = 0.5, .factor = 40},
        {.kind = ROUTING_HOT, .expert = 17, .factor = 12},
        /* none drawn */
        {.kind = ROUTING_BALANCED},
        {.kind = ROUTING_CV, .cv = 0, .drift = 0.5},
        {.kind = ROUTING_SHARE, .share = 1.5},
        /* experts without load */
        {.kind = ROUTING_CV, .cv = 0, .burst = 1, .factor = 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof r / sizeof *r; i++) {
        bool draws = i < 4 || i > 6;
        for (int64_t ep = 2; ep <= 8; ep *= 2) check_drawn(&r[i], draws, ep);
    }
}

/* A layer whose experts all have no load is even, which is left as it is. */
static void test_drawn_zeros(void **state)
{
    struct routing r = {.kind = ROUTING_HOT, .expert = 0, .factor = 0}, drawn;
    struct err e;
    int64_t a[1];

    (void)state;
    assert_int_equal(routing_draw(&r, 1, 2, 1, &drawn, &e), ERR_OK);
    assert_int_equal(drawn.kind, ROUTING_HOT);
    assert_int_equal(routing_received(&drawn, 0, 0, 1, 1, 0, 9, a, &e), 0);
    assert_int_equal(a[0], 9);
    routing_drawn_free(&r, &drawn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_balanced),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_bursts),
        cmocka_unit_test(test_hot_and_lists),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_law_of_shares),
        cmocka_unit_test(test_law_of_loads),
        cmocka_unit_test(test_draw_is_fixed),
        cmocka_unit_test(test_no_spread),
        cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_scaled),
        cmocka_unit_test(test_bad_histogram),
        cmocka_unit_test(test_drawn_once),
        cmocka_unit_test(test_drawn_zeros),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
