/* rendezvous.c - see rendezvous.h: the meeting; line.c is what stays */
#include "comm/rendezvous.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clean.h"
#include "comm/line.h"
#include "comm/wire.h"

#define MAGIC 0x70656b70726f6f66u   /* "pekproof" */

enum {
    RETRY_MS = 50,
    HELLO_MS = 3000,        /* for a caller to say who it is */
    CROWD_MS = 250,         /* the same, where others want its place */
    SLICE_MS = 100,         /* between looks at the interrupt */
    DIAL_MS = 1000,         /* of one try, that nobody may answer */
    QUIET_MS = 5000,        /* before it is said for whom one waits */
    TOKEN = 128,            /* bytes of one, its end included */
    ANSWER_MS = 2000,       /* for those who came to be told, at the end */
    CALLERS = 64            /* that have not said who they are */
};

/* What a rank says. */
struct hello {
    uint64_t magic;
    int32_t rank, size;
    char place[RENDEZVOUS_PLACE];
    char version[RENDEZVOUS_PLACE];
    char token[TOKEN];
};

/* What rank 0 answers, also to strangers: without a hole, which would hand out
** what lay on the stack. */
struct answer {
    uint64_t magic;
    int32_t code;
    char text[260];
};
static_assert(sizeof(struct answer) == 8 + 4 + 260, "no padding");

static void say_hello(const struct rendezvous *r, struct hello *h)
{
    memset(h, 0, sizeof *h);
    h->magic = MAGIC;
    h->rank = r->rank;
    h->size = r->size;
    snprintf(h->place, sizeof h->place, "%s", r->place);
    snprintf(h->version, sizeof h->version, "%s", r->version);
    snprintf(h->token, sizeof h->token, "%s", r->token);
}

static int interrupted(const struct rendezvous *r, struct err *e)
{
    if (r->interrupt == NULL || *r->interrupt == 0) return ERR_OK;
    return err_set(e, ERR_INTERRUPTED, "interrupted while the ranks met");
}

/* Says it when it is time to, and then after twice the time. */
struct patience { int64_t since, next; };

static struct patience patience_new(void)
{
    return (struct patience){wire_now_ms(), QUIET_MS};
}

static bool is_long(struct patience *p)
{
    if (wire_now_ms() - p->since < p->next) return false;
    p->next *= 2;
    return true;
}

/* ---- rank 0 ------------------------------------------------------------- */

/* A connection that has not said all of its hello. */
struct caller { int fd; int64_t until; };

struct host {
    const struct rendezvous *r;
    int listener;
    struct hello *seat;         /* [size] magic 0: not there */
    int *fd;                    /* [size] */
    int seated;
    struct caller caller[CALLERS];
    int callers;
};

static int check_hello(struct host *h, const struct hello *x, struct err *e)
{
    const struct rendezvous *r = h->r;

    if (x->size != r->size || x->rank < 1 || x->rank >= r->size)
        return err_set(e, ERR_RUN, "a process calls itself rank %d of %d, "
                       "rank 0 counts %d ranks", x->rank, x->size, r->size);
    if (h->seat[x->rank].magic != 0)
        return err_set(e, ERR_RUN, "two processes call themselves rank %d",
                       x->rank);
    if (strcmp(x->version, h->seat[0].version) != 0)
        return err_set(e, ERR_RUN, "rank %d is version %s, rank 0 is %s "
                       "(install the same on every host)", x->rank,
                       x->version, h->seat[0].version);
    return ERR_OK;
}

static void drop_caller(struct host *h, int i)
{
    h->caller[i] = h->caller[--h->callers];
}

/* What another process says of itself is shown in one line. */
static void take_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    text_clean(text);
}

/* What caller i has sent so far: a whole hello seats it, what is none or
** comes too slowly ends it. */
static int hear_caller(struct host *h, int i, struct err *e)
{
    struct caller *c = &h->caller[i];
    struct hello x;
    int64_t n = wire_peek(c->fd, &x, sizeof x);
    int fd = c->fd, rc;

    if (n >= (int64_t)sizeof x.magic && x.magic != MAGIC) n = -1;
    if (n >= 0 && n < (int64_t)sizeof x && wire_now_ms() < c->until)
        return ERR_OK;
    drop_caller(h, i);
    if (n < (int64_t)sizeof x || !wire_get(fd, &x, sizeof x, wire_now_ms())) {
        close(fd);
        return ERR_OK;
    }
    take_text(x.place, sizeof x.place);
    take_text(x.version, sizeof x.version);
    if (memcmp(x.token, h->seat[0].token, sizeof x.token) != 0) {
        close(fd);              /* of another job */
        return ERR_OK;
    }
    rc = check_hello(h, &x, e);
    if (rc != ERR_OK) {
        struct answer a = {MAGIC, rc, ""};

        snprintf(a.text, sizeof a.text, "%.255s", e->text);
        wire_put(fd, &a, sizeof a, wire_now_ms() + ANSWER_MS);
        close(fd);
        return rc;
    }
    h->seat[x.rank] = x;
    h->fd[x.rank] = fd;
    h->seated++;
    return ERR_OK;
}

