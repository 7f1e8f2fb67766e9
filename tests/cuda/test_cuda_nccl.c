/*
** test_cuda_nccl.c - the NCCL communicator on a stand-in of NCCL: what it
** moves, what it refuses, and that nothing it meets makes a rank hang.
*/
#include "nccl_world.h"

/* ---- what is moved ------------------------------------------------------ */

/* Bytes that rank s sends rank r: of many sizes, some none. */
static int64_t part_bytes(int s, int r)
{
    return (s * 7 + r * 5) % 3 == 0 ? 0 : 1 + s * 1000 + r * 37;
}

static unsigned char pattern(int s, int r, int64_t i)
{
    return (unsigned char)(s * 31 + r * 17 + i * 3);
}

static void fill_parts(struct comm_part *send, struct comm_part *recv, int me,
                       int size)
{
    for (int r = 0; r < size; r++) {
        send[r].bytes = part_bytes(me, r);
        recv[r].bytes = part_bytes(r, me);
        send[r].p = malloc((size_t)send[r].bytes + 1);
        recv[r].p = malloc((size_t)recv[r].bytes + 1);
        for (int64_t i = 0; i < send[r].bytes; i++)
            ((unsigned char *)send[r].p)[i] = pattern(me, r, i);
        memset(recv[r].p, 0, (size_t)recv[r].bytes + 1);
    }
}

static void free_parts(struct comm_part *send, struct comm_part *recv,
                       int size)
{
    for (int r = 0; r < size; r++) {
        free(send[r].p);
        free(recv[r].p);
    }
}

static int exchange(struct comm *c, struct dev *d, const char *what,
                    bool *right, struct err *e)
{
    struct comm_part send[RANKS], recv[RANKS];
    int rc;

    fill_parts(send, recv, c->rank, c->size);
    rc = c->ops->all_to_all(c, d, what, send, recv, e);
    *right = true;
    for (int r = 0; r < c->size; r++)
        for (int64_t i = 0; i < recv[r].bytes; i++)
            *right = *right && ((unsigned char *)recv[r].p)[i] ==
                               pattern(r, c->rank, i);
    free_parts(send, recv, c->size);
    return rc;
}

static int act_move(struct world *w, struct comm *c, struct dev *d,
                    struct err *e)
{
    bool right;

    (void)w;
    for (int i = 0; i < 3; i++) {
        int rc = exchange(c, d, "kv fetch", &right, e);

        if (rc != ERR_OK) return rc;
        if (!right) return err_set(e, ERR_WRONG, "other bytes came");
    }
    return ERR_OK;
}

static void moves_bytes(void **state)
{
    (void)state;
    for (int size = 1; size <= RANKS; size++) {
        struct world w = {.size = size, .act = act_move, .absent = -1};

        run_world(&w);
        expect_all_ok(&w);
    }
}

