/*
** test_mem_rules.c - every rule of PyTorch's native allocator, and its worked
** examples, with exact bytes and addresses. Section numbers are
** allocator.md's.
*/
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "mem/mem.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define EIB (UINT64_C(1) << 60)
#define BASE (UINT64_C(1) << 40)    /* the dry source's first address */

static const struct mem_tag tag = {CAT_GDN, PHASE_FORWARD, 7, "gdn.conv"};

/* An allocator over a dry source, and the bytes it last put back. */
struct rig {
    struct mem_dry_source dry;
    struct mem_source inner;
    struct mem *m;
    uint64_t put[16];       /* addresses, in order */
    int n_put;
};

static int rig_get(void *ctx, uint64_t bytes, uint64_t *addr, struct err *e)
{
    struct rig *r = ctx;

    return r->inner.get(r->inner.ctx, bytes, addr, e);
}

static void rig_put(void *ctx, uint64_t addr, uint64_t bytes)
{
    struct rig *r = ctx;

    if (r->n_put < 16) r->put[r->n_put++] = addr;
    r->inner.put(r->inner.ctx, addr, bytes);
}

static void rig_open(struct rig *r, const struct mem_config *c,
                     uint64_t device)
{
    struct mem_source src = {r, rig_get, rig_put};
    struct mem_config counting = *c;
    struct err e;

    counting.counters = true;
    memset(r, 0, sizeof *r);
    r->inner = mem_dry_source(&r->dry, device);
    assert_int_equal(mem_new(&counting, src, &r->m, &e), ERR_OK);
}

static void rig_close(struct rig *r)
{
    mem_free_all(r->m);
    assert_int_equal(r->dry.used, 0);
}

static struct mem_block *get(struct rig *r, uint64_t bytes)
{
    struct mem_block *b = NULL;
    struct err e;

    assert_int_equal(mem_alloc(r->m, bytes, tag, &b, &e), ERR_OK);
    return b;
}

static uint64_t current(const struct rig *r, enum mem_stat s)
{
    return mem_counter(r->m, s, MEM_ALL).current;
}

/* ---- A.2, A.3: sizes ---------------------------------------------------- */

/* The block and segment bytes that a first request of n bytes takes. */
static void sizes(const struct mem_config *c, uint64_t n, uint64_t block,
                  uint64_t segment)
{
    struct rig r;
    struct mem_block *b;

    rig_open(&r, c, 0);
    b = get(&r, n);
    assert_int_equal(mem_block_bytes(b), block);
    assert_int_equal(mem_requested(b), n);
    assert_int_equal(mem_addr(b), BASE);
    assert_int_equal(current(&r, MEM_ALLOCATED_BYTES), block);
    assert_int_equal(current(&r, MEM_REQUESTED_BYTES), n);
    assert_int_equal(current(&r, MEM_RESERVED_BYTES), segment);
    rig_close(&r);
}

static void test_rounding(void **state)
{
    const struct mem_config c = {0};

    (void)state;
    sizes(&c, 1, 512, 2 * MIB);
    sizes(&c, 511, 512, 2 * MIB);
    sizes(&c, 512, 512, 2 * MIB);
    sizes(&c, 513, 1024, 2 * MIB);
    sizes(&c, 1200, 1536, 2 * MIB);
    sizes(&c, MIB - 511, MIB, 2 * MIB);
    sizes(&c, MIB, MIB, 2 * MIB);
}

static void test_segment_sizes(void **state)
{
    const struct mem_config c = {0};

    (void)state;
    sizes(&c, MIB + 1, MIB + 512, 20 * MIB);
    sizes(&c, 10 * MIB - 512, 10 * MIB - 512, 20 * MIB);
    sizes(&c, 10 * MIB, 10 * MIB, 10 * MIB);
    /* unsplit slack: the whole 12 MiB segment is one block */
    sizes(&c, 11 * MIB, 12 * MIB, 12 * MIB);
    sizes(&c, 11 * MIB - 1, 12 * MIB, 12 * MIB);
    sizes(&c, 11 * MIB - 512, 11 * MIB - 512, 12 * MIB);
    sizes(&c, 2000000000, 2000683008, 2000683008);
    sizes(&c, EIB - 1, EIB, EIB);
}

static void test_large_segment_size(void **state)
{
    const struct mem_config c = {.large_segment_bytes = 64 * MIB};

    (void)state;
    sizes(&c, MIB, MIB, 2 * MIB);
    sizes(&c, MIB + 1, MIB + 512, 64 * MIB);
    sizes(&c, 10 * MIB, 10 * MIB, 10 * MIB);
}