/* Is there room for one more caller? Who has been silent for longest, and for
** long enough, goes for it: a crowd of strangers keeps nobody out. */
static bool make_room(struct host *h)
{
    int i, oldest = 0;

    if (h->callers < CALLERS) return true;
    for (i = 1; i < h->callers; i++)
        if (h->caller[i].until < h->caller[oldest].until) oldest = i;
    if (wire_now_ms() < h->caller[oldest].until - HELLO_MS + CROWD_MS)
        return false;
    close(h->caller[oldest].fd);
    drop_caller(h, oldest);
    return true;
}

/* Waits a moment for a new caller or for one to speak. */
static int hear_all(struct host *h, int64_t end, struct err *e)
{
    struct pollfd p[CALLERS + 1];
    int64_t left = end - wire_now_ms();
    int i, n = h->callers, rc = ERR_OK;

    p[0] = (struct pollfd){h->listener, POLLIN, 0};
    for (i = 0; i < n; i++)
        p[i + 1] = (struct pollfd){h->caller[i].fd, POLLIN, 0};
    /* a caller that sends half a hello is always readable: no busy wait */
    if (n > 0) nanosleep(&(struct timespec){0, 1000000}, NULL);
    if (poll(p, (nfds_t)n + 1, left < 100 ? (int)left : 100) < 0)
        return ERR_OK;
    for (i = n - 1; i >= 0 && rc == ERR_OK; i--) rc = hear_caller(h, i, e);
    if (rc == ERR_OK && p[0].revents != 0 && make_room(h)) {
        int fd = accept(h->listener, NULL, NULL);

        if (fd >= 0)
            h->caller[h->callers++] = (struct caller){
                fd, wire_now_ms() + HELLO_MS};
    }
    return rc;
}

/* "1, 3": those who have not come. */
static void put_late(const struct host *h, char *who, size_t cap)
{
    size_t n = 0;
    int i;

    *who = '\0';
    for (i = 1; i < h->r->size && n + 8 < cap; i++)
        if (h->seat[i].magic == 0)
            n += (size_t)snprintf(who + n, cap - n, "%s%d",
                                  n > 0 ? ", " : "", i);
}

static void say_late(const struct host *h)
{
    char who[128], text[400];

    put_late(h, who, sizeof who);
    snprintf(text, sizeof text, "rank 0 waits for rank %s at %.150s:%d", who,
             h->r->addr, h->r->port);
    h->r->waiting(text);
}

static int name_late(const struct host *h, struct err *e)
{
    char who[128];

    put_late(h, who, sizeof who);
    return err_set(e, ERR_RUN, "rank %s did not come to port %d within %lld "
                   "ms", who, h->r->port, (long long)h->r->deadline_ms);
}

static int check_places(const struct host *h, struct err *e)
{
    int i, j;

    for (i = 0; i < h->r->size; i++)
        for (j = i + 1; j < h->r->size; j++)
            if (strcmp(h->seat[i].place, h->seat[j].place) == 0)
                return err_set(e, ERR_DEVICE, "ranks %d and %d share GPU %s, "
                               "which NCCL refuses (give each its own GPU, "
                               "or start one process alone: its ranks are "
                               "threads and may share one)", i, j,
                               h->seat[i].place);
    return ERR_OK;
}

/* Those who came are told, also when others did not. */
static int answer_all(struct host *h, int rc, struct err *e)
{
    int64_t end = wire_now_ms() + ANSWER_MS;
    struct answer a = {MAGIC, rc, ""};
    int i;

    if (rc != ERR_OK) snprintf(a.text, sizeof a.text, "%.255s", e->text);
    for (i = 1; i < h->r->size; i++) {
        if (h->seat[i].magic == 0) continue;
        if (!wire_put(h->fd[i], &a, sizeof a, end) && rc == ERR_OK)
            rc = err_set(e, ERR_RUN, "rank %d left before it was answered",
                         i);
    }
    return rc;
}

static int receive(struct host *h, struct err *e)
{
    int64_t end = wire_now_ms() + h->r->deadline_ms;
    struct patience p = patience_new();
    int rc = ERR_OK;

    while (rc == ERR_OK && h->seated < h->r->size) {
        if (wire_now_ms() >= end) rc = name_late(h, e);
        else rc = hear_all(h, end, e);
        if (rc == ERR_OK) rc = interrupted(h->r, e);
        if (rc == ERR_OK && h->r->waiting != NULL && is_long(&p)) say_late(h);
    }
    if (rc == ERR_OK) rc = check_places(h, e);
    return answer_all(h, rc, e);
}

