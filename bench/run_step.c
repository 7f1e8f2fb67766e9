/*
** run_step.c - see run.h: the ranks' steps on the device.
**
** Where nothing is computed ranks run one after the other, without a
** communicator. A device that computes runs them as threads, after a probe on
** dry has shown that they fit.
*/
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "bench/run_data.h"
#include "bench/run_rank.h"

enum { DEADLINE_MS = 300000 };      /* of one wait for another rank */

/* All ranks of a case. */
struct ranks {
    struct run_work *w;
    struct rank_run *rank;          /* [cp] */
    struct run_data data;
    struct checkpoint *checkpoint;
    pthread_mutex_t lock;           /* of the two below */
    int rc;                         /* of the rank that failed first */
    struct err first;
};

/* ---- after the ranks have ended ----------------------------------------- */

static int collect_tensors(struct ranks *a, struct err *e)
{
    struct run_work *w = a->w;
    int64_t r, n = 0;

    for (r = 0; r < w->c->cp; r++) n += a->rank[r].n_tensor;
    if (n == 0) return ERR_OK;
    w->tensor = malloc((size_t)n * sizeof *w->tensor);
    if (w->tensor == NULL) return err_nomem(e);
    for (r = 0; r < w->c->cp; r++) {
        size_t k = (size_t)a->rank[r].n_tensor;
        if (k == 0) continue;
        memcpy(w->tensor + w->n_tensor, a->rank[r].tensor,
               k * sizeof *w->tensor);
        w->n_tensor += a->rank[r].n_tensor;
    }
    return ERR_OK;
}

/* Waves that all ranks finished are measured; the one that failed says why. */
static int collect(struct ranks *a, struct err *e)
{
    struct run_work *w = a->w;
    int64_t good = w->c->waves, i, r;
    int rc = collect_tensors(a, e);

    if (rc != ERR_OK) return rc;
    for (r = 0; r < w->c->cp; r++) good = num_min(good, a->rank[r].done);
    for (i = 0; i < w->c->waves; i++) {
        struct run_wave *v = &w->wave[i];
        if (i >= good) v->has_loss = false;
        if (i >= good) continue;
        v->measured = true;
        v->status = STATUS_OK;
        v->note[0] = '\0';
        for (r = 0; r < w->c->cp; r++)
            run_time(w, v, r, "step", a->rank[r].ns[i]);
    }
    if (a->rc == ERR_OK) return ERR_OK;
    *e = a->first;
    if (good == w->c->waves) return a->rc;
    w->wave[good].status = run_status(a->rc);
    snprintf(w->wave[good].note, sizeof w->wave[good].note, "%.255s",
             a->first.text);
    return a->rc;
}

/* ---- one after the other ------------------------------------------------ */

static void run_in_turn(struct ranks *a)
{
    int64_t waves = a->w->c->waves, r;
    struct err e;

    for (r = 0; r < a->w->c->cp; r++) {
        struct rank_run *one = &a->rank[r];
        one->waves = waves;
        if (run_rank(one, &e) == ERR_OK) continue;
        /* an earlier wave that fails on a later rank is the one to tell */
        if (a->rc == ERR_OK || one->done < waves) {
            a->rc = (int)e.code;
            a->first = e;
        }
        waves = one->done;
    }
}

/* ---- as threads --------------------------------------------------------- */

struct thread { struct ranks *all; struct rank_run *rank; pthread_t id; };

static void *thread_main(void *arg)
{
    struct thread *t = arg;
    struct err e;
    int rc = run_rank(t->rank, &e);

    if (rc == ERR_OK) return NULL;
    pthread_mutex_lock(&t->all->lock);
    if (t->all->rc == ERR_OK || rc == ERR_INTERRUPTED) {
        t->all->rc = rc;
        t->all->first = e;
    }
    pthread_mutex_unlock(&t->all->lock);
    /* the others must not wait for this one */
    if (t->rank->comm != NULL)
        t->rank->comm->ops->abort(t->rank->comm, e.text);
    return NULL;
}

