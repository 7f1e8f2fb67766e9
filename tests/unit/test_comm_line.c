/*
** test_comm_line.c - the line that stays when processes have met: failures
** reach all, and who is silent or gone is lost to it.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/line.h"
#include "tests/unit/rendezvous_world.h"

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
    if (rc != ERR_OK && !line_lost(l))      /* what comes late is not heard */
        return err_set(e, ERR_WRONG, "the line stays");
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

/* Rank 0 sends to a rank that has ended, until it notices: the line has lost
** it then. */
static int act_send(struct world *w, int rank, struct line *l, struct err *e)
{
    static char data[1 << 20];
    int rc = ERR_OK, i;

    (void)w;
    if (rank == 1) return ERR_OK;
    for (i = 0; i < 100 && rc == ERR_OK; i++)
        rc = line_share(l, data, sizeof data, false, e);
    return line_lost(l) ? rc : err_set(e, ERR_WRONG, "the line stays");
}

static void sending_notices_an_end(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 2, LONG_MS);
    w.act = act_send;
    world_run(&w);
    expect_said(&w, 0, ERR_RUN, "rank 1: rank 1 has ended");
}

/* A program whose standard input was closed is given 0 for a connection. */
static void connection_zero_is_closed(void **state)
{
    struct rendezvous r = {.rank = 1, .size = 2, .deadline_ms = LONG_MS};
    int input = dup(STDIN_FILENO), pair[2], *fd = malloc(sizeof *fd);
    struct line *l;
    struct err e;

    (void)state;
    assert_non_null(fd);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(dup2(pair[0], STDIN_FILENO), STDIN_FILENO);
    close(pair[0]);
    *fd = STDIN_FILENO;
    assert_int_equal(line_new(&r, fd, &l, &e), ERR_OK);
    line_close(l);
    assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
    close(pair[1]);
    if (input >= 0) {
        dup2(input, STDIN_FILENO);
        close(input);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure_reaches_all),
        cmocka_unit_test(death_reaches_all),
        cmocka_unit_test(silence_ends),
        cmocka_unit_test(sending_notices_an_end),
        cmocka_unit_test(connection_zero_is_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
