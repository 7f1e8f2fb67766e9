/*
** line.c - see rendezvous.h: what processes tell each other while they run.
**
** Messages are framed: data, or a failure's text. A failure goes to rank 0,
** which passes it on. A connection that ends before its rank's data has come
** is a failure too. Nothing reads ahead: data stays in the socket until
** somebody asks for it.
*/
#include "comm/line.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/wire.h"

#define FRAME_MAGIC 0x70706c6eu     /* "ppln" */
#define MOST_BYTES ((uint64_t)1 << 31)

enum frame_kind { FRAME_DATA = 1, FRAME_FAILURE };
enum { FAILURE_MS = 1000 };         /* to send or read a failure */

struct frame { uint32_t magic, kind; uint64_t n; };

struct line {
    struct alarm alarm;             /* first */
    int rank, size;
    int64_t deadline_ms;
    int *fd;                        /* rank 0: [size]; else [1] */
    bool raised;
    char cause[ALARM_CAUSE];
};

static int peers(const struct line *l)
{
    return l->rank == 0 ? l->size : 1;
}

/* The rank at the other end of connection i. */
static int who(const struct line *l, int i)
{
    return l->rank == 0 ? i : 0;
}

bool line_lost(const struct line *l)
{
    for (int i = l->rank == 0; i < peers(l); i++)
        if (l->fd[i] < 0) return true;
    return false;
}

/* ---- failures ----------------------------------------------------------- */

static void send_failure(const struct line *l, int i)
{
    struct frame f = {FRAME_MAGIC, FRAME_FAILURE, sizeof l->cause};
    int64_t end = wire_now_ms() + FAILURE_MS;

    if (l->fd[i] >= 0 && wire_put(l->fd[i], &f, sizeof f, end))
        wire_put(l->fd[i], l->cause, sizeof l->cause, end);
}

/* The first cause stays, and goes on to all but from. */
static void note_failure(struct line *l, const char *cause, int from)
{
    if (l->raised) return;
    l->raised = true;
    memset(l->cause, 0, sizeof l->cause);
    snprintf(l->cause, sizeof l->cause, "%s", cause);
    for (int i = 0; i < peers(l); i++)
        if (i != from) send_failure(l, i);
}

static void lose(struct line *l, int i)
{
    char cause[ALARM_CAUSE];

    close(l->fd[i]);
    l->fd[i] = -1;
    snprintf(cause, sizeof cause, "rank %d has ended (see its own message)",
             who(l, i));
    note_failure(l, cause, i);
}

/* The text of a failure whose frame has been read. */
static void read_failure(struct line *l, int i, uint64_t n)
{
    char cause[ALARM_CAUSE];

    if (n != sizeof cause || !wire_get(l->fd[i], cause, sizeof cause,
                                       wire_now_ms() + FAILURE_MS)) {
        lose(l, i);
        return;
    }
    cause[sizeof cause - 1] = '\0';
    note_failure(l, cause, i);
}

/* Takes a failure off connection i, if that is what comes next. */
static void look(struct line *l, int i)
{
    struct frame f;
    int64_t n;

    if (l->fd[i] < 0) return;
    n = wire_peek(l->fd[i], &f, sizeof f);
    if (n < 0) {
        lose(l, i);
    } else if (n == (int64_t)sizeof f && f.magic != FRAME_MAGIC) {
        lose(l, i);
    } else if (n == (int64_t)sizeof f && f.kind == FRAME_FAILURE) {
        if (wire_get(l->fd[i], &f, sizeof f, wire_now_ms()))
            read_failure(l, i, f.n);
    }
}

static void line_raise(struct alarm *a, const char *cause)
{
    note_failure((struct line *)a, cause, -1);
}

static bool line_raised(struct alarm *a, char cause[ALARM_CAUSE])
{
    struct line *l = (struct line *)a;

    for (int i = 0; i < peers(l) && !l->raised; i++) look(l, i);
    if (l->raised) snprintf(cause, ALARM_CAUSE, "%s", l->cause);
    return l->raised;
}

static void line_came(struct alarm *a, int rank, uint64_t turn)
{
    (void)a;
    (void)rank;
    (void)turn;
}

/* Other processes' turns are not known here. */
static bool line_here(struct alarm *a, uint64_t turn)
{
    (void)a;
    (void)turn;
    return true;
}

static void line_late(struct alarm *a, uint64_t turn, char *text, size_t n)
{
    (void)a;
    (void)turn;
    if (n > 0) text[0] = '\0';
}

static const struct alarm_ops line_ops = {line_raise, line_raised, line_came,
                                          line_here, line_late};

/* ---- data --------------------------------------------------------------- */

static int gone(const struct line *l, int i, struct err *e)
{
    return err_set(e, ERR_RUN, "rank %d: %s", who(l, i), l->raised ? l->cause
                   : "no answer");
}

