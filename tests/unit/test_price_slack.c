/*
** What the allocator adds to tensors that are alive together (slack.h): values
** by hand, and the fractions against the integrals that they stand for.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "base/num.h"
#include "price/slack.h"

#define MIB ((int64_t)1 << 20)
#define REST (2 * MIB - 1024)

static int64_t slack_of(int64_t n, int64_t bytes)
{
    struct blocks b = {.tensors = 0};

    blocks_add(&b, n, bytes);
    return blocks_slack(&b, 0);
}

static void test_small_pool(void **state)
{
    struct blocks b = {.tensors = 0};

    (void)state;
    blocks_add(&b, 3, 0);
    assert_int_equal(blocks_slack(&b, 0), 0);
    blocks_add(&b, 3, MIB);
    blocks_add(&b, 4, 7);
    assert_int_equal(blocks_slack(&b, 0), 7 * 512);
    assert_int_equal(b.large, 0);
}

/* Simpson's rule for what a block of b keeps, and for its square, when a hole
** exceeds it by t with density b / (b + t)^2. */
static double kept(double b, int power)
{
    enum { STEPS = 1000 };
    double sum = 0;
    int i;

    for (i = 0; i <= STEPS; i++) {
        double t = (double)i / STEPS;
        double f = pow(t, power) * b / ((b + t) * (b + t));
        sum += f * (i == 0 || i == STEPS ? 1 : i % 2 == 1 ? 4 : 2);
    }
    return sum / (3 * STEPS);
}

static void test_holes(void **state)
{
    static const double size[] = {1.001, 1.3, 2, 2.5, 4, 7, 9.9};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof size / sizeof *size; i++) {
        struct blocks b = {.tensors = 0};
        double mean, square;

        blocks_add(&b, 1, (int64_t)(size[i] * (double)MIB));
        mean = (double)b.mean / (double)MIB;
        square = (double)b.square / ((double)MIB * (double)MIB);
        assert_true(fabs(mean / kept(size[i], 1) - 1) < 0.11);
        assert_true(fabs(square / kept(size[i], 2) - 1) < 0.11);
    }
}

/* Made when there is nothing else, one of 10 MiB or more has its segment's
** rest: of 11.25 MiB three quarters are left, of 13 MiB one; of 12.5 MiB more
** than is kept. Others fall into holes, like 10 MiB. */
static void test_own_segments(void **state)
{
    struct blocks b = {.tensors = 0};
    int64_t mean = 3 * MIB / 68;

    (void)state;
    blocks_fresh(&b, 1, 11 * MIB + MIB / 4);
    assert_int_equal(b.mean, MIB * 3 / 4);
    blocks_fresh(&b, 2, 13 * MIB);
    assert_int_equal(b.mean, MIB * 3 / 4 + 2 * MIB);
    blocks_fresh(&b, 1, 12 * MIB + MIB / 2);
    assert_int_equal(b.mean, MIB * 3 / 4 + 2 * MIB + mean);
    blocks_add(&b, 1, 13 * MIB);
    assert_int_equal(b.mean, MIB * 3 / 4 + 2 * MIB + 2 * mean);
}

/* Blocks of one grain leave holes of that grain, unless a segment of 20 MiB, or
** one of their own, does not have it. */
static void test_grain(void **state)
{
    struct blocks b = {.tensors = 0};

    (void)state;
    assert_int_equal(slack_of(9, 2 * MIB), 9 * 512);
    assert_int_equal(slack_of(9, 5 * MIB / 2), 9 * 512);
    assert_true(slack_of(9, 3 * MIB) > 9 * 512);
    blocks_add(&b, 9, 2 * MIB);
    blocks_add(&b, 1, 6 * MIB);
    assert_int_equal(blocks_slack(&b, 0), 10 * 512);
    blocks_grain(&b, 3 * MIB);      /* is not alive, but comes and goes */
    assert_true(blocks_slack(&b, 0) > 10 * 512);
}

static int64_t root(int64_t x)
{
    int64_t r = (int64_t)sqrt((double)x);

    while (r > x / r) r--;
    while (r + 1 <= x / (r + 1)) r++;
    return r;
}

