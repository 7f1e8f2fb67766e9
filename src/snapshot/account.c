/* account.c - see account.h */
#include "snapshot/account.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

#define MIB (UINT64_C(1) << 20)

enum { OOMS_MOST = 8 };     /* whose composition is told */

/* ---- points ------------------------------------------------------------- */

/* Where a point lies; "oom" and "peak" without one are the end. */
static int find_point(const struct account *a, const char *text,
                      int64_t *out, struct err *e)
{
    const struct snapshot_device *d = &a->s->device[a->device];
    const struct walk *w = &a->walk;
    int64_t v;

    *out = d->n_event - 1;
    if (strcmp(text, "end") == 0) return ERR_OK;
    if (strcmp(text, "start") == 0) {
        *out = -1;
    } else if (strcmp(text, "peak") == 0) {
        *out = w->peak_event;
    } else if (strcmp(text, "oom") == 0) {
        if (w->n_oom == 0)
            return err_set(e, ERR_USAGE, "device %" PRId64 ": no "
                           "out-of-memory was recorded", a->device);
        *out = w->oom[0].event;
    } else if (strncmp(text, "time=", 5) == 0) {
        if (!num_parse(text + 5, 0, INT64_MAX - 1, &v))
            return err_set(e, ERR_USAGE, "'%.60s' is no time in "
                           "microseconds (time=1700000000000000)", text);
        *out = phases_event_at(d, v + 1) - 1;
    } else if (!num_parse(text, 0, d->n_event - 1, out)) {
        return err_set(e, ERR_USAGE, "'%.60s' is no point of device %" PRId64
                       " (0 to %" PRId64 ", time=MICROSECONDS, peak, oom, "
                       "start or end)", text, a->device, d->n_event - 1);
    }
    return ERR_OK;
}

static void name_point(struct account_point *p, const char *name,
                       int64_t event)
{
    snprintf(p->name, sizeof p->name, "%s", name);
    p->is.event = event;
}

/* Peak, out-of-memories, those asked for, the end: in this order in all
** outputs. */
static int list_points(struct account *a, const struct account_ask *ask,
                       struct err *e)
{
    const struct walk *w = &a->walk;
    int64_t n_oom = w->n_oom < OOMS_MOST ? w->n_oom : OOMS_MOST, event = 0;
    struct account_point *p;
    int n = 0, i, rc = ERR_OK;

    p = calloc((size_t)(n_oom + ask->n_at + 3), sizeof *p);
    if (p == NULL) return err_nomem(e);
    a->point = p;
    a->i_peak = a->i_since = -1;
    if (a->history) {
        a->i_peak = n;
        name_point(&p[n++], "peak", w->peak_event);
    }
    for (i = 0; i < n_oom; i++) name_point(&p[n++], "oom", w->oom[i].event);
    a->i_at = n;
    a->n_at = ask->n_at;
    for (i = 0; i < ask->n_at && rc == ERR_OK; i++) {
        rc = find_point(a, ask->at[i], &event, e);
        name_point(&p[n++], ask->at[i], event);
    }
    if (ask->since != NULL && rc == ERR_OK) {
        rc = find_point(a, ask->since, &event, e);
        a->i_since = n;
        name_point(&p[n++], ask->since, event);
    }
    a->i_end = n;
    name_point(&p[n++], "end", w->events - 1);
    a->i_to = ask->n_at > 0 ? a->i_at : a->i_end;
    a->n_point = n;
    return rc;
}

struct order { int64_t event; int index; };

static int by_event(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    if (x->event != y->event) return x->event < y->event ? -1 : 1;
    return x->index - y->index;
}

/* One walk answers all points, so they are sorted by event. */
static int compose_points(struct account *a, const struct account_ask *ask,
                          struct err *e)
{
    size_t n = (size_t)a->n_point;
    struct order *order = calloc(n, sizeof *order);
    int64_t *event = calloc(n, sizeof *event);
    struct composition *c = calloc(n, sizeof *c);
    int rc = order != NULL && event != NULL && c != NULL ? ERR_OK
                                                         : err_nomem(e);

    for (size_t i = 0; rc == ERR_OK && i < n; i++)
        order[i] = (struct order){a->point[i].is.event, (int)i};
    if (rc == ERR_OK) {
        qsort(order, n, sizeof *order, by_event);
        for (size_t i = 0; i < n; i++) event[i] = order[i].event;
        rc = compose(a->s, &a->start, &a->walk, ask->by, ask->patterns, event,
                     (int64_t)n, c, e);
        for (size_t i = 0; i < n; i++) a->point[order[i].index].is = c[i];
    }
    free(order);
    free(event);
    free(c);
    return rc;
}

