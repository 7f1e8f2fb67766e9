/* What doctor asks of a GPU, asked of the cpu device: whole, with a product
** that is wrong, and with a call that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "bench/gpu_trial.h"

static struct kernels kernels;

static int open_planted(const struct dev_options *o, struct dev **out,
                        struct err *e)
{
    int rc = dev_cpu.open(o, out, e);

    if (rc == ERR_OK) (*out)->k = &kernels;
    return rc;
}

static int no_code(struct dev *d, const struct k_fill *a, struct err *e)
{
    (void)d;
    (void)a;
    return err_set(e, ERR_RUN, "no kernel image");
}

static int no_product(struct dev *d, const struct k_gemm *a, struct err *e)
{
    struct k_fill one = {a->c, 1};

    return kernels.fill(d, &one, e);
}

static void test_trial(void **state)
{
    struct dev_options o = {.act = DT_F32};
    struct dev_ops ops = dev_cpu;
    struct cuda_module m = {.ops = &ops};
    struct dev *d;
    struct err e;

    (void)state;
    assert_int_equal(dev_cpu.open(&o, &d, &e), ERR_OK);
    kernels = *d->k;
    dev_cpu.close(d);
    ops.open = open_planted;
    assert_int_equal(gpu_trial(&m, 0, &e), ERR_OK);
    kernels.gemm = no_product;
    assert_int_equal(gpu_trial(&m, 0, &e), ERR_WRONG);
    assert_string_equal(e.text, "a product gives 1 and not 4");
    kernels.fill = no_code;
    assert_int_equal(gpu_trial(&m, 0, &e), ERR_RUN);
    assert_string_equal(e.text, "no kernel image");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_trial)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
