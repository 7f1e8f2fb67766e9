/*
** jobs.c - see run.h: cases one after the other, or in worker processes.
**
** A worker is a fork that lives until the run is over: its memory is warm from
** the second case on. A socket joins it to the parent, which sends the cases
** that come next, some in a row where there are many, and gets each packed
** result back. The parent reads all sockets at once, keeps results that came
** early, and hands them over in order. A worker that ends without a whole
** result (killed, crashed) makes a failed case, unless it waited for one, and
** had not begun it, when it was killed; those behind it go on in another.
** Workers leave SIGINT and SIGTERM to the parent, let go of the
** folder's lock, and end when the parent does, however it does.
*/
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/num.h"
#include "run/run.h"

enum { MAX_WORKERS = 256, MOST_IN_A_ROW = 16, ROUNDS = 16 };
/* Of the heap between cases: larger blocks go back to the system, and what is
** free beyond. The first is the most that malloc takes. */
enum { KEPT_BLOCK = 32 << 20, KEPT_FREE = 64 << 20 };

struct span { int64_t first, end; };

struct worker {
    pid_t pid;              /* 0: none */
    int fd;
    struct span left;       /* the first is running; none: it waits */
    bool answered;          /* with a result, so it can run cases */
    struct buf got;
};

struct pool {
    const struct run_context *x;
    const struct run_job *job;
    int64_t n_job, next_start, next_done;
    int64_t row;            /* jobs that a worker is given, at most */
    struct span again[MAX_WORKERS];     /* left by workers that died */
    int64_t n_again;
    struct worker worker[MAX_WORKERS];
    int64_t n_worker;
    bool full;              /* a worker could not be started */
    atomic_llong *begun;    /* [MAX_WORKERS] each one's last case: memory that
                               all share */
    struct case_result *result;     /* [n_job] */
    bool *there;                    /* [n_job] the result has come */
    int (*done)(void *ctx, int64_t i, const struct case_result *r,
                struct err *e);
    void *ctx;
};

/* In the child: nothing of the parent's that outlives it. */
static void leave_parent(const struct run_context *x, pid_t parent)
{
    signal(SIGINT, SIG_IGN);        /* the parent decides */
    signal(SIGTERM, SIG_IGN);
    record_leave(x->record);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(1);
}

/* 0, or errno. */
static int send_all(int fd, const void *data, size_t bytes)
{
    size_t sent = 0;

    while (sent < bytes) {
        ssize_t n = write(fd, (const char *)data + sent, bytes - sent);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        sent += (size_t)n;
    }
    return 0;
}

/* One case and its result, behind its length. Does not return on failure: the
** exit code is the errno of what kept the result from being sent. */
static void work_one(const struct run_context *x, const struct run_job *j,
                     int fd)
{
    struct case_result r;
    struct buf b = BUF_INIT;
    uint64_t bytes;
    int rc;

    run_case(x, j->scenario, j->index, &r);
    if (*x->interrupt != 0) _exit(1);   /* it came before we were forked */
    case_result_pack(&r, &b);
    if (b.failed) _exit(ENOMEM);
    bytes = b.len;
    rc = send_all(fd, &bytes, sizeof bytes);
    if (rc == 0) rc = send_all(fd, b.data, b.len);
    if (rc != 0) _exit(rc);
    buf_free(&b);
    case_result_free(&r);
}

/* The child's whole life: never returns. A span is one message. */
static void work(const struct pool *p, atomic_llong *begun, int fd)
{
    struct span jobs;
    ssize_t n;
    int64_t i;

    while ((n = recv(fd, &jobs, sizeof jobs, MSG_WAITALL)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n != sizeof jobs) _exit(1);
        for (i = jobs.first; i < jobs.end; i++) {
            atomic_store(begun, i);
            work_one(p->x, &p->job[i], fd);
        }
    }
    _exit(0);
}

/* What died workers left comes first: nothing is handed over before it. */
static bool next_span(struct pool *p, struct span *out)
{
    if (p->n_again > 0) {
        *out = p->again[--p->n_again];
        return true;
    }
    out->first = p->next_start;
    out->end = out->first + p->row < p->n_job ? out->first + p->row
                                              : p->n_job;
    p->next_start = out->end;
    return out->first < out->end;
}

/* A worker is a fork: it has the scenarios already, and dies alone. */
static int start(struct pool *p, struct worker *w, struct err *e)
{
    pid_t parent = getpid();
    int fd[2], i;

    /* what a case starts must not hold the socket open */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0)
        return err_set(e, ERR_RUN, "cannot make a socket: %s",
                       strerror(errno));
    w->pid = fork();
    if (w->pid < 0) {
        int why = errno;
        w->pid = 0;
        close(fd[0]);
        close(fd[1]);
        return err_set(e, ERR_RUN, "cannot start a worker: %s (fewer with "
                       "-j)", strerror(why));
    }
    if (w->pid == 0) {
        leave_parent(p->x, parent);
        close(fd[0]);
        for (i = 0; i < p->n_worker; i++)
            if (p->worker[i].pid != 0) close(p->worker[i].fd);
        work(p, &p->begun[w - p->worker], fd[1]);
    }
    close(fd[1]);
    w->fd = fd[0];
    return ERR_OK;
}

