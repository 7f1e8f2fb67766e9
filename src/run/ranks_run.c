/* ranks_run.c - see ranks.h: opening ranks, running them, closing them */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "base/num.h"
#include "run/dump.h"
#include "run/crew.h"
#include "run/labels.h"
#include "snapshot/snapshot.h"

static enum dtype dtype_of(const char *name)
{
    if (strcmp(name, "f64") == 0) return DT_F64;
    return strcmp(name, "f32") == 0 ? DT_F32 : DT_BF16;
}

/* ---- one rank ----------------------------------------------------------- */

/* From the case's words to the step's: the only place where they meet. */
static struct step_config config_of(const struct ranks_one *o)
{
    const struct run_work *w = o->all->w;
    const struct scenario_case *c = w->c;
    const struct run_labels *l = w->labels;
    int64_t own = l != NULL ? l->head[o->rank]
                            : w->plan->rank[o->rank].attention_rows;

    return (struct step_config){
        .model = &w->model, .plan = w->plan, .rank = o->rank,
        .ep = c->ep, .pp = c->pp, .mode = c->mode,
        .lora_rank = c->lora_rank, .lora_alpha = c->lora_alpha,
        .head_rows = c->head_rows < 0 ? own : num_min(c->head_rows, own),
        .more_labels = l != NULL ? l->more[o->rank] : 0,
        .q_block = PRICE_Q_BLOCK, .k_block = PRICE_K_BLOCK,
        .routing = o->all->routing, .seed = c->seed, .init = c->init,
        .stream = o->all->stream,
        .checkpoint = o->all->checkpoint, .adapters = o->all->adapters,
        .dump = w->x->dump != NULL, .dump_rows = w->x->dump_rows,
        .n_dump_rows = w->x->n_dump_rows,
        .watch = o->all->watch_from > 0,
        .watch_from = o->all->watch_from - 1,
        .learning_rate = c->learning_rate,
        /* who asks what a device holds asks of training */
        .optimizer = c->learning_rate > 0 ||
                     (c->device_bytes > 0 && c->mode.wave == WAVE_TRAIN)
    };
}

/* The device's segments, noted; on dry, the same again where the rank is held
** beside one that ran here. */
static struct mem_source segments_of(struct ranks_one *o)
{
    const struct ranks *like = o->all->like;

    if (like != NULL && crew_is_here(like, o->rank))
        return segment_repeat(&o->again, &like->one[o->rank].segments);
    if (!o->all->ops->computes) return o->dev->source;
    return segment_note(&o->segments, driver_watch(o));
}

/* ---- a desk -------------------------------------------------------------- */

/* The rank's step is new on it: for those that follow. */
static int desk_keep(struct ranks_desk *d, struct ranks_one *o, struct err *e)
{
    int rc = mem_keep(o->mem, &d->kept, e);

    if (rc == ERR_OK) rc = step_keep(o->step, &d->base, e);
    if (rc != ERR_OK) {
        mem_kept_free(d->kept);
        d->kept = NULL;
        return rc;
    }
    d->dev = o->dev;
    d->mem = o->mem;
    return ERR_OK;
}

static int desk_again(struct ranks_desk *d, struct ranks_one *o,
                      struct step_config *c, struct err *e)
{
    mem_rewind(d->mem, d->kept);
    o->dev = d->dev;
    o->mem = d->mem;
    c->base = d->base;
    return step_new(c, o->dev, o->mem, NULL, &o->step, e);
}

void ranks_desk_close(struct ranks_desk *d)
{
    mem_kept_free(d->kept);
    step_base_free(d->base);
    mem_free_all(d->mem);
    if (d->dev != NULL) d->dev->ops->close(d->dev);
    *d = (struct ranks_desk){NULL, NULL, NULL, NULL};
}

/* ---- opened, run, closed ------------------------------------------------- */

/* A device, its allocator and a step, or the desk's; one list of what may
** fail. */
static int rank_open(struct ranks_one *o, struct err *e)
{
    const struct ranks *r = o->all;
    const struct run_work *w = r->w;
    struct dev_options options = {
        .rank = (int)o->rank, .gpu = o->gpu, .act = dtype_of(w->c->dtype),
        .limit_bytes = w->c->device_bytes
    };
    struct mem_config memory = {
        .trace = r->trace,
        .rounded = (w->c->mode.otherwise & OTHERWISE_ROUNDED) != 0};
    struct step_config step = config_of(o);
    int rc;

    if (r->desk != NULL && r->desk->dev != NULL)
        return desk_again(r->desk, o, &step, e);
    rc = r->ops->open(&options, &o->dev, e);
    if (rc == ERR_OK) rc = crew_join(o, e);
    if (rc == ERR_OK) rc = mem_new(&memory, segments_of(o), &o->mem, e);
    if (rc == ERR_OK)
        rc = step_new(&step, o->dev, o->mem, o->comm, &o->step, e);
    if (rc == ERR_OK && r->desk != NULL) rc = desk_keep(r->desk, o, e);
    return rc;
}

