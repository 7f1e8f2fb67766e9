/*
** The step against measured memory: every dense cell of the published table
** within the tolerance of evidence.md section 4, the differences that are
** exact, the median, and what backward adds. With PEAKPROOF_CELLS set the
** cells are printed.
*/
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/measured.h"

#define COLD 67109888           /* a GEMM workspace and a BLAS handle */
#define HANDLE 33554432         /* the autograd thread's */

static struct measured table;
static struct ours ours[MEASURED_MAX];

static int setup(void **state)
{
    int i;

    (void)state;
    measured_load(&table);
    for (i = 0; i < table.n; i++)
        if (measured_is_dense(&table.cell[i]))
            measured_run(&table.cell[i], &ours[i]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    measured_free(&table);
    return 0;
}

static bool is(const char *text, const char *what)
{
    return strstr(text, what) != NULL;
}

static int find(const char *id)
{
    int i;

    for (i = 0; i < table.n; i++)
        if (strcmp(table.cell[i].id, id) == 0) return i;
    fail_msg("no cell %s", id);
    return -1;
}

/* ---- what a cell is held against ---------------------------------------- */

/* A first shape of its process. */
static bool is_first(const struct cell *c)
{
    if (c->first >= 0) return c->first - c->repeat > 50000000;
    return c->packed == 1024 || is("M145 M147 M150 M153 M156", c->id);
}

/* Bytes that only a first wave holds, inside the maxima of two waves. */
static int64_t cold(const struct cell *c)
{
    if (c->first >= 0) return c->first - c->repeat;
    return (is_first(c) ? COLD : 0) +
           (is(c->model, "1.7B") ? 512 * c->packed : 0);
}

static int64_t forward(const struct cell *c)
{
    return c->repeat >= 0 ? c->repeat : c->peak - cold(c);
}

static double off(int64_t got, int64_t want)
{
    return 100 * ((double)got / (double)want - 1);
}

/* Two sequences or more, packed apart. */
static bool is_pair(const struct cell *c)
{
    return is(c->lengths, "+");
}

static bool is_shared(const struct cell *c)
{
    int64_t length[64], n = measured_lengths(c->lengths, length), sum = 0;

    while (n-- > 0) sum += length[n];
    return c->packed < sum;
}

static double tolerance_27b(const struct cell *c)
{
    bool full = c->recompute == RECOMPUTE_FULL;

    if (full && (c->packed == 1024 || is(c->id, "M031"))) return 5;
    if (c->packed == 512 || c->packed == 1024) return 1.5;
    if (c->tp == 1 && full) return 0.05;
    return is_pair(c) || is(c->modules, "mlp") ? 0.7 : 0.5;
}

/* In percent of the forward peak. */
static double tolerance(const struct cell *c)
{
    if (c->rank_rows < 400) return c->cp > 1 ? 8 : 0.1;
    if (c->cp > 1) return is_shared(c) ? 1.5 : 0.5;
    if (is(c->model, "27B")) return tolerance_27b(c);
    if (is(c->id, "M001")) return 7;
    return !c->compiled && c->packed == 436 ? 4 : 0.7;
}

static void print(int i)
{
    const struct cell *c = &table.cell[i];
    const struct ours *o = &ours[i];

    printf("%s %-11s tp%d cp%d %-9s%-4s %-8s %-9s %5d rows: forward %+.3f "
           "of %g %%, retained %+.3f, with backward %+.3f%s\n", c->id,
           c->model, (int)c->tp, (int)c->cp,
           mode_recompute_words[c->recompute],
           is(c->modules, "mlp") ? "+mlp" : "",
           c->compiled ? "compiled" : "eager", c->lengths,
           (int)c->rank_rows, off(o->repeat, forward(c)), tolerance(c),
           c->retained < 0 ? 0 : off(o->retained, c->retained - cold(c)),
           off(o->both, c->both - cold(c)),
           is_first(c) ? " (first shape)" : "");
}

/* ---- forward ------------------------------------------------------------ */

static void test_every_cell(void **state)
{
    int i, bad = 0;

    (void)state;
    for (i = 0; i < table.n; i++) {
        const struct cell *c = &table.cell[i];

        if (!measured_is_dense(c)) continue;
        if (getenv("PEAKPROOF_CELLS") != NULL) print(i);
        if (fabs(off(ours[i].repeat, forward(c))) <= tolerance(c)) continue;
        print(i);
        bad++;
    }
    assert_int_equal(bad, 0);
}

/* ---- many cells --------------------------------------------------------- */

static bool same_run(const struct cell *a, const struct cell *b)
{
    return strcmp(a->model, b->model) == 0 && a->tp == b->tp &&
           a->recompute == b->recompute && a->compiled == b->compiled &&
           strcmp(a->modules, b->modules) == 0 &&
           strcmp(a->lengths, b->lengths) == 0 && a->packed == b->packed;
}

/* Dense, one context-parallel rank, 400 rows and more, full recompute from
** 2,048 rows on; of several measurements of one run the first. */
static bool is_counted(int i)
{
    const struct cell *c = &table.cell[i];
    int k;

    if (!measured_is_dense(c) || c->cp > 1 || c->packed < 400) return false;
    if (c->recompute == RECOMPUTE_FULL && c->packed < 2048) return false;
    for (k = 0; k < i; k++)
        if (same_run(&table.cell[k], c)) return false;
    return true;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of 67 errors: median at most 0.04 %, 64 within 1 %: the full cell of 2,048
** rows on four ranks and two first shapes of 1,024 rows are not. */
static void check_many(double *error, int n, const char *what)
{
    double *size = malloc((size_t)n * sizeof *size);
    int i, within = 0;

    for (i = 0; i < n; i++) {
        size[i] = fabs(error[i]);
        within += size[i] <= 1;
    }
    qsort(size, (size_t)n, sizeof *size, by_size);
    printf("%s: %d cells, %d within 1 %%, median %.3f %%, worst %.3f %%\n",
           what, n, within, size[n / 2], size[n - 1]);
    assert_int_equal(n, 67);
    assert_true(size[n / 2] <= 0.04);
    assert_int_equal(within, 64);
    free(size);
}

static void test_median(void **state)
{
    double peak[MEASURED_MAX], kept[MEASURED_MAX];
    int i, n = 0;

    (void)state;
    for (i = 0; i < table.n; i++) {
        const struct cell *c = &table.cell[i];

        if (!is_counted(i)) continue;
        peak[n] = off(ours[i].repeat, forward(c));
        kept[n++] = off(ours[i].retained, c->retained - cold(c));
    }
    check_many(peak, n, "forward");
    check_many(kept, n, "retained");
}

/* ---- what is exact ------------------------------------------------------ */

static void test_workspaces(void **state)
{
    static const char *const ids[] = {"M045", "M081", "M088", "M094", "M099",
                                      "M108", "M130", "M133", "M136",
                                      "M139"};
    size_t i;
    int k;

    (void)state;
    for (i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        int at = find(ids[i]);
        const struct cell *c = &table.cell[at];

        assert_int_equal(c->first - c->repeat, COLD);
        assert_int_equal(ours[at].first - ours[at].repeat, COLD);
    }
    for (k = 0; k < table.n; k++) {
        const struct cell *c = &table.cell[k];

        if (!measured_is_dense(c) || is(c->model, "1.7B") ||
            c->base_first < 0 || c->base_first == c->base_last) continue;
        assert_int_equal(c->base_last - c->base_first, COLD + HANDLE);
        assert_int_equal(ours[k].growth, COLD + HANDLE);
    }
}

/* What selective recompute leaves out: log-sum-exps of flash attention, and
** the executor's records at CP2. */
static void test_core_attention(void **state)
{
    int none = find("M016"), core = find("M018");

    (void)state;
    assert_int_equal(table.cell[none].peak - table.cell[core].peak, 3145728);
    assert_int_equal(ours[none].repeat - ours[core].repeat, 3145728);
    none = find("M151");
    core = find("M154");
    assert_int_equal(table.cell[none].peak - table.cell[core].peak,
                     337641472);
    assert_int_equal(ours[none].repeat - ours[core].repeat, 337641472);
}

/* Where all large tensors are multiples of 2 MiB, and where all are small,
** what a wave holds is right to 8 B a row and 8 KiB. */
static void test_to_the_row(void **state)
{
    static const char *const ids[] = {"M011", "M013", "M020", "M022", "M025",
                                      "M038", "M042", "M078", "M079", "M081",
                                      "M091", "M094", "M097", "M099"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        int at = find(ids[i]);
        const struct cell *c = &table.cell[at];
        int64_t lacks = forward(c) - ours[at].repeat;
        int64_t behind = c->retained - cold(c) - ours[at].retained;

        if (llabs(lacks) > 8192 + 8 * c->packed ||
            llabs(behind) > 8192 + 8 * c->packed)
            fail_msg("%s: %lld, behind the layers %lld", ids[i],
                     (long long)lacks, (long long)behind);
    }
}

/* ---- backward ----------------------------------------------------------- */

/* Warm cells of 400 rows and more, full recompute of the 27B from 2,048 rows.
** M002 lies above every reading (evidence.md 3). */
static bool has_backward(const struct cell *c)
{
    bool full = c->recompute == RECOMPUTE_FULL;

    if (!measured_is_dense(c) || c->cp > 1 || is_first(c)) return false;
    if (full && !is(c->model, "27B")) return false;
    return c->packed >= (full ? 2048 : 400);
}

/* What backward adds to the measured retained bytes, within 0.1 %; and the
** whole within 0.3 %. Of M031 (5 MB boundaries) the forward itself lies off by
** remainders of blocks that no one splits. */
static void test_backward(void **state)
{
    int i, n = 0, near = 0, whole = 0;

    (void)state;
    for (i = 0; i < table.n; i++) {
        const struct cell *c = &table.cell[i];
        int64_t more = ours[i].both - ours[i].retained;
        double moved, error = off(ours[i].both, c->both - cold(c));

        if (!has_backward(c)) continue;
        moved = off(c->retained - cold(c) + more, c->both - cold(c));
        near += fabs(moved) <= 0.1;
        if (fabs(moved) > (is(c->id, "M031") ? 0.6 : 0.1))
            fail_msg("%s: %+.3f %%", c->id, moved);
        n++;
        if (!is(c->model, "27B")) continue;
        if (c->recompute == RECOMPUTE_FULL && c->tp > 2) continue;
        whole += fabs(error) <= 0.3;
        if (fabs(error) > 0.3)
            fail_msg("%s: %+.3f %%", c->id, error);
    }
    printf("backward: %d of %d cells within 0.1 %% from the measured retained "
           "bytes, %d of the 27B within 0.3 %% in all\n", near, n, whole);
    assert_int_equal(n, 64);
    assert_int_equal(near, 63);
    assert_int_equal(whole, 44);
}

/* ---- experts without gradients ------------------------------------------ */

/* Two forwards of Qwen3.5-35B-A3B on one GPU that ran out of it or nearly so
** (evidence.md 4): packed rows, and all that was allocated at the peak, start
** included. Which experts the rows went to does not matter on one rank. */
static void test_experts_forward(void **state)
{
    static const struct { int64_t rows, total; } seen[] = {
        {228142, 69674556928 + 46946880000}, {103960, 91890825298},
    };
    static const struct routing balanced = {.kind = ROUTING_BALANCED};
    struct cell c = {.model = "Qwen3.5-35B-A3B", .modules = "", .tp = 1,
                     .cp = 1, .recompute = RECOMPUTE_FULL, .compiled = true};
    struct plan_options o = {.cp = 1, .ep = 1, .tp = 1, .owned_ms = -1};
    struct step_result got[2];
    int64_t growth, total;
    struct step_config k;
    struct batch b;
    struct model m;
    struct plan p;
    struct err e;
    int i;

    (void)state;
    measured_model(&c, &m);
    for (i = 0; i < 2; i++) {
        measured_need(batch_from_lengths(&seen[i].rows, 1, &b, &e), &e);
        measured_need(plan_make(&m, &b, &o, &p, &e), &e);
        k = measured_config(&c, &m, &p, 0);
        k.routing = &balanced;
        k.mode.no_grad = true;
        k.mode.wave = WAVE_HIDDEN;
        measured_waves(&k, got, &growth);
        total = (int64_t)(got[1].start_bytes + got[1].peak.allocated);
        printf("no gradients, %d rows: %+.2f %%\n", (int)seen[i].rows,
               off(total, seen[i].total));
        assert_true(fabs(off(total, seen[i].total)) <= 3);
        assert_string_equal(got[1].peak.tag.op, "experts.fc2");
        plan_free(&p);
        batch_free(&b);
    }
    model_free(&m);
}

/* ---- experts over tensor-parallel ranks --------------------------------- */

#define MIXTURE_START 17555830784   /* baseline where a process begins */
#define MIXTURE_COLD 201331712  /* five GEMM workspaces and a BLAS handle */

/* What counts from where the process began (evidence.md 1): what the baseline
** held of the forward before is given back in this one. */
static int64_t held(const struct cell *c)
{
    if (c->base_first == MIXTURE_START) return -MIXTURE_COLD;
    return c->base_first - MIXTURE_START - MIXTURE_COLD - HANDLE;
}

/* Qwen3.5-35B-A3B at tp 4, ep 4, of which the published counts of its router
** are not known: routing is taken as even, or as all rows to one rank where
** the router was a concentrated one. Backward of first shapes has cold bytes
** in it. */
static void test_experts_split(void **state)
{
    static const struct routing even = {.kind = ROUTING_BALANCED};
    static const struct routing one = {.kind = ROUTING_SHARE, .share = 4};
    int i, n = 0;

    (void)state;
    for (i = 0; i < table.n; i++) {
        const struct cell *c = &table.cell[i];
        double forward_off, kept, both;
        struct ours o;

        if (measured_is_dense(c)) continue;
        measured_run_moe(c, c->concentrated ? &one : &even, &o);
        n++;
        forward_off = off(o.repeat, c->first + held(c));
        kept = off(o.retained, c->retained + held(c));
        both = off(o.both, c->both + held(c));
        printf("%s %s%s: forward %+.2f, retained %+.2f, backward %+.2f\n",
               c->id, c->concentrated ? "concentrated " : "", c->modules,
               forward_off, kept, both);
        assert_true(forward_off > -3.6 && forward_off < 1.6);
        assert_true(kept > -3.4 && kept < 1.6);
        assert_true(both > -3.8 && both < 1.6);
        if (is(c->modules, "moe")) assert_true(fabs(forward_off) < 2.2);
    }
    assert_int_equal(n, 12);
}

/* Process starts at 2,048 and 3,000 rows: what their first shapes leave grows
** by rows on a line that meets a first wave's workspaces, the handle of the
** differentiating thread among them. */
static void test_experts_baseline(void **state)
{
    static const char *const pair[2][2] = {{"M122", "M071"},
                                           {"M125", "M074"}};
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        const struct cell *a = &table.cell[find(pair[i][0])];
        const struct cell *b = &table.cell[find(pair[i][1])];
        int64_t less = a->base_last - a->base_first;
        int64_t more = b->base_last - b->base_first;
        int64_t row = (more - less) / (b->packed - a->packed);

        assert_int_equal(a->base_first, MIXTURE_START);
        assert_int_equal(b->base_first, MIXTURE_START);
        assert_true(llabs(less - row * a->packed - MIXTURE_COLD - HANDLE) <
                    1000000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cell),
        cmocka_unit_test(test_median),
        cmocka_unit_test(test_workspaces),
        cmocka_unit_test(test_core_attention),
        cmocka_unit_test(test_to_the_row),
        cmocka_unit_test(test_backward),
        cmocka_unit_test(test_experts_forward),
        cmocka_unit_test(test_experts_split),
        cmocka_unit_test(test_experts_baseline),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
