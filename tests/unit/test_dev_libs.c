/*
** Where libraries are looked for: a Python environment's wheels, the python3
** in PATH, CUDA_HOME; and what is said where there is none. The library is
** cmocka's own under another name.
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "dev/libs.h"

#define NAME "libpeakproof-none.so.9"

static char top[] = "/tmp/peakproof-libs-XXXXXX";

/* top/path with its folders, a link to cmocka's library (or to nothing). */
static void put(const char *path, const char *target)
{
    char all[PATH_MAX], *p;

    snprintf(all, sizeof all, "%s/%s", top, path);
    for (p = strchr(all + 1, '/'); p != NULL; p = strchr(p + 1, '/')) {
        *p = '\0';
        mkdir(all, 0700);
        *p = '/';
    }
    assert_int_equal(symlink(target, all), 0);
}

static bool found(void)
{
    struct err e;
    void *lib = libs_open(NAME, &e);

    if (lib == NULL) {
        assert_int_equal(e.code, ERR_DEVICE);
        assert_non_null(strstr(e.text, NAME " is not where the loader looks"));
        return false;
    }
    assert_non_null(dlsym(lib, "_cmocka_run_group_tests"));
    dlclose(lib);
    return true;
}

static bool found_with(const char *variable, const char *path)
{
    char value[PATH_MAX];
    bool is;

    snprintf(value, sizeof value, "/none:%s/%s", top, path);
    setenv(variable, strcmp(variable, "PATH") == 0 ? value : value + 6, 1);
    is = found();
    unsetenv(variable);
    return is;
}

static void test_places(void **state)
{
    Dl_info lib;

    (void)state;
    assert_non_null(mkdtemp(top));
    assert_int_not_equal(dladdr((void *)(intptr_t)_cmocka_run_group_tests,
                                &lib), 0);
    put("venv/lib/python3.11/site-packages/nvidia/nccl/lib/" NAME,
        lib.dli_fname);
    put("venv/bin/python3", "/bin/true");
    put("cuda/lib64/" NAME, lib.dli_fname);
    put("bad/lib/python3.9/site-packages/nvidia/a/lib/" NAME, "/etc/passwd");
    put("bare/bin/python", "/bin/true");
    unsetenv("PATH");
    unsetenv("CUDA_HOME");
    unsetenv("VIRTUAL_ENV");
    unsetenv("CONDA_PREFIX");
    assert_false(found());
    assert_true(found_with("VIRTUAL_ENV", "venv"));
    assert_true(found_with("CONDA_PREFIX", "venv"));
    assert_true(found_with("PATH", "venv/bin"));
    assert_true(found_with("CUDA_HOME", "cuda"));
    assert_false(found_with("VIRTUAL_ENV", "bad"));
    assert_false(found_with("VIRTUAL_ENV", "cuda"));
    assert_false(found_with("PATH", "bare/bin"));
    assert_false(found());
}

static int teardown(void **state)
{
    char command[PATH_MAX];

    (void)state;
    snprintf(command, sizeof command, "/bin/rm -rf %s", top);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_places, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
