/* Which streams are written to as terminals. */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/terminal.h"

static bool wants(int fd, const char *term, const char *no_color)
{
    if (term != NULL) setenv("TERM", term, 1);
    else unsetenv("TERM");
    if (no_color != NULL) setenv("NO_COLOR", no_color, 1);
    else unsetenv("NO_COLOR");
    return terminal_wants(fd);
}

/* Where there are no pseudo-terminals (a bare chroot) it is skipped. */
static void test_terminal(void **state)
{
    int fd = posix_openpt(O_RDWR | O_NOCTTY);

    (void)state;
    if (fd < 0 || !isatty(fd)) {
        if (fd >= 0) close(fd);
        skip();
    }
    assert_true(wants(fd, "xterm", NULL));
    assert_true(wants(fd, "xterm", ""));
    assert_false(wants(fd, "xterm", "1"));
    assert_false(wants(fd, "dumb", NULL));
    assert_false(wants(fd, "", NULL));
    assert_false(wants(fd, NULL, NULL));
    close(fd);
}

static void test_pipe(void **state)
{
    int fd[2];

    (void)state;
    assert_int_equal(pipe(fd), 0);
    assert_false(wants(fd[1], "xterm", NULL));
    close(fd[0]);
    close(fd[1]);
    assert_false(wants(fd[1], "xterm", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terminal), cmocka_unit_test(test_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
