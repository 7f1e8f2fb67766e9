/*
** What other processes say on a socket: after a byte that picks the role, any
** bytes end in an error, or in what the calls promise. Roles: rank 0 or 1 of
** a line that stands, rank 0 of a meeting (a caller says the bytes) and rank
** 1 of one (rank 0 says them). The peer always ends its side, so that nothing
** waits.
*/
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "comm/line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIZE = 2, DEADLINE_MS = 2000 };

static atomic_int stop;

static struct rendezvous party(int rank, int port)
{
    return (struct rendezvous){
        .rank = rank, .size = SIZE, .addr = "127.0.0.1", .port = port,
        .deadline_ms = DEADLINE_MS, .place = rank == 0 ? "gpu 0" : "gpu 1",
        .version = "1", .token = "job", .interrupt = &stop
    };
}

static void send_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n <= 0) break;      /* more than a socket holds is left out */
        data += n;
        size -= (size_t)n;
    }
    shutdown(fd, SHUT_WR);
}

/* What a rank does with a line that stands. */
static void use_line(struct line *l, int rank)
{
    char cause[ALARM_CAUSE], word[8] = "";
    struct buf all[SIZE] = {BUF_INIT, BUF_INIT};
    struct err e;
    int rc;

    line_alarm(l)->ops->raised(line_alarm(l), cause);
    for (int i = 0; i < 3; i++) {
        rc = line_collect(l, "mine", 4, all, &e);
        if (rc == ERR_OK && rank == 0 && all[0].len != 4 * (size_t)(i + 1))
            abort();
        if (rc != ERR_OK && (e.code != (enum err_code)rc || *e.text == '\0'))
            abort();
        rc = line_share(l, word, sizeof word, i == 2, &e);
        if (rc != ERR_OK && *e.text == '\0') abort();
        if (line_alarm(l)->ops->raised(line_alarm(l), cause)
            && memchr(cause, '\0', sizeof cause) == NULL)
            abort();
        line_calm(l);
    }
    buf_free(&all[0]);
    buf_free(&all[1]);
    line_close(l);
}

static void on_line(int rank, const uint8_t *data, size_t size)
{
    struct rendezvous r = party(rank, 0);
    int pair[2], *fd = calloc(SIZE, sizeof *fd);
    struct line *l = NULL;
    struct err e;

    if (fd == NULL || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) abort();
    fd[rank == 0 ? 1 : 0] = pair[0];
    if (rank == 0) fd[0] = -1;
    if (line_new(&r, fd, &l, &e) != ERR_OK) abort();
    send_all(pair[1], data, size);
    use_line(l, rank);
    close(pair[1]);
}

/* ---- meetings ----------------------------------------------------------- */

static int new_socket(void)
{
    const struct linger none = {1, 0};      /* no port waits for its end */
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0) abort();
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    return fd;
}

static int listener(struct sockaddr_in *a)
{
    socklen_t n = sizeof *a;
    int fd = new_socket();

    *a = (struct sockaddr_in){.sin_family = AF_INET};
    a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)a, sizeof *a) != 0 || listen(fd, 4) != 0
        || getsockname(fd, (struct sockaddr *)a, &n) != 0)
        abort();
    return fd;
}

static void *meet(void *arg)
{
    struct rendezvous *r = arg;
    struct line *l = NULL;
    struct err e;

    if (rendezvous(r, &l, &e) == ERR_OK) use_line(l, r->rank);
    else if (*e.text == '\0') abort();
    return NULL;
}

static void be_rank_0(const uint8_t *data, size_t size)
{
    struct sockaddr_in a;
    int door = listener(&a), fd;
    struct rendezvous r = party(1, ntohs(a.sin_port));
    pthread_t t;

    stop = 0;
    if (pthread_create(&t, NULL, meet, &r) != 0) abort();
    do fd = accept(door, NULL, NULL); while (fd < 0 && errno == EINTR);
    if (fd < 0) abort();
    send_all(fd, data, size);
    pthread_join(t, NULL);
    close(fd);
    close(door);
}

/* What the other side answers; it may wait for more, but not we. */
static void hear(int fd)
{
    const struct timeval moment = {0, 20000};
    char word[64];

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
    while (recv(fd, word, sizeof word, 0) > 0) continue;
}

/* Connects as soon as somebody listens there. */
static int call(const struct sockaddr_in *a)
{
    for (int i = 0; i < 2000; i++) {
        int fd = new_socket();

        if (connect(fd, (const struct sockaddr *)a, sizeof *a) == 0)
            return fd;
        close(fd);
        usleep(500);
    }
    return -1;
}

static void be_caller(const uint8_t *data, size_t size)
{
    struct sockaddr_in a;
    struct rendezvous r;
    pthread_t t;
    int fd;

    close(listener(&a));        /* a port that is free */
    r = party(0, ntohs(a.sin_port));
    stop = 0;
    if (pthread_create(&t, NULL, meet, &r) != 0) abort();
    fd = call(&a);
    if (fd >= 0) {
        send_all(fd, data, size);
        hear(fd);
        close(fd);
    }
    stop = 1;
    fd = new_socket();          /* it looks when somebody calls */
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) stop = 2;
    pthread_join(t, NULL);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    switch (data[0] & 3) {
    case 0: on_line(0, data + 1, size - 1); break;
    case 1: on_line(1, data + 1, size - 1); break;
    case 2: be_caller(data + 1, size - 1); break;
    default: be_rank_0(data + 1, size - 1);
    }
    return 0;
}
