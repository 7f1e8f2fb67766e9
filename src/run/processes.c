/*
** processes.c - see crew.h: a rank a process. Everything goes over the line
** on which they met, as structs: all run the same program.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/version.h"
#include "run/crew.h"

/* How a rank's part went. */
struct outcome {
    int32_t rc;
    int64_t good;
    char text[768];
};

/* What the records keep of one wave of one rank. */
struct kept {
    int64_t ns;
    struct record_rank rank;
    char op[64];                /* rank.peak.tag.op */
};

int processes_meet(const struct launch *l, const struct cuda_module *m,
                   const atomic_int *interrupt,
                   void (*waiting)(const char *text), struct line **line,
                   struct err *e)
{
    char host[64] = "", place[RENDEZVOUS_PLACE];
    struct rendezvous r = {
        .rank = l->rank, .size = l->size, .addr = l->master_addr,
        .port = l->master_port, .deadline_ms = RANKS_DEADLINE_MS,
        .place = place, .version = peakproof_version, .token = l->token,
        .interrupt = interrupt, .waiting = waiting
    };
    struct cuda_info g;
    int n, rc = m->count(&n, e);

    *line = NULL;
    if (rc != ERR_OK || l->size == 1) return rc;
    rc = m->info(l->local_rank % n, &g, e);
    if (rc != ERR_OK) return rc;
    gethostname(host, sizeof host - 1);
    snprintf(place, sizeof place, "%s %.30s", host, g.bus);
    return rendezvous(&r, line, e);
}

static struct outcome outcome_of(int rc, int64_t good, const struct err *e)
{
    struct outcome o;

    memset(&o, 0, sizeof o);
    o.rc = rc;
    o.good = good;
    if (rc != ERR_OK) snprintf(o.text, sizeof o.text, "%.767s", e->text);
    return o;
}

static void free_all(struct buf *all, int size)
{
    for (int i = 0; all != NULL && i < size; i++) buf_free(&all[i]);
    free(all);
}

/* n bytes of every rank to every rank: out is [size * n]. */
static int all_gather(const struct run_context *x, const char *mine,
                      size_t n, char *out, struct err *e)
{
    int size = x->launch.size, i;
    struct buf *all = calloc((size_t)size, sizeof *all);
    int rc;

    if (all == NULL) return err_nomem(e);
    rc = line_collect(x->line, mine, n, all, e);
    for (i = 0; x->launch.rank == 0 && rc == ERR_OK && i < size; i++) {
        if (all[i].len != n)
            rc = err_set(e, ERR_RUN, "rank %d sent %zu bytes, not %zu", i,
                         all[i].len, n);
        else
            memcpy(out + (size_t)i * n, all[i].data, n);
    }
    free_all(all, size);
    return rc == ERR_OK ? line_share(x->line, out, n * (size_t)size, true, e)
                        : rc;
}

int processes_agree(const struct run_context *x, int rc, struct err *e)
{
    struct outcome mine = outcome_of(rc, 0, e), *all;
    int i, worst = -1, sent;
    struct err late;

    if (x->line == NULL) return rc;
    all = calloc((size_t)x->launch.size, sizeof *all);
    if (all == NULL) return err_nomem(e);
    sent = all_gather(x, (const char *)&mine, sizeof mine, (char *)all,
                      &late);
    for (i = 0; sent == ERR_OK && i < x->launch.size && worst < 0; i++)
        if (all[i].rc != ERR_OK) worst = i;
    if (sent != ERR_OK && rc == ERR_OK) {
        *e = late;
        rc = sent;
    } else if (worst >= 0 && worst != x->launch.rank) {
        rc = err_set(e, (enum err_code)all[worst].rc, "rank %d: %s", worst,
                     all[worst].text);
    }
    free(all);
    return rc;
}

/* ---- what became of each rank ------------------------------------------- */

static void take_outcome(struct ranks_one *o, const char *from, size_t cells)
{
    struct outcome got;

    memcpy(&got, from, sizeof got);
    o->rc = got.rc;
    o->good = got.good;
    if (got.rc != ERR_OK)
        err_set(&o->e, (enum err_code)got.rc, "%.767s", got.text);
    if (cells > 0 && o->sent != NULL)
        memcpy(o->sent, from + sizeof got, cells * sizeof *o->sent);
}

int processes_exchange(struct ranks *r, struct err *e)
{
    const struct run_context *x = r->w->x;
    const struct model *m = &r->w->model;
    size_t cells = (size_t)(r->waves * m->layers * m->experts);
    size_t n = sizeof(struct outcome) + cells * sizeof(int64_t);
    struct ranks_one *me;
    struct outcome own;
    char *mine, *all;
    int rc;

    if (x->line == NULL) return ERR_OK;
    me = &r->one[x->launch.rank];
    own = outcome_of(me->rc, me->good, &me->e);
    mine = calloc(1, n);
    all = calloc((size_t)x->launch.size, n);
    if (mine == NULL || all == NULL) {
        free(mine);
        free(all);
        return err_nomem(e);
    }
    memcpy(mine, &own, sizeof own);
    if (cells > 0 && me->sent != NULL)
        memcpy(mine + sizeof own, me->sent, cells * sizeof(int64_t));
    rc = all_gather(x, mine, n, all, e);
    for (int i = 0; rc == ERR_OK && i < x->launch.size; i++)
        if (i != x->launch.rank)
            take_outcome(&r->one[i], all + (size_t)i * n, cells);
    if (rc == ERR_OK) line_calm(x->line);
    free(mine);
    free(all);
    return rc;
}