/* The wave's events and the allocator after it, also after a failure. */
static int write_snapshot(struct ranks_one *o, struct ranks_wave *v, int rc,
                          struct err *e)
{
    struct err late;
    char name[40];

    if (!o->all->snapshots) return rc;
    snprintf(name, sizeof name, "wave %" PRId64, (int64_t)(v - o->wave));
    if (snapshot_write(o->mem, v->first, name, &v->snapshot, &late) == ERR_OK)
        return rc;
    if (rc != ERR_OK) return rc;
    *e = late;
    return (int)late.code;
}

static int rank_wave(struct ranks_one *o, int64_t i, struct err *e)
{
    struct ranks_wave *v = &o->wave[i];
    int64_t start = run_now_ns(), cells;
    const struct model *m = &o->all->w->model;
    int rc;

    mem_trace(o->mem, &v->first);
    rc = step_wave(o->step, i, o->all->data, &v->got, e);
    v->ns = run_now_ns() - start;
    rc = write_snapshot(o, v, rc, e);
    if (rc == ERR_OK) rc = run_dump_take(o, &v->dump, e);
    if (rc != ERR_OK) return rc;
    mem_trace(o->mem, &v->end);
    cells = m->layers * m->experts;
    if (o->sent != NULL)
        memcpy(o->sent + i * cells, v->got.sent,
               (size_t)cells * sizeof *o->sent);
    return ERR_OK;
}

/* What a rank's last wave left of its allocator. */
struct left { uint64_t layout, reserved; };

/* Whether the device has room for what another wave that reserves as much more
** as the last did would reserve. */
static bool has_room(const struct ranks_one *o, uint64_t before, uint64_t now)
{
    uint64_t limit = o->all->w->c->device_bytes;

    return limit == 0 || now <= before || now - before <= limit - now;
}

/* Whether wave i left the allocator as it found it, so that the next would do
** the same again; or all but surely, where that is enough. */
static bool is_steady(struct ranks_one *o, int64_t i, struct left *left)
{
    struct left last = *left;
    struct mem_stats so_far;

    if (!o->all->brief || routing_changes(o->all->routing)) return false;
    mem_stats(o->mem, &so_far);
    left->reserved = so_far.reserved;
    if (o->all->enough > 0 && o->good >= o->all->enough
        && so_far.retries == 0
        && (i == 0 || has_room(o, last.reserved, so_far.reserved)))
        return true;
    left->layout = mem_layout(o->mem);
    return i > 0 && left->layout == last.layout;
}

/* The waves of one rank until one fails, or none is wanted. */
static void rank_waves(struct ranks_one *o, struct err *e)
{
    struct left left = {0};

    while (o->rc == ERR_OK && o->good < atomic_load(&o->all->limit)) {
        int64_t i = o->good;

        if (*o->all->w->x->interrupt != 0)
            o->rc = err_set(e, ERR_INTERRUPTED, "interrupted");
        else
            o->rc = rank_wave(o, i, e);
        if (o->rc != ERR_OK) return;
        o->good++;
        if (!is_steady(o, i, &left)) continue;
        for (; o->good < o->all->waves; o->good++)
            o->wave[o->good] = o->wave[i];
    }
}

/* NULLs are fine. A device that never came to be the desk's is the rank's. */
static void rank_close(struct ranks_one *o)
{
    const struct ranks_desk *d = o->all->desk;

    step_free(o->step);
    if (d == NULL || o->dev != d->dev) {
        mem_free_all(o->mem);
        if (o->dev != NULL) o->dev->ops->close(o->dev);
    }
    o->step = NULL;
    o->mem = NULL;
    o->dev = NULL;
}

static void rank_run(struct ranks_one *o)
{
    struct err *e = &o->e;

    o->rc = rank_open(o, e);
    rank_waves(o, e);
    if (o->rc != ERR_OK) {
        crew_tell(o, e->text);
        err_wrap(e, "rank %d", (int)o->rank);
    }
    crew_leave(o);
    if (!o->all->brief) return;
    if (o->mem != NULL) mem_stats(o->mem, &o->stats);
    rank_close(o);
}

static void *rank_thread(void *arg)
{
    rank_run(arg);
    return NULL;
}

/* ---- all ranks ---------------------------------------------------------- */