static void test_divisions(void **state)
{
    struct mem_config c = {0};

    (void)state;
    for (int i = 0; i < 16; i++) c.roundup_divisions[i] = 4;
    sizes(&c, 1200, 1536, 2 * MIB);         /* n <= 512 * 4: plain */
    sizes(&c, 2048, 2048, 2 * MIB);
    sizes(&c, 2049, 2560, 2 * MIB);         /* steps of 2048 / 4 */
    sizes(&c, 5000, 5120, 2 * MIB);
    sizes(&c, 7169, 8192, 2 * MIB);
    sizes(&c, 4 * MIB, 4 * MIB, 20 * MIB);
    sizes(&c, 4 * MIB + 1, 5 * MIB, 20 * MIB);
    sizes(&c, 33 * MIB, 40 * MIB, 40 * MIB);
    c.roundup_divisions[5] = 0;             /* 32 MiB to 64 MiB: off */
    sizes(&c, 33 * MIB, 34 * MIB, 34 * MIB);
    c.roundup_divisions[15] = 2;            /* 32 GiB and more */
    sizes(&c, 65 * KIB * MIB, 96 * KIB * MIB, 96 * KIB * MIB);
}

static void test_zero_bytes(void **state)
{
    struct rig r;
    struct mem_stats s;

    (void)state;
    rig_open(&r, &(struct mem_config){.trace = true}, 0);
    assert_null(get(&r, 0));
    mem_release(r.m, NULL);
    mem_stats(r.m, &s);
    assert_int_equal(s.events, 0);
    assert_int_equal(s.reserved, 0);
    assert_int_equal(mem_addr(NULL), 0);
    assert_int_equal(mem_requested(NULL), 0);
    assert_int_equal(mem_block_bytes(NULL), 0);
    rig_close(&r);
}

/* ---- A.6: best fit ------------------------------------------------------ */

static void test_best_fit(void **state)
{
    struct rig r;
    struct mem_block *a, *b, *c, *wall[3];

    (void)state;
    rig_open(&r, &(struct mem_config){0}, 0);
    a = get(&r, 8 * KIB);
    wall[0] = get(&r, 512);
    b = get(&r, 4 * KIB);
    wall[1] = get(&r, 512);
    c = get(&r, 4 * KIB);
    wall[2] = get(&r, 512);
    mem_release(r.m, c);
    mem_release(r.m, a);
    mem_release(r.m, b);
    /* 8 KiB is lower, but 4 KiB fits better; of the two the lower address */
    b = get(&r, 3 * KIB);
    assert_int_equal(mem_addr(b), BASE + 8 * KIB + 512);
    c = get(&r, 4 * KIB);
    assert_int_equal(mem_addr(c), BASE + 12 * KIB + 1024);
    a = get(&r, 4 * KIB);
    assert_int_equal(mem_addr(a), BASE);
    for (int i = 0; i < 3; i++) mem_release(r.m, wall[i]);
    rig_close(&r);
}

static void test_pools_are_apart(void **state)
{
    struct rig r;
    struct mem_block *big, *small;

    (void)state;
    rig_open(&r, &(struct mem_config){0}, 0);
    big = get(&r, 2 * MIB);
    mem_release(r.m, big);
    small = get(&r, 512);       /* not from the cached 20 MiB */
    assert_int_equal(mem_addr(small), BASE + 20 * MIB);
    assert_int_equal(current(&r, MEM_RESERVED_BYTES), 22 * MIB);
    assert_int_equal(mem_counter(r.m, MEM_RESERVED_BYTES, MEM_SMALL).current,
                     2 * MIB);
    assert_int_equal(mem_counter(r.m, MEM_SEGMENT, MEM_LARGE).current, 1);
    rig_close(&r);
}

static void test_max_split_size(void **state)
{
    struct rig r;
    struct mem_block *a, *b;

    (void)state;
    rig_open(&r, &(struct mem_config){.max_split_bytes = 32 * MIB}, 0);
    a = get(&r, 40 * MIB);
    assert_int_equal(current(&r, MEM_OVERSIZE_ALLOCATION), 1);
    assert_int_equal(current(&r, MEM_OVERSIZE_SEGMENT), 1);
    mem_release(r.m, a);
    /* a request below max_split may not take an oversize block */
    b = get(&r, 31 * MIB);
    assert_int_equal(mem_addr(b), BASE + 40 * MIB);
    /* an oversize request takes it whole, if it wastes less than 20 MiB */
    a = get(&r, 33 * MIB);
    assert_int_equal(mem_addr(a), BASE);
    assert_int_equal(mem_block_bytes(a), 40 * MIB);
    mem_release(r.m, a);
    a = get(&r, 80 * MIB);
    mem_release(r.m, a);
    a = get(&r, 60 * MIB);      /* 80 >= 60 + 20: refused */
    assert_int_equal(mem_block_bytes(a), 60 * MIB);
    mem_release(r.m, b);
    mem_release(r.m, a);
    a = get(&r, 60 * MIB + 512);    /* 80 < 60 + 20 + 512 B: taken */
    assert_int_equal(mem_block_bytes(a), 80 * MIB);
    rig_close(&r);
}

