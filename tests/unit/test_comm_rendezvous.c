/*
** test_comm_rendezvous.c - processes that meet, here threads with real
** sockets on 127.0.0.1: who is late, who differs, strangers.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/rendezvous_world.h"

/* ---- meeting ------------------------------------------------------------ */

/* An id goes out, everybody's bytes come in, twice. */
static int act_share(struct world *w, int rank, struct line *l,
                     struct err *e)
{
    for (int turn = 0; turn < 2; turn++) {
        char id[128], mine[70000];
        struct buf all[RANKS] = {BUF_INIT};
        size_t n = (size_t)(rank + 1) * 17000;
        int rc, r;

        memset(id, rank == 0 ? 'a' + turn : 0, sizeof id);
        rc = line_share(l, id, sizeof id, false, e);
        if (rc != ERR_OK) return rc;
        if (id[0] != 'a' + turn || id[127] != 'a' + turn)
            return err_set(e, ERR_WRONG, "another id came");
        memset(mine, '0' + rank, sizeof mine);
        rc = line_collect(l, mine, n, all, e);
        for (r = 0; r < w->size && rank == 0 && rc == ERR_OK; r++)
            if (all[r].len != (size_t)(r + 1) * 17000 ||
                all[r].data[all[r].len - 1] != '0' + r)
                rc = err_set(e, ERR_WRONG, "other bytes of rank %d", r);
        for (r = 0; r < w->size; r++) buf_free(&all[r]);
        if (rc != ERR_OK) return rc;
    }
    return ERR_OK;
}

static void all_meet(void **state)
{
    (void)state;
    for (int size = 1; size <= RANKS; size++) {
        struct world w;

        world_init(&w, size, LONG_MS);
        w.act = act_share;
        world_run(&w);
        expect_ok(&w);
    }
}

static void late_ranks_are_named(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 4, LATE_MS);
    w.seat[1].absent = w.seat[3].absent = true;
    world_run(&w);
    expect_said(&w, 0, ERR_RUN, "rank 1, 3 did not come to port");
    expect_said(&w, 2, ERR_RUN, "rank 1, 3 did not come to port");
}

static void rank_0_away(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 2, LATE_MS);
    w.seat[0].absent = true;
    world_run(&w);
    expect_said(&w, 1, ERR_RUN, "rank 1 cannot reach rank 0 at 127.0.0.1:");
    expect_said(&w, 1, ERR_RUN, "Connection refused");
}

static void versions_differ(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 2, LONG_MS);
    w.seat[1].version = "1.1";
    world_run(&w);
    expect_said(&w, 0, ERR_RUN, "rank 1 is version 1.1, rank 0 is 1.0");
    expect_said(&w, 1, ERR_RUN, "rank 1 is version 1.1, rank 0 is 1.0");
}

/* What a rank calls its version and its place is shown, not obeyed. */
static void names_are_shown(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 2, LONG_MS);
    w.seat[1].version = "1.1\n\33[31m\xc2\x9b";
    world_run(&w);
    for (int r = 0; r < 2; r++)
        expect_said(&w, r, ERR_RUN,
                    "rank 1 is version 1.1??[31m??, rank 0 is 1.0");
    world_init(&w, 3, LONG_MS);
    w.seat[1].place = w.seat[2].place = "node7\r\n";
    world_run(&w);
    expect_said(&w, 0, ERR_DEVICE, "ranks 1 and 2 share GPU node7??, which");
}

static void one_gpu_for_two(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 3, LONG_MS);
    w.seat[1].place = w.seat[2].place = "node7 0000:3b:00";
    world_run(&w);
    for (int r = 0; r < 3; r++)
        expect_said(&w, r, ERR_DEVICE, "ranks 1 and 2 share GPU node7 "
                                       "0000:3b:00, which NCCL refuses");
}