static int put_data(struct line *l, int i, const void *data, size_t n,
                    struct err *e)
{
    struct frame f = {FRAME_MAGIC, FRAME_DATA, n};
    int64_t end = wire_now_ms() + l->deadline_ms;

    if (l->fd[i] >= 0 && wire_put(l->fd[i], &f, sizeof f, end) &&
        wire_put(l->fd[i], data, n, end)) return ERR_OK;
    if (l->fd[i] >= 0) lose(l, i);      /* a part may have gone */
    return gone(l, i, e);
}

/* What comes later would be taken for the answer to something else. */
static int too_late(struct line *l, int i, struct err *e)
{
    lose(l, i);
    return err_set(e, ERR_RUN, "rank %d sent nothing within %lld ms",
                   who(l, i), (long long)l->deadline_ms);
}

/* The next data of connection i; failures before it are noted, and end the
** wait unless data comes all the same. */
static int get_frame(struct line *l, int i, bool always, struct frame *f,
                     struct err *e)
{
    int64_t end = wire_now_ms() + l->deadline_ms;

    while (l->fd[i] >= 0 && (always || !l->raised)) {
        if (!wire_ready(l->fd[i], end)) return too_late(l, i, e);
        if (!wire_get(l->fd[i], f, sizeof *f, end) ||
            f->magic != FRAME_MAGIC || f->n > MOST_BYTES) {
            lose(l, i);
        } else if (f->kind == FRAME_DATA) {
            return ERR_OK;
        } else {
            read_failure(l, i, f->n);
        }
    }
    return gone(l, i, e);
}

void line_calm(struct line *l)
{
    int gone = 0;

    for (int i = 0; i < peers(l); i++)
        gone += l->fd[i] < 0 && who(l, i) != l->rank;
    if (gone == 0) l->raised = false;
}

int line_share(struct line *l, void *data, size_t n, bool always,
               struct err *e)
{
    struct frame f;
    int rc = ERR_OK;

    if (l->rank == 0) {
        for (int i = 1; i < l->size && rc == ERR_OK; i++)
            rc = put_data(l, i, data, n, e);
        return rc;
    }
    rc = get_frame(l, 0, always, &f, e);
    if (rc != ERR_OK) return rc;
    if (f.n != n)
        return err_set(e, ERR_RUN, "rank 0 shares %llu bytes, rank %d expects "
                       "%zu", (unsigned long long)f.n, l->rank, n);
    if (wire_get(l->fd[0], data, n, wire_now_ms() + l->deadline_ms))
        return ERR_OK;
    lose(l, 0);
    return gone(l, 0, e);
}

/* One rank's data whole, or that rank is lost: what is left of a message
** would be read as the next. */
static int collect_one(struct line *l, int i, struct buf *out, struct err *e)
{
    struct frame f;
    int rc = get_frame(l, i, true, &f, e);
    char *room;

    if (rc != ERR_OK) return rc;
    room = malloc((size_t)f.n + 1);
    if (room == NULL) {
        lose(l, i);             /* its data would be read as a frame */
        return err_nomem(e);
    }
    if (!wire_get(l->fd[i], room, (size_t)f.n,
                  wire_now_ms() + l->deadline_ms)) {
        lose(l, i);
        rc = gone(l, i, e);
    } else {
        buf_put(out, room, (size_t)f.n);
        if (out->failed) rc = err_nomem(e);
    }
    free(room);
    return rc;
}

int line_collect(struct line *l, const void *mine, size_t n, struct buf *all,
                 struct err *e)
{
    int rc = ERR_OK;

    if (l->rank != 0) return put_data(l, 0, mine, n, e);
    buf_put(&all[0], mine, n);
    if (all[0].failed) return err_nomem(e);
    for (int i = 1; i < l->size && rc == ERR_OK; i++)
        rc = collect_one(l, i, &all[i], e);
    return rc;
}

/* ---- life --------------------------------------------------------------- */

struct alarm *line_alarm(struct line *l)
{
    return &l->alarm;
}

int line_new(const struct rendezvous *r, int *fd, struct line **out,
             struct err *e)
{
    struct line *l = calloc(1, sizeof *l);

    assert(r->size >= 1 && r->rank >= 0 && r->rank < r->size);
    if (l == NULL) return err_nomem(e);
    l->alarm.ops = &line_ops;
    l->rank = r->rank;
    l->size = r->size;
    l->deadline_ms = r->deadline_ms;
    l->fd = fd;
    *out = l;
    return ERR_OK;
}

void line_close(struct line *l)
{
    if (l == NULL) return;
    for (int i = 0; i < peers(l); i++)
        if (l->fd[i] >= 0) close(l->fd[i]);
    free(l->fd);
    free(l);
}
