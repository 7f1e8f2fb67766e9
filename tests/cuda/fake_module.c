/*
** fake_module.c - a module as cuda/module.cu hands one out, without CUDA: its
** device is the cpu device, its communicator joins processes through shared
** memory. With it tests run "--device cuda" with a process a rank.
**
** FAKE_GPUS is the number of GPUs (default 2), FAKE_DIE=RANK:N ends that
** rank's process at its N-th exchange, FAKE_FAIL=RANK:N makes the exchange
** fail there.
*/
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "comm/alarm.h"
#include "comm/comm.h"
#include "dev/module.h"

enum { RANKS = 4, AREA = 16 << 20 };

/* Rank r's area holds what it brings: for each peer an offset, then bytes. */
struct shared {
    atomic_int arrived, turn;
    int64_t at[RANKS][RANKS + 1];
    unsigned char area[RANKS][AREA];
};

struct fake {
    struct comm comm;           /* first */
    struct shared *s;
    struct alarm *alarm;
    int64_t deadline_ms;
    int exchanges;
};

/* ---- the communicator --------------------------------------------------- */

static int wait_all(struct fake *f, const char *what, struct err *e)
{
    int turn = atomic_load(&f->s->turn);
    struct timespec pause = {0, 100000};
    char cause[ALARM_CAUSE];

    if (atomic_fetch_add(&f->s->arrived, 1) + 1 == f->comm.size) {
        atomic_store(&f->s->arrived, 0);
        atomic_fetch_add(&f->s->turn, 1);
        return ERR_OK;
    }
    for (int64_t i = 0; atomic_load(&f->s->turn) == turn; i++) {
        if (f->alarm->ops->raised(f->alarm, cause))
            return err_set(e, ERR_RUN, "%s: %s", what, cause);
        if (i > f->deadline_ms * 10)
            return err_set(e, ERR_RUN, "%s: nobody came", what);
        nanosleep(&pause, NULL);
    }
    return ERR_OK;
}

static bool is_now(const char *name, struct fake *f)
{
    const char *text = getenv(name);
    int rank, n;

    return text != NULL && sscanf(text, "%d:%d", &rank, &n) == 2 &&
           rank == f->comm.rank && n == f->exchanges;
}

static int begin(struct fake *f, const char *what, struct err *e)
{
    f->exchanges++;
    if (is_now("FAKE_DIE", f)) _exit(9);
    if (is_now("FAKE_FAIL", f))
        return err_set(e, ERR_OOM, "%s: no memory, as asked", what);
    return ERR_OK;
}

static void bring(struct fake *f, int peer, const void *p, int64_t bytes)
{
    int64_t *at = f->s->at[f->comm.rank];

    if (peer == 0) at[0] = 0;
    at[peer + 1] = at[peer] + bytes;
    if (at[peer + 1] > AREA) abort();
    if (bytes > 0)
        memcpy(f->s->area[f->comm.rank] + at[peer], p, (size_t)bytes);
}

static int fake_all_to_all(struct comm *c, struct dev *d, const char *what,
                           const struct comm_part *send,
                           const struct comm_part *recv, struct err *e)
{
    struct fake *f = (struct fake *)c;
    int rc = begin(f, what, e);

    (void)d;
    if (rc != ERR_OK) return rc;
    for (int r = 0; r < c->size; r++) bring(f, r, send[r].p, send[r].bytes);
    rc = wait_all(f, what, e);
    for (int r = 0; r < c->size && rc == ERR_OK; r++)
        if (recv[r].bytes > 0)
            memcpy(recv[r].p, f->s->area[r] + f->s->at[r][c->rank],
                   (size_t)recv[r].bytes);
    return rc == ERR_OK ? wait_all(f, what, e) : rc;
}

static int fake_all_reduce(struct comm *c, struct dev *d, const char *what,
                           struct mat x, int every, struct err *e)
{
    struct fake *f = (struct fake *)c;
    int64_t n = x.rows * x.cols;
    int rc = begin(f, what, e);

