/*
** test_comm_marks.c - exchanges and sums of ranks whose devices order copies
** by marks: the host waits for none of them, and each waits for the others
** before it reads and before its memory is its own again.
*/
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "comm/comm.h"
#include "dev/dev.h"

enum { RANKS = 4, COUNT = 21 };

struct marked {
    struct dev dev;
    int rank;
    int set[2];                 /* how often each mark was */
    uint32_t after[2];          /* the ranks whose marks were waited for */
};

/* ---- the device --------------------------------------------------------- */

static int waits(struct dev *d, struct err *e)
{
    (void)d;
    return err_set(e, ERR_DEVICE, "the host waits");
}

static int moves(struct dev *d, void *dst, const void *src, size_t n,
                 struct err *e)
{
    (void)d;
    (void)e;
    memcpy(dst, src, n);
    return ERR_OK;
}

static int mark(struct dev *d, int i, struct err *e)
{
    (void)e;
    ((struct marked *)d)->set[i]++;
    return ERR_OK;
}

static int after(struct dev *d, struct dev *other, int i, struct err *e)
{
    const struct marked *o = (struct marked *)other;

    if (o->set[i] == 0)
        return err_set(e, ERR_DEVICE, "rank %d has no mark %d", o->rank, i);
    ((struct marked *)d)->after[i] |= UINT32_C(1) << o->rank;
    return ERR_OK;
}

static float wide(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

/* One row of f32, or of bf16 whose sums are exact. */
static int add(struct dev *d, const struct k_add *a, struct err *e)
{
    const void *x = a->a.p, *y = a->b.p;

    (void)d;
    (void)e;
    for (int64_t i = 0; i < a->out.cols; i++) {
        float sum;
        uint32_t bits;

        if (a->out.t == DT_F32) {
            ((float *)a->out.p)[i] = ((const float *)x)[i] +
                                     ((const float *)y)[i];
            continue;
        }
        sum = wide(((const uint16_t *)x)[i]) + wide(((const uint16_t *)y)[i]);
        memcpy(&bits, &sum, sizeof bits);
        ((uint16_t *)a->out.p)[i] = (uint16_t)(bits >> 16);
    }
    return ERR_OK;
}

static int copy(struct dev *d, const struct k_copy *a, struct err *e)
{
    (void)d;
    (void)e;
    memcpy(a->dst.p, a->src.p,
           (size_t)(a->src.cols * dtype_bytes(a->src.t)));
    return ERR_OK;
}

static const struct kernels kernels = {.add = add, .copy = copy};
static const struct dev_ops ops = {
    .name = "marked", .computes = true, .sync = waits, .copy = moves,
    .mark = mark, .after = after,
};

/* ---- ranks -------------------------------------------------------------- */

struct rank {
    struct comm *comm;
    struct marked d;
    int rc;
    struct err e;
};

/* Both marks of just these ranks have been waited for. */
static int waited_for(struct rank *r, uint32_t ranks, const char *what)
{
    const uint32_t *a = r->d.after;

    if (r->rc == ERR_OK && (a[0] != ranks || a[1] != ranks))
        r->rc = err_set(&r->e, ERR_WRONG, "%s: waits for %x and %x, not %x",
                        what, a[0], a[1], ranks);
    r->d.after[0] = r->d.after[1] = 0;
    return r->rc;
}

static int sum(struct rank *r, void *x, enum dtype t, int every)
{
    struct mat m = {x, 1, COUNT, COUNT, t};

    return r->comm->ops->all_reduce(r->comm, &r->d.dev, "sum", m, every,
                                    &r->e);
}

/* Only ((0 + 1) + 2) + 3 gives 3; bf16 over pairs, 1 + 4 and 2 + 8. */
static void sums(struct rank *r)
{
    static const float f[RANKS] = {1e8f, 1, -1e8f, 3};
    int me = r->comm->rank;
    float x[COUNT];
    uint16_t z[COUNT];

    for (int i = 0; i < COUNT; i++) {
        x[i] = f[me];
        z[i] = (uint16_t)(0x3f80 + 0x80 * me);
    }
    r->rc = sum(r, x, DT_F32, 1);
    waited_for(r, 15u ^ 1u << me, "a sum of all");
    if (r->rc == ERR_OK) r->rc = sum(r, z, DT_BF16, 2);
    waited_for(r, me % 2 == 0 ? 5u ^ 1u << me : 10u ^ 1u << me, "a pair's");
    for (int i = 0; i < COUNT && r->rc == ERR_OK; i++)
        if (x[i] != 3 || z[i] != (me % 2 == 0 ? 0x40a0 : 0x4120))
            r->rc = err_set(&r->e, ERR_WRONG, "%d: %g, %x", i, (double)x[i],
                            z[i]);
}

/* Every rank sends to the next and to itself. */
static void exchange(struct rank *r)
{
    int me = r->comm->rank, next = (me + 1) % RANKS;
    int from = (me + RANKS - 1) % RANKS;
    char out[2] = {(char)('a' + me), (char)('A' + me)}, in[2] = {0};
    struct comm_part send[RANKS] = {{0}}, recv[RANKS] = {{0}};

    send[next] = (struct comm_part){&out[0], 1};
    send[me] = (struct comm_part){&out[1], 1};
    recv[from] = (struct comm_part){&in[0], 1};
    recv[me] = (struct comm_part){&in[1], 1};
    if (r->rc == ERR_OK)
        r->rc = r->comm->ops->all_to_all(r->comm, &r->d.dev, "ring", send,
                                         recv, &r->e);
    if (r->rc == ERR_OK && (in[0] != 'a' + from || in[1] != 'A' + me))
        r->rc = err_set(&r->e, ERR_WRONG, "the ring brings %c%c", in[0],
                        in[1]);
    if (r->rc == ERR_OK && (r->d.after[0] != 1u << from ||
                            r->d.after[1] != 1u << next))
        r->rc = err_set(&r->e, ERR_WRONG, "the ring waits for %x and %x",
                        r->d.after[0], r->d.after[1]);
}

static void *rank_main(void *p)
{
    sums(p);
    exchange(p);
    return NULL;
}

static void test_marks(void **state)
{
    struct comm *comm[RANKS];
    struct rank rank[RANKS];
    pthread_t thread[RANKS];
    struct err e;

    (void)state;
    assert_int_equal(comm_local(RANKS, 20000, comm, &e), ERR_OK);
    for (int r = 0; r < RANKS; r++) {
        rank[r] = (struct rank){.comm = comm[r]};
        rank[r].d = (struct marked){.dev = {.ops = &ops, .k = &kernels},
                                    .rank = r};
        assert_int_equal(pthread_create(&thread[r], NULL, rank_main,
                                        &rank[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) pthread_join(thread[r], NULL);
    for (int r = 0; r < RANKS; r++) {
        if (rank[r].rc != ERR_OK) print_error("rank %d: %s\n", r,
                                              rank[r].e.text);
        assert_int_equal(rank[r].rc, ERR_OK);
        comm[r]->ops->close(comm[r]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_marks)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
