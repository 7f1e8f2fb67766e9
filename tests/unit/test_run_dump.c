/*
** test_run_dump.c - the numbers of a wave in a file: they agree with each
** other, by the definition of the loss, and between one rank and two.
*/
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "model/checkpoint.h"
#include "record_fixture.h"
#include "run/run.h"

enum { ROWS = 14, VOCAB = 256, LAYERS = 4, TOP_K = 2, EXPERTS = 8 };

static const char scenario[] =
    "return {options = {cp = {default = 1}}, cases = function(o) return {{\n"
    "  name = 'a', model = 'tiny', layers = 4, dtype = 'f64',\n"
    "  lora_rank = 2, cp = o.cp, ep = o.cp, learning_rate = 0.01,\n"
    "  waves = 2, labels = 'l.jsonl',\n"
    "  batch = batch.tree{parents = {-1, 0, 0, -1},\n"
    "                     lengths = {3, 2, 4, 5}}}} end}\n";
/* Row 2 has two labels: 4 on one branch, 7 on the other. */
static const char labels[] =
    "{\"tokens\":[1,2,3,4,5],\"weight\":0.5}\n"
    "{\"tokens\":[1,2,3,7,8,9,10],\"weights\":[1,1,1,2,1,1,0.25]}\n"
    "{\"tokens\":[11,12,13,14,15],\"segment\":3}\n";

static void put(const char *dir, const char *name, const char *text)
{
    char path[200];
    struct err e;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(file_write(path, text, strlen(text), &e), ERR_OK);
}

/* Runs the case on cp ranks; its waves' files are dir/DUMP/... */
static void run(const char *dir, const char *cp, const char *dump)
{
    static atomic_int interrupt;
    int64_t row[ROWS], i;
    char path[200], out[200], set[20];
    char *setting[] = {set};
    struct scenario_limits limits = {0};
    struct scenario *s = NULL;
    struct case_result r;
    struct err e;
    struct run_context x = {.data = "lua", .device = "cpu", .ops = &dev_cpu,
                            .interrupt = &interrupt, .miss_percent = -1,
                            .dump = out, .dump_rows = row,
                            .n_dump_rows = ROWS};

    for (i = 0; i < ROWS; i++) row[i] = i;
    snprintf(path, sizeof path, "%s/s.lua", dir);
    snprintf(out, sizeof out, "%s/%s", dir, dump);
    snprintf(set, sizeof set, "cp=%s", cp);
    if (scenario_load(path, "lua", setting, 1, &limits, &s, &e) != ERR_OK)
        fail_msg("%s", e.text);
    assert_int_equal(file_make_dirs(out, &e), ERR_OK);
    run_case(&x, s, 0, &r);
    if (r.code != ERR_OK) fail_msg("%s", r.message);
    case_result_free(&r);
    scenario_free(s);
}

static struct checkpoint *opened(const char *dir, const char *dump, int wave)
{
    char path[200];
    struct checkpoint *c = NULL;
    struct err e;

    snprintf(path, sizeof path, "%s/%s/s.a.wave%d.safetensors", dir, dump,
             wave);
    if (checkpoint_open_file(path, &c, &e) != ERR_OK) fail_msg("%s", e.text);
    return c;
}

/* All n numbers of a tensor; there must be just as many. */
static double *numbers(struct checkpoint *c, const char *name, int64_t n)
{
    const struct checkpoint_tensor *t = checkpoint_get(c, name);
    double *x = malloc((size_t)n * sizeof *x);
    struct err e;

    assert_non_null(x);
    if (t == NULL) fail_msg("no %s", name);
    assert_int_equal(t->count, n);
    if (checkpoint_read(c, t, 0, n, x, &e) != ERR_OK) fail_msg("%s", e.text);
    return x;
}

/* -log softmax of a row of logits at a target. */
static double loss_of(const double *logit, int64_t target)
{
    double most = logit[0], sum = 0;
    int64_t i;

    for (i = 1; i < VOCAB; i++) most = fmax(most, logit[i]);
    for (i = 0; i < VOCAB; i++) sum += exp(logit[i] - most);
    return most + log(sum) - logit[target];
}