/* ---- other settings ----------------------------------------------------- */

static int replay_limited(const struct account *a, const struct mem_config *c,
                          uint64_t limit, struct replay *out, struct err *e)
{
    struct mem_config limited = *c;

    limited.limit_bytes = limit;
    return replay_from(a->s, a->device, &a->start, &limited, NULL, NULL, out,
                       e);
}

/* What failed in the record may need more than was ever reserved. */
static uint64_t asked_most(const struct walk *w)
{
    uint64_t most = 0;

    for (int64_t i = 0; i < w->n_oom; i++)
        if (w->oom[i].asked > most) most = w->oom[i].asked;
    return most;
}

/* The least multiple of 2 MiB under which every request succeeds, by bisection
** between what was requested at once and what was reserved. */
static int find_limit(struct account *a, const struct mem_config *c,
                      struct err *e)
{
    uint64_t unit = 2 * MIB, low, high;
    struct replay r;
    int rc = replay_limited(a, c, 0, &r, e);

    if (rc != ERR_OK) return rc;
    low = r.initial.reserved > r.peak.requested ? r.initial.reserved
                                                : r.peak.requested;
    low = low / unit > 0 ? low / unit - 1 : 0;
    high = (r.peak.reserved + asked_most(&a->walk)) / unit + 20;
    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;

        rc = replay_limited(a, c, mid * unit, &r, e);
        if (rc != ERR_OK) return rc;
        if (r.ooms == 0)
            high = mid;
        else
            low = mid;
    }
    a->least_limit = high * unit;
    return replay_limited(a, c, low > 0 ? low * unit : 1, &a->below, e);
}

static int replay_set(struct account *a, const struct account_ask *ask,
                      struct err *e)
{
    const struct mem_config *c = ask->set != NULL ? ask->set
                                                  : &a->s->config;
    int rc = ERR_OK;

    a->is_set = ask->set != NULL && a->history;
    if (a->is_set)
        rc = replay_from(a->s, a->device, &a->start, c, NULL, NULL, &a->set,
                         e);
    if (rc == ERR_OK && ask->least_limit && a->history)
        rc = find_limit(a, c, e);
    return rc;
}

/* ---- a device ----------------------------------------------------------- */

static int predict(struct account *a, struct err *e)
{
    snprintf(a->reason, sizeof a->reason, "%s",
             a->history ? walk_reason(a->s, a->device)
                        : "no history was recorded");
    if (a->reason[0] != '\0') return ERR_OK;
    a->predicted = true;
    return replay_from(a->s, a->device, &a->start, &a->s->config, NULL, NULL,
                       &a->replay, e);
}

int account_device(const struct snapshot *s, int64_t device,
                   const char *origin, const struct account_ask *ask,
                   struct account *out, struct err *e)
{
    struct account a = {.s = s, .device = device};
    int rc = rewind_device(s, device, origin, &a.start, e);

    assert(device >= 0 && device < s->n_device);
    assert(ask->by != BY_PATTERN || ask->patterns != NULL);
    a.history = s->device[device].n_event > 0;
    if (rc == ERR_OK && a.start.assumed > 0
        && walk_reason(s, device)[0] == '\0')
        rc = replay_settle(s, device, &a.start, e);
    if (rc == ERR_OK)
        rc = walk_device(s, device, origin, &a.start, NULL, NULL, &a.walk, e);
    if (rc == ERR_OK) rc = predict(&a, e);
    if (rc == ERR_OK) rc = list_points(&a, ask, e);
    if (rc == ERR_OK) rc = compose_points(&a, ask, e);
    if (rc == ERR_OK) rc = phases_find(s, &a.walk, ask->waves, &a.phases, e);
    if (rc == ERR_OK) rc = replay_set(&a, ask, e);
    if (rc != ERR_OK) {
        account_free(&a);
        return rc;
    }
    *out = a;
    return ERR_OK;
}

void account_free(struct account *a)
{
    for (int i = 0; i < a->n_point; i++) composition_free(&a->point[i].is);
    free(a->point);
    walk_free(&a->walk);
    rewind_free(&a->start);
    phases_free(&a->phases);
    *a = (struct account){0};
}
