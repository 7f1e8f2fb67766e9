/*
** test_snapshot_series.c - a trace over time, in columns that keep every
** maximum; as a picture, for Perfetto, as folded stacks.
*/
#include <stdio.h>

#include "golden_text.h"
#include "snapshot/series.h"

#define GOLDEN "tests/golden/snapshots/"

#define MIB (UINT64_C(1) << 20)

/* A trace of n blocks in one segment: i MiB of group i % 20 are added, and
** every third is freed at once; the last allocation finds no room. */
struct made {
    struct snapshot s;
    struct snapshot_device d;
    struct snapshot_segment segment;
    struct snapshot_block block[400];
    struct snapshot_lane lane;
    struct snapshot_event event[1300];
    struct account a;
};

static struct account_ask ask = {.by = BY_FRAME};

static void add(struct made *m, enum snapshot_action action, uint64_t addr,
                uint64_t bytes, uint32_t stack)
{
    m->event[m->d.n_event++] = (struct snapshot_event){
        .addr = addr, .bytes = bytes, .action = (uint8_t)action,
        .stack = stack};
}

static void make(struct made *m, int n)
{
    uint64_t at = 512 * MIB;
    struct err e;

    memset(m, 0, sizeof *m);
    m->s = (struct snapshot){.device = &m->d, .n_device = 1,
                             .lane = &m->lane, .n_lane = 1};
    m->d.event = m->event;
    m->segment = (struct snapshot_segment){.addr = at,
                                           .size = (uint64_t)n * 5 * MIB};
    m->d.segment = &m->segment;
    m->d.block = m->block;
    m->d.n_segment = 1;
    for (int i = 0; i < n; i++) {
        char name[] = "f<0>;\"", file[] = "m.py";
        uint64_t bytes = (uint64_t)(2 + i % 7) * MIB;
        uint32_t frame[2], stack;

        name[2] = (char)('a' + i % 20);
        assert_true(stacks_frame(&m->s.stacks, (struct stacks_key){name, 6},
                                 (struct stacks_key){file, 4}, 1, &frame[0]));
        assert_true(stacks_frame(&m->s.stacks, (struct stacks_key){"top", 3},
                                 (struct stacks_key){file, 4}, 9, &frame[1]));
        assert_true(stacks_add(&m->s.stacks, frame, 2, &stack));
        add(m, SNAPSHOT_ALLOC, at, bytes, stack);
        if (i % 3 == 2) {
            add(m, SNAPSHOT_FREE_REQUESTED, at, bytes, 0);
            add(m, SNAPSHOT_FREE_COMPLETED, at, bytes, 0);
            continue;
        }
        m->block[m->d.n_block++] = (struct snapshot_block){
            .addr = at, .size = bytes, .requested = bytes, .stack = stack};
        at += bytes;
    }
    add(m, SNAPSHOT_OOM, 0, 1000 * MIB, 0);
    m->segment.n_block = m->d.n_block;
    if (account_device(&m->s, 0, "f", &ask, &m->a, &e) != ERR_OK)
        print_error("%s\n", e.text);
}

static void drop(struct made *m)
{
    account_free(&m->a);
    stacks_free(&m->s.stacks);
}

/* Each column's groups sum to the most that was allocated in its events. */
static void test_columns(void **state)
{
    static struct made m;
    struct series s;
    struct err e;

    (void)state;
    make(&m, 300);
    for (int64_t columns = 1; columns < 1400; columns += 97) {
        int64_t n = columns < m.a.walk.events + 1 ? columns
                                                  : m.a.walk.events + 1;

        assert_int_equal(series_make(&m.a, &ask, columns, &s, &e), ERR_OK);
        assert_int_equal(s.n, n);
        assert_int_equal(s.n_group, SERIES_MOST + 1);
        assert_string_equal(s.key[SERIES_MOST], "(other)");
        for (int64_t c = 0; c < s.n; c++) {
            uint64_t sum = 0, most = c == 0 ? m.a.walk.initial.allocated : 0;

            for (int k = 0; k < s.n_group; k++)
                sum += s.bytes[c * s.n_group + k];
            for (int64_t i = 0; i < m.a.walk.events; i++)
                if ((i + 1) * n / (m.a.walk.events + 1) == c
                    && m.a.walk.allocated[i] > most)
                    most = m.a.walk.allocated[i];
            assert_int_equal(s.allocated[c], most);
            assert_int_equal(sum, most);
        }
        series_free(&s);
    }
    drop(&m);
}

