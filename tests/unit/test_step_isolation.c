/*
** Packed sequences do not see each other. Only the rows of one carry a loss;
** with replayed routes the others' tokens change neither the loss nor any
** gradient by a bit, and its own change both. Likewise for the branches of a
** prefix tree.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "step_world.h"

static const int64_t lone[] = {-1, -1, -1}, lone_tokens[] = {1, 66, 72};
/* A root of 40 rows, a child with a child of its own, a second child. */
static const int64_t fork[] = {-1, 0, 1, 0}, fork_tokens[] = {40, 9, 30, 25};

/* Rows [first, first + n) of the packed row get other tokens. */
static void change(struct world *w, int64_t first, int64_t n)
{
    int64_t i;

    for (i = first; i < first + n; i++)
        w->ids[i] = (int32_t)((w->ids[i] + 17) % (int32_t)w->m.vocab);
}

/* Only rows [first, first + n) have a loss; all keep their labels. */
static void weigh(struct world *w, int64_t first, int64_t n)
{
    int64_t i;

    for (i = 0; i < w->b.tokens; i++) {
        w->target[i] = w->ids[i];
        w->weight[i] = i >= first && i < first + n ? 1 / (double)n : 0;
    }
}

static bool same(const struct outcome *a, const struct outcome *b)
{
    assert_int_equal(a->n_grad, b->n_grad);
    assert_true(a->n_grad > 1000);
    return a->loss == b->loss &&
           memcmp(a->grad, b->grad, (size_t)a->n_grad * sizeof *a->grad) == 0;
}

/* Segments by what they mean to the one with a loss. */
struct part { int64_t segment; bool seen; };

static void isolated(const int64_t *parent, const int64_t *tokens, int64_t n,
                     int64_t target, const struct part *part, int n_part,
                     const struct run *run)
{
    struct outcome base, got;
    struct world w;
    int i;

    world_new(&w, world_hybrid, parent, tokens, n);
    weigh(&w, w.b.seg[target].start, w.b.seg[target].tokens);
    world_run(&w, run, &base);
    for (i = 0; i < n_part; i++) {
        const struct segment *s = &w.b.seg[part[i].segment];

        change(&w, s->start, s->tokens);
        world_run(&w, run, &got);
        if (same(&got, &base) == part[i].seen)
            fail_msg("cp %d: segment %d %s", (int)run->cp,
                     (int)part[i].segment, part[i].seen
                     ? "has no effect" : "leaks into the others");
        outcome_free(&got);
        if (part[i].seen) break;        /* the base is another now */
    }
    outcome_free(&base);
    world_free(&w);
}

static const struct run runs[] = {
    {.cp = 1, .ep = 1, .lora = 4, .act = DT_F32, .waves = 1, .forced = true},
    {.cp = 2, .ep = 2, .lora = 4, .act = DT_F32, .waves = 1, .forced = true,
     .cut = 33},
    {.cp = 2, .ep = 1, .lora = 4, .act = DT_F64, .waves = 1, .forced = true},
};

static void test_sequences(void **state)
{
    static const struct part part[] = {{0, false}, {2, false}, {1, true}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof runs / sizeof runs[0]; i++)
        isolated(lone, lone_tokens, 3, 1, part, 3, &runs[i]);
}

static void test_branches(void **state)
{
    static const struct part sibling[] = {{3, false}, {0, true}};
    static const struct part below[] = {{2, false}, {3, false}, {1, true}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        isolated(fork, fork_tokens, 4, 2, sibling, 2, &runs[i]);
        isolated(fork, fork_tokens, 4, 1, below, 3, &runs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequences), cmocka_unit_test(test_branches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
