/*
** test_comm_rendezvous.c - processes that meet, here threads with real
** sockets on 127.0.0.1: who is late, who differs, strangers, and the line
** that stays.
*/
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/rendezvous.h"

enum { RANKS = 4, LONG_MS = 10000, LATE_MS = 300 };

struct world;
struct seat {
    struct world *w;
    int rank;
    bool absent;
    const char *place, *version, *token;    /* NULL: the usual */
    int claim;                      /* calls itself this rank; -1: its own */
    int rc;
    struct err e;
};

struct world {
    int size, port;
    int64_t deadline_ms;
    struct seat seat[RANKS];
    const atomic_int *interrupt;
    void (*waiting)(const char *text);
    /* what a rank does on the line; may be NULL */
    int (*act)(struct world *w, int rank, struct line *l, struct err *e);
};

/* A port that is free now. The listener that held it is closed. */
static int free_port(int *hold)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    a.sin_addr.s_addr = htonl(hold != NULL ? INADDR_ANY : INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    if (hold != NULL) {
        assert_int_equal(listen(fd, 1), 0);
        *hold = fd;
    } else {
        close(fd);
    }
    return ntohs(a.sin_port);
}

static void *sit(void *arg)
{
    struct seat *s = arg;
    struct world *w = s->w;
    char place[32];
    struct line *l = NULL;
    struct rendezvous r = {
        .rank = s->claim >= 0 ? s->claim : s->rank, .size = w->size,
        .addr = "127.0.0.1", .port = w->port, .deadline_ms = w->deadline_ms,
        .place = s->place != NULL ? s->place : place,
        .version = s->version != NULL ? s->version : "1.0",
        .token = s->token != NULL ? s->token : "job 7",
        .interrupt = w->interrupt, .waiting = w->waiting
    };

    snprintf(place, sizeof place, "host %d", s->rank);
    s->rc = rendezvous(&r, &l, &s->e);
    if (s->rc == ERR_OK && w->act != NULL)
        s->rc = w->act(w, s->rank, l, &s->e);
    line_close(l);
    return NULL;
}

static void world_init(struct world *w, int size, int64_t deadline_ms)
{
    memset(w, 0, sizeof *w);
    w->size = size;
    w->port = free_port(NULL);
    w->deadline_ms = deadline_ms;
    for (int r = 0; r < size; r++) {
        w->seat[r].w = w;
        w->seat[r].rank = r;
        w->seat[r].claim = -1;
    }
}

static void world_run(struct world *w)
{
    pthread_t thread[RANKS];
    int r;

    for (r = 0; r < w->size; r++)
        if (!w->seat[r].absent)
            assert_int_equal(pthread_create(&thread[r], NULL, sit,
                                            &w->seat[r]), 0);
    for (r = 0; r < w->size; r++)
        if (!w->seat[r].absent) pthread_join(thread[r], NULL);
}

static void expect_ok(const struct world *w)
{
    for (int r = 0; r < w->size; r++)
        if (w->seat[r].rc != ERR_OK)
            fail_msg("rank %d: %s", r, w->seat[r].e.text);
}

static void expect_said(const struct world *w, int r, int code,
                        const char *text)
{
    assert_int_equal(w->seat[r].rc, code);
    if (strstr(w->seat[r].e.text, text) == NULL)
        fail_msg("rank %d said '%s', not '%s'", r, w->seat[r].e.text, text);
}

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

static char told[400];

static void hear(const char *text)
{
    snprintf(told, sizeof told, "%s", text);
}

/* Whoever waits for long says for whom, and an interrupt ends it. */
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
}

/* ---- failures on the line ----------------------------------------------- */

/* Polls as a rank does that waits for its GPU. */
static int wait_for_alarm(struct line *l, struct err *e)
{
    struct alarm *a = line_alarm(l);
    struct timespec pause = {0, 2000000};
    char cause[ALARM_CAUSE];

    for (int i = 0; i < LONG_MS / 2; i++) {
        if (a->ops->raised(a, cause))
            return err_set(e, ERR_RUN, "heard: %s", cause);
        nanosleep(&pause, NULL);
    }
    return err_set(e, ERR_WRONG, "heard nothing");
}

/* Rank 2 fails; all hear of it through rank 0, and rank 0 still gets what
** each has to say. */
static int act_fail(struct world *w, int rank, struct line *l, struct err *e)
{
    struct alarm *a = line_alarm(l);
    struct buf all[RANKS] = {BUF_INIT};
    struct err heard;
    int rc, r;

    if (rank == 2) {
        a->ops->raise(a, "rank 2 failed: out of memory");
        a->ops->raise(a, "a second cause");
    }
    rc = wait_for_alarm(l, &heard);
    r = line_collect(l, &rank, sizeof rank, all, e);
    for (int i = 0; i < w->size && rank == 0 && r == ERR_OK; i++)
        if (all[i].len != sizeof rank || all[i].data[0] != i)
            r = err_set(e, ERR_WRONG, "other bytes of rank %d", i);
    for (int i = 0; i < w->size; i++) buf_free(&all[i]);
    if (r != ERR_OK) return r;
    *e = heard;
    return rc;
}

static void failure_reaches_all(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 4, LONG_MS);
    w.act = act_fail;
    world_run(&w);
    for (int r = 0; r < 4; r++)
        expect_said(&w, r, ERR_RUN, "heard: rank 2 failed: out of memory");
}

/* Rank 1 dies without a word, after the others have met. */
static int act_die(struct world *w, int rank, struct line *l, struct err *e)
{
    (void)w;
    return rank == 1 ? ERR_OK : wait_for_alarm(l, e);
}

static void death_reaches_all(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 3, LONG_MS);
    w.act = act_die;
    world_run(&w);
    expect_said(&w, 0, ERR_RUN, "heard: rank 1 has ended");
    expect_said(&w, 2, ERR_RUN, "heard: rank 1 has ended");
}

/* Rank 0 waits for data that rank 1 never sends. */
static int act_silent(struct world *w, int rank, struct line *l,
                      struct err *e)
{
    struct buf all[RANKS] = {BUF_INIT};
    struct timespec pause = {0, 3 * LATE_MS * 1000000L};
    int rc = ERR_OK, r;

    if (rank == 0) rc = line_collect(l, "x", 1, all, e);
    else nanosleep(&pause, NULL);
    for (r = 0; r < w->size; r++) buf_free(&all[r]);
    return rc;
}

static void silence_ends(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 2, LATE_MS);
    w.act = act_silent;
    world_run(&w);
    expect_said(&w, 0, ERR_RUN, "rank 1 sent nothing within 300 ms");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_meet),
        cmocka_unit_test(late_ranks_are_named),
        cmocka_unit_test(rank_0_away),
        cmocka_unit_test(versions_differ),
        cmocka_unit_test(one_gpu_for_two),
        cmocka_unit_test(one_rank_twice),
        cmocka_unit_test(port_in_use),
        cmocka_unit_test(strangers),
        cmocka_unit_test(another_job),
        cmocka_unit_test(only_its_address),
        cmocka_unit_test(waiting_is_told),
        cmocka_unit_test(failure_reaches_all),
        cmocka_unit_test(death_reaches_all),
        cmocka_unit_test(silence_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
