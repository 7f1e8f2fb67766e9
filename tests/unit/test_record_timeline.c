/* What a rank holds from event to event, from a handmade trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "record/timeline.h"

static struct mem_event event(enum mem_phase p, enum category c,
                              uint64_t bytes, bool is_free)
{
    return (struct mem_event){.bytes = bytes, .category = (uint8_t)c,
                              .phase = (uint8_t)p, .is_free = is_free & 1u};
}

/* Fewer events than points: every one is a point. */
static void test_short(void **state)
{
    struct timeline *t = malloc(sizeof *t);
    struct mem_peak peak = {.allocated = 1024, .event = 1};
    struct mem_event x[] = {
        event(PHASE_FORWARD, CAT_BOUNDARIES, 100, false),
        event(PHASE_HEAD, CAT_HEAD, 700, false),
        event(PHASE_HEAD, CAT_HEAD, 700, true),
        event(PHASE_RECOMPUTE, CAT_GDN, 60, false),
        event(PHASE_BACKWARD, CAT_BOUNDARIES, 100, true),
    };

    (void)state;
    assert_non_null(t);
    record_timeline(x, 5, &peak, t);
    assert_int_equal(t->events, 5);
    assert_int_equal(t->n_point, 5);
    assert_int_equal(t->head, 1);
    assert_int_equal(t->backward, 3);
    assert_int_equal(t->peak.allocated, 1024);
    assert_int_equal(timeline_sum(&t->point[1]), 800);
    assert_int_equal(t->point[3].by[CAT_BOUNDARIES], 100);
    assert_int_equal(t->point[3].by[CAT_GDN], 60);
    assert_int_equal(t->point[4].event, 4);
    assert_int_equal(timeline_sum(&t->point[4]), 60);
    free(t);
}

/* More events than points: of each part the highest, and the peak's event
** even where requested bytes are a little higher beside it. */
static void test_parts(void **state)
{
    enum { EACH = 10, N = TIMELINE_POINTS * EACH };
    struct timeline *t = malloc(sizeof *t);
    struct mem_event *x = calloc(N, sizeof *x);
    struct mem_peak peak = {.allocated = 4096, .event = 25};
    int i;

    (void)state;
    assert_non_null(t);
    assert_non_null(x);
    for (i = 0; i < N; i++)         /* up by 1 to 5 bytes, down again */
        x[i] = event(PHASE_FORWARD, CAT_OTHER, (uint64_t)(1 + i / 2 % 5),
                     i % 2 != 0);
    record_timeline(x, N, &peak, t);
    assert_int_equal(t->n_point, TIMELINE_POINTS);
    assert_int_equal(t->head, -1);
    assert_int_equal(t->backward, -1);
    assert_int_equal(t->point[0].event, 8);         /* the 5 bytes */
    assert_int_equal(timeline_sum(&t->point[0]), 5);
    assert_int_equal(t->point[2].event, 25);        /* not 28 */
    assert_int_equal(timeline_sum(&t->point[2]), 0);
    assert_int_equal(t->point[3].event, 38);
    free(x);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short),
        cmocka_unit_test(test_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
