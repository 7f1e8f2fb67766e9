/*
** local.c - ranks that are threads of one process, see comm.h.
**
** Every exchange has one shape. Each rank posts what it brings and waits for
** all (meet); then all posts can be read, so each rank checks them all, with
** one verdict, and pulls what is its own; then it waits for all once more
** (part), after which its buffers are its own again. Nobody leaves between
** the two waits, so a rank that fails there cannot free what others read.
**
** A crew that failed stays failed: after an abort, a rank that came too
** late, or one that closed its communicator early, every call returns the
** same cause.
*/
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/comm.h"
#include "comm/move.h"

enum { SIZE_MOST = 64 };

/* What one rank brings to an exchange; borrowed until all have parted. */
struct post {
    const char *kind, *what;
    const struct comm_part *send, *recv;    /* all_to_all */
    struct mat x;                           /* all_reduce */
    struct dev *d;                          /* of both */
    int every;
    const int64_t *mine;                    /* gather_counts */
    int64_t n;
};

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t moved;           /* a wait ended, or the crew failed */
    int size, open;                 /* communicators, those not closed */
    int64_t deadline_ms;
    int arrived;                    /* in the wait under way */
    uint64_t waits;                 /* that ended */
    bool here[SIZE_MOST];
    struct post post[SIZE_MOST];
    bool failed;
    char cause[512];
};

struct local {
    struct comm comm;
    struct crew *crew;
};

static struct crew *crew_of(struct comm *c)
{
    return ((struct local *)c)->crew;
}

/* ---- waiting ------------------------------------------------------------ */