/* ---- A.7, A.8: split and coalesce --------------------------------------- */

static void test_small_split_leaves_512(void **state)
{
    struct rig r;
    struct mem_block *a, *b;

    (void)state;
    rig_open(&r, &(struct mem_config){0}, 0);
    a = get(&r, MIB);
    b = get(&r, MIB - 512);
    assert_int_equal(mem_addr(b), BASE + MIB);
    assert_int_equal(mem_block_bytes(b), MIB - 512);
    assert_int_equal(current(&r, MEM_INACTIVE_SPLIT), 1);
    assert_int_equal(current(&r, MEM_INACTIVE_SPLIT_BYTES), 512);
    mem_release(r.m, a);
    assert_int_equal(mem_addr(get(&r, 1)), BASE + 2 * MIB - 512);
    rig_close(&r);
}

static void test_large_split_needs_over_1_mib(void **state)
{
    struct rig r;
    struct mem_block *a;

    (void)state;
    rig_open(&r, &(struct mem_config){0}, 0);
    a = get(&r, 19 * MIB);          /* 20 MiB segment, 1 MiB left: no split */
    assert_int_equal(mem_block_bytes(a), 20 * MIB);
    mem_release(r.m, a);
    a = get(&r, 19 * MIB - 512);    /* 1 MiB + 512 left: split */
    assert_int_equal(mem_block_bytes(a), 19 * MIB - 512);
    assert_int_equal(current(&r, MEM_INACTIVE_SPLIT_BYTES), MIB + 512);
    assert_int_equal(current(&r, MEM_SEGMENT), 1);
    rig_close(&r);
}

static void test_coalescing(void **state)
{
    struct rig r;
    struct mem_block *b[4];

    (void)state;
    rig_open(&r, &(struct mem_config){0}, 0);
    for (int i = 0; i < 4; i++) b[i] = get(&r, 512 * KIB);
    assert_int_equal(current(&r, MEM_SEGMENT), 1);
    mem_release(r.m, b[0]);
    mem_release(r.m, b[2]);
    assert_int_equal(current(&r, MEM_INACTIVE_SPLIT), 2);
    mem_release(r.m, b[1]);         /* joins both neighbours */
    assert_int_equal(current(&r, MEM_INACTIVE_SPLIT), 1);
    assert_int_equal(current(&r, MEM_INACTIVE_SPLIT_BYTES), 1536 * KIB);
    mem_release(r.m, b[3]);         /* a whole segment is not split */
    assert_int_equal(current(&r, MEM_INACTIVE_SPLIT), 0);
    assert_int_equal(mem_addr(get(&r, MIB)), BASE);
    rig_close(&r);
}

/* Segments with adjacent addresses never join. */
static void test_segments_stay_apart(void **state)
{
    struct rig r;
    struct mem_block *a, *b;

    (void)state;
    rig_open(&r, &(struct mem_config){0}, 0);
    a = get(&r, 12 * MIB);
    b = get(&r, 12 * MIB);
    assert_int_equal(mem_addr(b), BASE + 12 * MIB);
    mem_release(r.m, a);
    mem_release(r.m, b);
    assert_int_equal(mem_addr(get(&r, 24 * MIB)), BASE + 24 * MIB);
    rig_close(&r);
}

/* ---- A.9: giving back --------------------------------------------------- */

static void test_empty_cache_order(void **state)
{
    struct rig r;
    struct mem_block *s, *l30, *l12a, *l12b, *used, *left;

    (void)state;
    rig_open(&r, &(struct mem_config){0}, 0);
    s = get(&r, MIB);                           /* at BASE */
    l30 = get(&r, 30 * MIB);                    /* BASE + 2 MiB */
    l12a = get(&r, 12 * MIB);                   /* BASE + 32 MiB */
    l12b = get(&r, 12 * MIB);                   /* BASE + 44 MiB */
    left = get(&r, 4 * MIB);                    /* BASE + 56 MiB */
    used = get(&r, 4 * MIB);
    mem_release(r.m, l12b);
    mem_release(r.m, s);
    mem_release(r.m, left);
    mem_release(r.m, l30);
    mem_release(r.m, l12a);
    mem_empty_cache(r.m);
    assert_int_equal(r.n_put, 4);
    assert_int_equal(r.put[0], BASE + 32 * MIB);    /* large, by size and */
    assert_int_equal(r.put[1], BASE + 44 * MIB);    /* address */
    assert_int_equal(r.put[2], BASE + 2 * MIB);
    assert_int_equal(r.put[3], BASE);               /* then small */
    assert_int_equal(current(&r, MEM_RESERVED_BYTES), 20 * MIB);
    assert_int_equal(mem_addr(used), BASE + 60 * MIB);
    rig_close(&r);
}