/* The five smallest find the rests of the workspaces, no more; and what is
** charged of it cannot vary any more. */
static void test_workspace_rests(void **state)
{
    struct blocks b = {.tensors = 0};
    int64_t size = 5 * MIB / 4, range = size - MIB + 1024, mean, square;
    int64_t spread;

    (void)state;
    blocks_add(&b, 1, size);
    mean = b.mean;
    square = b.square;
    assert_int_equal(b.least[0].bytes, size);
    assert_int_equal(b.least[1].bytes, 0);
    assert_true(range * range / 4 < square);
    spread = root(9 * (range * range / 4));
    assert_int_equal(blocks_slack(&b, 0),
                     512 + num_min(MIB, REST - size + spread));
    blocks_add(&b, 1, size - 4096);
    assert_int_equal(b.least[0].bytes, size - 4096);
    assert_int_equal(b.least[1].bytes, size);
    blocks_add(&b, 9, size);
    assert_int_equal(b.least[4].bytes, size);
    assert_true(b.mean >= 10 * mean);
    assert_true(blocks_slack(&b, 0) <= blocks_most(b.tensors, b.large));
    blocks_add(&b, 1, 2 * MIB);             /* does not fit there */
    assert_int_equal(b.least[4].bytes, size);
}

/* Of those that repeat the variance is not in the sum that it comes off. */
static void test_alike_rests(void **state)
{
    struct blocks b = {.tensors = 0};
    int64_t size = 3 * MIB / 2;

    (void)state;
    blocks_alike(&b, 1, size);
    blocks_repeat(&b);
    assert_int_equal(b.least[0].square, 0);
    assert_int_equal(blocks_slack(&b, 0),
                     512 + num_min(MIB, REST - size + b.alike));
}

/* A base of 2 MiB: 3 and 5 are odd to it, 4 is not. */
static void test_odd(void **state)
{
    struct blocks b = {.base = 2 * MIB}, part = {.tensors = 0};

    (void)state;
    blocks_add(&b, 2, 3 * MIB);
    blocks_add(&b, 1, 5 * MIB);
    blocks_add(&b, 7, 4 * MIB);
    blocks_add(&b, 7, MIB);
    assert_int_equal(b.odd, 3);
    blocks_alike(&part, 4, 4 * MIB);
    blocks_repeat(&part);
    assert_int_equal(blocks_base(&part), 4 * MIB);
    b = part;
    blocks_part(&part, 4, 4);
    assert_int_equal(part.mean, b.mean);
    blocks_part(&part, 1, 4);
    assert_int_equal(part.mean, b.mean / 4);
    assert_int_equal(part.alike, root(b.alike * b.alike / 4));
    blocks_part(&part, 0, 4);
    assert_int_equal(part.mean + part.alike, 0);
    blocks_grain(&b, 3 * MIB);
    assert_int_equal(blocks_base(&b), MIB);
    blocks_grain(&b, 3 * MIB + MIB / 4);
    assert_int_equal(blocks_base(&b), MIB / 4);
    blocks_grain(&b, 3 * MIB + MIB / 8);
    assert_int_equal(blocks_base(&b), 0);
}

/* Between blocks of 1 MiB and more nothing is kept, or a MiB. */
static void test_grain_of_one(void **state)
{
    struct blocks b = {.tensors = 0};

    (void)state;
    blocks_add(&b, 1, 4 * MIB);
    assert_int_equal(blocks_slack(&b, 0), 512);
    blocks_add(&b, 1, 3 * MIB);
    assert_int_equal(blocks_base(&b), MIB);
    assert_true(blocks_slack(&b, 0) > 2 * 512);
}

/* Holes of 3 MiB: 2 keep one each. 8, 6 and 8 do not fit there: of a segment 6
** are left, which 6 fills, and of the next 12, which 8 and 3 fill but for one
** that it keeps; another 3 has a hole. 3.5 begins one more. */
static void test_one_hole(void **state)
{
    struct blocks b = {.base = MIB, .hole = 3 * MIB};

    (void)state;
    blocks_add(&b, 3, 2 * MIB);
    assert_int_equal(b.mean, 3 * MIB);
    assert_int_equal(b.square + b.room[0], 0);
    blocks_grain(&b, 3 * MIB);
    assert_int_equal(blocks_slack(&b, 0), 3 * 512 + 3 * MIB);
    b.mean = 0;
    blocks_add(&b, 1, 8 * MIB);
    assert_int_equal(b.room[0], 12 * MIB);
    blocks_add(&b, 1, 6 * MIB);
    assert_int_equal(b.room[0], 6 * MIB);
    blocks_add(&b, 1, 8 * MIB);
    assert_int_equal(b.room[1], 12 * MIB);
    blocks_add(&b, 1, 6 * MIB);
    assert_int_equal(b.room[0], 0);
    assert_int_equal(b.mean, 0);
    blocks_add(&b, 1, 8 * MIB);
    assert_int_equal(b.room[1], 4 * MIB);
    blocks_add(&b, 1, 3 * MIB);             /* what it leaves it keeps */
    assert_int_equal(b.room[1], 0);
    assert_int_equal(b.mean, MIB);
    assert_int_equal(b.square, 0);
}