    (void)d;
    if (rc != ERR_OK) return rc;
    if (x.t != DT_F32 && x.t != DT_F64)
        return err_set(e, ERR_RUN, "%s: the fake sums f32 and f64", what);
    bring(f, 0, x.p, n * dtype_bytes(x.t));
    rc = wait_all(f, what, e);
    for (int64_t i = 0; i < n && rc == ERR_OK; i++) {
        float sum = 0;
        double wide = 0;

        for (int r = c->rank % every; r < c->size; r += every)
            if (x.t == DT_F32) sum += ((float *)(void *)f->s->area[r])[i];
            else wide += ((double *)(void *)f->s->area[r])[i];
        if (x.t == DT_F32) ((float *)x.p)[i] = sum;
        else ((double *)x.p)[i] = wide;
    }
    return rc == ERR_OK ? wait_all(f, what, e) : rc;
}

static int fake_gather(struct comm *c, const char *what, const int64_t *mine,
                       int64_t n, int64_t *all, struct err *e)
{
    struct fake *f = (struct fake *)c;
    size_t bytes = (size_t)n * sizeof *mine;
    int rc = begin(f, what, e);

    if (rc != ERR_OK) return rc;
    bring(f, 0, mine, (int64_t)bytes);
    rc = wait_all(f, what, e);
    for (int r = 0; r < c->size && rc == ERR_OK && n > 0; r++)
        memcpy(all + r * n, f->s->area[r], bytes);
    return rc == ERR_OK ? wait_all(f, what, e) : rc;
}

static void fake_abort(struct comm *c, const char *why)
{
    struct fake *f = (struct fake *)c;
    char cause[ALARM_CAUSE];

    snprintf(cause, sizeof cause, "rank %d failed: %.400s", c->rank, why);
    f->alarm->ops->raise(f->alarm, cause);
}

static void fake_close(struct comm *c)
{
    munmap(((struct fake *)c)->s, sizeof(struct shared));
    free(c);
}

static const struct comm_ops fake_ops = {
    .name = "fake", .all_to_all = fake_all_to_all,
    .all_reduce = fake_all_reduce, .gather_counts = fake_gather,
    .abort = fake_abort, .close = fake_close
};

static int fake_comm(const struct nccl_options *o, struct comm **out,
                     struct err *e)
{
    struct fake *f = calloc(1, sizeof *f);
    int fd = open((const char *)o->id, O_RDWR);
    void *p;

    if (f == NULL || fd < 0 || o->size > RANKS) {
        free(f);
        return err_set(e, ERR_RUN, "the fake cannot open %s",
                       (const char *)o->id);
    }
    p = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED,
             fd, 0);
    close(fd);
    f->comm = (struct comm){&fake_ops, o->rank, o->size};
    f->s = p;
    f->alarm = o->alarm;
    f->deadline_ms = o->deadline_ms;
    *out = &f->comm;
    if (wait_all(f, "joining", e) != ERR_OK) return ERR_RUN;
    unlink((const char *)o->id);
    return ERR_OK;
}

/* ---- the module --------------------------------------------------------- */

static int fake_id(unsigned char id[NCCL_ID_BYTES], struct err *e)
{
    int fd;

    memset(id, 0, NCCL_ID_BYTES);
    snprintf((char *)id, NCCL_ID_BYTES, "/tmp/peakproof-fake-XXXXXX");
    fd = mkstemp((char *)id);
    if (fd < 0 || ftruncate(fd, sizeof(struct shared)) != 0)
        return err_set(e, ERR_RUN, "the fake has no file");
    close(fd);
    return ERR_OK;
}

static int fake_count(int *n, struct err *e)
{
    const char *text = getenv("FAKE_GPUS");

    *n = text != NULL ? atoi(text) : 2;
    if (*n > 0) return ERR_OK;
    return err_set(e, ERR_DEVICE, "no usable GPU: none is visible");
}

static int fake_info(int gpu, struct cuda_info *out, struct err *e)
{
    (void)e;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "a fake");
    snprintf(out->bus, sizeof out->bus, "0000:%02x:00", gpu);
    out->total_bytes = 8000000000u;
    out->free_bytes = 7000000000u;
    return ERR_OK;
}

static int fake_versions(struct cuda_versions *out, struct err *e)
{
    (void)e;
    *out = (struct cuda_versions){13000, 13000, 130002, 22809};
    return ERR_OK;
}

extern const struct cuda_module peakproof_cuda_module;
const struct cuda_module peakproof_cuda_module = {
    PEAKPROOF_VERSION, &dev_cpu, fake_count, fake_info, fake_versions,
    fake_id, fake_comm
};