/* ---- what is recorded of each rank -------------------------------------- */

/* What rank 0 needs of this rank: outcome, waves, the driver's rows. */
static void pack(const struct run_work *w, const struct ranks *r, int rc,
                 const struct err *e, struct buf *out)
{
    const struct ranks_one *me = &r->one[w->x->launch.rank];
    struct outcome own = outcome_of(rc, r->good, e);
    int64_t i;

    buf_put(out, (const char *)&own, sizeof own);
    for (i = 0; i < r->good; i++) {
        const struct record_rank *rank = &w->wave[i].rank[me->rank];
        struct kept k;

        memset(&k, 0, sizeof k);
        k.ns = me->wave[i].ns;
        k.rank = *rank;
        if (rank->peak.tag.op != NULL)
            snprintf(k.op, sizeof k.op, "%s", rank->peak.tag.op);
        buf_put(out, (const char *)&k, sizeof k);
    }
    buf_put(out, (const char *)w->driver,
            (size_t)w->n_driver * sizeof *w->driver);
}

/* Operators have static names; a name from elsewhere is kept by the work. */
static const char *keep_op(struct run_work *w, int64_t at, const char *op)
{
    char *room = w->peer_op + at * (int64_t)sizeof((struct kept *)0)->op;

    if (op[0] == '\0') return NULL;
    snprintf(room, sizeof((struct kept *)0)->op, "%s", op);
    return room;
}

/* Its rows come in the order of run_driver_rows: the pointers to their names
** are another process's. */
static int unpack_driver(struct run_work *w, int64_t rank, const char *p,
                         size_t n, struct err *e)
{
    struct record_device d;
    size_t i, rows = n / sizeof d;

    if (rows > DRIVER_ROWS || n % sizeof d != 0)
        return err_set(e, ERR_RUN, "rank %d sent a broken result",
                       (int)rank);
    for (i = 0; i < rows; i++) {
        memcpy(&d, p + i * sizeof d, sizeof d);
        d.what = run_driver_rows[i];
        d.rank = rank;
        w->driver[w->n_driver++] = d;
    }
    return ERR_OK;
}

/* Lengths first: the bytes come from another process. */
static int unpack(struct run_work *w, const struct ranks *r, int64_t rank,
                  const struct buf *b, struct outcome *out, struct err *e)
{
    size_t fixed = sizeof *out + (size_t)r->good * sizeof(struct kept);
    int64_t i;

    if (b->len < fixed)
        return err_set(e, ERR_RUN, "rank %d sent a short result", (int)rank);
    memcpy(out, b->data, sizeof *out);
    out->text[sizeof out->text - 1] = '\0';
    for (i = 0; i < r->good; i++) {
        struct kept k;

        memcpy(&k, b->data + sizeof *out + (size_t)i * sizeof k, sizeof k);
        k.op[sizeof k.op - 1] = '\0';
        k.rank.peak.tag.op = keep_op(w, i * w->plan->cp + rank, k.op);
        w->wave[i].rank[rank] = k.rank;
        run_time(w, &w->wave[i], rank, "step", k.ns);
    }
    return unpack_driver(w, rank, b->data + fixed, b->len - fixed, e);
}

/* Every rank is read, also after one that failed: the first error is told. */
static int unpack_all(struct run_work *w, const struct ranks *r,
                      const struct buf *all, int rc, struct err *e)
{
    struct outcome o;
    struct err late;
    int64_t i;
    int got;

    w->peer_op = calloc((size_t)(w->c->waves * w->plan->cp),
                        sizeof((struct kept *)0)->op);
    if (w->peer_op == NULL) return err_nomem(e);
    for (i = 1; i < w->plan->cp; i++) {
        got = unpack(w, r, i, &all[i], &o, &late);
        if (got == ERR_OK && o.rc != ERR_OK)
            got = err_set(&late, (enum err_code)o.rc, "%s", o.text);
        if (got == ERR_OK || rc != ERR_OK) continue;
        *e = late;
        rc = got;
    }
    return rc;
}

int processes_gather(struct run_work *w, const struct ranks *r, int rc,
                     struct err *e)
{
    const struct run_context *x = w->x;
    struct buf mine = BUF_INIT, *all;
    struct err late;
    int64_t i;
    int sent;

    if (x->line == NULL || r->one == NULL) return rc;
    all = calloc((size_t)x->launch.size, sizeof *all);
    if (all == NULL) return err_nomem(e);
    pack(w, r, rc, e, &mine);
    sent = mine.failed ? err_nomem(&late)
                       : line_collect(x->line, buf_text(&mine), mine.len,
                                      all, &late);
    if (sent != ERR_OK && rc == ERR_OK) {
        *e = late;
        rc = sent;
    }
    if (sent == ERR_OK && x->launch.rank == 0)
        rc = unpack_all(w, r, all, rc, e);
    for (i = 0; x->launch.rank != 0 && i < w->c->waves; i++)
        w->wave[i].measured = false;    /* rank 0 has them all */
    buf_free(&mine);
    free_all(all, x->launch.size);
    return rc;
}
