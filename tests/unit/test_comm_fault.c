/*
** test_comm_fault.c - every host allocation of the local communicator fails
** once.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "comm/comm.h"
#include "dev/dev.h"
#include "fault.h"

static int copy(struct dev *d, void *dst, const void *src, size_t n,
                struct err *e)
{
    (void)d;
    (void)e;
    memcpy(dst, src, n);
    return ERR_OK;
}

static const struct dev_ops far_ops = {
    .name = "far", .computes = true, .upload = copy, .download = copy,
};

/* A lone rank's exchange and sum, both through host memory. */
static int exchange(struct comm *c, struct err *e)
{
    struct dev d = {.ops = &far_ops};
    float a[4] = {1, 2, 3, 4}, b[4] = {0};
    struct comm_part send = {a, sizeof a}, recv = {b, sizeof b};
    int rc = c->ops->all_to_all(c, &d, "swap", &send, &recv, e);

    if (rc == ERR_OK)
        rc = c->ops->all_reduce(c, &d, "sum", (struct mat){b, 1, 4, 4, DT_F32},
                                1, e);
    if (rc == ERR_OK) assert_memory_equal(a, b, sizeof a);
    return rc;
}

static int run(size_t n)
{
    struct comm *c[4];
    struct err e;
    int rc;

    fault_set(n);
    rc = comm_local(4, 1000, c, &e);
    if (rc != ERR_OK) return rc;
    for (int r = 0; r < 4; r++) c[r]->ops->close(c[r]);
    rc = comm_local(1, 1000, c, &e);
    if (rc != ERR_OK) return rc;
    rc = exchange(c[0], &e);
    c[0]->ops->close(c[0]);
    return rc;
}

static void test_every_allocation_fails_once(void **state)
{
    size_t n;

    (void)state;
    assert_int_equal(run(0), ERR_OK);
    for (n = 1; n < 100; n++) {
        int rc = run(n);

        if (!fault_reached()) break;
        assert_int_equal(rc, ERR_RUN);
    }
    /* two groups and their five ranks; a stage; a sum and its buffer */
    assert_int_equal(n - 1, 2 + 5 + 1 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