/* Was it killed before it began what it was given? One that never answered
** may end so again, and for ever. */
static bool was_idle(const struct pool *p, const struct worker *w, int status)
{
    return WIFSIGNALED(status) && w->answered &&
           atomic_load(&p->begun[w - p->worker]) != w->left.first;
}

static bool has_workers(const struct pool *p)
{
    int64_t i;

    for (i = 0; i < p->n_worker; i++)
        if (p->worker[i].pid != 0) return true;
    return false;
}

/* Jobs for a worker that has none. One that has just died cannot be sent any:
** what it leaves is found when its socket is read. Where no more can be
** started, those that live do all. */
static int give(struct pool *p, struct worker *w, struct err *e)
{
    struct span jobs;
    int rc = ERR_OK;

    if (w->pid == 0 && p->full && has_workers(p)) return ERR_OK;
    if (w->left.first < w->left.end || !next_span(p, &jobs)) return ERR_OK;
    if (w->pid == 0) rc = start(p, w, e);
    if (rc == ERR_OK) {
        w->left = jobs;
        (void)send(w->fd, &jobs, sizeof jobs, MSG_NOSIGNAL);
        return ERR_OK;
    }
    p->again[p->n_again++] = jobs;
    p->full = true;
    return has_workers(p) ? ERR_OK : rc;
}

static int give_some(struct pool *p, struct err *e)
{
    int64_t i;
    int rc = ERR_OK;

    for (i = 0; i < p->n_worker && rc == ERR_OK; i++)
        rc = give(p, &p->worker[i], e);
    return rc;
}

/* A worker ended without a whole result. Where the run is interrupted, that
** says nothing of the case. */
static void finish_died(struct pool *p, struct worker *w, const char *how)
{
    int64_t i = w->left.first;
    const struct run_job *j = &p->job[i];

    if (*p->x->interrupt != 0 || i == w->left.end) return;
    w->left.first++;
    run_case_died(p->x, j->scenario, j->index, how, &p->result[i]);
    p->there[i] = true;
}

static void take_one(struct pool *p, struct worker *w, const char *data,
                     size_t bytes)
{
    int64_t i = w->left.first;
    struct err e = {ERR_OK, ""};
    char how[1200];

    if (case_result_unpack(data, bytes, &p->result[i], &e) == ERR_OK) {
        w->left.first++;
        w->answered = true;
        p->there[i] = true;
        return;
    }
    snprintf(how, sizeof how, "early: %s", e.text);
    finish_died(p, w, how);
}

/* The results that are whole. */
static void take_some(struct pool *p, struct worker *w)
{
    size_t at = 0;
    uint64_t bytes;

    while (w->left.first < w->left.end &&
           w->got.len - at >= sizeof bytes) {
        memcpy(&bytes, w->got.data + at, sizeof bytes);
        if (bytes > w->got.len - at - sizeof bytes) break;
        at += sizeof bytes;
        take_one(p, w, w->got.data + at, bytes);
        at += bytes;
    }
    if (at == 0) return;
    w->got.len -= at;
    memmove(w->got.data, w->got.data + at, w->got.len);
}

/* The worker has closed its socket, or what it sent cannot be kept: reap it.
** What it did not begin is begun again. */
static void finish(struct pool *p, struct worker *w)
{
    char how[1200];
    int status = 0;

    /* it would wait for more for ever */
    if (w->got.failed) kill(w->pid, SIGKILL);
    close(w->fd);
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR) continue;
    if (w->got.failed || (WIFEXITED(status) && WEXITSTATUS(status) > 1)) {
        snprintf(how, sizeof how, "early: %s",
                 strerror(w->got.failed ? ENOMEM : WEXITSTATUS(status)));
        finish_died(p, w, how);
    } else if (WIFSIGNALED(status) && !was_idle(p, w, status)) {
        snprintf(how, sizeof how, "by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
        finish_died(p, w, how);
    } else if (!WIFSIGNALED(status) && w->left.first < w->left.end) {
        finish_died(p, w, "early: its result is not whole");
    }
    if (w->left.first < w->left.end && *p->x->interrupt == 0)
        p->again[p->n_again++] = w->left;
    buf_free(&w->got);
    *w = (struct worker){0};
}