/* From 10 MiB on each has its own; where too many have room one more is charged
** a MiB. */
static void test_rooms(void **state)
{
    struct blocks b = {.base = MIB / 2, .hole = MIB};

    (void)state;
    blocks_add(&b, 1, 23 * MIB / 2);
    assert_int_equal(b.mean, MIB / 2);
    assert_int_equal(b.room[0], 0);
    blocks_add(&b, 1, 21 * MIB / 2);        /* 1.5 are cut off */
    assert_int_equal(b.room[0], 3 * MIB / 2);
    blocks_add(&b, 2, 9 * MIB);
    assert_int_equal(b.room[1], 2 * MIB);
    b.room[1] = b.room[2] = b.room[3] = 2 * MIB;
    b.mean = 0;
    blocks_add(&b, 1, 3 * MIB);
    assert_int_equal(b.mean, MIB);
}

/* Where none is known to keep anything one is at the end of what several fill:
** of half a MiB and one the mean. */
static void test_end(void **state)
{
    struct blocks b = {.base = MIB / 2, .hole = MIB};

    (void)state;
    blocks_add(&b, 3, 2 * MIB);
    assert_int_equal(b.mean, 0);
    blocks_grain(&b, 3 * MIB / 2);
    assert_int_equal(blocks_slack(&b, 0), 3 * 512 + 3 * MIB / 4);
    b.base = MIB;
    assert_int_equal(blocks_slack(&b, 0), 3 * 512 + MIB);
}

static void test_pack(void **state)
{
    struct blocks one = {.mean = 5, .alike = 7, .packed = 3}, b = one;

    (void)state;
    blocks_join(&b, &one);
    blocks_pack(&b);
    assert_int_equal(b.mean, 6);
    assert_int_equal(b.alike, 0);
}

/* Alike ones spread as one, others as their root. */
static void test_alike(void **state)
{
    struct blocks a = {.tensors = 0}, one = {.tensors = 0}, all, apart;
    int i;

    (void)state;
    blocks_add(&a, 1, 4 * MIB - 512);
    apart = (struct blocks){.tensors = 0};
    blocks_alike(&one, 1, 4 * MIB - 512);
    blocks_repeat(&one);
    all = (struct blocks){.tensors = 0};
    for (i = 0; i < 100; i++) {
        blocks_join(&all, &one);
        blocks_join(&apart, &a);
    }
    assert_int_equal(all.alike, 100 * one.alike);
    assert_int_equal(all.mean, apart.mean);
    assert_true(one.alike * one.alike <= a.square);
    assert_true((one.alike + 1) * (one.alike + 1) > a.square);
    assert_true(blocks_slack(&all, 0) > 2 * blocks_slack(&apart, 0));
    for (i = 0; i < 100; i++) blocks_drop(&all, &one);
    assert_int_equal(all.tensors + all.large + all.mean + all.alike, 0);
}

/* Many at once are as many one by one, the smallest among them. */
static void test_join_all(void **state)
{
    struct blocks one = {.tensors = 0}, each = {.tensors = 0}, all = each;
    int i;

    (void)state;
    blocks_add(&one, 1, 4 * MIB);
    blocks_alike(&one, 2, 3 * MIB / 2);
    one.odd = 1;
    blocks_repeat(&one);
    blocks_add(&one, 1, 5 * MIB / 4);
    blocks_join_all(&all, 0, &one);
    assert_memory_equal(&all, &each, sizeof all);
    for (i = 0; i < 7; i++) blocks_join(&each, &one);
    blocks_join_all(&all, 7, &one);
    assert_int_equal(all.least[4].bytes, 5 * MIB / 4);
    assert_int_equal(blocks_base(&all), blocks_base(&each));
    all.grain = each.grain;     /* below 1 MiB one is as good as another */
    assert_memory_equal(&all, &each, sizeof all);
}

/* Two of 9 MiB to a segment, 2 MiB are left: cut off. Two of 9.75: kept. */
static void test_fresh(void **state)
{
    struct blocks b = {.tensors = 0};

    (void)state;
    blocks_fresh(&b, 3, 9 * MIB);
    assert_int_equal(b.mean, 0);
    blocks_fresh(&b, 3, 9 * MIB + 3 * MIB / 4);
    assert_int_equal(b.mean, MIB / 2);
}

