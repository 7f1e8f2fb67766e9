/*
** test_snapshot_frames.c - which frame names an allocation, and the keys that
** are made of it.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "snapshot/compose.h"

static struct stacks stacks;

static uint32_t stack(const char *const *files)
{
    uint32_t id[8], out;
    size_t n = 0;

    for (; files[n] != NULL; n++)
        assert_true(stacks_frame(&stacks, (struct stacks_key){"f", 1},
            (struct stacks_key){files[n], strlen(files[n])}, n + 1, &id[n]));
    assert_true(stacks_add(&stacks, id, n, &out));
    return out;
}

/* The line of the frame counts from 1, innermost first; 0: none. */
static uint64_t names(const char *const *files)
{
    const struct stack_frame *f = compose_user_frame(&stacks, stack(files));

    return f != NULL ? f->line : 0;
}
#define NAMES(...) names((const char *const[]){__VA_ARGS__, NULL})

static void test_frames(void **state)
{
    (void)state;
    assert_int_equal(NAMES("model.py", "train.py"), 1);
    assert_int_equal(NAMES("??", "empty.cpp", "model.py", "train.py"), 3);
    assert_int_equal(NAMES("/usr/lib/python3/dist-packages/torch/nn/linear.py",
                           "/home/u/model.py"), 2);
    /* libraries that use torch are a user's */
    assert_int_equal(NAMES("/v/site-packages/torch/nn/modules/module.py",
                           "/v/site-packages/transformers/models/q/q.py",
                           "/home/u/train.py"), 2);
    assert_int_equal(NAMES("/usr/lib/python3.11/threading.py", "w.py"), 2);
    assert_int_equal(NAMES("/tmp/torchinductor_u/ab/cab.py", "w.py"), 2);
    assert_int_equal(NAMES("x.cpp", "/tmp/ipykernel_7/12.py"), 2);
    assert_int_equal(NAMES("x.cpp", "<ipython-input-3-abc>"), 2);
    /* nothing of the user's: Python's innermost, then the innermost */
    assert_int_equal(NAMES("x.cpp", "/v/site-packages/torch/a.py",
                           "/v/site-packages/torch/b.py"), 2);
    assert_int_equal(NAMES("forward/gdn/layer 3"), 1);
    assert_int_equal(names((const char *const[]){NULL}), 0);
    stacks_free(&stacks);
}

static void key_is(enum compose_by by, const char *file, const char *want)
{
    const char *const files[] = {file, NULL};
    struct snapshot_lane lane = {3, {0, 7}};
    struct snapshot s = {.lane = &lane, .n_lane = 1};
    struct live_block b = {.requested = 100, .event = 5};
    char key[64];

    b.stack = stack(files);
    s.stacks = stacks;
    compose_key(&s, by, NULL, &b, 120, key, sizeof key);
    assert_string_equal(key, want);
}

static void test_keys(void **state)
{
    (void)state;
    key_is(BY_FRAME, "a/m.py", "f (a/m.py:1)");
    key_is(BY_FILE, "a/m.py", "a/m.py");
    key_is(BY_MODULE, "a/m.py", "a.m");
    key_is(BY_MODULE, "/v/site-packages/x/y/z.py", "x.y.z");
    key_is(BY_CATEGORY, "forward/gdn/layer 3", "gdn");
    key_is(BY_CATEGORY, "forward/none such", "(no category)");
    key_is(BY_SIZE, "m.py", "100 B");
    key_is(BY_STREAM, "m.py", "stream 3");
    key_is(BY_POOL, "m.py", "pool (0, 7)");
    key_is(BY_AGE, "m.py", "100 to 999 events");
    /* nothing that a terminal would obey, nor half a character */
    key_is(BY_FILE, "a\033[31m\xc3\xa9\xff.py", "a?[31m\xc3\xa9?.py");
    key_is(BY_FILE, "0123456789012345678901234567890123456789012345678901234567"
           "8901\xc3\xa9.py",
           "01234567890123456789012345678901234567890123456789012345678901?");
    stacks_free(&stacks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
