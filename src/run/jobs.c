/*
** jobs.c - see run.h: cases one after the other, or in worker processes.
**
** A worker is forked for one case and sends its packed result through a
** pipe. The parent reads all pipes at once, keeps results that came early,
** and hands them over in order. A worker that ends without a whole result
** (killed, crashed) makes a failed case; the others go on. Workers leave
** SIGINT and SIGTERM to the parent, let go of the folder's lock, and end when
** the parent does, however it does.
*/
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/run.h"

enum { MAX_WORKERS = 256 };

struct worker {
    pid_t pid;              /* 0: free */
    int fd;
    int64_t job;
    struct buf got;
};

struct pool {
    const struct run_context *x;
    const struct run_job *job;
    int64_t n_job, next_start, next_done;
    struct worker worker[MAX_WORKERS];
    int64_t n_worker, busy;
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

/* The child's whole life: never returns. Its exit code is the errno of what
** kept its result from being sent. */
static void work(const struct run_context *x, const struct run_job *j, int fd)
{
    struct case_result r;
    struct buf b = BUF_INIT;
    size_t sent = 0;

    run_case(x, j->scenario, j->index, &r);
    if (*x->interrupt != 0) _exit(1);   /* it came before we were forked */
    case_result_pack(&r, &b);
    while (!b.failed && sent < b.len) {
        ssize_t n = write(fd, b.data + sent, b.len - sent);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) break;
        sent += (size_t)n;
    }
    _exit(b.failed ? ENOMEM : sent < b.len ? errno : 0);
}

/* A worker is a fork: it has the scenarios already, and dies alone. */
static int start(struct pool *p, struct worker *w, struct err *e)
{
    pid_t parent = getpid();
    int fd[2], i;

    if (pipe(fd) != 0)
        return err_set(e, ERR_RUN, "cannot make a pipe: %s", strerror(errno));
    /* what a case starts must not hold its pipe open */
    for (i = 0; i < 2; i++) (void)fcntl(fd[i], F_SETFD, FD_CLOEXEC);
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
        work(p->x, &p->job[p->next_start], fd[1]);
    }
    close(fd[1]);
    w->fd = fd[0];
    w->job = p->next_start++;
    p->busy++;
    return ERR_OK;
}

static int start_some(struct pool *p, struct err *e)
{
    int64_t i;
    int rc = ERR_OK;

    for (i = 0; i < p->n_worker && rc == ERR_OK; i++)
        if (p->worker[i].pid == 0 && p->next_start < p->n_job)
            rc = start(p, &p->worker[i], e);
    return rc;
}

/* A worker ended without a whole result. Where the run is interrupted, that
** says nothing of the case. */
static void finish_died(struct pool *p, const struct worker *w,
                        const char *how)
{
    const struct run_job *j = &p->job[w->job];

    if (*p->x->interrupt != 0) return;
    run_case_died(p->x, j->scenario, j->index, how, &p->result[w->job]);
    p->there[w->job] = true;
}

/* The worker has closed its pipe: reap it, and see what it sent. */
static void finish(struct pool *p, struct worker *w)
{
    struct case_result *r = &p->result[w->job];
    struct err e = {ERR_OK, ""};
    char how[1200];
    int status = 0;

    close(w->fd);
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFSIGNALED(status)) {
        snprintf(how, sizeof how, "by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
        finish_died(p, w, how);
    } else if (w->got.failed || WEXITSTATUS(status) > 1) {
        snprintf(how, sizeof how, "early: %s",
                 strerror(w->got.failed ? ENOMEM : WEXITSTATUS(status)));
        finish_died(p, w, how);
    } else if (case_result_unpack(buf_text(&w->got), w->got.len, r, &e) !=
               ERR_OK) {
        snprintf(how, sizeof how, "early: %s", e.text);
        finish_died(p, w, how);
    } else {
        p->there[w->job] = true;
    }
    buf_free(&w->got);
    w->pid = 0;
    p->busy--;
}

static void read_some(struct pool *p, struct worker *w)
{
    char chunk[65536];
    ssize_t n = read(w->fd, chunk, sizeof chunk);

    if (n > 0)
        buf_put(&w->got, chunk, (size_t)n);
    else if (n == 0 || errno != EINTR)
        finish(p, w);
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

static int run_pool(struct pool *p, struct err *e)
{
    int rc = ERR_OK;

    p->result = calloc((size_t)p->n_job, sizeof *p->result);
    p->there = calloc((size_t)p->n_job, sizeof *p->there);
    if (p->result == NULL || p->there == NULL) rc = err_nomem(e);
    while (rc == ERR_OK && p->next_done < p->n_job) {
        rc = start_some(p, e);
        if (rc == ERR_OK) listen_to_all(p);
        if (rc == ERR_OK) rc = hand_over(p, e);
        if (rc == ERR_OK && *p->x->interrupt != 0 && p->next_done < p->n_job)
            rc = interrupted(e);
    }
    if (p->result != NULL) stop_all(p);
    free(p->result);
    free(p->there);
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

int run_jobs(const struct run_context *x, const struct run_job *job,
             int64_t n_job, int64_t n_workers,
             int (*done)(void *ctx, int64_t i, const struct case_result *r,
                         struct err *e),
             void *ctx, struct err *e)
{
    struct pool p = {
        .x = x, .job = job, .n_job = n_job, .done = done, .ctx = ctx,
        .n_worker = n_workers < MAX_WORKERS ? n_workers : MAX_WORKERS
    };

    assert(n_job >= 0 && n_workers >= 1);
    if (n_job == 0) return ERR_OK;
    return n_workers <= 1 ? run_here(&p, e) : run_pool(&p, e);
}