/* 24 MiB of boundary take one gradient of 16 MiB (8 are left, cut off) or
** three of 8 (nothing), or one of 23.5; two of 4.375 or five of 1.75 take one
** of 8. */
static void test_in_hole(void **state)
{
    struct blocks b = {.tensors = 0};

    (void)state;
    blocks_in_hole(&b, 2, 16 * MIB, 24 * MIB, 0);
    blocks_in_hole(&b, 2, 8 * MIB, 24 * MIB, 0);
    assert_int_equal(b.mean, 0);
    blocks_in_hole(&b, 2, 16 * MIB, 24 * MIB, 33 * MIB / 2);
    assert_int_equal(b.mean, 2 * (MIB / 4 - 3 * MIB / 68));
    b.mean = 0;             /* two in a row as often, five once in five */
    blocks_in_hole(&b, 1, 8 * MIB, 35 * MIB / 8, 0);
    assert_int_equal(b.mean, 3 * MIB / 8 - 3 * MIB / 56);
    b.mean = 0;
    blocks_in_hole(&b, 1, 8 * MIB, 7 * MIB / 4, 0);
    assert_int_equal(b.mean, 3 * MIB / 4 / 5 - 3 * MIB / 56);
}

/* Of 20 MiB 8 + 8 + 3 leave 1, once a layer that has two, one and one; 4 of 4
** and a 3, once in two layers. */
static void test_packed(void **state)
{
    static const int64_t n[3] = {2, 1, 1};
    struct blocks b = {.mean = 5};

    (void)state;
    assert_int_equal(blocks_packed(n, (int64_t[]){8 * MIB, 6 * MIB, 3 * MIB}),
                     MIB);
    assert_int_equal(blocks_packed(n, (int64_t[]){4 * MIB, 3 * MIB,
                                                  3 * MIB / 2}), MIB / 2);
    assert_int_equal(blocks_packed(n, (int64_t[]){8 * MIB, 4 * MIB, 2 * MIB}),
                     0);
    assert_int_equal(blocks_packed(n, (int64_t[]){19 * MIB, MIB, 0}), 0);
    assert_int_equal(blocks_packed(n, (int64_t[]){9 * MIB + 1, MIB, MIB}), 0);
    blocks_least(&b, 4);
    assert_int_equal(b.mean, 5);
    blocks_least(&b, 6);
    assert_int_equal(b.mean, 6);
}

/* Twice the spread where that costs less than a fiftieth, and what does of it
** where it does not; all that can be kept where that is a hundredth. */
static void test_cheap(void **state)
{
    struct blocks b = {.tensors = 0};
    int64_t spread, least;

    (void)state;
    blocks_add(&b, 30, 5 * MIB + 512);
    least = blocks_slack(&b, 0);
    spread = least - 30 * 512 - b.mean;
    assert_int_equal(blocks_slack(&b, 50 * (b.mean + 2 * spread)),
                     least + spread);
    assert_int_equal(blocks_slack(&b, 50 * (b.mean + spread)), least);
    assert_int_equal(blocks_slack(&b, 50 * (b.mean + spread + MIB / 2)),
                     least + MIB / 2);
    assert_int_equal(blocks_slack(&b, 100 * 29 * MIB), 30 * 512 + 29 * MIB);
    assert_int_equal(blocks_slack(&b, INT64_MAX), blocks_most(30, 30));
}

/* Sums that fit nothing stay in bounds. */
static void test_saturated(void **state)
{
    struct blocks b = {.tensors = 0};

    (void)state;
    blocks_add(&b, 1, INT64_MAX);
    blocks_alike(&b, 1, INT64_MAX);
    blocks_fresh(&b, 1, INT64_MAX);
    blocks_in_hole(&b, 1, INT64_MAX, INT64_MAX, 5 * MIB);
    assert_true(blocks_slack(&b, 0) > 0);
    assert_true(blocks_slack(&b, 0) <= 3 * (MIB + 512));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_pool),
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_own_segments),
        cmocka_unit_test(test_grain),
        cmocka_unit_test(test_workspace_rests),
        cmocka_unit_test(test_alike_rests),
        cmocka_unit_test(test_odd),
        cmocka_unit_test(test_grain_of_one),
        cmocka_unit_test(test_one_hole),
        cmocka_unit_test(test_rooms),
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_join_all),
        cmocka_unit_test(test_fresh),
        cmocka_unit_test(test_in_hole),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_cheap),
        cmocka_unit_test(test_saturated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