/* All room first, so that no rank finds itself alone in an exchange. */
static int ranks_open(struct ranks *r, struct err *e)
{
    const struct run_work *w = r->w;
    int64_t cp = w->plan->cp, i;
    int64_t cells = r->waves * w->model.layers * w->model.experts;
    int rc = ERR_OK;

    r->one = calloc((size_t)cp, sizeof *r->one);
    if (r->one == NULL) return err_nomem(e);
    for (i = 0; i < cp; i++) {
        struct ranks_one *o = &r->one[i];
        o->all = r;
        o->rank = i;
        o->wave = calloc((size_t)r->waves, sizeof *o->wave);
        if (o->wave == NULL) rc = err_nomem(e);
        if (!r->ops->computes || cells == 0) continue;
        o->sent = calloc((size_t)cells, sizeof *o->sent);
        if (o->sent == NULL) rc = err_nomem(e);
    }
    if (rc == ERR_OK) rc = crew_make(r, e);
    if (rc == ERR_OK) driver_before(r);
    return rc;
}

static void run_together(struct ranks *r)
{
    int64_t i;
    int why;

    for (i = 0; i < r->w->plan->cp; i++) {
        struct ranks_one *o = &r->one[i];
        if (!crew_is_here(r, i)) continue;
        why = pthread_create(&o->thread, NULL, rank_thread, o);
        o->started = why == 0;
        if (o->started) continue;
        o->rc = err_set(&o->e, ERR_RUN, "rank %d: cannot start a thread: %s",
                        (int)i, strerror(why));
        crew_tell(o, o->e.text);
    }
    for (i = 0; i < r->w->plan->cp; i++)
        if (r->one[i].started) pthread_join(r->one[i].thread, NULL);
}

/* Rank by rank; the later ones run no wave that an earlier one did not. */
static void *take_turns(void *arg)
{
    struct ranks *r = arg;
    int i;

    while ((i = atomic_fetch_add(&r->turn, 1)) < r->w->plan->cp) {
        if (r->idle >> i & 1) continue;
        if (r->brief && atomic_load(&r->limit) == 0) continue;
        rank_run(&r->one[i]);
        least_put(&r->limit, r->one[i].good);
    }
    return NULL;
}

static void run_in_turn(struct ranks *r)
{
    pthread_t helper[PLAN_MAX_RANKS];
    int n = 0, i;

    while (n < num_min(r->threads, r->w->plan->cp) - 1 &&
           pthread_create(&helper[n], NULL, take_turns, r) == 0) n++;
    take_turns(r);
    for (i = 0; i < n; i++) pthread_join(helper[i], NULL);
}

/* The error to tell: that of the earliest wave, and there what a rank met
** itself (ERR_RUN is also what it hears of another). */
static const struct ranks_one *first_failed(const struct ranks *r)
{
    const struct ranks_one *worst = NULL;
    int64_t i;

    for (i = 0; i < r->w->plan->cp; i++) {
        const struct ranks_one *o = &r->one[i];
        if (o->rc == ERR_OK) continue;
        if (worst == NULL || o->good < worst->good ||
            (o->good == worst->good && worst->rc == ERR_RUN &&
             o->rc != ERR_RUN)) worst = o;
    }
    return worst;
}

int ranks_run(struct ranks *r, struct err *e)
{
    const struct ranks_one *failed;
    int64_t i;
    int rc;

    r->good = 0;
    atomic_store(&r->limit, r->waves);
    atomic_store(&r->turn, 0);
    rc = ranks_open(r, e);
    if (rc != ERR_OK) return rc;
    if (r->ops->computes && r->w->plan->cp > 1)
        run_together(r);
    else
        run_in_turn(r);
    if (r->ops->computes) {
        driver_after(r);
        rc = processes_exchange(r, e);
        if (rc != ERR_OK) return rc;
    }
    r->good = r->waves;
    for (i = 0; i < r->w->plan->cp; i++)
        r->good = num_min(r->good, r->one[i].good);
    failed = first_failed(r);
    if (failed == NULL) return ERR_OK;
    *e = failed->e;
    return failed->rc;
}

static void wave_free(struct ranks_wave *v)
{
    buf_free(&v->snapshot);
    run_dump_free(v->dump);
}

void ranks_close(struct ranks *r)
{
    int64_t i, k;

    for (i = 0; r->one != NULL && i < r->w->plan->cp; i++) {
        struct ranks_one *o = &r->one[i];

        for (k = 0; o->wave != NULL && k < r->waves; k++)
            wave_free(&o->wave[k]);
        rank_close(o);
        if (o->comm != NULL) o->comm->ops->close(o->comm);
        segment_log_free(&o->segments);
        free(o->wave);
        free(o->sent);
    }
    free(r->one);
    r->one = NULL;
    crew_free(r);
}
