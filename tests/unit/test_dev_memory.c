/*
** test_dev_memory.c - the cpu device's segments: real memory that costs
** nothing until touched, limits, the rank's allocator on top of them.
*/
#include "dev_fixture.h"

#include <unistd.h>

#include "mem/mem.h"

#define MIB (UINT64_C(1) << 20)

static struct dev *open_limited(uint64_t limit)
{
    struct dev_options o = {.act = DT_F32, .limit_bytes = limit};
    struct dev *d = NULL;
    struct err e;

    assert_int_equal(dev_cpu.open(&o, &d, &e), ERR_OK);
    return d;
}

static void test_open(void **state)
{
    static const enum dtype acts[] = {DT_BF16, DT_F32, DT_F64};
    static const enum dtype accs[] = {DT_F32, DT_F32, DT_F64};
    struct dev_options o = {.act = DT_I32};
    struct dev *d = NULL;
    struct err e;
    int i;

    (void)state;
    for (i = 0; i < 3; i++) {
        o.act = acts[i];
        assert_int_equal(dev_cpu.open(&o, &d, &e), ERR_OK);
        assert_true(d->ops == &dev_cpu && d->ops->computes && d->k != NULL);
        assert_true(d->act == acts[i] && d->acc == accs[i]);
        assert_int_equal(dev_cpu.sync(d, &e), ERR_OK);
        dev_cpu.close(d);
    }
    o.act = DT_I32;
    assert_int_equal(dev_cpu.open(&o, &d, &e), ERR_USAGE);
    dev_cpu.close(NULL);
}

/* Pages of this process that are in memory. */
static long resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long total = 0, pages = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &total, &pages), 2);
    fclose(f);
    return pages;
}

static void test_untouched(void **state)
{
    struct dev *d = open_limited(0);
    const uint64_t bytes = 8192 * MIB;
    struct err e;
    uint64_t addr = 0;
    long before = resident();

    (void)state;
    assert_int_equal(d->source.get(d->source.ctx, bytes, &addr, &e), ERR_OK);
    assert_true(addr != 0 && addr % 512 == 0);
    assert_true(resident() - before < 256);
    ((volatile char *)(uintptr_t)addr)[bytes - 1] = 1;
    assert_int_equal(((volatile char *)(uintptr_t)addr)[0], 0);
    d->source.put(d->source.ctx, addr, bytes);
    dev_cpu.close(d);
}

static void test_limit(void **state)
{
    struct dev *d = open_limited(6 * MIB);
    struct err e;
    uint64_t a = 0, b = 0;

    (void)state;
    assert_int_equal(d->source.get(d->source.ctx, 4 * MIB, &a, &e), ERR_OK);
    assert_int_equal(d->source.get(d->source.ctx, 4 * MIB, &b, &e), ERR_OOM);
    assert_non_null(strstr(e.text, "4194304 bytes"));
    assert_int_equal(d->source.get(d->source.ctx, 2 * MIB, &b, &e), ERR_OK);
    d->source.put(d->source.ctx, a, 4 * MIB);
    assert_int_equal(d->source.get(d->source.ctx, 4 * MIB, &a, &e), ERR_OK);
    d->source.put(d->source.ctx, a, 4 * MIB);
    d->source.put(d->source.ctx, b, 2 * MIB);
    dev_cpu.close(d);
}

/* More than an address space holds. */
static void test_refused(void **state)
{
    struct dev *d = open_limited(0);
    struct err e;
    uint64_t a = 0;

    (void)state;
    assert_int_equal(d->source.get(d->source.ctx, UINT64_C(1) << 60, &a, &e),
                     ERR_OOM);
    dev_cpu.close(d);
}

/* Blocks of the rank's allocator are memory that kernels and copies reach. */
static void test_allocator(void **state)
{
    static const struct mem_tag tag = {0, 0, -1, "test"};
    static const float two[2] = {1.5F, -4};
    struct mem_config c = {0};
    struct dev *d = open_limited(0);
    struct mem_block *b = NULL;
    struct mem *m = NULL;
    float out[2] = {0};
    struct err e;
    void *p;

    (void)state;
    assert_int_equal(mem_new(&c, d->source, &m, &e), ERR_OK);
    assert_int_equal(mem_alloc(m, sizeof two, tag, &b, &e), ERR_OK);
    p = (void *)(uintptr_t)mem_addr(b);
    assert_int_equal(d->ops->upload(d, p, two, sizeof two, &e), ERR_OK);
    assert_int_equal(d->k->scale(d, &(struct k_scale){
        .out = {p, 1, 2, 2, DT_F32}, .a = {p, 1, 2, 2, DT_F32}, .s = 2}, &e),
        ERR_OK);
    assert_int_equal(d->ops->download(d, out, p, sizeof out, &e), ERR_OK);
    assert_true(out[0] == 3 && out[1] == -8);
    assert_int_equal(d->ops->upload(d, NULL, NULL, 0, &e), ERR_OK);
    mem_release(m, b);
    mem_free_all(m);
    dev_cpu.close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open), cmocka_unit_test(test_untouched),
        cmocka_unit_test(test_limit), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_allocator)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