/* Every line, name and place of the picture, and of a page around it: few
** columns, so that a reader sees what moved. */
static void test_pictures(void **state)
{
    static struct made m;
    struct series s;
    struct buf b = BUF_INIT;
    struct err e;

    (void)state;
    make(&m, 30);
    assert_int_equal(series_make(&m.a, &ask, 5, &s, &e), ERR_OK);
    series_svg(&s, &m.a, "a & b", false, &b);
    golden_text(&b, GOLDEN "timeline.svg");
    buf_free(&b);
    series_svg(&s, &m.a, "\"t\"", true, &b);
    golden_text(&b, GOLDEN "timeline.html");
    buf_free(&b);
    series_free(&s);
    drop(&m);
}

static void test_perfetto(void **state)
{
    static struct made m;
    struct series s;
    struct buf b = BUF_INIT;
    struct err e;
    /* of any device, of this one, of another, one that never ends */
    struct snapshot_note note[] = {
        {"step \"1\"", -1, 2, 9}, {"b\\c", 0, 3, 4}, {"other", 1, 3, 4},
        {"open", 0, 5, INT64_MAX}};
    json_t *v;

    (void)state;
    make(&m, 9);
    m.s.note = note;
    m.s.n_note = 4;
    assert_int_equal(series_make(&m.a, &ask, 4, &s, &e), ERR_OK);
    series_perfetto(&s, &m.a, &b);
    v = json_loadb(b.data, b.len, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(v, "traceEvents")),
                     1 + 2 * s.n + 2);
    json_decref(v);
    golden_text(&b, GOLDEN "timeline.json");
    buf_free(&b);
    series_free(&s);
    drop(&m);
}

static void test_folded(void **state)
{
    static struct made m;
    struct buf b = BUF_INIT;
    struct err e;
    uint64_t sum = 0;
    char *line, *rest;

    (void)state;
    make(&m, 100);
    assert_int_equal(series_folded(&m.a, m.a.walk.peak_event, &b, &e),
                     ERR_OK);
    assert_memory_equal(b.data, "top (m.py:9);f<", 15);
    for (line = strtok_r(b.data, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        assert_non_null(strrchr(line, ' '));
        assert_ptr_equal(strchr(line, ';'), strrchr(line, ';'));
        sum += strtoull(strrchr(line, ' ') + 1, NULL, 10);
    }
    assert_int_equal(sum, m.a.walk.peak.allocated);
    buf_free(&b);
    drop(&m);
}

/* What was allocated without frames, beside what has some: stack 0 is the
** empty one, as the reader makes it. */
static void test_without_frames(void **state)
{
    static struct made m;
    struct buf b = BUF_INIT;
    struct err e;
    uint32_t none, frame, some;

    (void)state;
    memset(&m, 0, sizeof m);
    assert_true(stacks_add(&m.s.stacks, NULL, 0, &none));
    assert_int_equal(none, 0);
    assert_true(stacks_frame(&m.s.stacks, (struct stacks_key){"f", 1},
                             (struct stacks_key){"m.py", 4}, 3, &frame));
    assert_true(stacks_add(&m.s.stacks, &frame, 1, &some));
    m.s.device = &m.d;
    m.s.lane = &m.lane;
    m.s.n_device = m.s.n_lane = 1;
    m.d.event = m.event;
    m.d.segment = &m.segment;
    m.d.block = m.block;
    m.d.n_segment = 1;
    m.segment = (struct snapshot_segment){.addr = MIB, .size = 64 * MIB,
                                          .n_block = 2};
    m.d.n_block = 2;
    for (uint64_t i = 0; i < 2; i++) {
        uint32_t stack = i == 0 ? none : some;

        add(&m, SNAPSHOT_ALLOC, (1 + 8 * i) * MIB, (2 + i) * MIB, stack);
        m.block[i] = (struct snapshot_block){
            .addr = (1 + 8 * i) * MIB, .size = (2 + i) * MIB,
            .requested = (2 + i) * MIB, .stack = stack};
    }
    assert_int_equal(account_device(&m.s, 0, "f", &ask, &m.a, &e), ERR_OK);
    assert_int_equal(series_folded(&m.a, 1, &b, &e), ERR_OK);
    assert_string_equal(buf_text(&b),
                        "(no frames) 2097152\nf (m.py:3) 3145728\n");
    buf_free(&b);
    drop(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_perfetto),
        cmocka_unit_test(test_folded),
        cmocka_unit_test(test_without_frames),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
