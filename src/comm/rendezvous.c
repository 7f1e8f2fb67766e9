/* rendezvous.c - see rendezvous.h */
#include "comm/rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x70656b70726f6f66u   /* "pekproof" */
#define RETRY_MS 50

/* What a rank says. */
struct hello {
    uint64_t magic;
    int32_t rank, size;
    char place[RENDEZVOUS_PLACE];
    char version[64];
};

/* What rank 0 answers: bytes, or why there are none. */
struct answer {
    uint64_t magic;
    int32_t code;
    uint32_t n;
    char text[256];
    unsigned char data[RENDEZVOUS_DATA];
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Waits until fd is ready for what or end has passed. */
static bool ready(int fd, short what, int64_t end)
{
    struct pollfd p = {fd, what, 0};
    int64_t left = end - now_ms();
    int rc;

    do {
        rc = poll(&p, 1, left > 0 ? (int)left : 0);
        left = end - now_ms();
    } while (rc < 0 && errno == EINTR && left > 0);
    return rc > 0;
}

static bool put_all(int fd, const void *data, size_t n, int64_t end)
{
    const char *p = data;

    while (n > 0) {
        ssize_t k;

        if (!ready(fd, POLLOUT, end)) return false;
        k = send(fd, p, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static bool get_all(int fd, void *data, size_t n, int64_t end)
{
    char *p = data;

    while (n > 0) {
        ssize_t k;

        if (!ready(fd, POLLIN, end)) return false;
        k = recv(fd, p, n, 0);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static void say_hello(const struct rendezvous *r, struct hello *h)
{
    memset(h, 0, sizeof *h);
    h->magic = MAGIC;
    h->rank = r->rank;
    h->size = r->size;
    snprintf(h->place, sizeof h->place, "%s", r->place);
    snprintf(h->version, sizeof h->version, "%s", r->version);
}

/* ---- rank 0 -------------------------------------------------------------- */

static int open_listener(const struct rendezvous *r, struct err *e)
{
    struct addrinfo hint = {.ai_family = AF_UNSPEC,
                            .ai_socktype = SOCK_STREAM,
                            .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL, *a;
    char port[16];
    int fd = -1, one = 1, rc;

    snprintf(port, sizeof port, "%d", r->port);
    rc = getaddrinfo(NULL, port, &hint, &list);
    if (rc != 0) {
        err_set(e, ERR_RUN, "port %s: %s", port, gai_strerror(rc));
        return -1;
    }
    for (a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 &&
            listen(fd, r->size) == 0)
            break;
        close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    if (fd < 0)
        err_set(e, ERR_RUN, "rank 0 cannot listen on port %s: %s "
                "(MASTER_PORT must be free)", port, strerror(errno));
    return fd;
}

struct guest { int fd; struct hello hello; };

static int check_hello(const struct rendezvous *r, const struct guest *seat,
                       const struct hello *h, struct err *e)
{
    if (h->size != r->size || h->rank < 1 || h->rank >= r->size)
        return err_set(e, ERR_RUN, "a process calls itself rank %d of %d, "
                       "here are %d", h->rank, h->size, r->size);
    if (seat[h->rank].fd >= 0)
        return err_set(e, ERR_RUN, "two processes call themselves rank %d",
                       h->rank);
    if (strncmp(h->version, r->version, sizeof h->version - 1) != 0)
        return err_set(e, ERR_RUN, "rank %d is version %.63s, rank 0 is %s",
                       h->rank, h->version, r->version);
    return ERR_OK;
}

static void name_late(const struct rendezvous *r, const struct guest *seat,
                      struct err *e)
{
    int i;

    for (i = 1; i < r->size && seat[i].fd >= 0; i++) {}
    err_set(e, ERR_RUN, "rank %d did not come within %lld ms", i,
            (long long)r->deadline_ms);
}

/* Takes one caller; strangers (a port scan, a probe) are turned away. */
static int seat_one(const struct rendezvous *r, int listener,
                    struct guest *seat, int *seated, int64_t end,
                    struct err *e)
{
    struct hello h;
    int fd, rc;

    if (!ready(listener, POLLIN, end)) {
        name_late(r, seat, e);
        return ERR_RUN;
    }
    fd = accept(listener, NULL, NULL);
    if (fd < 0) return ERR_OK;
    if (!get_all(fd, &h, sizeof h, end) || h.magic != MAGIC) {
        close(fd);
        return ERR_OK;
    }
    h.place[sizeof h.place - 1] = '\0';
    h.version[sizeof h.version - 1] = '\0';
    rc = check_hello(r, seat, &h, e);
    if (rc != ERR_OK) {
        close(fd);
        return rc;
    }
    seat[h.rank] = (struct guest){fd, h};
    (*seated)++;
    return ERR_OK;
}

static int check_places(const struct guest *seat, int n, struct err *e)
{
    int i, j;

    for (i = 0; i < n; i++)
        for (j = i + 1; j < n; j++)
            if (strcmp(seat[i].hello.place, seat[j].hello.place) == 0)
                return err_set(e, ERR_DEVICE, "ranks %d and %d share GPU %s, "
                               "which NCCL refuses (give each its own GPU, "
                               "or run both ranks in one process)", i, j,
                               seat[i].hello.place);
    return ERR_OK;
}

static int answer_all(const struct rendezvous *r, struct guest *seat, int rc,
                      const void *data, size_t n, int64_t end, struct err *e)
{
    struct answer a;
    int i;

    memset(&a, 0, sizeof a);
    a.magic = MAGIC;
    a.code = rc;
    a.n = (uint32_t)n;
    if (rc == ERR_OK) memcpy(a.data, data, n);
    else snprintf(a.text, sizeof a.text, "%.255s", e->text);
    for (i = 1; i < r->size; i++) {
        if (seat[i].fd < 0) continue;
        if (!put_all(seat[i].fd, &a, sizeof a, end) && rc == ERR_OK)
            rc = err_set(e, ERR_RUN, "rank %d left before it was answered",
                         i);
        close(seat[i].fd);
    }
    return rc;
}

static int host(const struct rendezvous *r, const void *data, size_t n,
                struct err *e)
{
    int64_t end = now_ms() + r->deadline_ms;
    struct guest *seat = calloc((size_t)r->size, sizeof *seat);
    int listener, seated = 1, rc = ERR_OK, i;

    if (seat == NULL) return err_nomem(e);
    for (i = 0; i < r->size; i++) seat[i].fd = -1;
    say_hello(r, &seat[0].hello);
    listener = open_listener(r, e);
    if (listener < 0) {
        free(seat);
        return ERR_RUN;
    }
    while (rc == ERR_OK && seated < r->size)
        rc = seat_one(r, listener, seat, &seated, end, e);
    if (rc == ERR_OK) rc = check_places(seat, r->size, e);
    /* those who came are told, also when others did not */
    rc = answer_all(r, seat, rc, data, n, end + 1000, e);
    close(listener);
    free(seat);
    return rc;
}

/* ---- the others --------------------------------------------------------- */

static int dial(const struct rendezvous *r, int *last_errno)
{
    struct addrinfo hint = {.ai_family = AF_UNSPEC,
                            .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL, *a;
    char port[16];
    int fd = -1;

    snprintf(port, sizeof port, "%d", r->port);
    if (getaddrinfo(r->addr, port, &hint, &list) != 0) {
        *last_errno = EHOSTUNREACH;
        return -1;
    }
    for (a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        if (connect(fd, a->ai_addr, a->ai_addrlen) == 0) break;
        *last_errno = errno;
        close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    return fd;
}

/* Rank 0 may not listen yet: again until the deadline. */
static int reach(const struct rendezvous *r, int64_t end, struct err *e)
{
    int why = 0, fd;

    while ((fd = dial(r, &why)) < 0 && now_ms() < end) {
        struct timespec pause = {0, RETRY_MS * 1000000};
        nanosleep(&pause, NULL);
    }
    if (fd < 0)
        err_set(e, ERR_RUN, "rank %d cannot reach rank 0 at %s:%d within "
                "%lld ms: %s", r->rank, r->addr, r->port,
                (long long)r->deadline_ms, strerror(why));
    return fd;
}

static int visit(const struct rendezvous *r, void *data, size_t n,
                 struct err *e)
{
    int64_t end = now_ms() + r->deadline_ms;
    struct hello h;
    struct answer a;
    int fd = reach(r, end, e);
    bool heard;

    if (fd < 0) return ERR_RUN;
    say_hello(r, &h);
    /* rank 0 answers when all have come: at its own deadline at the latest */
    heard = put_all(fd, &h, sizeof h, end) &&
            get_all(fd, &a, sizeof a, end + r->deadline_ms) &&
            a.magic == MAGIC;
    close(fd);
    if (!heard)
        return err_set(e, ERR_RUN, "rank 0 at %s:%d did not answer rank %d "
                       "(it may have refused it; see its own message)",
                       r->addr, r->port, r->rank);
    a.text[sizeof a.text - 1] = '\0';
    if (a.code != ERR_OK)
        return err_set(e, a.code == ERR_DEVICE ? ERR_DEVICE : ERR_RUN, "%s",
                       a.text);
    if (a.n != n)
        return err_set(e, ERR_RUN, "rank 0 shares %u bytes, rank %d expects "
                       "%zu", a.n, r->rank, n);
    memcpy(data, a.data, n);
    return ERR_OK;
}

int rendezvous_share(const struct rendezvous *r, void *data, size_t n,
                     struct err *e)
{
    if (n > RENDEZVOUS_DATA)
        return err_set(e, ERR_RUN, "%zu bytes are too many to share", n);
    return r->rank == 0 ? host(r, data, n, e) : visit(r, data, n, e);
}
