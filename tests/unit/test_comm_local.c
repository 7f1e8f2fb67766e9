/*
** test_comm_local.c - ranks that are threads: exchanges, sums, and every way
** in which one rank can fail the others.
*/
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "comm/comm.h"
#include "dev/dev.h"

enum { MOST = 4, LONG_MS = 20000, SHORT_MS = 250 };

/* ---- devices ------------------------------------------------------------ */

/* "far" holds its memory where only upload and download reach; calls left
** until one fails, -1: none does. */
struct far { struct dev dev; int left; int calls; };

static int far_copy(struct dev *d, void *dst, const void *src, size_t n,
                    struct err *e)
{
    struct far *f = (struct far *)d;

    f->calls++;
    if (f->left == 0) return err_set(e, ERR_DEVICE, "copy engine broke");
    if (f->left > 0) f->left--;
    memcpy(dst, src, n);
    return ERR_OK;
}

static int far_sync(struct dev *d, struct err *e)
{
    (void)d;
    (void)e;
    return ERR_OK;
}

static const struct dev_ops host_ops = {.name = "cpu", .computes = true};
static const struct dev_ops far_ops = {
    .name = "far", .computes = true, .upload = far_copy,
    .download = far_copy, .sync = far_sync,
};
static const struct dev_ops none_ops = {.name = "dry", .computes = false};

/* ---- a run of several ranks --------------------------------------------- */

