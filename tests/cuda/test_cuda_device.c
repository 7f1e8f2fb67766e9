/*
** test_cuda_device.c - the cuda device itself: copies, segments under the
** rank's allocator, room for host arrays; every CUDA and cuBLAS call of its
** functions made to fail in turn: an error that names call and place, nothing
** lost.
*/
#include <unistd.h>

#include "../unit/dev_fixture.h"
#include "../emu/control.h"

#include "mem/mem.h"

extern const struct dev_ops cu_ops;

static struct dev *open_as(enum dtype act, uint64_t limit)
{
    struct dev_options o = {.act = act, .limit_bytes = limit};
    struct dev *d = NULL;
    struct err e;

    if (cu_ops.open(&o, &d, &e) != ERR_OK) fail_msg("%s", e.text);
    return d;
}

static void nothing_held(void)
{
    assert_int_equal(emu_held_bytes(), 0);
    assert_int_equal(emu_open_handles(), 0);
}

static void test_open(void **state)
{
    struct dev_options o = {.act = DT_F64};
    struct dev *d = open_as(DT_BF16, 0);
    struct err e;
    char out[300], in[300];
    uint64_t addr, room, total;

    (void)state;
    assert_true(d->ops == &cu_ops && d->ops->computes && d->k != NULL);
    assert_true(d->act == DT_BF16 && d->acc == DT_F32);
    assert_int_equal(d->source.get(d->source.ctx, 512, &addr, &e), ERR_OK);
    memset(in, 7, sizeof in);
    assert_int_equal(cu_ops.upload(d, (void *)(uintptr_t)addr, in, 300, &e),
                     ERR_OK);
    assert_int_equal(cu_ops.download(d, out, (void *)(uintptr_t)addr, 300,
                                     &e), ERR_OK);
    assert_memory_equal(in, out, 300);
    assert_int_equal(cu_ops.upload(d, NULL, NULL, 0, &e), ERR_OK);
    assert_int_equal(cu_ops.sync(d, &e), ERR_OK);
    assert_int_equal(cu_ops.memory(d, &room, &total, &e), ERR_OK);
    assert_true(room < total && room + 512 <= total);
    d->source.put(d->source.ctx, addr, 512);
    cu_ops.close(d);
    cu_ops.close(NULL);
    assert_int_equal(cu_ops.open(&o, &d, &e), ERR_USAGE);
    assert_non_null(strstr(e.text, "bf16 or f32"));
    nothing_held();
}

/* Tensors of the rank's allocator in the device's segments, and a limit. */
static void test_allocator(void **state)
{
    struct dev *d = open_as(DT_F32, UINT64_C(64) << 20);
    struct mem_config mc = {0};
    struct mem_tag tag = {.op = "x"};
    struct mem *m;
    struct err e;
    struct fix f = {.d = d};
    struct mem_block *b[2];
    struct mat x;
    float back[3];

    (void)state;
    assert_int_equal(mem_new(&mc, d->source, &m, &e), ERR_OK);
    assert_int_equal(mem_alloc(m, 30 << 20, tag, &b[0], &e),
                     ERR_OK);
    assert_int_equal(mem_alloc(m, 40 << 20, tag, &b[1], &e),
                     ERR_OOM);
    assert_non_null(strstr(e.text, "limit 67108864"));
    x = (struct mat){(void *)(uintptr_t)mem_addr(b[0]), 1, 3, 3, DT_F32};
    CALL(&f, fill, .x = x, .value = 1.5);
    assert_int_equal(cu_ops.download(d, back, x.p, sizeof back, &e), ERR_OK);
    assert_true(back[0] == 1.5f && back[2] == 1.5f);
    mem_release(m, b[0]);
    mem_free_all(m);
    cu_ops.close(d);
    nothing_held();
}

/* ---- operators waited for ----------------------------------------------- */

/* A fault that shows when the stream is waited for names its operator, and
** what ran is counted. */
static void test_watched(void **state)
{
    char path[] = "/tmp/peakproof-times-XXXXXX", line[3][64] = {""};
    int fd = mkstemp(path), n = 0;
    struct fix f = {0};
    struct mat x;
    FILE *file;
    long at;

    (void)state;
    assert_true(fd >= 0);
    setenv("PEAKPROOF_CUDA_TIMES", path, 1);
    f.d = open_as(DT_F32, 0);
    x = fix_new(&f, 3, 5, DT_F32);
    CALL(&f, fill, .x = x, .value = 1);
    CALL(&f, fill, .x = x, .value = 2);
    CALL(&f, scale, .out = x, .a = x, .s = 2);
    for (at = 1;; at++) {
        emu_fail_at(at);
        assert_int_equal(CALL_RC(&f, fill, .x = x, .value = 1), ERR_RUN);
        emu_fail_at(0);
        assert_non_null(strstr(f.e.text, "fill"));
        if (strstr(f.e.text, "cuda: operator fill: ") != NULL) break;
    }
    while (f.n_block > 0) free(f.block[--f.n_block]);
    cu_ops.close(f.d);
    unsetenv("PEAKPROOF_CUDA_TIMES");
    file = fdopen(fd, "r");
    while (n < 3 && fgets(line[n], sizeof line[n], file) != NULL) n++;
    fclose(file);
    unlink(path);
    assert_int_equal(n, 2);
    assert_int_equal(strncmp(line[0], "0,fill,2,0.", 11), 0);
    assert_int_equal(strncmp(line[1], "0,scale,1,0.", 12), 0);
    nothing_held();
}

