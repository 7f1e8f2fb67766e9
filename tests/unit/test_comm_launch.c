/* test_comm_launch.c - which rank a launcher made of this process */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "comm/launch.h"

/* An environment: name, value, ..., NULL. */
static const char *get(const char *name, void *ctx)
{
    const char *const *v = ctx;

    for (; v[0] != NULL; v += 2)
        if (strcmp(v[0], name) == 0) return v[1];
    return NULL;
}

static int read_env(const char *const *env, struct launch *l, struct err *e)
{
    return launch_read(get, (void *)env, l, e);
}

static void families(void **state)
{
    static const char *const torch[] = {
        "RANK", "3", "WORLD_SIZE", "8", "LOCAL_RANK", "1", "MASTER_ADDR",
        "node0", "MASTER_PORT", "29500", "SLURM_PROCID", "0", NULL
    };
    static const char *const slurm[] = {
        "SLURM_PROCID", "1", "SLURM_NTASKS", "2", "SLURM_LOCALID", "0",
        "MASTER_ADDR", "::1", "MASTER_PORT", "1", NULL
    };
    static const char *const mpi[] = {
        "OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "2",
        "OMPI_COMM_WORLD_LOCAL_RANK", "0", "MASTER_ADDR", "a",
        "MASTER_PORT", "65535", NULL
    };
    static const char *const none[] = {"WORLD_SIZE", "x", NULL};
    static const char *const one[] = {
        "RANK", "0", "WORLD_SIZE", "1", "LOCAL_RANK", "0", NULL
    };
    struct launch l;
    struct err e;

    (void)state;
    assert_int_equal(read_env(torch, &l, &e), ERR_OK);
    assert_int_equal(l.rank, 3);
    assert_int_equal(l.size, 8);
    assert_int_equal(l.local_rank, 1);
    assert_string_equal(l.from, "RANK");
    assert_string_equal(l.master_addr, "node0");
    assert_int_equal(l.master_port, 29500);
    assert_int_equal(read_env(slurm, &l, &e), ERR_OK);
    assert_int_equal(l.rank, 1);
    assert_string_equal(l.from, "SLURM_PROCID");
    assert_int_equal(read_env(mpi, &l, &e), ERR_OK);
    assert_int_equal(l.size, 2);
    assert_int_equal(read_env(none, &l, &e), ERR_OK);
    assert_int_equal(l.size, 1);
    assert_null(l.from);
    assert_int_equal(read_env(one, &l, &e), ERR_OK);    /* needs no master */
    assert_int_equal(l.size, 1);
}

struct wrong { const char *env[12]; const char *text; };

static void refusals(void **state)
{
    static const struct wrong all[] = {
        {{"RANK", "2", "WORLD_SIZE", "2", "LOCAL_RANK", "0", NULL},
         "RANK: must be a number from 0 to 1, not '2'"},
        {{"RANK", "-1", "WORLD_SIZE", "2", "LOCAL_RANK", "0", NULL},
         "RANK: must be a number from 0 to 1, not '-1'"},
        {{"RANK", "0", "WORLD_SIZE", "two", "LOCAL_RANK", "0", NULL},
         "WORLD_SIZE: must be a number from 1 to 4096, not 'two'"},
        {{"RANK", "0", "WORLD_SIZE", "5000", "LOCAL_RANK", "0", NULL},
         "WORLD_SIZE: must be a number from 1 to 4096, not '5000'"},
        {{"RANK", "0", NULL}, "WORLD_SIZE is not set, though a launcher's "
         "other variables are"},
        {{"RANK", "0", "WORLD_SIZE", "2", NULL}, "LOCAL_RANK is not set, "
         "though a launcher's other variables are"},
        {{"RANK", "0", "WORLD_SIZE", "2", "LOCAL_RANK", "0", NULL},
         "MASTER_ADDR is not set: it must name the host of rank 0"},
        {{"RANK", "0", "WORLD_SIZE", "2", "LOCAL_RANK", "0", "MASTER_ADDR",
          "", NULL},
         "MASTER_ADDR is not set: it must name the host of rank 0"},
        {{"RANK", "0", "WORLD_SIZE", "2", "LOCAL_RANK", "0", "MASTER_ADDR",
          "a", "MASTER_PORT", "0", NULL},
         "MASTER_PORT: must be a number from 1 to 65535, not '0'"},
    };
    struct launch l;
    struct err e;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_int_equal(read_env(all[i].env, &l, &e), ERR_USAGE);
        assert_string_equal(e.text, all[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families),
        cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
