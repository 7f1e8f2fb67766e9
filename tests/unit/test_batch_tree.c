/* Forests of segments: layout, and every bad tree by its message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batch/batch.h"

#define CSV_HEAD "segment,parent,tokens\n"

static void assert_says(const struct err *e, int rc, const char *text)
{
    assert_int_equal(rc, ERR_INPUT);
    if (strstr(e->text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", e->text, text);
}

static void lengths_are_roots(void **state)
{
    static const int64_t len[] = {3, 1, 7};
    struct batch b;
    struct err e;

    (void)state;
    assert_int_equal(batch_from_lengths(len, 3, &b, &e), ERR_OK);
    assert_int_equal(b.n_seg, 3);
    assert_int_equal(b.n_seq, 3);
    assert_int_equal(b.tokens, 11);
    assert_int_equal(b.longest, 7);
    assert_int_equal(b.seg[2].start, 4);
    assert_int_equal(b.seg[2].parent, -1);
    assert_int_equal(b.seg[2].root, 2);
    assert_int_equal(b.seg[2].position, 0);
    assert_int_equal(b.seg[1].next, 2);
    assert_int_equal(batch_subtree_end(&b, 1), 4);
    assert_int_equal(batch_subtree_end(&b, 2), 11);
    batch_free(&b);
}

/* 0 -> (1 -> (3), 2), 4: given level by level, laid out depth first. */
static void any_order_becomes_depth_first(void **state)
{
    static const int64_t parent[] = {-1, -1, 0, 0, 2};
    static const int64_t tokens[] = {10, 20, 1, 2, 5};
    static const int64_t want_tokens[] = {10, 1, 5, 2, 20};
    static const int64_t want_parent[] = {-1, 0, 1, 0, -1};
    static const int64_t want_position[] = {0, 10, 11, 10, 0};
    static const int64_t want_next[] = {4, 3, 3, 4, 5};
    struct batch b;
    struct err e;
    int i;

    (void)state;
    assert_int_equal(batch_from_tree(parent, tokens, 5, &b, &e), ERR_OK);
    for (i = 0; i < 5; i++) {
        assert_int_equal(b.seg[i].tokens, want_tokens[i]);
        assert_int_equal(b.seg[i].parent, want_parent[i]);
        assert_int_equal(b.seg[i].position, want_position[i]);
        assert_int_equal(b.seg[i].next, want_next[i]);
    }
    assert_int_equal(b.seg[2].depth, 2);
    assert_int_equal(b.seg[4].root, 1);
    assert_int_equal(b.tokens, 38);
    assert_int_equal(b.longest, 20);
    assert_int_equal(b.n_seq, 3);
    batch_free(&b);
}

static void bad_arrays(void **state)
{
    static const int64_t ok[] = {1, 1, 1};
    static const int64_t self[] = {-1, 1, 0};
    static const int64_t cycle[] = {-1, 2, 1};
    static const int64_t late[] = {-1, 2, 0};
    static const int64_t orphan[] = {-1, 0, 3};
    static const int64_t below[] = {-1, -2, 0};
    static const int64_t chain[] = {-1, 0, 1};
    static const int64_t zero[] = {4, 0, 1};
    static const int64_t negative[] = {4, 1, -1};
    static const int64_t huge[] = {4, INT64_MAX, INT64_MAX};
    static const int64_t sum[] = {BATCH_MAX_TOKENS, 1, 1};
    struct batch b;
    struct err e;

#define BAD(p, t, n, text) \
    assert_says(&e, batch_from_tree(p, t, n, &b, &e), text)
    (void)state;
    BAD(ok, ok, 0, "no segments");
    BAD(self, ok, 3, "segment 1: its parents form a cycle");
    BAD(cycle, ok, 3, "segment 1: its parents form a cycle");
    BAD(late, ok, 3, "segment 1: its parent 2 stands after it");
    BAD(orphan, ok, 3, "segment 2: its parent 3 does not exist");
    BAD(below, ok, 3, "segment 1: its parent -2 does not exist");
    BAD(chain, zero, 3, "segment 1: 0 tokens");
    BAD(chain, negative, 3, "segment 2: -1 tokens");
    BAD(chain, huge, 3, "segment 1: 9223372036854775807 tokens");
    BAD(chain, sum, 3, "segment 1: the tokens up to here");
#undef BAD
    assert_says(&e, batch_from_lengths(ok, 0, &b, &e), "no sequences");
    assert_says(&e, batch_from_lengths(zero, 3, &b, &e), "sequence 1: 0");
}