static float from_bf16(uint16_t x)
{
    uint32_t u = (uint32_t)x << 16;
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

static uint16_t to_bf16(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Element i of rank r: sums whose order shows in the last bits. */
static double element(int r, int64_t i)
{
    static const double base[] = {1, 1.0 / 3, -0.7, 1e-4};

    return base[(r + i) % 4] * (double)(1 + i % 100);
}

static double rounded(double v, enum dtype t)
{
    if (t == DT_F64) return v;
    return t == DT_F32 ? (double)(float)v
                       : (double)from_bf16(to_bf16((float)v));
}

static void put(void *p, enum dtype t, int64_t i, double v)
{
    if (t == DT_F64) ((double *)p)[i] = v;
    else if (t == DT_F32) ((float *)p)[i] = (float)v;
    else ((uint16_t *)p)[i] = to_bf16((float)v);
}

static double get(const void *p, enum dtype t, int64_t i)
{
    if (t == DT_F64) return ((const double *)p)[i];
    if (t == DT_F32) return (double)((const float *)p)[i];
    return (double)from_bf16(((const uint16_t *)p)[i]);
}

/* Over ranks first, first + every, ... in rank order, f32 for bf16 and f32,
** rounded once. */
static double sum_of(int size, int first, int every, int64_t i, enum dtype t)
{
    double sum = rounded(element(first, i), t);

    for (int r = first + every; r < size; r += every) {
        sum += rounded(element(r, i), t);
        if (t != DT_F64) sum = (double)(float)sum;
    }
    return rounded(sum, t);
}

static int reduce_one(struct comm *c, struct dev *d, enum dtype t,
                      int every, int64_t rows, int64_t cols, struct err *e)
{
    int64_t n = rows * cols, wrong = 0;
    struct mat x = {malloc((size_t)(n * dtype_bytes(t)) + 1), rows, cols,
                    cols, t};
    int rc;

    for (int64_t i = 0; i < n; i++) put(x.p, t, i, element(c->rank, i));
    rc = c->ops->all_reduce(c, d, "adapter gradients", x, every, e);
    for (int64_t i = 0; i < n; i++)
        wrong += get(x.p, t, i)
                 != sum_of(c->size, c->rank % every, every, i, t);
    free(x.p);
    if (rc == ERR_OK && wrong > 0)
        rc = err_set(e, ERR_WRONG, "%d of %d sums differ", (int)wrong,
                     (int)n);
    return rc;
}

static int act_reduce(struct world *w, struct comm *c, struct dev *d,
                      struct err *e)
{
    static const enum dtype type[] = {DT_BF16, DT_F32, DT_F64};
    int rc = ERR_OK;

    (void)w;
    for (int k = 0; k < 3 && rc == ERR_OK; k++) {
        rc = reduce_one(c, d, type[k], 1, 1, 1, e);
        if (rc == ERR_OK) rc = reduce_one(c, d, type[k], 1, 0, 7, e);
        for (int every = 1; every <= c->size && rc == ERR_OK; every++)
            if (c->size % every == 0)
                rc = reduce_one(c, d, type[k], every, 3, 333, e);
    }
    /* more than one part of 4 MiB */
    return rc == ERR_OK ? reduce_one(c, d, DT_F64, 1, 3, 200000, e) : rc;
}

static void sums_in_rank_order(void **state)
{
    (void)state;
    for (int size = 1; size <= RANKS; size++) {
        struct world w = {.size = size, .act = act_reduce, .absent = -1};

        run_world(&w);
        expect_all_ok(&w);
    }
}

static int act_count(struct world *w, struct comm *c, struct dev *d,
                     struct err *e)
{
    static const int64_t sizes[] = {0, 1, 3, 256, 257, 700};
    int64_t mine[700], all[RANKS * 700];

    (void)w;
    (void)d;
    for (int k = 0; k < 6; k++) {
        int64_t n = sizes[k], i;
        int rc, r;

        for (i = 0; i < n; i++) mine[i] = c->rank * 100000 + i * 3 - 5;
        rc = c->ops->gather_counts(c, "expert counts", mine, n, all, e);
        if (rc != ERR_OK) return rc;
        for (r = 0; r < c->size; r++)
            for (i = 0; i < n; i++)
                if (all[r * n + i] != r * 100000 + i * 3 - 5)
                    return err_set(e, ERR_WRONG, "another count came");
    }
    return ERR_OK;
}

static void gathers_counts(void **state)
{
    (void)state;
    for (int size = 1; size <= RANKS; size++) {
        struct world w = {.size = size, .act = act_count, .absent = -1};

        run_world(&w);
        expect_all_ok(&w);
    }
}

/* ---- what does not fit -------------------------------------------------- */

/* Each misfit is the same error on all ranks; then the ranks go on. */
static int act_misfit(struct world *w, struct comm *c, struct dev *d,
                      struct err *e)
{
    static const char *const text[] = {
        "kv fetch: rank 1 sends 9 B to rank 0, which expects 8 B",
        "loss: rank 0 has 1 x 2 f32, rank 1 has 2 x 1 f32",
        "counts: rank 0 brings 1 counts, rank 1 brings 2",
        "rows: rank 0 is in gather_counts, while rank 1 is in gather_counts "
        "of columns",
        "sum: rank 0 is in all_reduce, while rank 1 is in gather_counts of "
        "sum",
    };
    char room[64] = {0};
    int64_t mine[2] = {1, 2}, all[4];
    int me = c->rank, rc;

    for (int k = 0; k < 5; k++) {
        struct comm_part send[2] = {{room, 8}, {room, 8}};
        struct comm_part recv[2] = {{room + 8, 8}, {room + 8, 8}};
        struct mat x = {room, me == 0 ? 1 : 2, me == 0 ? 2 : 1, 2, DT_F32};

        if (me == 1) x.ld = 1;
        if (me == 1) send[0].bytes = 9;
        if (k == 0)
            rc = c->ops->all_to_all(c, d, "kv fetch", send, recv, e);
        else if (k == 1)
            rc = c->ops->all_reduce(c, d, "loss", x, 1, e);
        else if (k == 2)
            rc = c->ops->gather_counts(c, "counts", mine, 1 + me, all, e);
        else if (k == 3)
            rc = c->ops->gather_counts(c, me == 0 ? "rows" : "columns", mine,
                                       1, all, e);
        else if (me == 0)
            rc = c->ops->all_reduce(c, d, "sum", x, 1, e);
        else
            rc = c->ops->gather_counts(c, "sum", mine, 1, all, e);
        if (rc != ERR_RUN || strcmp(e->text, text[k]) != 0)
            return err_set(e, ERR_WRONG, "misfit %d: code %d", k, rc);
    }
    return act_move(w, c, d, e);
}

static void tells_misfits(void **state)
{
    struct world w = {.size = 2, .act = act_misfit, .absent = -1};

    (void)state;
    run_world(&w);
    expect_all_ok(&w);
}

/* ---- ranks that fail ---------------------------------------------------- */

static int act_abort(struct world *w, struct comm *c, struct dev *d,
                     struct err *e)
{
    bool right;
    int rc = ERR_OK;

    (void)w;
    for (int i = 0; i < 5 && rc == ERR_OK; i++) {
        if (c->rank == 1 && i == 3) {
            c->ops->abort(c, "out of memory");
            return err_set(e, ERR_OOM, "out of memory");
        }
        rc = exchange(c, d, "kv fetch", &right, e);
    }
    /* and it stays so */
    if (rc != ERR_OK) rc = exchange(c, d, "dispatch", &right, e);
    return rc;
}

static void abort_ends_others(void **state)
{
    for (int size = 2; size <= RANKS; size++) {
        struct world w = {.size = size, .act = act_abort, .absent = -1};

        (void)state;
        run_world(&w);
        assert_int_equal(w.rc[1], ERR_OOM);
        for (int r = 0; r < size; r++)
            if (r != 1)
                expect_said(&w, r, "dispatch: rank 1 failed: out of memory");
    }
}

/* Until rank 1 comes, rank 0 starts nothing on its GPU: rank 1 may be in a
** call that waits for all kernels. */
static int act_come_late(struct world *w, struct comm *c, struct dev *d,
                         struct err *e)
{
    struct timespec pause = {0, 100000000};
    bool right;

    pthread_barrier_wait(&w->all);
    if (c->rank == 1) {
        emu_fail_at(0);
        nanosleep(&pause, NULL);
        if (emu_fail_at(0) > 1)         /* but for cudaSetDevice */
            return err_set(e, ERR_WRONG, "rank 0 did not wait");
    }
    return exchange(c, d, "kv fetch", &right, e);
}

static void none_starts_alone(void **state)
{
    struct world w = {.size = 2, .act = act_come_late, .absent = -1};

    (void)state;
    run_world(&w);
    expect_all_ok(&w);
}

/* Rank 1 stays away from the third exchange until the others have ended. */
static int act_stay_away(struct world *w, struct comm *c, struct dev *d,
                         struct err *e)
{
    bool right;
    int rc = ERR_OK;

    for (int i = 0; i < 5 && rc == ERR_OK; i++) {
        if (c->rank == 1 && i == 2) break;
        rc = exchange(c, d, "kv fetch", &right, e);
    }
    pthread_barrier_wait(&w->all);
    if (c->rank == 1) rc = exchange(c, d, "kv fetch", &right, e);
    return rc;
}

static void late_rank_is_named(void **state)
{
    struct world w = {.size = 3, .act = act_stay_away, .absent = -1,
                      .deadline_ms = LATE_MS};

    (void)state;
    run_world(&w);
    for (int r = 0; r < 3; r++)
        expect_said(&w, r, "kv fetch: rank 1 did not come to kv fetch "
                           "within 150 ms");
}

static void absent_rank_is_named(void **state)
{
    struct world w = {.size = 3, .act = act_move, .absent = 2,
                      .deadline_ms = LATE_MS};

    (void)state;
    run_world(&w);
    for (int r = 0; r < 2; r++)
        expect_said(&w, r, "NCCL: rank 2 did not come to joining NCCL within "
                           "150 ms");
}

static int act_leave_early(struct world *w, struct comm *c, struct dev *d,
                           struct err *e)
{
    bool right;

    (void)w;
    return c->rank == 1 ? ERR_OK : exchange(c, d, "kv fetch", &right, e);
}

static void early_close_is_told(void **state)
{
    struct world w = {.size = 2, .act = act_leave_early, .absent = -1};

    (void)state;
    run_world(&w);
    assert_int_equal(w.rc[1], ERR_OK);
    expect_said(&w, 0, "kv fetch: rank 1 has closed its communicator");
}

/* ---- processes that do not share an alarm ------------------------------- */

static void deaf_raise(struct alarm *a, const char *cause)
{
    (void)a;
    (void)cause;
}
static bool deaf_raised(struct alarm *a, char cause[ALARM_CAUSE])
{
    (void)a;
    (void)cause;
    return false;
}
static void deaf_came(struct alarm *a, int rank, uint64_t turn)
{
    (void)a;
    (void)rank;
    (void)turn;
}
static void deaf_late(struct alarm *a, uint64_t turn, char *who, size_t n)
{
    (void)a;
    (void)turn;
    (void)n;
    who[0] = '\0';
}
static bool deaf_here(struct alarm *a, uint64_t turn)
{
    (void)a;
    (void)turn;
    return true;
}
static const struct alarm_ops deaf_ops = {deaf_raise, deaf_raised, deaf_came,
                                          deaf_here, deaf_late};

static int act_deaf(struct world *w, struct comm *c, struct dev *d,
                    struct err *e)
{
    bool right;
    int rc;

    pthread_barrier_wait(&w->all);      /* both have joined */
    if (c->rank == 0) {
        rc = exchange(c, d, "kv fetch", &right, e);
        pthread_barrier_wait(&w->all);
        return rc;
    }
    c->ops->abort(c, "gone");
    pthread_barrier_wait(&w->all);
    return ERR_OK;
}

/* As run_world for two ranks whose alarm says nothing. */
static void run_deaf(struct world *w)
{
    struct alarm deaf[2] = {{&deaf_ops}, {&deaf_ops}};
    struct seat seat[2] = {{w, 0}, {w, 1}};
    pthread_t thread;
    struct err e;

    w->alarm = deaf;
    assert_int_equal(nccl_new_id(w->id, &e), ERR_OK);
    pthread_barrier_init(&w->all, NULL, 2);
    pthread_create(&thread, NULL, sit, &seat[1]);
    sit(&seat[0]);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&w->all);
    assert_int_equal(emu_nccl_open(), 0);
}

static void without_alarm_deadline_ends(void **state)
{
    struct world w = {.size = 2, .act = act_deaf, .absent = -1,
                      .deadline_ms = LATE_MS};

    (void)state;
    run_deaf(&w);
    expect_said(&w, 0, "kv fetch: rank 0 waited 150 ms in kv fetch");
}

static void without_alarm_nccl_tells(void **state)
{
    struct world w = {.size = 2, .act = act_deaf, .absent = -1,
                      .deadline_ms = LONG_MS};

    (void)state;
    emu_nccl_remote_errors(true);
    run_deaf(&w);
    emu_nccl_remote_errors(false);
    expect_said(&w, 0, "kv fetch: nccl: remote process exited");
}

/* ---- every call fails once ---------------------------------------------- */

static int act_all(struct world *w, struct comm *c, struct dev *d,
                   struct err *e)
{
    int64_t one = 1, all[RANKS];
    bool right;
    int rc = exchange(c, d, "kv fetch", &right, e);

    (void)w;
    if (rc == ERR_OK && !right) rc = err_set(e, ERR_WRONG, "other bytes");
    if (rc == ERR_OK) rc = reduce_one(c, d, DT_BF16, 1, 2, 50, e);
    if (rc == ERR_OK) rc = c->ops->gather_counts(c, "counts", &one, 1, all,
                                                 e);
    return rc;
}

/* A rank may fail alone (what it does last) or all do; none hangs, which
** the long deadline would show, and what was moved is right. */
static void every_call_fails_once(void **state)
{
    long n, calls, failed = 0;

    (void)state;
    for (n = 1, calls = 1; n - 1 <= calls && n < 400; n++) {
        struct world w = {.size = 2, .act = act_all, .absent = -1};

        emu_fail_at(n);
        run_world(&w);
        calls = emu_fail_at(0);
        for (int r = 0; r < 2; r++) {
            assert_int_not_equal(w.rc[r], ERR_WRONG);
            assert_int_not_equal(w.rc[r], ERR_DEVICE);
            failed += w.rc[r] != ERR_OK;
            /* failures end at once: none was found at the deadline */
            if (w.rc[r] != ERR_OK && strstr(w.e[r].text, " ms ") != NULL)
                fail_msg("call %ld, rank %d: '%s'", n, r, w.e[r].text);
            if (w.rc[r] != ERR_OK && strstr(w.e[r].text, "(cuda/nccl") == NULL)
                fail_msg("call %ld, rank %d: '%s' names no place", n, r,
                         w.e[r].text);
        }
    }
    assert_true(n > 30);
    assert_true(failed > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_bytes),
        cmocka_unit_test(sums_in_rank_order),
        cmocka_unit_test(gathers_counts),
        cmocka_unit_test(tells_misfits),
        cmocka_unit_test(abort_ends_others),
        cmocka_unit_test(none_starts_alone),
        cmocka_unit_test(late_rank_is_named),
        cmocka_unit_test(absent_rank_is_named),
        cmocka_unit_test(early_close_is_told),
        cmocka_unit_test(without_alarm_deadline_ends),
        cmocka_unit_test(without_alarm_nccl_tells),
        cmocka_unit_test(every_call_fails_once),
    };

    emu_set_order(EMU_SHUFFLED, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