static void test_retry_gives_back(void **state)
{
    struct rig r;
    struct mem_stats s;
    struct mem_block *a;

    (void)state;
    rig_open(&r, &(struct mem_config){.limit_bytes = 40 * MIB}, 0);
    a = get(&r, 30 * MIB);
    mem_release(r.m, a);
    a = get(&r, 40 * MIB);
    mem_stats(r.m, &s);
    assert_int_equal(s.retries, 1);
    assert_int_equal(s.ooms, 0);
    assert_int_equal(s.reserved, 40 * MIB);
    assert_int_equal(s.reserved_peak, 40 * MIB);
    assert_int_equal(s.segment_gets, 2);
    assert_int_equal(s.segment_puts, 1);
    rig_close(&r);
}

/* With max_split_size the least oversize segment that is enough goes back,
** and the rest of the cache stays. */
static void test_oversize_goes_back_first(void **state)
{
    const struct mem_config c = {.max_split_bytes = 20 * MIB,
                                 .limit_bytes = 200 * MIB};
    struct rig r;
    struct mem_block *a, *b, *d;

    (void)state;
    rig_open(&r, &c, 0);
    a = get(&r, 70 * MIB);
    b = get(&r, 100 * MIB);
    d = get(&r, 22 * MIB);
    mem_release(r.m, a);
    mem_release(r.m, b);
    mem_release(r.m, d);
    a = get(&r, 46 * MIB);          /* 70 wastes 24: refused, but enough */
    assert_int_equal(r.n_put, 1);
    assert_int_equal(r.put[0], BASE);
    assert_int_equal(current(&r, MEM_RESERVED_BYTES), 168 * MIB);
    mem_release(r.m, a);
    a = get(&r, 160 * MIB);         /* the largest ones until 160: 100 + 46
                                       + 22 */
    assert_int_equal(r.n_put, 4);
    assert_int_equal(r.put[1], BASE + 70 * MIB);
    assert_int_equal(r.put[2], BASE + 192 * MIB);
    assert_int_equal(r.put[3], BASE + 170 * MIB);
    rig_close(&r);
}

/* Segments go back from the largest down, no further than needed. */
static void test_oversize_stops_at_the_sum(void **state)
{
    const struct mem_config c = {.max_split_bytes = 20 * MIB,
                                 .limit_bytes = 200 * MIB};
    struct mem_block *b[3];
    struct mem_stats s;
    struct rig r;

    (void)state;
    rig_open(&r, &c, 0);
    b[0] = get(&r, 40 * MIB);
    b[1] = get(&r, 100 * MIB);
    b[2] = get(&r, 60 * MIB);
    for (int i = 0; i < 3; i++) mem_release(r.m, b[i]);
    (void)get(&r, 160 * MIB);
    assert_int_equal(r.n_put, 2);
    assert_int_equal(r.put[0], BASE + 40 * MIB);
    assert_int_equal(r.put[1], BASE + 140 * MIB);
    mem_stats(r.m, &s);
    assert_int_equal(s.reserved, 200 * MIB);
    assert_int_equal(s.retries, 0);
    rig_close(&r);
}

/* ---- out of memory ------------------------------------------------------ */

static void test_oom_message(void **state)
{
    struct rig r;
    struct mem_block *b = NULL;
    struct mem_stats s;
    struct err e;

    (void)state;
    rig_open(&r, &(struct mem_config){.limit_bytes = 24 * MIB}, 0);
    (void)get(&r, 3 * MIB);
    (void)get(&r, 1000);
    assert_int_equal(mem_alloc(r.m, 30 * MIB, tag, &b, &e), ERR_OOM);
    assert_null(b);
    assert_int_equal(e.code, ERR_OOM);
    assert_string_equal(e.text, "out of device memory: gdn.conv (layer 7, "
                        "forward, gdn) requests 31457280 B, a segment of "
                        "31457280 B; allocated 3146752 B, reserved 23068672 B, "
                        "limit 25165824 B");
    mem_stats(r.m, &s);
    assert_int_equal(s.ooms, 1);
    assert_int_equal(s.retries, 1);
    assert_int_equal(s.events, 2);
    assert_int_equal(mem_alloc(r.m, MIB, tag, &b, NULL), ERR_OK);
    rig_close(&r);
}