static int load_text(const char *text, struct batch *b, struct err *e,
                     char *path)
{
    int fd, rc;

    strcpy(path, "/tmp/test-tree-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    rc = batch_load_tree(path, b, e);
    unlink(path);
    return rc;
}

static void bad_files_name_the_line(void **state)
{
    static const struct { const char *text, *says; } bad[] = {
        {"", ""},
        {CSV_HEAD, "no segments"},
        {"segment,tokens\n0,1\n", "parent"},
        {CSV_HEAD "0,-1,5\n2,0,1\n", ":3: segment: 2 where 1 is next"},
        {CSV_HEAD "0,-1,5\n\n1,1,1\n", ":4: segment 1: its parents form"},
        {CSV_HEAD "0,-1,5\n1,2,1\n2,0,1\n", ":3: segment 1: its parent 2"},
        {CSV_HEAD "0,-1,5\n1,9,1\n", ":3: segment 1: its parent 9 does not"},
        {CSV_HEAD "0,-1,5\n1,0,-3\n", ":3: tokens"},
        {CSV_HEAD "0,-1,5\n1,0,99999999999999999999\n", ":3: tokens"},
        {CSV_HEAD "0,-1,2147483647\n1,0,1\n", ":3: segment 1: the tokens"},
        {CSV_HEAD "0,-1,5\n1,0,1.5\n", ":3: tokens"},
        {CSV_HEAD "0,-1,5\n1,,1\n", ":3: parent"},
    };
    char path[64];
    struct batch b;
    struct err e;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int rc = load_text(bad[i].text, &b, &e, path);
        assert_says(&e, rc, bad[i].says);
        assert_says(&e, rc, path);
    }
    assert_int_equal(batch_load_tree("/nonexistent", &b, &e), ERR_INPUT);
    assert_int_equal(load_text(CSV_HEAD "0,-1,5\n1,0,2\n", &b, &e, path), 0);
    assert_int_equal(b.tokens, 7);
    batch_free(&b);
}

/* A chain and a star of a million segments: nothing recurses or squares. */
static void a_million_segments(void **state)
{
    const int64_t n = 1000000;
    int64_t *parent = malloc((size_t)n * sizeof *parent);
    int64_t *tokens = malloc((size_t)n * sizeof *tokens);
    struct batch b;
    struct err e;
    int64_t i;

    (void)state;
    for (i = 0; i < n; i++) {
        parent[i] = i - 1;
        tokens[i] = 2;
    }
    assert_int_equal(batch_from_tree(parent, tokens, n, &b, &e), ERR_OK);
    assert_int_equal(b.seg[n - 1].depth, n - 1);
    assert_int_equal(b.longest, 2 * n);
    assert_int_equal(b.seg[0].next, n);
    batch_free(&b);
    for (i = 1; i < n; i++) parent[i] = 0;
    assert_int_equal(batch_from_tree(parent, tokens, n, &b, &e), ERR_OK);
    assert_int_equal(b.longest, 4);
    assert_int_equal(b.n_seq, n - 1);
    batch_free(&b);
    free(parent);
    free(tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_are_roots),
        cmocka_unit_test(any_order_becomes_depth_first),
        cmocka_unit_test(bad_arrays),
        cmocka_unit_test(bad_files_name_the_line),
        cmocka_unit_test(a_million_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
