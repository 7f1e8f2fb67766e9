/* A layer's inventory from a handmade trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "record/record.h"

#define N 64

struct script { struct mem_event x[N]; uint64_t n; };

static uint64_t get(struct script *s, enum mem_phase p, int16_t layer,
                    enum category c, const char *op, uint64_t bytes)
{
    s->x[s->n] = (struct mem_event){.bytes = bytes, .op = op,
        .category = (uint8_t)c, .phase = (uint8_t)p, .layer = layer,
        .alloc = s->n & (N - 1)};
    return s->n++;
}

static void put(struct script *s, uint64_t alloc)
{
    s->x[s->n] = s->x[alloc];
    s->x[s->n].alloc = alloc & (N - 1);
    s->x[s->n++].is_free = true;
}

static void test_inventory(void **state)
{
    struct script s = {.n = 0};
    struct record_layer at = {1, 3, 100, LAYER_ATTENTION};
    struct record_tensor *t;
    int64_t n, kept[CAT_COUNT];
    uint64_t b, k1, k2, tmp, other, g;
    struct err e;

    (void)state;
    b = get(&s, PHASE_FORWARD, 3, CAT_BOUNDARIES, "layer.in", 1000);
    other = get(&s, PHASE_RECOMPUTE, 4, CAT_GDN, "gdn.q", 7);
    k1 = get(&s, PHASE_RECOMPUTE, 3, CAT_ATTENTION, "q", 200);
    tmp = get(&s, PHASE_RECOMPUTE, 3, CAT_ATTENTION, "base", 50);
    k2 = get(&s, PHASE_RECOMPUTE, 3, CAT_ATTENTION, "q", 300);
    put(&s, tmp);
    g = get(&s, PHASE_BACKWARD, 3, CAT_ADAPTER_GRADIENTS, "q.lora", 16);
    put(&s, k1);
    put(&s, k2);
    put(&s, other);
    put(&s, b);
    (void)g;

    assert_int_equal(record_inventory(s.x, 0, s.n, &at, &t, &n, kept, &e), 0);
    assert_int_equal(n, 3);
    assert_string_equal(t[0].op, "q");
    assert_int_equal(t[0].count, 2);
    assert_int_equal(t[0].bytes, 500);
    assert_int_equal(t[0].rows, 100);
    assert_int_equal(t[0].rank, 1);
    assert_int_equal(t[0].freed_in, PHASE_BACKWARD);
    assert_string_equal(t[0].freed_after, "q.lora");
    assert_string_equal(t[1].op, "base");
    assert_int_equal(t[1].freed_in, PHASE_RECOMPUTE);
    assert_string_equal(t[1].freed_after, "q");
    assert_string_equal(t[2].op, "q.lora");
    assert_int_equal(t[2].freed_in, PHASE_NONE);
    assert_null(t[2].freed_after);
    assert_int_equal(kept[CAT_ATTENTION], 500);
    assert_int_equal(kept[CAT_ADAPTER_GRADIENTS], 0);
    free(t);
}

/* Only the events from first on count: the second wave of a trace. */
static void test_window(void **state)
{
    struct script s = {.n = 0};
    struct record_layer at = {0, 0, 1, LAYER_GDN};
    struct record_tensor *t;
    int64_t n, kept[CAT_COUNT];
    uint64_t a, first;
    struct err e;

    (void)state;
    a = get(&s, PHASE_RECOMPUTE, 0, CAT_GDN, "x", 8);
    first = s.n;
    put(&s, a);
    a = get(&s, PHASE_RECOMPUTE, 0, CAT_GDN, "x", 9);
    put(&s, a);
    assert_int_equal(record_inventory(s.x, first, s.n, &at, &t, &n, kept, &e),
                     0);
    assert_int_equal(n, 1);
    assert_int_equal(t[0].bytes, 9);
    free(t);
    assert_int_equal(record_inventory(s.x, s.n, s.n, &at, &t, &n, kept, &e),
                     0);
    assert_int_equal(n, 0);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inventory),
        cmocka_unit_test(test_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