static void near(double got, double want, const char *what)
{
    if (!(fabs(got - want) <= 1e-11 * (1 + fabs(want))))
        fail_msg("%s: %.17g, not %.17g", what, got, want);
}

/* Rows 4, 8 and 13 end a branch; the others see the next token, row 2 two. */
static void check_losses(struct checkpoint *c)
{
    static const double want[ROWS] = {2, 3, 4, 5, -1, 8, 9, 10, -1, 12, 13,
                                      14, 15, -1};
    double *target = numbers(c, "targets", ROWS);
    double *weight = numbers(c, "weights", ROWS);
    double *loss = numbers(c, "losses", ROWS);
    double *row = numbers(c, "logit_rows", ROWS - 3);
    double *logit = numbers(c, "logits", (ROWS - 3) * VOCAB);
    double *more[] = {numbers(c, "more_rows", 1),
                      numbers(c, "more_targets", 1),
                      numbers(c, "more_weights", 1),
                      numbers(c, "more_losses", 1)};
    double *all = numbers(c, "loss", 1), sum = *more[2] * *more[3];
    int64_t i, k = 0;

    assert_memory_equal(target, want, sizeof want);
    assert_true(*more[0] == 2 && *more[1] == 7);
    for (i = 0; i < ROWS; i++) {
        if (target[i] < 0) {
            assert_true(weight[i] == 0 && loss[i] == 0);
            continue;
        }
        for (k = 0; row[k] != (double)i;) assert_true(++k < ROWS - 3);
        near(loss[i], loss_of(logit + k * VOCAB, (int64_t)target[i]), "loss");
        if (i == 2)
            near(*more[3], loss_of(logit + k * VOCAB, 7), "the other loss");
        sum += weight[i] * loss[i];
    }
    near(*all, sum, "the wave's loss");
    near(weight[9] / weight[3], 2, "weights");
    for (i = 0; i < 4; i++) free(more[i]);
    free(target);
    free(weight);
    free(loss);
    free(row);
    free(logit);
    free(all);
}

static void check_routes(struct checkpoint *c)
{
    double *x = numbers(c, "routes", LAYERS * ROWS * TOP_K);
    int64_t i;

    for (i = 0; i < LAYERS * ROWS * TOP_K; i += TOP_K) {
        assert_true(x[i] >= 0 && x[i] < EXPERTS);
        assert_true(x[i + 1] >= 0 && x[i + 1] < EXPERTS);
        assert_true(x[i] != x[i + 1]);
    }
    free(x);
}

/* Every number of one is that of the other; logits, in whichever order their
** rows stand. */
static void same_numbers(struct checkpoint *a, struct checkpoint *b)
{
    double *row_a = numbers(a, "logit_rows", ROWS - 3);
    double *row_b = numbers(b, "logit_rows", ROWS - 3);
    int64_t i, k, n;

    assert_int_equal(checkpoint_count(a), checkpoint_count(b));
    for (i = 0; i < checkpoint_count(a); i++) {
        const struct checkpoint_tensor *t = checkpoint_at(a, i);
        double *x = numbers(a, t->name, t->count);
        double *y = numbers(b, t->name, t->count);
        int64_t wide = strcmp(t->name, "logits") == 0 ? VOCAB : 0;

        for (k = 0; k < t->count && wide == 0; k++)
            if (strcmp(t->name, "logit_rows") != 0) near(y[k], x[k], t->name);
        for (k = 0; k < t->count && wide != 0; k++) {
            for (n = 0; row_b[n] != row_a[k / wide];) n++;
            near(y[n * wide + k % wide], x[k], t->name);
        }
        free(x);
        free(y);
    }
    free(row_a);
    free(row_b);
}

static void test_dump(void **state)
{
    char *dir = fixture_dir();
    int wave;

    (void)state;
    put(dir, "s.lua", scenario);
    put(dir, "l.jsonl", labels);
    run(dir, "1", "one");
    run(dir, "2", "two");
    for (wave = 0; wave < 2; wave++) {
        struct checkpoint *one = opened(dir, "one", wave);
        struct checkpoint *two = opened(dir, "two", wave);

        check_losses(one);
        check_routes(one);
        check_losses(two);
        same_numbers(one, two);
        checkpoint_close(one);
        checkpoint_close(two);
    }
    fixture_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dump)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