static int host(const struct rendezvous *r, int *fd, struct err *e)
{
    struct host h = {.r = r, .fd = fd, .seated = 1};
    int rc, i;

    h.seat = calloc((size_t)r->size, sizeof *h.seat);
    if (h.seat == NULL) return err_nomem(e);
    say_hello(r, &h.seat[0]);
    h.listener = wire_listen(r->addr, r->port, r->size + CALLERS, e);
    rc = h.listener < 0 ? ERR_RUN : receive(&h, e);
    for (i = 0; i < h.callers; i++) close(h.caller[i].fd);
    if (h.listener >= 0) close(h.listener);
    free(h.seat);
    return rc;
}

/* ---- the others --------------------------------------------------------- */

static void say_early(const struct rendezvous *r, const char *why)
{
    char text[400];

    snprintf(text, sizeof text, "rank %d waits for rank 0 at %.150s:%d (%s)",
             r->rank, r->addr, r->port, why);
    r->waiting(text);
}

/* Rank 0 answers when all have come. */
static int hear_answer(const struct rendezvous *r, int fd, int64_t end,
                       struct answer *a, struct err *e)
{
    int rc;

    while (!wire_ready(fd, wire_now_ms() + SLICE_MS)) {
        rc = interrupted(r, e);
        if (rc != ERR_OK) return rc;
        if (wire_now_ms() >= end) break;
    }
    if (wire_get(fd, a, sizeof *a, end) && a->magic == MAGIC) return ERR_OK;
    return err_set(e, ERR_RUN, "rank 0 at %.200s:%d did not answer rank %d "
                   "(see its own message; of another job it answers nobody)",
                   r->addr, r->port, r->rank);
}

/* One try. */
static int dial(const struct rendezvous *r, int64_t end, const char **why)
{
    int64_t soon = wire_now_ms() + DIAL_MS;

    return wire_dial(r->addr, r->port, soon < end ? soon : end, why);
}

/* Rank 0 may not listen yet: again until the deadline. */
static int reach(const struct rendezvous *r, int64_t end, struct err *e)
{
    const char *why = "too late";
    struct patience p = patience_new();
    int fd, rc = ERR_OK;

    while ((fd = dial(r, end, &why)) < 0 &&
           wire_now_ms() < end && (rc = interrupted(r, e)) == ERR_OK) {
        struct timespec pause = {0, RETRY_MS * 1000000};
        if (r->waiting != NULL && is_long(&p)) say_early(r, why);
        nanosleep(&pause, NULL);
    }
    if (fd < 0 && rc == ERR_OK)
        err_set(e, ERR_RUN, "rank %d cannot reach rank 0 at %.200s:%d within "
                "%lld ms: %s", r->rank, r->addr, r->port,
                (long long)r->deadline_ms, why);
    return fd;
}

/* A rank's side of the meeting: it says who it is and hears whether all fit. */
static int visit(const struct rendezvous *r, int *fd, struct err *e)
{
    int64_t end = wire_now_ms() + r->deadline_ms;
    struct hello h;
    struct answer a;
    int rc;

    *fd = reach(r, end, e);
    if (*fd < 0) return (int)e->code;
    say_hello(r, &h);
    /* rank 0 answers when all have come: at its own deadline at the latest,
    ** and it may have begun last */
    end = wire_now_ms() + r->deadline_ms + ANSWER_MS;
    rc = wire_put(*fd, &h, sizeof h, end)
         ? hear_answer(r, *fd, end, &a, e)
         : err_set(e, ERR_RUN, "rank 0 at %.200s:%d left before rank %d could "
                   "speak", r->addr, r->port, r->rank);
    if (rc != ERR_OK) return rc;
    a.text[sizeof a.text - 1] = '\0';
    if (a.code == ERR_OK) return ERR_OK;
    return err_set(e, a.code == ERR_DEVICE || a.code == ERR_INTERRUPTED
                   ? (enum err_code)a.code : ERR_RUN, "%s", *a.text != '\0'
                   ? a.text : "rank 0 says no, and not why");
}

int rendezvous(const struct rendezvous *r, struct line **out, struct err *e)
{
    int n = r->rank == 0 ? r->size : 1, rc, i;
    int *fd = calloc((size_t)n, sizeof *fd);

    if (fd == NULL) return err_nomem(e);
    for (i = 0; i < n; i++) fd[i] = -1;
    rc = r->rank == 0 ? host(r, fd, e) : visit(r, fd, e);
    if (rc == ERR_OK) rc = line_new(r, fd, out, e);
    if (rc == ERR_OK) return rc;
    for (i = 0; i < n; i++)
        if (fd[i] >= 0) close(fd[i]);
    free(fd);
    return rc;
}
