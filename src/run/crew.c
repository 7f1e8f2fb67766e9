/* crew.c - see crew.h */
#include "run/crew.h"

#include <assert.h>

#include "comm/rendezvous.h"

bool crew_shares_gpu(const struct run_work *w)
{
    const struct run_context *x = w->x;

    return x->line == NULL && (x->gpus < w->plan->cp || !x->has_nccl);
}

bool crew_is_here(const struct ranks *r, int64_t rank)
{
    const struct run_context *x = r->w->x;

    assert(rank >= 0 && rank < r->w->plan->cp);
    return !r->ops->computes || x->line == NULL || x->launch.rank == rank;
}

static int make_local(struct ranks *r, struct err *e)
{
    struct comm *comm[PLAN_MAX_RANKS] = {NULL};
    int64_t i;
    int rc = comm_local((int)r->w->plan->cp, RANKS_DEADLINE_MS, comm, e);

    for (i = 0; rc == ERR_OK && i < r->w->plan->cp; i++)
        r->one[i].comm = comm[i];
    return rc;
}

/* Threads of this process, a GPU each. */
static int make_threads(struct ranks *r, struct err *e)
{
    const struct cuda_module *m = r->w->x->module;
    int64_t i;
    int rc = alarm_threads((int)r->w->plan->cp, &r->crew.owned, e);

    if (rc == ERR_OK) rc = m->nccl_id(r->crew.id, e);
    for (i = 0; i < r->w->plan->cp; i++) r->one[i].gpu = (int)i;
    r->crew.alarm = r->crew.owned;
    return rc;
}

/* Processes: NCCL's id comes from rank 0. */
static int make_processes(struct ranks *r, struct err *e)
{
    const struct run_context *x = r->w->x;
    int rc = ERR_OK;

    r->crew.alarm = line_alarm(x->line);
    r->one[x->launch.rank].gpu = x->gpu;
    if (x->launch.rank == 0) rc = x->module->nccl_id(r->crew.id, e);
    rc = processes_agree(x, rc, e);
    if (rc == ERR_OK)
        rc = line_share(x->line, r->crew.id, sizeof r->crew.id, false, e);
    return rc;
}

int crew_make(struct ranks *r, struct err *e)
{
    const struct run_context *x = r->w->x;
    int64_t cp = r->w->plan->cp;

    if (!r->ops->computes) return ERR_OK;
    if (x->line != NULL && cp != x->launch.size)
        return err_set(e, ERR_INPUT, "the case has cp %d, but the launcher "
                       "started %d processes (start one for each rank)",
                       (int)cp, x->launch.size);
    if (cp == 1) return ERR_OK;
    if (x->module == NULL) return make_local(r, e);
    r->crew.nccl = !crew_shares_gpu(r->w);
    if (!r->crew.nccl) return make_local(r, e);
    return x->line != NULL ? make_processes(r, e) : make_threads(r, e);
}

int crew_join(struct ranks_one *o, struct err *e)
{
    const struct ranks *r = o->all;
    struct nccl_options n = {
        .rank = (int)o->rank, .size = (int)r->w->plan->cp, .gpu = o->gpu,
        .id = r->crew.id, .deadline_ms = RANKS_DEADLINE_MS,
        .alarm = r->crew.alarm
    };

    if (!r->crew.nccl || !r->ops->computes) return ERR_OK;
    return r->w->x->module->comm_nccl(&n, &o->comm, e);
}

void crew_tell(struct ranks_one *o, const char *text)
{
    struct alarm *a = o->all->crew.alarm;
    struct err cause;

    if (o->comm != NULL) {
        o->comm->ops->abort(o->comm, text);
    } else if (a != NULL) {
        err_set(&cause, ERR_RUN, "rank %d failed: %.400s", (int)o->rank,
                text);
        a->ops->raise(a, cause.text);
    }
}

void crew_leave(struct ranks_one *o)
{
    if (!o->all->crew.nccl || o->comm == NULL) return;
    o->comm->ops->close(o->comm);
    o->comm = NULL;
}

void crew_free(struct ranks *r)
{
    alarm_free(r->crew.owned);
    r->crew = (struct ranks_crew){0};
}