static int run_threads(struct ranks *a, struct err *e)
{
    struct comm *comm[PRICE_MAX_RANKS] = {NULL};
    struct thread t[PRICE_MAX_RANKS];
    int64_t cp = a->w->c->cp, r, n;
    int rc = ERR_OK;

    if (cp > 1) rc = comm_local((int)cp, DEADLINE_MS, comm, e);
    for (n = 0; rc == ERR_OK && n < cp; n++) {
        a->rank[n].comm = comm[n];
        t[n] = (struct thread){.all = a, .rank = &a->rank[n]};
        if (pthread_create(&t[n].id, NULL, thread_main, &t[n]) == 0) continue;
        rc = err_set(e, ERR_RUN, "cannot start a thread for rank %" PRId64, n);
        if (comm[n] != NULL) comm[n]->ops->abort(comm[n], e->text);
        break;
    }
    for (r = 0; r < n; r++) pthread_join(t[r].id, NULL);
    for (r = 0; r < cp; r++)
        if (comm[r] != NULL) comm[r]->ops->close(comm[r]);
    return rc;
}

/* ---- does it fit? ------------------------------------------------------- */

/* Bytes of host memory that can be had; 0 when that is not known. */
static int64_t host_memory(void)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[128];
    long long kib = 0;

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1) break;
    if (f != NULL) fclose(f);
    return (int64_t)kib * 1024;
}

/* Runs a cold wave of every rank on dry: do all of them fit? */
static int probe(struct run_work *w, struct err *e)
{
    int64_t need = 0, have = host_memory(), r;

    for (r = 0; r < w->c->cp; r++) {
        struct rank_run one = {.w = w, .rank = r, .ops = &dev_dry,
                               .waves = 1, .probe = true};
        int rc = run_rank(&one, e);
        need = num_sadd(need, (int64_t)one.reserved);
        run_rank_free(&one);
        if (rc != ERR_OK) return rc;
    }
    if (have == 0 || need <= have) return ERR_OK;
    return err_set(e, ERR_OOM, "needs %" PRId64 " bytes for its %" PRId64
                   " ranks (a dry run says), %" PRId64 " are free (fewer "
                   "layers or tokens, or --device dry)", need, w->c->cp, have);
}

static int prepare(struct ranks *a, struct err *e)
{
    struct run_work *w = a->w;
    int rc;

    if (!w->plan->exact)
        return err_set(e, ERR_DEVICE, "a recorded layout has no tokens to "
                       "compute on (use --device dry)");
    rc = probe(w, e);
    if (rc == ERR_OK && strcmp(w->c->weights, "random") != 0)
        rc = checkpoint_open(w->c->weights, &a->checkpoint, e);
    if (rc == ERR_OK)
        rc = run_data_make(w->c, &w->model, w->plan, &a->data, e);
    return rc;
}

/* ---- all ---------------------------------------------------------------- */

static int run_ranks(struct ranks *a, struct err *e)
{
    const struct dev_ops *ops = a->w->x->ops;
    int64_t r;
    int rc = ops->computes ? prepare(a, e) : ERR_OK;

    if (rc != ERR_OK) {
        a->w->wave[0].status = run_status(rc);
        snprintf(a->w->wave[0].note, sizeof a->w->wave[0].note, "%.255s",
                 e->text);
        return rc;
    }
    for (r = 0; r < a->w->c->cp; r++)
        a->rank[r] = (struct rank_run){
            .w = a->w, .rank = r, .ops = ops, .waves = a->w->c->waves,
            .data = ops->computes ? &a->data.step : NULL,
            .checkpoint = a->checkpoint
        };
    if (ops->computes)
        rc = run_threads(a, e);
    else
        run_in_turn(a);
    return rc == ERR_OK ? collect(a, e) : rc;
}

int run_step(struct run_work *w, struct err *e)
{
    struct ranks a = {.w = w, .lock = PTHREAD_MUTEX_INITIALIZER};
    int64_t r;
    int rc;

    a.rank = calloc((size_t)w->c->cp, sizeof *a.rank);
    if (a.rank == NULL) return err_nomem(e);
    if (w->x->snapshots) {
        w->snapshot = calloc((size_t)w->c->cp, sizeof *w->snapshot);
        if (w->snapshot == NULL) {
            free(a.rank);
            return err_nomem(e);
        }
    }
    rc = run_ranks(&a, e);
    for (r = 0; r < w->c->cp; r++) run_rank_free(&a.rank[r]);
    free(a.rank);
    run_data_free(&a.data);
    checkpoint_close(a.checkpoint);
    return rc;
}