static void one_rank_twice(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 3, LONG_MS);
    w.seat[2].claim = 1;
    world_run(&w);
    expect_said(&w, 0, ERR_RUN, "two processes call themselves rank 1");
}

static void port_in_use(void **state)
{
    struct world w;
    int hold;

    (void)state;
    world_init(&w, 1, LATE_MS);
    w.port = free_port(&hold);
    world_run(&w);
    close(hold);
    expect_said(&w, 0, ERR_RUN, "rank 0 cannot listen on port");
    expect_said(&w, 0, ERR_RUN, "Address already in use");
}

/* ---- strangers ---------------------------------------------------------- */

static int knock(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    struct timespec pause = {0, 5000000};
    int fd = -1, i;

    a.sin_port = htons((uint16_t)port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (i = 0; i < 400; i++) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
        close(fd);
        nanosleep(&pause, NULL);
    }
    fail_msg("nobody listens on port %d", port);
    return -1;
}

static void *sit_late(void *arg)
{
    struct timespec pause = {0, 100000000};

    nanosleep(&pause, NULL);
    return sit(arg);
}

/* One that says nothing, one that talks of something else, one that begins
** well and stops, one that leaves; the ranks meet all the same, and at once. */
static void strangers(void **state)
{
    static const char web[] = "GET / HTTP/1.0\r\n\r\n";
    struct timespec from, to;
    struct world w;
    pthread_t host, guest;
    int silent, other, half, gone;
    uint64_t magic = 0x70656b70726f6f66u;

    (void)state;
    world_init(&w, 2, LONG_MS);
    w.act = act_share;
    clock_gettime(CLOCK_MONOTONIC, &from);
    pthread_create(&host, NULL, sit, &w.seat[0]);
    silent = knock(w.port);
    other = knock(w.port);
    half = knock(w.port);
    gone = knock(w.port);
    assert_int_equal(write(other, web, sizeof web), sizeof web);
    assert_int_equal(write(half, &magic, sizeof magic), sizeof magic);
    close(gone);
    pthread_create(&guest, NULL, sit_late, &w.seat[1]);
    pthread_join(guest, NULL);
    pthread_join(host, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    close(silent);
    close(other);
    close(half);
    expect_ok(&w);
    assert_true(to.tv_sec - from.tv_sec < 3);
}

/* As many as rank 0 listens to and more, all silent: a rank that comes after
** them still finds it at once. */
static void crowd(void **state)
{
    enum { CROWD = 80 };
    struct timespec from, to;
    struct world w;
    pthread_t host, guest;
    int fd[CROWD], i;

    (void)state;
    world_init(&w, 2, LONG_MS);
    w.act = act_share;
    pthread_create(&host, NULL, sit, &w.seat[0]);
    for (i = 0; i < CROWD; i++) fd[i] = knock(w.port);
    clock_gettime(CLOCK_MONOTONIC, &from);
    pthread_create(&guest, NULL, sit, &w.seat[1]);
    pthread_join(guest, NULL);
    pthread_join(host, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    for (i = 0; i < CROWD; i++) close(fd[i]);
    expect_ok(&w);
    assert_true(to.tv_sec - from.tv_sec < 2);
}

/* One that says a whole hello, as rank 1 of another job, takes no seat and
** ends nothing. */
static void another_job(void **state)
{
    struct world w, other;

    (void)state;
    world_init(&w, 2, LONG_MS);
    world_init(&other, 2, LONG_MS);
    other.port = w.port;
    other.seat[1].token = "job 8";
    pthread_t host, guest, stranger;
    w.act = act_share;
    pthread_create(&host, NULL, sit, &w.seat[0]);
    close(knock(w.port));
    pthread_create(&stranger, NULL, sit, &other.seat[1]);
    pthread_join(stranger, NULL);
    expect_said(&other, 1, ERR_RUN, "did not answer rank 1 (see its own "
                                    "message; of another job");
    pthread_create(&guest, NULL, sit, &w.seat[1]);
    pthread_join(guest, NULL);
    pthread_join(host, NULL);
    expect_ok(&w);
}

/* Rank 0 is heard at the address that it was given, and at no other. */
static void only_its_address(void **state)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    struct world w;
    pthread_t host, guest;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    world_init(&w, 2, LONG_MS);
    pthread_create(&host, NULL, sit, &w.seat[0]);
    close(knock(w.port));
    a.sin_port = htons((uint16_t)w.port);
    assert_int_equal(inet_pton(AF_INET, "127.0.0.2", &a.sin_addr), 1);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), -1);
    close(fd);
    pthread_create(&guest, NULL, sit, &w.seat[1]);
    pthread_join(guest, NULL);
    pthread_join(host, NULL);
    expect_ok(&w);
}

