/* account_json.c - a device of a snapshot as JSON, see account.h */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "snapshot/account.h"

static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

/* Adds to an object; a NULL value fails. */
static bool put(json_t *to, const char *key, json_t *v)
{
    return json_object_set_new(to, key, v) == 0;
}

static json_t *bytes_json(const struct replay_bytes *b)
{
    return json_pack("{s:I, s:I, s:I, s:I}",
                     "allocated_bytes", (json_int_t)b->allocated,
                     "reserved_bytes", (json_int_t)b->reserved,
                     "requested_bytes", (json_int_t)b->requested,
                     "active_bytes", (json_int_t)b->active);
}

static json_t *groups_json(const struct composition *c)
{
    json_t *list = json_array();

    for (int64_t i = 0; i < c->n_group && list != NULL; i++)
        if (json_array_append_new(list, json_pack("{s:s, s:I, s:I}",
                "key", c->group[i].key, "bytes",
                (json_int_t)c->group[i].bytes, "blocks",
                (json_int_t)c->group[i].blocks)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* The ten largest blocks, by the key that groups have too. */
static json_t *largest_json(const struct account *a,
                            const struct account_ask *ask,
                            const struct composition *c)
{
    json_t *list = json_array();
    char key[512];

    for (int i = 0; i < c->n_largest && list != NULL; i++) {
        const struct live_block *b = &c->largest[i];

        compose_key(a->s, ask->by, ask->patterns, b, c->event, key,
                    sizeof key);
        if (json_array_append_new(list, json_pack(
                "{s:I, s:I, s:I, s:o, s:s}", "address", (json_int_t)b->addr,
                "bytes", (json_int_t)b->size, "requested_bytes",
                (json_int_t)b->requested, "event", b->event < 0
                ? json_null() : json_integer((json_int_t)b->event), "key",
                key)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *point_json(const struct account *a,
                          const struct account_ask *ask,
                          const struct account_point *p)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:s, s:o, s:o}",
        "point", p->name, "event", (json_int_t)p->is.event,
        "allocated_bytes", (json_int_t)p->is.allocated,
        "before_trace_bytes", (json_int_t)p->is.before,
        "grouped_by", ask->by == BY_PATTERN ? "pattern"
                                            : compose_names[ask->by],
        "by", groups_json(&p->is), "largest", largest_json(a, ask, &p->is));
}

static json_t *points_json(const struct account *a,
                           const struct account_ask *ask)
{
    json_t *list = json_array();

    for (int i = 0; i < a->n_point && list != NULL; i++)
        if (json_array_append_new(list, point_json(a, ask, &a->point[i]))
            != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Recorded failures with the frame that asked. */
static json_t *ooms_json(const struct account *a)
{
    json_t *list = json_array();

    for (int64_t i = 0; i < a->walk.n_oom && list != NULL; i++) {
        const struct walk_oom *o = &a->walk.oom[i];
        uint32_t stack = a->s->device[a->device].event[o->event].stack;
        char key[512];

        compose_key(a->s, BY_FRAME, NULL, &(struct live_block){.stack = stack},
                    o->event, key, sizeof key);
        if (json_array_append_new(list, json_pack(
                "{s:I, s:s, s:I, s:o, s:I, s:I}", "event", (json_int_t)o->event,
                "frame", key, "asked_bytes", (json_int_t)o->asked, "free_bytes",
                o->free > INT64_MAX ? json_null() : number(o->free),
                "allocated_bytes", (json_int_t)o->now.allocated,
                "reserved_bytes", (json_int_t)o->now.reserved)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* NULL is no host memory; an empty list, no growth. */
static json_t *growth_json(const struct account *a)
{
    json_t *list = json_array();
    struct change *c = NULL;
    struct err e;
    int64_t n = 0;

    if (list == NULL
        || compose_change(&a->point[a->i_since].is, &a->point[a->i_to].is,
                          &c, &n, &e) != ERR_OK) {
        json_decref(list);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++)
        if (c[i].before != c[i].after)
            json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I}",
                "key", c[i].key, "before_bytes", (json_int_t)c[i].before,
                "after_bytes", (json_int_t)c[i].after, "change_bytes",
                (json_int_t)(c[i].after - c[i].before)));
    free(c);
    return list;
}

static json_t *phases_json(const struct account *a)
{
    json_t *list = json_array();

    for (int64_t i = 0; i < a->phases.n && list != NULL; i++) {
        const struct phase *p = &a->phases.at[i];

        json_array_append_new(list, json_pack(
            "{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "name", p->name,
            "first_event", (json_int_t)p->first, "last_event",
            (json_int_t)p->last, "start_allocated_bytes",
            (json_int_t)p->start, "allocated_peak_bytes",
            (json_int_t)p->peak, "peak_event", (json_int_t)p->peak_event,
            "rise_bytes", (json_int_t)(p->peak - p->start)));
    }
    return list;
}

/* Peaks: those recorded, or those under other settings. */
static bool put_peaks(json_t *d, const struct account *a,
                      const struct replay_bytes *peak)
{
    const struct { const char *key; uint64_t n; } at[] = {
        {"allocated_peak_bytes", peak->allocated},
        {"reserved_peak_bytes", peak->reserved},
        {"requested_peak_bytes", peak->requested},
        {"active_peak_bytes", peak->active},
    };
    bool ok = true;

    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        ok = put(d, at[i].key, a->history ? number(at[i].n) : json_null())
          && ok;
    return ok;
}

/* What the prediction said; null where there was none, or where what was asked
** for is not what was recorded. */
static bool put_prediction(json_t *d, const struct account *a)
{
    bool said = a->predicted && !a->is_set;
    const struct replay *r = a->is_set ? &a->set : &a->replay;

    return put(d, "predicted", json_boolean(a->predicted))
        && put(d, "reason", a->reason[0] != '\0' ? js_text(a->reason)
                                                 : json_null())
        && put(d, "address_mismatches", said ? number(r->address_mismatches)
                                             : json_null())
        && put(d, "segment_mismatches", said ? number(r->segment_mismatches)
                                             : json_null())
        && put(d, "assumed_sizes", number((uint64_t)a->walk.assumed))
        && put(d, "ooms", number(a->is_set ? r->ooms
                                                : (uint64_t)a->walk.n_oom));
}

static bool put_final(json_t *d, const struct account *a)
{
    json_t *final = bytes_json(a->is_set ? &a->set.final : &a->walk.final);

    return final != NULL
        && put(final, "recorded", bytes_json(&a->walk.recorded))
        && put(final, "block_mismatches", a->predicted && !a->is_set
               ? number(a->replay.block_mismatches) : json_null())
        && put(d, "final", final);
}

static bool put_set(json_t *d, const struct account *a)
{
    json_t *before;

    if (a->least_limit > 0
        && !put(d, "least_limit", json_pack("{s:I, s:o, s:I}",
               "limit_bytes", (json_int_t)a->least_limit, "fails_below_at",
               a->below.first_oom < 0 ? json_null()
               : json_integer((json_int_t)a->below.first_oom),
               "failures_below", (json_int_t)a->below.ooms)))
        return false;
    if (!a->is_set) return true;
    before = json_object();
    return before != NULL && put_peaks(before, a, &a->walk.peak)
        && put(d, "as_recorded", before)
        && put(d, "blocks_elsewhere", number(a->set.address_mismatches))
        && put(d, "first_failure", a->set.first_oom < 0 ? json_null()
               : json_integer((json_int_t)a->set.first_oom));
}

/* The keys that "help snapshots" lists, in its order. */
static bool put_all(json_t *d, const struct account *a,
                    const struct account_ask *ask)
{
    const struct replay_bytes *peak = a->is_set ? &a->set.peak
                                                : &a->walk.peak;

    return put(d, "device", json_integer((json_int_t)a->device))
        && put(d, "notes", account_notes(a, ask))
        && put(d, "settings", a->s->settings != NULL
               ? js_text(a->s->settings) : json_null())
        && put(d, "set", a->is_set ? js_text(ask->set_text)
                                   : json_null())
        && put(d, "events", number((uint64_t)a->walk.events))
        && put(d, "history", json_boolean(a->history))
        && put(d, "overflowed", json_boolean(a->s->overflowed))
        && put(d, "start_allocated_bytes",
               number(a->walk.initial.allocated))
        && put_peaks(d, a, peak) && put_prediction(d, a)
        && put(d, "recorded_ooms", ooms_json(a)) && put_final(d, a)
        && put_set(d, a)
        && put(d, "peak", a->i_peak < 0 ? json_null()
               : point_json(a, ask, &a->point[a->i_peak]))
        && put(d, "points", points_json(a, ask))
        && put(d, "phases", phases_json(a))
        && (a->i_since < 0 || put(d, "growth", growth_json(a)));
}

json_t *account_json(const struct account *a, const struct account_ask *ask)
{
    json_t *d = json_object();

    if (d != NULL && put_all(d, a, ask)) return d;
    json_decref(d);
    return NULL;
}