/* Every so many ranges one that is not empty; of the call-th call. */
static void some_ranges(struct range *r, int64_t n, int64_t each, int64_t call)
{
    int64_t i;

    for (i = 0; i < n; i += each)
        r[i] = (struct range){(i / each + call) * 7 % 500, 1};
}

/* Host arrays larger than the room, and many of them around its ring, each
** with something else in it, while the GPU is late. Most ranges are empty:
** they take room and no time. */
static void test_room(void **state)
{
    enum { MANY = 200000, EACH = 1000 };
    struct dev *d = open_as(DT_F32, 0);
    struct fix f = {.d = d};
    struct range *r = calloc(MANY, sizeof *r);
    struct mat x = fix_fill(fix_new(&f, 500, 1, DT_F32), "x", 1, 0);
    struct mat out = fix_new(&f, MANY / EACH, 1, DT_F32);
    int64_t i, n;

    (void)state;
    assert_non_null(r);
    emu_set_order(EMU_SHUFFLED, 1);
    some_ranges(r, MANY, EACH, 0);
    for (n = 50000; n <= MANY; n += 50000) {
        struct mat part = fix_rows(out, 0, n / EACH);

        CALL(&f, gather, .out = part, .x = x, .r = r, .n = n);
        assert_int_equal(cu_ops.sync(d, &f.e), ERR_OK);
        for (i = 0; i < n / EACH; i++)
            assert_true(fix_get(part, i, 0) == fix_get(x, i * 7 % 500, 0));
    }
    for (i = 0; i < 150; i++) {
        some_ranges(r, 50 * EACH, EACH, i);
        CALL(&f, gather, .out = fix_rows(out, i, 50), .x = x, .r = r,
             .n = 50 * EACH);
    }
    assert_int_equal(cu_ops.sync(d, &f.e), ERR_OK);
    for (i = 0; i < 199; i++)
        assert_true(fix_get(out, i, 0) == fix_get(x, i * 7 % 500, 0));
    emu_set_order(EMU_FORWARD, 0);
    free(r);
    while (f.n_block > 0) free(f.block[--f.n_block]);
    cu_ops.close(d);
    nothing_held();
}

/* ---- calls that fail --------------------------------------------------- */

static void says_where(const struct err *e)
{
    if (strstr(e->text, ".cu:") == NULL
        || (strstr(e->text, "cuda") == NULL
            && strstr(e->text, "cublas") == NULL))
        fail_msg("not said where: %s", e->text);
}

static void test_open_fails(void **state)
{
    struct dev_options o = {.act = DT_F32};
    long n;

    (void)state;
    for (n = 1;; n++) {
        struct dev *d = NULL;
        struct err e;
        int rc;

        emu_fail_at(n);
        rc = cu_ops.open(&o, &d, &e);
        if (rc == ERR_OK) {
            emu_fail_at(0);
            cu_ops.close(d);
            break;
        }
        says_where(&e);
        nothing_held();
    }
    assert_true(n > 6);
    nothing_held();
}

static void test_close_fails(void **state)
{
    long n;

    (void)state;
    for (n = 1; n < 12; n++) {
        struct dev *d = open_as(DT_F32, 0);

        emu_fail_at(n);
        cu_ops.close(d);
        emu_fail_at(0);
        nothing_held();
    }
}

static void test_calls_fail(void **state)
{
    struct dev *d = open_as(DT_F32, 0);
    struct fix f = {.d = d};
    uint64_t addr, room, total;
    struct mat x;
    char byte = 0;
    struct err e;
    long n;
    int rc;

    (void)state;
#define FAILS(n, call)                                                       \
    do {                                                                     \
        emu_fail_at(n);                                                      \
        assert_int_not_equal(call, ERR_OK);                                  \
        says_where(&e);                                                      \
        emu_fail_at(0);                                                      \
    } while (0)
    FAILS(1, d->source.get(d->source.ctx, 512, &addr, &e));
    FAILS(2, d->source.get(d->source.ctx, 512, &addr, &e));
    FAILS(1, cu_ops.upload(d, &byte, &byte, 1, &e));
    FAILS(2, cu_ops.upload(d, &byte, &byte, 1, &e));
    FAILS(1, cu_ops.download(d, &byte, &byte, 1, &e));
    FAILS(2, cu_ops.download(d, &byte, &byte, 1, &e));
    FAILS(1, cu_ops.sync(d, &e));
    FAILS(1, cu_ops.memory(d, &room, &total, &e));
    FAILS(2, cu_ops.memory(d, &room, &total, &e));
    /* it is kept for cuBLAS, which the first product makes */
    assert_int_equal(cu_ops.workspace(d, &byte, 1, &e), ERR_OK);
    x = fix_in(&f, "x", 2, 2, 1, 0);
    for (n = 1; n < 4; n++)
        FAILS(n, (rc = CALL_RC(&f, gemm, .c = x, .a = x, .b = x, .alpha = 1),
                  e = f.e, rc));
    CALL(&f, gemm, .c = x, .a = x, .b = x, .alpha = 1);
    FAILS(1, cu_ops.workspace(d, &byte, 1, &e));
    while (f.n_block > 0) free(f.block[--f.n_block]);
    cu_ops.close(d);
    nothing_held();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open), cmocka_unit_test(test_allocator),
        cmocka_unit_test(test_watched), cmocka_unit_test(test_room),
        cmocka_unit_test(test_open_fails), cmocka_unit_test(test_close_fails),
        cmocka_unit_test(test_calls_fail)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
