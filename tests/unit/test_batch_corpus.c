/* Waves packed from the shipped conversations and their prefix tree. */
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

#define SEQUENCES "lua/data/tau-airline-sequences.csv"
#define TREE "lua/data/tau-airline-prefix-tree.csv"

static struct corpus *load(const char *tree)
{
    struct corpus *c = NULL;
    struct err e = {0};

    if (corpus_load(SEQUENCES, tree, &c, &e) != ERR_OK) fail_msg("%s", e.text);
    return c;
}

static void whole_tree(void **state)
{
    struct batch b, again;
    struct corpus *c = load(TREE);
    int64_t pick[200], i;
    struct err e;

    (void)state;
    assert_int_equal(batch_load_tree(TREE, &b, &e), ERR_OK);
    assert_int_equal(b.tokens, 545543);
    assert_int_equal(b.n_seg, 322);
    assert_int_equal(corpus_count(c), 200);
    pick[0] = 0;
    assert_int_equal(corpus_batch(c, pick, 1, &again, &e), ERR_OK);
    assert_int_equal(again.tokens, 5201);
    batch_free(&again);
    for (i = 0; i < 200; i++) pick[i] = 199 - i;
    assert_int_equal(corpus_batch(c, pick, 200, &again, &e), ERR_OK);
    assert_int_equal(again.tokens, b.tokens);
    assert_int_equal(again.n_seq, 200);
    assert_int_equal(again.longest, b.longest);
    batch_free(&b);
    batch_free(&again);
    corpus_free(c);
}

/* planner.md 10: sequences 0-22. */
static void a_real_wave(void **state)
{
    struct corpus *c = load(TREE);
    struct batch b;
    int64_t pick[23], i, only;
    struct err e;

    (void)state;
    for (i = 0; i < 23; i++) pick[i] = i;
    assert_int_equal(corpus_batch(c, pick, 23, &b, &e), ERR_OK);
    assert_int_equal(b.tokens, 96904);
    assert_int_equal(b.n_seg, 40);
    assert_int_equal(b.n_seq, 23);
    for (i = 0; i < b.n_seg; i++) {
        /* an only child would have been joined */
        int64_t j;
        only = 0;
        for (j = 0; j < b.n_seg; j++) only += b.seg[j].parent == i;
        assert_int_not_equal(only, 1);
    }
    batch_free(&b);
    assert_int_equal(corpus_batch(c, pick, 1, &b, &e), ERR_OK);
    assert_int_equal(b.n_seg, 1);
    assert_int_equal(b.tokens, 5201);
    batch_free(&b);
    corpus_free(c);
}

static void without_a_tree(void **state)
{
    static const int64_t pick[] = {3, 0};
    struct corpus *c = load(NULL);
    struct batch b;
    struct err e;

    (void)state;
    assert_int_equal(corpus_batch(c, pick, 2, &b, &e), ERR_OK);
    assert_int_equal(b.n_seg, 2);
    assert_int_equal(b.seg[0].tokens, 7716);
    assert_int_equal(b.seg[1].tokens, 5201);
    assert_true(corpus_lacks_tree(c));
    batch_free(&b);
    corpus_free(c);
}

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A sequence that ends inside the tree keeps its segment apart. */
static void a_sequence_ends_inside(void **state)
{
    static const int64_t inner[] = {0, 1}, outer[] = {1};
    char s[] = "/tmp/test-corpus-s-XXXXXX", t[] = "/tmp/test-corpus-t-XXXXXX";
    struct corpus *c = NULL;
    struct batch b;
    struct err e;

    (void)state;
    close(mkstemp(s));
    close(mkstemp(t));
    put_file(t, "segment,parent,tokens\n0,-1,3\n1,0,4\n2,0,5\n3,2,6\n");
    put_file(s, "sequence,tokens,leaf_segment\n0,8,2\n1,14,3\n");
    assert_int_equal(corpus_load(s, t, &c, &e), ERR_OK);
    assert_int_equal(corpus_batch(c, inner, 2, &b, &e), ERR_OK);
    assert_int_equal(b.n_seg, 2);
    assert_int_equal(b.seg[0].tokens, 8);
    assert_int_equal(b.seg[1].tokens, 6);
    assert_int_equal(b.n_seq, 2);
    batch_free(&b);
    assert_int_equal(corpus_batch(c, outer, 1, &b, &e), ERR_OK);
    assert_int_equal(b.n_seg, 1);
    assert_int_equal(b.tokens, 14);
    batch_free(&b);
    corpus_free(c);
    put_file(s, "sequence,tokens,leaf_segment\n0,8,2\n1,13,3\n");
    assert_int_equal(corpus_load(s, t, &c, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, ":3: tokens: 13, but the path"));
    put_file(s, "sequence,tokens,leaf_segment\n0,8,4\n");
    assert_int_equal(corpus_load(s, t, &c, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, ":2: leaf_segment"));
    put_file(s, "sequence,tokens\n0,8\n");
    assert_int_equal(corpus_load(s, t, &c, &e), ERR_INPUT);
    put_file(s, "sequence,tokens,leaf_segment\n");
    assert_int_equal(corpus_load(s, t, &c, &e), ERR_INPUT);
    unlink(s);
    unlink(t);
}