static void test_oom_of_the_source(void **state)
{
    struct rig r;
    struct mem_block *b = NULL;
    struct err e;

    (void)state;
    rig_open(&r, &(struct mem_config){0}, 10 * MIB);
    assert_int_equal(mem_alloc(r.m, 11 * MIB, tag, &b, &e), ERR_OOM);
    assert_non_null(strstr(e.text, "the dry device has 10485760 B, "));
    assert_int_equal(mem_alloc(r.m, 11 * MIB, tag, &b, NULL), ERR_OOM);
    rig_close(&r);
}

static void test_one_eib(void **state)
{
    struct rig r;
    struct mem_block *b = NULL;
    struct err e;

    (void)state;
    rig_open(&r, &(struct mem_config){0}, 0);
    assert_int_equal(mem_alloc(r.m, EIB, tag, &b, &e), ERR_OOM);
    assert_int_equal(mem_alloc(r.m, UINT64_MAX, tag, &b, &e), ERR_OOM);
    assert_int_equal(current(&r, MEM_RESERVED_BYTES), 0);
    rig_close(&r);
}

static int broken_get(void *ctx, uint64_t bytes, uint64_t *addr, struct err *e)
{
    (void)ctx;
    (void)bytes;
    (void)addr;
    return err_set(e, ERR_DEVICE, "gone");
}

static void broken_put(void *ctx, uint64_t addr, uint64_t bytes)
{
    (void)ctx;
    (void)addr;
    (void)bytes;
    fail();
}

static void test_other_errors_pass(void **state)
{
    struct mem_source src = {NULL, broken_get, broken_put};
    struct mem_block *b = NULL;
    struct mem_stats s;
    struct mem *m;
    struct err e;

    (void)state;
    assert_int_equal(mem_new(&(struct mem_config){0}, src, &m, &e), ERR_OK);
    assert_int_equal(mem_alloc(m, 1, tag, &b, &e), ERR_DEVICE);
    assert_string_equal(e.text, "gone");
    mem_stats(m, &s);
    assert_int_equal(s.ooms, 0);
    assert_int_equal(s.retries, 0);
    mem_free_all(m);
}

static void refused(const struct mem_config *c, const char *key)
{
    struct mem_dry_source dry;
    struct mem *m = NULL;
    struct err e;

    assert_int_equal(mem_new(c, mem_dry_source(&dry, 0), &m, &e), ERR_USAGE);
    assert_null(m);
    assert_ptr_equal(strstr(e.text, key), e.text);
}

static void test_settings_have_bounds(void **state)
{
    (void)state;
    refused(&(struct mem_config){.max_split_bytes = 20 * MIB - 1},
            "max_split_size");
    refused(&(struct mem_config){.max_non_split_rounding = 20 * MIB - 1},
            "max_non_split_rounding");
    refused(&(struct mem_config){.max_non_split_rounding = UINT64_MAX},
            "max_non_split_rounding");
    refused(&(struct mem_config){.large_segment_bytes = 10 * MIB - 512},
            "large_segment_size");
    refused(&(struct mem_config){.large_segment_bytes = 10 * MIB + 1},
            "large_segment_size");
    refused(&(struct mem_config){.roundup_divisions = {0, 3}},
            "roundup_power2_divisions");
    mem_free_all(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_segment_sizes),
        cmocka_unit_test(test_large_segment_size),
        cmocka_unit_test(test_divisions),
        cmocka_unit_test(test_zero_bytes),
        cmocka_unit_test(test_best_fit),
        cmocka_unit_test(test_pools_are_apart),
        cmocka_unit_test(test_max_split_size),
        cmocka_unit_test(test_small_split_leaves_512),
        cmocka_unit_test(test_large_split_needs_over_1_mib),
        cmocka_unit_test(test_coalescing),
        cmocka_unit_test(test_segments_stay_apart),
        cmocka_unit_test(test_empty_cache_order),
        cmocka_unit_test(test_retry_gives_back),
        cmocka_unit_test(test_oversize_goes_back_first),
        cmocka_unit_test(test_oversize_stops_at_the_sum),
        cmocka_unit_test(test_oom_message),
        cmocka_unit_test(test_oom_of_the_source),
        cmocka_unit_test(test_one_eib),
        cmocka_unit_test(test_other_errors_pass),
        cmocka_unit_test(test_settings_have_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
