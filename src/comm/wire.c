/* wire.c - see wire.h */
#include "comm/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int64_t wire_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Waits until fd is ready for what or end has passed. */
static bool wait_for(int fd, short what, int64_t end)
{
    struct pollfd p = {fd, what, 0};
    int rc;

    do {
        int64_t left = end - wire_now_ms();

        if (left < 0) left = 0;
        rc = poll(&p, 1, left > 60000 ? 60000 : (int)left);
    } while ((rc < 0 && errno == EINTR) || (rc == 0 && wire_now_ms() < end));
    return rc > 0;
}

bool wire_ready(int fd, int64_t end)
{
    return wait_for(fd, POLLIN, end);
}

bool wire_put(int fd, const void *data, size_t n, int64_t end)
{
    const char *p = data;

    while (n > 0) {
        ssize_t k;

        if (!wait_for(fd, POLLOUT, end)) return false;
        k = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

bool wire_get(int fd, void *data, size_t n, int64_t end)
{
    char *p = data;

    while (n > 0) {
        ssize_t k;

        if (!wait_for(fd, POLLIN, end)) return false;
        k = recv(fd, p, n, MSG_DONTWAIT);
        if (k < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

int64_t wire_peek(int fd, void *data, size_t n)
{
    ssize_t k = recv(fd, data, n, MSG_PEEK | MSG_DONTWAIT);

    if (k > 0) return k;
    return k < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static int resolve(const char *addr, int port, int flags,
                   struct addrinfo **list)
{
    struct addrinfo hint = {.ai_family = AF_UNSPEC,
                            .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    char text[16];

    snprintf(text, sizeof text, "%d", port);
    return getaddrinfo(addr, text, &hint, list);
}

static int listen_at(const struct addrinfo *a, int backlog)
{
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
    int one = 1, why;

    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, backlog) == 0)
        return fd;
    why = errno;
    close(fd);
    errno = why;
    return -1;
}

int wire_listen(const char *addr, int port, int backlog, struct err *e)
{
    struct addrinfo *list = NULL, *a;
    int fd = -1, why = EADDRNOTAVAIL;
    int rc = resolve(addr, port, AI_PASSIVE, &list);

    if (rc != 0) {
        err_set(e, ERR_RUN, "MASTER_ADDR %.200s: %s", addr, gai_strerror(rc));
        return -1;
    }
    for (a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = listen_at(a, backlog);
        if (fd < 0) why = errno;
        if (fd < 0 && why == EADDRINUSE) break;
    }
    freeaddrinfo(list);
    if (fd < 0)
        err_set(e, ERR_RUN, "rank 0 cannot listen on port %d of %.200s: %s "
                "(%s)", port, addr, strerror(why), why == EADDRNOTAVAIL
                ? "MASTER_ADDR must name its own host"
                : "MASTER_PORT must be free");
    return fd;
}

/* Connects without hanging past end; 0, or an errno. */
static int connect_by(int fd, const struct addrinfo *a, int64_t end)
{
    int flags = fcntl(fd, F_GETFL), why = 0, one = 1;
    socklen_t n = sizeof why;

    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
        if (errno != EINPROGRESS) return errno;
        if (!wait_for(fd, POLLOUT, end)) return ETIMEDOUT;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &n) != 0)
            return errno;
        if (why != 0) return why;
    }
    fcntl(fd, F_SETFL, flags);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return 0;
}

int wire_dial(const char *addr, int port, int64_t end, const char **why)
{
    struct addrinfo *list = NULL, *a;
    int fd = -1, rc = resolve(addr, port, 0, &list);

    if (rc != 0) {
        *why = gai_strerror(rc);
        return -1;
    }
    for (a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        rc = connect_by(fd, a, end);
        if (rc == 0) break;
        *why = strerror(rc);
        close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    return fd;
}
