/*
** rendezvous_world.h - ranks that meet: threads with real sockets on
** 127.0.0.1. Needs cmocka.h and what it needs before it.
*/
#ifndef TESTS_UNIT_RENDEZVOUS_WORLD_H
#define TESTS_UNIT_RENDEZVOUS_WORLD_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "comm/rendezvous.h"

enum { RANKS = 4, LONG_MS = 10000, LATE_MS = 300 };

struct world;
struct seat {
    struct world *w;
    int rank;
    bool absent;
    const char *place, *version, *token;    /* NULL: the usual */
    int claim;                      /* calls itself this rank; -1: its own */
    int rc;
    struct err e;
};

struct world {
    int size, port;
    int64_t deadline_ms;
    struct seat seat[RANKS];
    const atomic_int *interrupt;
    void (*waiting)(const char *text);
    /* what a rank does on the line; may be NULL */
    int (*act)(struct world *w, int rank, struct line *l, struct err *e);
};

/* A port that is free now. The listener that held it is closed. */
static inline int free_port(int *hold)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    a.sin_addr.s_addr = htonl(hold != NULL ? INADDR_ANY : INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    if (hold != NULL) {
        assert_int_equal(listen(fd, 1), 0);
        *hold = fd;
    } else {
        close(fd);
    }
    return ntohs(a.sin_port);
}

static inline void *sit(void *arg)
{
    struct seat *s = arg;
    struct world *w = s->w;
    char place[32];
    struct line *l = NULL;
    struct rendezvous r = {
        .rank = s->claim >= 0 ? s->claim : s->rank, .size = w->size,
        .addr = "127.0.0.1", .port = w->port, .deadline_ms = w->deadline_ms,
        .place = s->place != NULL ? s->place : place,
        .version = s->version != NULL ? s->version : "1.0",
        .token = s->token != NULL ? s->token : "job 7",
        .interrupt = w->interrupt, .waiting = w->waiting
    };

    snprintf(place, sizeof place, "host %d", s->rank);
    s->rc = rendezvous(&r, &l, &s->e);
    if (s->rc == ERR_OK && w->act != NULL)
        s->rc = w->act(w, s->rank, l, &s->e);
    line_close(l);
    return NULL;
}

static inline void world_init(struct world *w, int size, int64_t deadline_ms)
{
    memset(w, 0, sizeof *w);
    w->size = size;
    w->port = free_port(NULL);
    w->deadline_ms = deadline_ms;
    for (int r = 0; r < size; r++) {
        w->seat[r].w = w;
        w->seat[r].rank = r;
        w->seat[r].claim = -1;
    }
}

static inline void world_run(struct world *w)
{
    pthread_t thread[RANKS];
    int r;

    for (r = 0; r < w->size; r++)
        if (!w->seat[r].absent)
            assert_int_equal(pthread_create(&thread[r], NULL, sit,
                                            &w->seat[r]), 0);
    for (r = 0; r < w->size; r++)
        if (!w->seat[r].absent) pthread_join(thread[r], NULL);
}

static inline void expect_ok(const struct world *w)
{
    for (int r = 0; r < w->size; r++)
        if (w->seat[r].rc != ERR_OK)
            fail_msg("rank %d: %s", r, w->seat[r].e.text);
}

static inline void expect_said(const struct world *w, int r, int code,
                        const char *text)
{
    assert_int_equal(w->seat[r].rc, code);
    if (strstr(w->seat[r].e.text, text) == NULL)
        fail_msg("rank %d said '%s', not '%s'", r, w->seat[r].e.text, text);
}

#endif