struct rank {
    struct comm *comm;
    pthread_barrier_t *start;   /* threads of one run start together */
    struct far far;
    const struct dev_ops *ops;
    void (*body)(struct rank *r);
    int arg;                /* of the body */
    int rc, done;           /* its result; exchanges that succeeded */
    struct err e;
    double seconds;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *rank_main(void *p)
{
    struct rank *r = p;
    double start;

    pthread_barrier_wait(r->start);
    start = now();
    r->body(r);
    r->seconds = now() - start;
    return NULL;
}

/* Asserts are made by the caller alone: cmocka's are not for threads. */
static void run(struct rank *rank, int size, int64_t deadline_ms,
                const struct dev_ops *ops, void (*body)(struct rank *), int arg)
{
    struct comm *comm[MOST];
    pthread_t thread[MOST];
    pthread_barrier_t start;
    struct err e;

    assert_int_equal(comm_local(size, deadline_ms, comm, &e), ERR_OK);
    pthread_barrier_init(&start, NULL, (unsigned)size);
    for (int r = 0; r < size; r++) {
        rank[r] = (struct rank){.comm = comm[r], .start = &start, .ops = ops,
                                .body = body, .arg = arg};
        rank[r].far = (struct far){.dev = {.ops = ops}, .left = -1};
        assert_int_equal(comm[r]->rank, r);
        assert_int_equal(comm[r]->size, size);
        assert_int_equal(pthread_create(&thread[r], NULL, rank_main,
                                        &rank[r]), 0);
    }
    for (int r = 0; r < size; r++) pthread_join(thread[r], NULL);
    pthread_barrier_destroy(&start);
    for (int r = 0; r < size; r++) comm[r]->ops->close(comm[r]);
}

static void all_ok(const struct rank *rank, int size)
{
    for (int r = 0; r < size; r++) {
        if (rank[r].rc != ERR_OK) print_error("rank %d: %s\n", r,
                                              rank[r].e.text);
        assert_int_equal(rank[r].rc, ERR_OK);
    }
}

static void has(const struct rank *r, const char *text)
{
    assert_int_equal(r->rc, ERR_RUN);
    if (strstr(r->e.text, text) == NULL) print_error("%s\n", r->e.text);
    assert_non_null(strstr(r->e.text, text));
}

/* ---- all_to_all --------------------------------------------------------- */

static unsigned char byte_of(int from, int to, int64_t i)
{
    return (unsigned char)(from * 31 + to * 7 + i);
}

/* Rank s sends (s + 2 r) * unit bytes to rank r; one pair sends nothing. */
static int64_t bytes_of(int from, int to, int unit)
{
    return from == 1 && to == 0 ? 0 : (int64_t)(from + 2 * to) * unit;
}

static int swap(struct rank *r, int unit)
{
    struct comm_part send[MOST] = {{0}}, recv[MOST] = {{0}};
    int me = r->comm->rank, size = r->comm->size, rc;

    for (int q = 0; q < size; q++) {
        send[q].bytes = bytes_of(me, q, unit);
        recv[q].bytes = bytes_of(q, me, unit);
        send[q].p = malloc((size_t)send[q].bytes + 1);
        recv[q].p = calloc(1, (size_t)recv[q].bytes + 1);
        for (int64_t i = 0; i < send[q].bytes; i++)
            ((unsigned char *)send[q].p)[i] = byte_of(me, q, i);
    }
    rc = r->comm->ops->all_to_all(r->comm, &r->far.dev, "kv fetch", send,
                                  recv, &r->e);
    for (int q = 0; q < size; q++) {
        for (int64_t i = 0; i < recv[q].bytes && rc == ERR_OK; i++)
            if (((unsigned char *)recv[q].p)[i] != byte_of(q, me, i))
                rc = err_set(&r->e, ERR_WRONG, "byte %d of rank %d", (int)i,
                             q);
        free(send[q].p);
        free(recv[q].p);
    }
    return rc;
}

static void body_swap(struct rank *r)
{
    r->rc = swap(r, r->arg);
}

static void test_all_to_all(void **state)
{
    struct rank rank[MOST];

    (void)state;
    for (int size = 1; size <= MOST; size++) {
        run(rank, size, LONG_MS, &host_ops, body_swap, 13);
        all_ok(rank, size);
    }
}

/* Through host memory, in several stages of 4 MiB. */
static void test_staged(void **state)
{
    struct rank rank[MOST];

    (void)state;
    run(rank, 2, LONG_MS, &far_ops, body_swap, 5000001);
    all_ok(rank, 2);
    assert_int_equal(rank[0].far.calls, 0);             /* receives nothing */
    assert_int_equal(rank[1].far.calls, 2 * (3 + 4));   /* 10 and 15 MB */
}

static void body_made_up(struct rank *r)
{
    struct comm_part part[MOST] = {{0}};

    for (int q = 0; q < r->comm->size; q++)
        part[q] = (struct comm_part){(void *)(uintptr_t)4096, 1 << 20};
    r->rc = r->comm->ops->all_to_all(r->comm, &r->far.dev, "dispatch", part,
                                     part, &r->e);
    if (r->rc == ERR_OK)
        r->rc = r->comm->ops->all_reduce(r->comm, &r->far.dev, "gradients",
            (struct mat){(void *)(uintptr_t)4096, 8, 8, 8, DT_F32}, 1, &r->e);
}

static void test_made_up_addresses(void **state)
{
    struct rank rank[MOST];

    (void)state;
    run(rank, 2, LONG_MS, &none_ops, body_made_up, 0);
    all_ok(rank, 2);
}

/* ---- all_reduce, gather_counts ------------------------------------------ */

static int reduce_every(struct rank *r, void *x, int64_t n, enum dtype t,
                        int every)
{
    return r->comm->ops->all_reduce(r->comm, &r->far.dev, "gradients",
                                    (struct mat){x, 1, n, n, t}, every,
                                    &r->e);
}

static int reduce(struct rank *r, void *x, int64_t n, enum dtype t)
{
    return reduce_every(r, x, n, t, 1);
}

/* Values whose sum depends on the order: only ((0 + 1) + 2) + 3 passes. */
static void body_reduce(struct rank *r)
{
    static const float f[MOST] = {1e8f, 1, -1e8f, 3};
    static const double d[MOST] = {1e16, 1, -1e16, 3};
    static const uint16_t b[MOST] = {0x4380, 0x3f80, 0x3f80, 0};
    int me = r->comm->rank;
    float x[2] = {f[me], (float)me};
    double y[2] = {d[me], me};
    uint16_t z[2] = {b[me], 0x3f80};        /* 256, 1, 1, 0; and ones */
    float bit = (float)(1 << me);           /* of ranks 0 and 2, 1 and 3 */

    r->rc = reduce(r, x, 2, DT_F32);
    if (r->rc == ERR_OK) r->rc = reduce(r, y, 2, DT_F64);
    if (r->rc == ERR_OK) r->rc = reduce(r, z, 2, DT_BF16);
    if (r->rc == ERR_OK) r->rc = reduce(r, NULL, 0, DT_F32);
    if (r->rc == ERR_OK) r->rc = reduce_every(r, &bit, 1, DT_F32, 2);
    if (r->rc == ERR_OK
        && (memcmp(x, (float[]){3, 6}, sizeof x) != 0
            || memcmp(y, (double[]){3, 6}, sizeof y) != 0
            || z[0] != 0x4381 || z[1] != 0x4080    /* 258, 4 */
            || bit != (me % 2 == 0 ? 5 : 10)))
        r->rc = err_set(&r->e, ERR_WRONG, "%g %g %g %g %x %x %g", (double)x[0],
                        (double)x[1], y[0], y[1], z[0], z[1], (double)bit);
}

static void test_all_reduce(void **state)
{
    struct rank rank[MOST];

    (void)state;
    run(rank, 4, LONG_MS, &host_ops, body_reduce, 0);
    all_ok(rank, 4);
    run(rank, 4, LONG_MS, &far_ops, body_reduce, 0);
    all_ok(rank, 4);
}

static void body_round(struct rank *r)
{
    static const uint16_t in[2][4] = {
        {0x3f80, 0x3f81, 0x7f80, 0x7fc1},   /* 1, 1 + 2^-7, inf, nan */
        {0x3b80, 0x3b80, 0xff80, 0x0000},   /* 2^-8, 2^-8, -inf, 0 */
    };
    uint16_t x[4];

    memcpy(x, in[r->comm->rank], sizeof x);
    r->rc = reduce(r, x, 4, DT_BF16);
    /* ties go to even: down, then up; both others are not numbers */
    if (r->rc == ERR_OK && (x[0] != 0x3f80 || x[1] != 0x3f82
                            || (x[2] & 0x7fff) <= 0x7f80
                            || (x[3] & 0x7fff) <= 0x7f80))
        r->rc = err_set(&r->e, ERR_WRONG, "%x %x %x %x", x[0], x[1], x[2],
                        x[3]);
}

static void test_bf16_rounding(void **state)
{
    struct rank rank[MOST];

    (void)state;
    run(rank, 2, LONG_MS, &host_ops, body_round, 0);
    all_ok(rank, 2);
}

static void body_counts(struct rank *r)
{
    int64_t mine[3], all[3 * MOST];
    int me = r->comm->rank;

    for (int i = 0; i < 3; i++) mine[i] = 10 * me + i;
    r->rc = r->comm->ops->gather_counts(r->comm, "routing counts", mine, 3,
                                        all, &r->e);
    for (int i = 0; i < 3 * r->comm->size && r->rc == ERR_OK; i++)
        if (all[i] != 10 * (i / 3) + i % 3)
            r->rc = err_set(&r->e, ERR_WRONG, "count %d", i);
}

static void test_gather_counts(void **state)
{
    struct rank rank[MOST];

    (void)state;
    for (int size = 1; size <= MOST; size++) {
        run(rank, size, LONG_MS, &host_ops, body_counts, 0);
        all_ok(rank, size);
    }
}

/* ---- calls that do not fit ---------------------------------------------- */

static void body_mismatch(struct rank *r)
{
    char data[MOST][256] = {{0}};
    struct comm_part send[MOST] = {{0}}, recv[MOST] = {{0}};

    for (int q = 0; q < r->comm->size; q++) {
        send[q] = (struct comm_part){data[q], 128};
        recv[q] = (struct comm_part){data[q], 128};
    }
    if (r->comm->rank == 1) recv[0].bytes = 64;
    r->rc = r->comm->ops->all_to_all(r->comm, &r->far.dev, "kv fetch", send,
                                     recv, &r->e);
    if (r->rc != ERR_OK) {          /* the group goes on */
        struct err e = r->e;
        body_counts(r);
        r->done = r->rc == ERR_OK;
        r->rc = e.code;
        r->e = e;
    }
}

static void test_sizes_differ(void **state)
{
    struct rank rank[MOST];

    (void)state;
    run(rank, 4, LONG_MS, &host_ops, body_mismatch, 0);
    for (int r = 0; r < 4; r++) {
        has(&rank[r], "kv fetch: rank 0 sends 128 B to rank 1, which expects "
            "64 B");
        assert_int_equal(rank[r].done, 1);
    }
    run(rank, 2, LONG_MS, &none_ops, body_mismatch, 0);
    has(&rank[0], "rank 0 sends 128 B to rank 1, which expects 64 B");
    has(&rank[1], "rank 0 sends 128 B to rank 1, which expects 64 B");
}

static void body_other_call(struct rank *r)
{
    if (r->comm->rank == 1)
        r->rc = reduce(r, (float[]){0}, 1, DT_F32);
    else
        body_counts(r);
}

static void body_other_shape(struct rank *r)
{
    float x[8] = {0};

    r->rc = reduce(r, x, r->comm->rank == 1 ? 8 : 7, DT_F32);
}

static void body_other_sum(struct rank *r)
{
    r->rc = reduce_every(r, (float[]){0}, 1, DT_F32, 1 + r->comm->rank);
}

static void body_other_count(struct rank *r)
{
    int64_t mine[3] = {0}, all[3 * MOST];

    r->rc = r->comm->ops->gather_counts(r->comm, "routing counts", mine,
                                        r->comm->rank == 1 ? 2 : 3, all,
                                        &r->e);
}

static void test_calls_differ(void **state)
{
    struct rank rank[MOST];

    (void)state;
    run(rank, 2, LONG_MS, &host_ops, body_other_call, 0);
    for (int r = 0; r < 2; r++)
        has(&rank[r], "rank 0 is in gather_counts, while rank 1 is in "
            "all_reduce of gradients");
    run(rank, 2, LONG_MS, &host_ops, body_other_shape, 0);
    for (int r = 0; r < 2; r++)
        has(&rank[r], "rank 0 has 1 x 7 f32, rank 1 has 1 x 8 f32");
    run(rank, 2, LONG_MS, &host_ops, body_other_sum, 0);
    has(&rank[0], "rank 0 sums every 1, rank 1 every 2");
    run(rank, 2, LONG_MS, &host_ops, body_other_count, 0);
    for (int r = 0; r < 2; r++)
        has(&rank[r], "rank 0 brings 3 counts, rank 1 brings 2");
}

/* ---- ranks that fail ---------------------------------------------------- */

enum { ROUNDS = 6 };

/* The rank before the last aborts instead of its exchange number arg. */
static void body_abort(struct rank *r)
{
    int bad = r->comm->size - 2;

    for (int i = 0; i < ROUNDS && r->rc == ERR_OK; i++) {
        if (r->comm->rank == bad && i == r->arg) {
            r->comm->ops->abort(r->comm, "out of device memory");
            r->rc = err_set(&r->e, ERR_OOM, "out of device memory");
            return;
        }
        if (i % 3 == 0) r->rc = swap(r, 1000);
        if (i % 3 == 1) body_counts(r);
        if (i % 3 == 2) r->rc = reduce(r, (float[]){1, 2}, 2, DT_F32);
        if (r->rc == ERR_OK) r->done++;
    }
}

static void test_abort_at_each_exchange(void **state)
{
    struct rank rank[MOST];

    (void)state;
    for (int size = 2; size <= MOST; size += 2) {
        for (int n = 0; n < ROUNDS; n++) {
            char want[64];

            snprintf(want, sizeof want, "rank %d failed: out of device "
                     "memory", size - 2);
            run(rank, size, LONG_MS, &host_ops, body_abort, n);
            for (int r = 0; r < size; r++) {
                assert_int_equal(rank[r].done, n);
                assert_true(rank[r].seconds < LONG_MS / 1000 / 2);
                if (r == size - 2)
                    assert_int_equal(rank[r].rc, ERR_OOM);
                else
                    has(&rank[r], want);
            }
        }
    }
}

/* A copy fails inside an exchange: that rank tells its own error, and after
** its abort the others learn it at their next. */
static void body_broken_copy(struct rank *r)
{
    if (r->comm->rank == 1) r->far.left = r->arg;
    for (int i = 0; i < ROUNDS && r->rc == ERR_OK; i++) {
        r->rc = i % 2 ? reduce(r, (float[]){1, 2}, 2, DT_F32) : swap(r, 50);
        if (r->rc == ERR_OK) r->done++;
    }
    if (r->rc == ERR_DEVICE) r->comm->ops->abort(r->comm, r->e.text);
}

static void test_copy_fails(void **state)
{
    struct rank rank[MOST];
    int n, failures = 0;

    (void)state;
    for (n = 0; n < 40; n++) {
        run(rank, 2, LONG_MS, &far_ops, body_broken_copy, n);
        if (rank[1].rc == ERR_OK) break;
        failures++;
        assert_int_equal(rank[1].rc, ERR_DEVICE);
        assert_string_equal(rank[1].e.text, "copy engine broke");
        if (rank[1].done < ROUNDS - 1)
            has(&rank[0], "rank 1 failed: copy engine broke");
    }
    /* 3 swaps of two parts, 3 sums of two ranks and a store */
    assert_int_equal(failures, 3 * 4 + 3 * 3);
}

/* Rank 1 comes when the others must have given up. */
static void body_absent(struct rank *r)
{
    if (r->comm->rank == 1) {
        struct timespec t = {0, (long)SHORT_MS * 2 * 1000000};

        nanosleep(&t, NULL);
    }
    body_counts(r);
}

/* The first to wait waits for the whole deadline. */
static double longest(const struct rank *rank, int size)
{
    double most = 0;

    for (int r = 0; r < size; r++)
        if (r != 1 && rank[r].seconds > most) most = rank[r].seconds;
    return most;
}

static void test_rank_never_comes(void **state)
{
    struct rank rank[MOST];

    (void)state;
    for (int size = 2; size <= MOST; size += 2) {
        run(rank, size, SHORT_MS, &host_ops, body_absent, 0);
        for (int r = 0; r < size; r++)
            has(&rank[r], "routing counts: rank 1 did not come to routing "
                "counts within 250 ms");
        assert_true(longest(rank, size) >= SHORT_MS * 1e-3);
    }
}

static void body_two_absent(struct rank *r)
{
    if (r->comm->rank == 0 || r->comm->rank == 2) body_counts(r);
}

static void test_two_never_come(void **state)
{
    struct rank rank[MOST];

    (void)state;
    run(rank, 4, SHORT_MS, &host_ops, body_two_absent, 0);
    has(&rank[0], "rank 1, 3 did not come");
    has(&rank[2], "rank 1, 3 did not come");
}

static void test_early_close(void **state)
{
    struct comm *c[2];
    struct rank r = {.ops = &host_ops};
    struct err e;

    (void)state;
    assert_int_equal(comm_local(2, LONG_MS, c, &e), ERR_OK);
    c[1]->ops->close(c[1]);
    r.comm = c[0];
    body_counts(&r);
    has(&r, "rank 1 has closed its communicator");
    c[0]->ops->close(c[0]);
}

static void test_bounds(void **state)
{
    struct comm *c[1];
    struct err e;

    (void)state;
    assert_int_equal(comm_local(0, 10, c, &e), ERR_USAGE);
    assert_int_equal(comm_local(65, 10, c, &e), ERR_USAGE);
    assert_int_equal(comm_local(1, 0, c, &e), ERR_USAGE);
    assert_int_equal(comm_local(1, INT64_MAX, c, &e), ERR_USAGE);
}

static void body_many(struct rank *r)
{
    for (int i = 0; i < r->arg && r->rc == ERR_OK; i++) {
        if (i % 2 == 0) r->rc = swap(r, 1 + i % 50);
        else body_counts(r);
    }
}

static void test_many_exchanges(void **state)
{
    struct rank rank[MOST];

    (void)state;
    run(rank, 4, LONG_MS, &host_ops, body_many, 400);
    all_ok(rank, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_to_all),
        cmocka_unit_test(test_staged),
        cmocka_unit_test(test_made_up_addresses),
        cmocka_unit_test(test_all_reduce),
        cmocka_unit_test(test_bf16_rounding),
        cmocka_unit_test(test_gather_counts),
        cmocka_unit_test(test_sizes_differ),
        cmocka_unit_test(test_calls_differ),
        cmocka_unit_test(test_abort_at_each_exchange),
        cmocka_unit_test(test_copy_fails),
        cmocka_unit_test(test_rank_never_comes),
        cmocka_unit_test(test_two_never_come),
        cmocka_unit_test(test_early_close),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_many_exchanges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
