/*
** nccl_world.h - for test_cuda_nccl.c: ranks as threads, each with an NCCL
** communicator on the stand-in of tests/emu.
*/
#ifndef TESTS_CUDA_NCCL_WORLD_H
#define TESTS_CUDA_NCCL_WORLD_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "comm/alarm.h"
#include "comm/comm.h"
#include "dev/module.h"
#include "tests/emu/control.h"
#include "tests/emu/nccl_control.h"

/* cuda/nccl_comm.h, which is C++ */
int nccl_new_id(unsigned char id[NCCL_ID_BYTES], struct err *e);
int nccl_comm_new(const struct nccl_options *o, struct comm **out,
                  struct err *e);

enum { RANKS = 4, LATE_MS = 150, LONG_MS = 5000 };

static inline int no_sync(struct dev *d, struct err *e)
{
    (void)d;
    (void)e;
    return ERR_OK;
}

/* The communicator asks its device only to finish what it does. */
static const struct dev_ops quiet_ops = {.name = "cuda", .computes = true,
                                         .sync = no_sync};

struct world {
    int size;
    int64_t deadline_ms;
    unsigned char id[NCCL_ID_BYTES];
    struct alarm *alarm;
    /* what each rank does once it has joined; its result is kept */
    int (*act)(struct world *w, struct comm *c, struct dev *d,
               struct err *e);
    int absent;                     /* rank that never joins, -1: none */
    int rc[RANKS];
    struct err e[RANKS];
    pthread_barrier_t all;          /* of the ranks that run */
};

struct seat { struct world *w; int rank; };

static inline void *sit(void *arg)
{
    struct seat *s = arg;
    struct world *w = s->w;
    struct dev d = {.ops = &quiet_ops};
    struct comm *c = NULL;
    struct nccl_options o = {
        .rank = s->rank, .size = w->size, .gpu = s->rank, .id = w->id,
        .deadline_ms = w->deadline_ms, .alarm = w->alarm
    };
    int rc = nccl_comm_new(&o, &c, &w->e[s->rank]);

    if (rc == ERR_OK) {
        rc = w->act(w, c, &d, &w->e[s->rank]);
        c->ops->close(c);
    }
    w->rc[s->rank] = rc;
    return NULL;
}

static inline void run_world(struct world *w)
{
    pthread_t thread[RANKS];
    struct seat seat[RANKS];
    struct err e;
    int r;

    if (w->deadline_ms == 0) w->deadline_ms = LONG_MS;
    if (nccl_new_id(w->id, &e) != ERR_OK) {
        for (r = 0; r < w->size; r++) w->rc[r] = ERR_RUN, w->e[r] = e;
        return;
    }
    assert_int_equal(alarm_threads(w->size, &w->alarm, &e), ERR_OK);
    pthread_barrier_init(&w->all, NULL, (unsigned)w->size);
    for (r = 0; r < w->size; r++) {
        seat[r] = (struct seat){w, r};
        if (r != w->absent)
            assert_int_equal(pthread_create(&thread[r], NULL, sit, &seat[r]),
                             0);
    }
    for (r = 0; r < w->size; r++)
        if (r != w->absent) pthread_join(thread[r], NULL);
    pthread_barrier_destroy(&w->all);
    alarm_free(w->alarm);
    assert_int_equal(emu_nccl_open(), 0);
}

static inline void expect_all_ok(const struct world *w)
{
    for (int r = 0; r < w->size; r++)
        if (w->rc[r] != ERR_OK) fail_msg("rank %d: %s", r, w->e[r].text);
}

/* Rank r failed and said this. */
static inline void expect_said(const struct world *w, int r, const char *text)
{
    assert_int_equal(w->rc[r], ERR_RUN);
    if (strstr(w->e[r].text, text) == NULL)
        fail_msg("rank %d said '%s', not '%s'", r, w->e[r].text, text);
}

#endif
