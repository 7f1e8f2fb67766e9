/*
** finds.c - the PTX interpreter finds planted mistakes, says what they are,
** and finds none in the same kernels without them.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/emu/control.h"
#include "wrong.h"

static const char *const says[WRONG_KINDS] = {
    [WRONG_RACE] = "in a race with",
    [WRONG_WARP] = "in a race with",
    [WRONG_BLOCKS] = "in a race with another block",
    [WRONG_BOUNDS] = "out of bounds",
    [WRONG_ALIGNMENT] = "is not aligned",
    [WRONG_UNSET] = "of what the block did not write",
    [WRONG_SHUFFLE] = "a shuffle names lanes",
    [WRONG_BARRIER] = "bar.sync by lanes",
    [WRONG_COPY] = "of what a cp.async is still to write",
};

/* 64 ints and, where they are read, 64 more; the last 32 of the first are set
** already for kernels of one warp. */
static int *ints(enum wrong_kind kind)
{
    int n = kind == WRONG_COPY ? 128 : 64, i;
    int *x = malloc((size_t)n * sizeof *x);

    assert_non_null(x);
    for (i = 0; i < n; i++) x[i] = 31 - i % 64;
    if (kind == WRONG_BARRIER) x[3] = 5;
    return x;
}

static void run(enum wrong_kind kind, bool wrong)
{
    int *x = ints(kind), i;

    assert_true(wrong_launch(kind, wrong, x));
    for (i = 0; i < 64; i++) assert_int_equal(x[i], 31 - i);
    free(x);
}

/* In a process of its own: what it writes to stderr before it dies. */
static void expect_found(enum wrong_kind kind)
{
    char text[8192];
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
        run(kind, true);
        _exit(0);
    }
    close(fd[1]);
    while (n < sizeof text - 1
           && (got = read(fd[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(fd[0]);
    waitpid(child, &status, 0);
    if (WIFEXITED(status) || strstr(text, says[kind]) == NULL)
        fail_msg("kind %d: not '%s' but '%s'", kind, says[kind], text);
    if (strstr(text, "wrong.cu:") == NULL) fail_msg("no place: %s", text);
}

/* In every order of blocks and warps. */
static void test_finds(void **state)
{
    int kind, order;

    (void)state;
    for (order = EMU_FORWARD; order <= EMU_SHUFFLED; order++) {
        emu_set_order((enum emu_order)order, 3);
        for (kind = 0; kind < WRONG_KINDS; kind++) {
            run((enum wrong_kind)kind, false);
            expect_found((enum wrong_kind)kind);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_finds)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
