/*
** test_cuda_emu.c - the emulator finds planted mistakes: a missing barrier by
** the order of threads, accesses out of bounds by ASan, a block that waits
** for ever by its state.
*/
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"
#include "planted.h"

static void test_barrier(void **state)
{
    int x[64], i, with[3], without[3], differ = 0;

    (void)state;
    for (i = 0; i < 64; i++) x[i] = i + 1;
    for (i = 0; i < 3; i++) {
        emu_set_order((enum emu_order)i, 7);
        with[i] = planted_sum(x, true);
        without[i] = planted_sum(x, false);
        assert_int_equal(with[i], 64 * 65 / 2);
        differ += without[i] != without[0];
    }
    assert_true(differ > 0);
}

static void overrun(void)
{
    int *x = malloc(7 * sizeof *x);

    planted_overrun(x, 8);
    free(x);
}

static void shared_overrun(void)
{
    int out = 0;

    planted_shared_overrun(&out, 8, 7);
}

/* What the child writes before it dies; it must die. */
static void dies(void (*f)(void), const char *says)
{
    char text[65536];
    size_t n = 0;
    ssize_t got;
    int fd[2], status;
    pid_t child;

    assert_int_equal(pipe(fd), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(fd[1], 2);
        close(fd[0]);
        f();
        _exit(0);
    }
    close(fd[1]);
    while (n < sizeof text - 1
           && (got = read(fd[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(fd[0]);
    waitpid(child, &status, 0);
    assert_true(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
    if (strstr(text, says) == NULL) fail_msg("not said: %s", says);
}

static void test_bounds(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    dies(overrun, "heap-buffer-overflow");
    dies(shared_overrun, "heap-buffer-overflow");
#else
    (void)overrun;
    (void)shared_overrun;
    skip();
#endif
}

static void test_deadlock(void **state)
{
    (void)state;
    dies(planted_deadlock, "waits for ever");
}

/* A block for each tile, or none at all. */
static void test_grid(void **state)
{
    unsigned g;
    struct err e;

    (void)state;
    assert_int_equal(planted_grid(0, 8, &g, &e), ERR_OK);
    assert_int_equal(g, 1);
    assert_int_equal(planted_grid(((int64_t)8 << 20) + 1, 8, &g, &e), ERR_OK);
    assert_int_equal(g, (1 << 20) + 1);
    assert_int_equal(planted_grid(INT32_MAX, 1, &g, &e), ERR_OK);
    assert_int_equal(g, INT32_MAX);
    assert_int_equal(planted_grid((int64_t)INT32_MAX + 1, 1, &g, &e),
                     ERR_RUN);
    assert_non_null(strstr(e.text, "2147483648 blocks of 1"));
}

static void test_launch_limits(void **state)
{
    (void)state;
    assert_true(planted_launch(65535, 1, 0, false));
    assert_false(planted_launch(65536, 1, 0, false));
    assert_true(planted_launch(1, 1024, 0, false));
    assert_false(planted_launch(1, 1025, 0, false));
    assert_false(planted_launch(0, 32, 0, false));
    assert_true(planted_launch(1, 32, 48 * 1024, false));
    assert_false(planted_launch(1, 32, 48 * 1024 + 1, false));
    assert_true(planted_launch(1, 32, 227 * 1024, true));
    assert_false(planted_launch(1, 32, 227 * 1024 + 1, true));
}

/* Some of the seeds show what was not waited for, none what was. */
static void test_streams(void **state)
{
    int late = 0, early = 0;
    uint64_t seed;

    (void)state;
    for (seed = 0; seed < 20; seed++) {
        emu_set_order(EMU_SHUFFLED, seed);
        assert_int_equal(planted_late_copy(true), 1);
        assert_int_equal(planted_two_streams(true), 1);
        late += planted_late_copy(false) == 2;
        early += planted_two_streams(false) == 0;
    }
    emu_set_order(EMU_FORWARD, 0);
    assert_true(late > 0 && early > 0);
    assert_int_equal(emu_open_handles(), 0);
}

static void test_split_sums(void **state)
{
    (void)state;
    assert_true(planted_long_sum(true) == 1);
    assert_false(planted_long_sum(false) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barrier), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_launch_limits), cmocka_unit_test(test_streams),
        cmocka_unit_test(test_split_sums), cmocka_unit_test(test_grid)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