static void bad_choices(void **state)
{
    static const int64_t twice[] = {4, 5, 4}, outside[] = {200}, neg[] = {-1};
    struct corpus *c = load(TREE);
    struct batch b;
    struct err e;

    (void)state;
    assert_int_equal(corpus_batch(c, twice, 3, &b, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "sequence 4 is chosen twice"));
    assert_int_equal(corpus_batch(c, outside, 1, &b, &e), ERR_INPUT);
    assert_int_equal(corpus_batch(c, neg, 1, &b, &e), ERR_INPUT);
    assert_int_equal(corpus_batch(c, twice, 0, &b, &e), ERR_INPUT);
    corpus_free(c);
}

/* Waves of about 97k tokens: every sequence once, in order, none too big,
** and none that could have taken the next sequence. */
static void packed_waves(void **state)
{
    struct corpus *c = load(TREE);
    int64_t pick[200], *first, waves, w, i;
    struct batch b;
    struct err e;

    (void)state;
    for (i = 0; i < 200; i++) pick[i] = i;
    assert_int_equal(corpus_pack(c, pick, 200, 97000, &first, &waves, &e), 0);
    assert_int_equal(first[0], 0);
    assert_int_equal(first[1], 23);
    assert_int_equal(first[waves], 200);
    for (w = 0; w < waves; w++) {
        int64_t n = first[w + 1] - first[w];
        assert_int_equal(corpus_batch(c, pick + first[w], n, &b, &e), 0);
        assert_true(b.tokens <= 97000);
        batch_free(&b);
        if (w == waves - 1) continue;
        assert_int_equal(corpus_batch(c, pick + first[w], n + 1, &b, &e), 0);
        assert_true(b.tokens > 97000);
        batch_free(&b);
    }
    free(first);
    assert_int_equal(corpus_pack(c, pick, 200, 5200, &first, &waves, &e),
                     ERR_INPUT);
    assert_non_null(strstr(e.text, "sequence 0 has 5201 tokens"));
    corpus_free(c);
    c = load(NULL);
    assert_int_equal(corpus_pack(c, pick, 4, 11000, &first, &waves, &e), 0);
    assert_int_equal(waves, 3);     /* 5201 + 4997, 4821, 7716 */
    assert_int_equal(first[1], 2);
    assert_int_equal(first[2], 3);
    free(first);
    corpus_free(c);
}

static void the_tree_beside(void **state)
{
    char *path = NULL;
    struct err e;

    (void)state;
    assert_int_equal(corpus_find_tree(SEQUENCES, &path, &e), ERR_OK);
    assert_string_equal(path, TREE);
    free(path);
    assert_int_equal(corpus_find_tree("x-sequences.csv", &path, &e), ERR_OK);
    assert_null(path);
    assert_int_equal(corpus_find_tree("x.csv", &path, &e), ERR_OK);
    assert_null(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_tree),
        cmocka_unit_test(a_real_wave),
        cmocka_unit_test(without_a_tree),
        cmocka_unit_test(a_sequence_ends_inside),
        cmocka_unit_test(bad_choices),
        cmocka_unit_test(packed_waves),
        cmocka_unit_test(the_tree_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