static struct timespec deadline(const struct crew *g)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)(g->deadline_ms / 1000);
    t.tv_nsec += (long)(g->deadline_ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

/* The first cause stays. Called with the lock held. */
static void crew_fail(struct crew *g, const char *cause)
{
    if (g->failed) return;
    g->failed = true;
    snprintf(g->cause, sizeof g->cause, "%s", cause);
    pthread_cond_broadcast(&g->moved);
}

static void fail_late(struct crew *g, const char *what)
{
    char who[256] = "";
    char cause[sizeof g->cause];
    size_t n = 0;

    for (int r = 0; r < g->size && n + 8 < sizeof who; r++)
        if (!g->here[r])
            n += (size_t)snprintf(who + n, sizeof who - n, "%s%d",
                                  n > 0 ? ", " : "", r);
    snprintf(cause, sizeof cause, "rank %s did not come to %.100s within %"
             PRId64 " ms", who, what, g->deadline_ms);
    crew_fail(g, cause);
}

/* Marks this rank as come; the last one ends the wait. */
static void arrive(struct crew *g, int rank)
{
    g->here[rank] = true;
    if (++g->arrived < g->size) return;
    g->arrived = 0;
    g->waits++;
    memset(g->here, 0, sizeof g->here);
    pthread_cond_broadcast(&g->moved);
}

/* Waits for every rank. With a post it is the wait before the exchange, which
** a failed crew ends. After it, where others may still read this rank's
** buffers, only the deadline does. */
static int wait_all(struct comm *c, const char *what, const struct post *post,
                    struct err *e)
{
    struct crew *g = crew_of(c);
    struct timespec until = deadline(g);
    uint64_t ended;
    int rc = ERR_OK;

    pthread_mutex_lock(&g->lock);
    ended = g->waits;
    if (post == NULL || !g->failed) {
        if (post != NULL) g->post[c->rank] = *post;
        arrive(g, c->rank);
    }
    while (g->waits == ended && (post == NULL || !g->failed)) {
        if (pthread_cond_timedwait(&g->moved, &g->lock, &until) == ETIMEDOUT
            && g->waits == ended) {
            fail_late(g, what);
            break;
        }
    }
    if (g->waits == ended)
        rc = err_set(e, ERR_RUN, "%s: %s", what, g->cause);
    pthread_mutex_unlock(&g->lock);
    return rc;
}

static int meet(struct comm *c, const struct post *p, struct err *e)
{
    return wait_all(c, p->what, p, e);
}

/* rc is how this rank's own work went; it is told after the wait. */
static int part(struct comm *c, const char *what, int rc, struct err *e)
{
    struct err late;
    int waited = wait_all(c, what, NULL, &late);

    if (rc != ERR_OK) return rc;
    if (waited != ERR_OK) return err_set(e, waited, "%s", late.text);
    return ERR_OK;
}

/* ---- checks: every rank reads all posts and finds the same -------------- */

static int same_call(const struct crew *g, struct err *e)
{
    const struct post *a = &g->post[0];

    for (int r = 1; r < g->size; r++) {
        const struct post *b = &g->post[r];

        if (strcmp(a->kind, b->kind) == 0 && strcmp(a->what, b->what) == 0)
            continue;
        return err_set(e, ERR_RUN, "%s: rank 0 is in %s, while rank %d is in "
                       "%s of %s", a->what, a->kind, r, b->kind, b->what);
    }
    return ERR_OK;
}

static int same_sizes(const struct crew *g, struct err *e)
{
    for (int s = 0; s < g->size; s++) {
        for (int r = 0; r < g->size; r++) {
            int64_t sent = g->post[s].send[r].bytes;
            int64_t wanted = g->post[r].recv[s].bytes;

            if (sent != wanted)
                return err_set(e, ERR_RUN, "%s: rank %d sends %" PRId64
                               " B to rank %d, which expects %" PRId64 " B",
                               g->post[s].what, s, sent, r, wanted);
        }
    }
    return ERR_OK;
}

/* Ranks that sum different things would wait or read beyond; said before. */
static int same_matrix(const struct crew *g, struct err *e)
{
    static const char *const name[] = {"bf16", "f32", "f64", "i32", "i64",
                                       "u8"};
    const struct mat *a = &g->post[0].x;

    for (int r = 1; r < g->size; r++) {
        const struct mat *b = &g->post[r].x;

        if (g->post[0].every != g->post[r].every)
            return err_set(e, ERR_RUN, "%s: rank 0 sums every %d, rank %d "
                           "every %d", g->post[0].what, g->post[0].every, r,
                           g->post[r].every);
        if (a->rows == b->rows && a->cols == b->cols && a->t == b->t) continue;
        return err_set(e, ERR_RUN, "%s: rank 0 has %" PRId64 " x %" PRId64
                       " %s, rank %d has %" PRId64 " x %" PRId64 " %s",
                       g->post[0].what, a->rows, a->cols, name[a->t], r,
                       b->rows, b->cols, name[b->t]);
    }
    return ERR_OK;
}

static int same_count(const struct crew *g, struct err *e)
{
    for (int r = 1; r < g->size; r++)
        if (g->post[r].n != g->post[0].n)
            return err_set(e, ERR_RUN, "%s: rank 0 brings %" PRId64
                           " counts, rank %d brings %" PRId64,
                           g->post[0].what, g->post[0].n, r, g->post[r].n);
    return ERR_OK;
}

/* ---- exchanges ---------------------------------------------------------- */

/* What this rank receives. Mark 0 of a rank stands behind what it sends. */
static int pull_all(const struct crew *g, struct dev *d, int rank,
                    const struct comm_part *recv, struct err *e)
{
    int rc = same_call(g, e);

    if (rc == ERR_OK) rc = same_sizes(g, e);
    for (int r = 0; r < g->size && rc == ERR_OK; r++) {
        if (recv[r].bytes == 0) continue;
        rc = move_after(d, g->post[r].d, 0, e);
        if (rc == ERR_OK)
            rc = move_pull(d, recv[r].p, g->post[r].send[rank].p,
                           recv[r].bytes, e);
    }
    return rc;
}

/* Where devices order the copies by marks, mark 1 stands behind those of a
** rank: what it pulled from is its owner's again after it. The last wait is
** for the others' marks, which their devices own. */
static int local_all_to_all(struct comm *c, struct dev *d, const char *what,
                            const struct comm_part *send,
                            const struct comm_part *recv, struct err *e)
{
    struct crew *g = crew_of(c);
    struct post p = {.kind = "all_to_all", .what = what, .send = send,
                     .recv = recv, .d = d};
    int rc = move_mark(d, 0, e);

    if (rc == ERR_OK) rc = meet(c, &p, e);
    if (rc != ERR_OK) return rc;
    rc = pull_all(g, d, c->rank, recv, e);
    if (rc == ERR_OK && move_has_marks(d)) rc = move_mark(d, 1, e);
    rc = part(c, what, rc, e);
    if (!move_has_marks(d)) return rc;
    for (int r = 0; r < g->size && rc == ERR_OK; r++)
        if (send[r].bytes > 0) rc = move_after(d, g->post[r].d, 1, e);
    return part(c, what, rc, e);
}

/* Sums the elements of rank's crew in rank order. */
static int sum_posts(const struct crew *g, struct dev *d, int rank,
                     struct move_sum *sum, struct err *e)
{
    int every = g->post[rank].every, first = rank % every;
    int rc = same_call(g, e);

    if (rc == ERR_OK) rc = same_matrix(g, e);
    if (rc == ERR_OK) {
        const struct mat *x = &g->post[0].x;

        rc = move_sum_start(d, x->rows * x->cols, x->t, sum, e);
    }
    for (int r = first; r < g->size && rc == ERR_OK; r += every)
        rc = move_sum_add(sum, d, g->post[r].x.p, r == first, e);
    return rc;
}

/* Every rank of a sum makes its share of the elements, whole runs of eight as
** devices move them, and writes it to all: no host waits for a device. */
static int sum_share(const struct crew *g, struct dev *d, int rank,
                     struct err *e)
{
    int every = g->post[rank].every, first = rank % every;
    int n = g->size / every, mine = rank / every;
    const struct mat *x = &g->post[rank].x;
    int64_t count = x->rows * x->cols, from = count / 8 * mine / n * 8;
    int64_t to = mine + 1 == n ? count : count / 8 * (mine + 1) / n * 8;
    void *all[SIZE_MOST];
    int rc = same_call(g, e);

    if (rc == ERR_OK) rc = same_matrix(g, e);
    for (int i = 0; i < n && rc == ERR_OK; i++) {
        const struct post *p = &g->post[first + i * every];

        all[i] = p->x.p;
        rc = move_after(d, p->d, 0, e);
    }
    if (rc == ERR_OK && to > from)
        rc = move_sum_all(d, all, n, x->t, from, to - from, e);
    return rc == ERR_OK ? move_mark(d, 1, e) : rc;
}

static int sum_marked(struct comm *c, struct dev *d, const char *what,
                      struct post *p, struct err *e)
{
    struct crew *g = crew_of(c);
    int rc = move_mark(d, 0, e);

    if (rc == ERR_OK) rc = meet(c, p, e);
    if (rc != ERR_OK) return rc;
    rc = part(c, what, sum_share(g, d, c->rank, e), e);
    for (int r = c->rank % p->every; r < g->size && rc == ERR_OK;
         r += p->every)
        rc = move_after(d, g->post[r].d, 1, e);
    return part(c, what, rc, e);
}

static int local_all_reduce(struct comm *c, struct dev *d, const char *what,
                            struct mat x, int every, struct err *e)
{
    struct post p = {.kind = "all_reduce", .what = what, .x = x,
                     .every = every, .d = d};
    struct move_sum sum = {0};
    int rc;

    assert(x.ld == x.cols || x.rows <= 1);
    assert(every > 0 && c->size % every == 0);
    if (move_can_sum(d, x.t, c->size / every))
        return sum_marked(c, d, what, &p, e);
    rc = move_sync(d, e);
    if (rc == ERR_OK) rc = meet(c, &p, e);
    if (rc != ERR_OK) return rc;
    rc = part(c, what, sum_posts(crew_of(c), d, c->rank, &sum, e), e);
    if (rc == ERR_OK) rc = move_sum_store(&sum, d, x.p, e);
    move_sum_free(&sum);
    return rc;
}

static int local_gather_counts(struct comm *c, const char *what,
                               const int64_t *mine, int64_t n, int64_t *all,
                               struct err *e)
{
    struct crew *g = crew_of(c);
    struct post p = {.kind = "gather_counts", .what = what, .mine = mine,
                     .n = n};
    int rc = meet(c, &p, e);

    if (rc != ERR_OK) return rc;
    rc = same_call(g, e);
    if (rc == ERR_OK) rc = same_count(g, e);
    for (int r = 0; r < g->size && rc == ERR_OK && n > 0; r++)
        memcpy(all + r * n, g->post[r].mine, (size_t)n * sizeof *all);
    return part(c, what, rc, e);
}

static void local_abort(struct comm *c, const char *why)
{
    struct crew *g = crew_of(c);
    char cause[sizeof g->cause];

    snprintf(cause, sizeof cause, "rank %d failed: %s", c->rank, why);
    pthread_mutex_lock(&g->lock);
    crew_fail(g, cause);
    pthread_mutex_unlock(&g->lock);
}

/* ---- life --------------------------------------------------------------- */

static void crew_free(struct crew *g)
{
    pthread_cond_destroy(&g->moved);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

static void local_close(struct comm *c)
{
    struct crew *g = crew_of(c);
    char cause[64];
    bool last;

    snprintf(cause, sizeof cause, "rank %d has closed its communicator",
             c->rank);
    pthread_mutex_lock(&g->lock);
    crew_fail(g, cause);
    last = --g->open == 0;
    pthread_mutex_unlock(&g->lock);
    if (last) crew_free(g);
    free(c);
}

static const struct comm_ops local_ops = {
    .name = "local",
    .all_to_all = local_all_to_all,
    .all_reduce = local_all_reduce,
    .gather_counts = local_gather_counts,
    .abort = local_abort,
    .close = local_close,
};

static struct crew *crew_new(int size, int64_t deadline_ms)
{
    struct crew *g = calloc(1, sizeof *g);
    pthread_condattr_t attr;

    if (g == NULL) return NULL;
    g->size = g->open = size;
    g->deadline_ms = deadline_ms;
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&g->moved, &attr);
    pthread_condattr_destroy(&attr);
    return g;
}

int comm_local(int size, int64_t deadline_ms, struct comm **out,
               struct err *e)
{
    struct crew *g;

    if (size < 1 || size > SIZE_MOST)
        return err_set(e, ERR_USAGE, "ranks: %d is not 1 to %d", size,
                       SIZE_MOST);
    if (deadline_ms < 1 || deadline_ms > (int64_t)1 << 40)
        return err_set(e, ERR_USAGE, "deadline: %" PRId64 " ms is not "
                       "positive or out of range", deadline_ms);
    g = crew_new(size, deadline_ms);
    if (g == NULL) return err_nomem(e);
    for (int r = 0; r < size; r++) {
        struct local *l = calloc(1, sizeof *l);

        if (l == NULL) {
            while (r-- > 0) free(out[r]);
            crew_free(g);
            return err_nomem(e);
        }
        l->comm = (struct comm){&local_ops, r, size};
        l->crew = g;
        out[r] = &l->comm;
    }
    return ERR_OK;
}