static void read_some(struct pool *p, struct worker *w)
{
    char chunk[65536];
    ssize_t n = read(w->fd, chunk, sizeof chunk);

    if (n > 0) {
        buf_put(&w->got, chunk, (size_t)n);
        if (w->got.failed) finish(p, w);
        else take_some(p, w);
    } else if (n == 0 || errno != EINTR) {
        finish(p, w);
    }
}

/* Waits until some worker has something to say, a signal, or a moment. */
static void listen_to_all(struct pool *p)
{
    struct pollfd fds[MAX_WORKERS];
    int64_t who[MAX_WORKERS], i, n = 0;

    for (i = 0; i < p->n_worker; i++) {
        if (p->worker[i].pid == 0) continue;
        fds[n] = (struct pollfd){.fd = p->worker[i].fd, .events = POLLIN};
        who[n++] = i;
    }
    if (poll(fds, (nfds_t)n, 200) <= 0) return;
    for (i = 0; i < n; i++)
        if (fds[i].revents != 0) read_some(p, &p->worker[who[i]]);
}

static int hand_over(struct pool *p, struct err *e)
{
    int rc = ERR_OK;

    while (rc == ERR_OK && p->next_done < p->n_job && p->there[p->next_done]) {
        int64_t i = p->next_done++;
        rc = p->done(p->ctx, i, &p->result[i], e);
        case_result_free(&p->result[i]);
    }
    return rc;
}

static void stop_all(struct pool *p)
{
    int64_t i;

    for (i = 0; i < p->n_worker; i++) {
        struct worker *w = &p->worker[i];
        if (w->pid == 0) continue;
        kill(w->pid, SIGKILL);
        close(w->fd);
        while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR) continue;
        buf_free(&w->got);
    }
    for (i = 0; i < p->n_job; i++) case_result_free(&p->result[i]);
}

static int interrupted(struct err *e)
{
    return err_set(e, ERR_INTERRUPTED, "interrupted (finished cases are kept; "
                   "--resume goes on)");
}

/* No case has been begun. */
static int share_begun(struct pool *p, struct err *e)
{
    size_t bytes = MAX_WORKERS * sizeof *p->begun;
    void *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int i;

    if (m == MAP_FAILED) return err_nomem(e);
    p->begun = m;
    for (i = 0; i < MAX_WORKERS; i++) atomic_init(&p->begun[i], -1);
    return ERR_OK;
}

/* Until the last result is handed over: some jobs for whoever has none, what
** the workers say, what is next in order. */
static int run_pool(struct pool *p, struct err *e)
{
    int rc = share_begun(p, e);

    if (rc != ERR_OK) return rc;
    p->result = calloc((size_t)p->n_job, sizeof *p->result);
    p->there = calloc((size_t)p->n_job, sizeof *p->there);
    if (p->result == NULL || p->there == NULL) rc = err_nomem(e);
    while (rc == ERR_OK && p->next_done < p->n_job) {
        rc = give_some(p, e);
        if (rc == ERR_OK) listen_to_all(p);
        if (rc == ERR_OK) rc = hand_over(p, e);
        if (rc == ERR_OK && *p->x->interrupt != 0 && p->next_done < p->n_job)
            rc = interrupted(e);
    }
    if (p->result != NULL) stop_all(p);
    free(p->result);
    free(p->there);
    munmap(p->begun, MAX_WORKERS * sizeof *p->begun);
    return rc;
}

/* All in this process. */
static int run_here(struct pool *p, struct err *e)
{
    int64_t i;
    int rc = ERR_OK;

    for (i = 0; i < p->n_job && rc == ERR_OK; i++) {
        struct case_result r;
        run_case(p->x, p->job[i].scenario, p->job[i].index, &r);
        rc = *p->x->interrupt != 0 ? interrupted(e)
                                   : p->done(p->ctx, i, &r, e);
        case_result_free(&r);
    }
    return rc;
}

/* By itself malloc gives what is free at the end of the heap back to the
** system from 128 KiB on, and each page of it is a fault when the next case
** takes it again. */
static void keep_heap(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK);
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_FREE);
}

int run_jobs(const struct run_context *x, const struct run_job *job,
             int64_t n_job, int64_t n_workers,
             int (*done)(void *ctx, int64_t i, const struct case_result *r,
                         struct err *e),
             void *ctx, struct err *e)
{
    struct pool p = {
        .x = x, .job = job, .n_job = n_job, .done = done, .ctx = ctx,
        .n_worker = n_workers < MAX_WORKERS ? n_workers : MAX_WORKERS,
        .row = 1
    };

    assert(n_job >= 0 && n_workers >= 1);
    if (n_job == 0) return ERR_OK;
    keep_heap();
    p.row = num_max(1, num_min(MOST_IN_A_ROW, n_job / (p.n_worker * ROUNDS)));
    return n_workers <= 1 ? run_here(&p, e) : run_pool(&p, e);
}