static atomic_int stop;

static void *stop_soon(void *arg)
{
    struct timespec pause = {0, 300000000};

    (void)arg;
    nanosleep(&pause, NULL);
    stop = 1;
    return NULL;
}

/* Where nothing answers, not even with a refusal (a listener whose queue is
** full stands in for it), an interrupt ends the try soon. */
static void nothing_answers(void **state)
{
    enum { FILL = 4 };
    struct timespec from, to;
    struct world w;
    pthread_t later;
    int hold, fd[FILL], i;

    (void)state;
    world_init(&w, 2, LONG_MS);
    w.port = free_port(&hold);
    w.seat[0].absent = true;
    w.interrupt = &stop;
    stop = 0;
    for (i = 0; i < FILL; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET};

        a.sin_port = htons((uint16_t)w.port);
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(fd[i], (struct sockaddr *)&a, sizeof a);
    }
    clock_gettime(CLOCK_MONOTONIC, &from);
    pthread_create(&later, NULL, stop_soon, NULL);
    world_run(&w);
    pthread_join(later, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    for (i = 0; i < FILL; i++) close(fd[i]);
    close(hold);
    expect_said(&w, 1, ERR_INTERRUPTED, "interrupted while the ranks met");
    assert_true(to.tv_sec - from.tv_sec < 4);
}

static char told[400];
static atomic_int told_times;

static void hear(const char *text)
{
    snprintf(told, sizeof told, "%s", text);
    told_times++;
}

/* Whoever waits for long says for whom, once in five seconds and not at every
** look; an interrupt ends it. */
static void waiting_is_told(void **state)
{
    static atomic_int interrupt;
    struct timespec while_waiting = {5, 600000000};
    struct world w;
    pthread_t host, guest;

    (void)state;
    world_init(&w, 3, 6 * LONG_MS);
    w.interrupt = &interrupt;
    w.waiting = hear;
    interrupt = 0;
    pthread_create(&host, NULL, sit, &w.seat[0]);
    pthread_create(&guest, NULL, sit, &w.seat[1]);
    nanosleep(&while_waiting, NULL);
    interrupt = 1;
    pthread_join(guest, NULL);
    pthread_join(host, NULL);
    expect_said(&w, 0, ERR_INTERRUPTED, "interrupted while the ranks met");
    expect_said(&w, 1, ERR_INTERRUPTED, "interrupted while the ranks met");
    assert_non_null(strstr(told, "rank 0 waits for rank 2 at 127.0.0.1:"));
    assert_int_equal(told_times, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_meet),
        cmocka_unit_test(late_ranks_are_named),
        cmocka_unit_test(rank_0_away),
        cmocka_unit_test(versions_differ),
        cmocka_unit_test(names_are_shown),
        cmocka_unit_test(one_gpu_for_two),
        cmocka_unit_test(one_rank_twice),
        cmocka_unit_test(port_in_use),
        cmocka_unit_test(strangers),
        cmocka_unit_test(crowd),
        cmocka_unit_test(another_job),
        cmocka_unit_test(only_its_address),
        cmocka_unit_test(nothing_answers),
        cmocka_unit_test(waiting_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
