/* Workers that cannot be started, and those that are killed: what becomes of
** the cases. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <errno.h>

#include "run/run.h"
#include "tests/unit/script_fixture.h"

enum { CASES = 6, SECONDS = 60 };

static atomic_int interrupt;

/* Forks so far; which of them fail, the n-th by bit n; who they became. */
static int forks;
static unsigned refused;
static pid_t child[32];

pid_t __real_fork(void);
pid_t __wrap_fork(void);

pid_t __wrap_fork(void)
{
    int n = forks++;

    if ((refused >> n & 1) != 0) {
        errno = EAGAIN;
        return -1;
    }
    return child[n] = __real_fork();
}

struct seen {
    int64_t done, failed;
    int killed;             /* the fork that dies when the first is done */
};

/* Dead, but not yet reaped: the pool does not know. */
static void kill_now(pid_t pid)
{
    siginfo_t ended;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
}

static int take(void *ctx, int64_t i, const struct case_result *r,
                struct err *e)
{
    struct seen *s = ctx;

    (void)e;
    assert_int_equal(s->done, i);
    if (s->done++ == 0 && s->killed >= 0) kill_now(child[s->killed]);
    s->failed += r->code != ERR_OK;
    return ERR_OK;
}

/* All cases by so many workers; what hangs is ended by the alarm. */
static int run(int64_t workers, unsigned refuse, struct seen *s, struct err *e)
{
    struct scenario *list = fixture_good(
        "local list = {}\n"
        "for i = 1, 6 do list[i] = {name = 'c' .. i, model = 'tiny',\n"
        "  layers = 1, batch = batch.lengths{3}} end\n"
        "return {cases = list}");
    struct run_context x = {.device = "dry", .ops = &dev_dry,
                            .interrupt = &interrupt};
    struct run_job job[CASES];
    int rc;

    for (int i = 0; i < CASES; i++) job[i] = (struct run_job){list, i};
    forks = 0;
    refused = refuse;
    alarm(SECONDS);
    rc = run_jobs(&x, job, CASES, workers, take, s, e);
    alarm(0);
    scenario_free(list);
    return rc;
}

/* Those that there are do all. */
static void test_fewer(void **state)
{
    static const unsigned refuse[] = {1u << 1, 1u << 2, 6, 14};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof refuse / sizeof *refuse; i++) {
        struct seen s = {0, 0, -1};
        struct err e;

        assert_int_equal(run(4, refuse[i], &s, &e), ERR_OK);
        assert_int_equal(s.done, CASES);
        assert_int_equal(s.failed, 0);
    }
}

static void test_none(void **state)
{
    struct seen s = {0, 0, -1};
    struct err e;

    (void)state;
    assert_int_equal(run(4, ~0u, &s, &e), ERR_RUN);
    assert_non_null(strstr(e.text, "cannot start a worker"));
    assert_int_equal(s.done, 0);
}

/* The only one there is dies while it has nothing to do, and is missed when it
** has been given a case. That one never began: another begins it. */
static void test_idle(void **state)
{
    struct seen s = {0, 0, 0};
    struct err e;

    (void)state;
    assert_int_equal(run(2, 1u << 1, &s, &e), ERR_OK);
    assert_int_equal(forks, 3);
    assert_int_equal(s.done, CASES);
    assert_int_equal(s.failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fewer), cmocka_unit_test(test_none),
        cmocka_unit_test(test_idle),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
