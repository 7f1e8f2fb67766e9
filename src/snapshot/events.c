/* events.c - a trace's events, frames and stacks, see reading.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "snapshot/reading.h"

enum { LANES_MOST = 4096, CATEGORIES_MOST = 255, UNKNOWN_MOST = 16 };

enum word {
    W_NONE, W_ACTION, W_ADDR, W_SIZE, W_STREAM, W_TIME, W_FRAMES, W_POOL,
    W_FREE, W_CATEGORY, W_NAME, W_FILE, W_LINE, W_MEMBERS,
    W_ACTIONS = W_MEMBERS   /* the actions follow, in the order below */
};

static const char *const words[] = {
    "action", "addr", "size", "stream", "time_us", "frames", "pool_id",
    "device_free", "category", "name", "filename", "line",
    "alloc", "free_requested", "free_completed", "segment_alloc",
    "segment_free", "segment_map", "segment_unmap", "oom", "snapshot",
    "annotate", "user_defined",
    "N/A", "", NULL
};

enum { ACTIONS = 11 };
static const uint8_t actions[ACTIONS] = {
    SNAPSHOT_ALLOC, SNAPSHOT_FREE_REQUESTED, SNAPSHOT_FREE_COMPLETED,
    SNAPSHOT_SEGMENT_ALLOC, SNAPSHOT_SEGMENT_FREE, SNAPSHOT_SEGMENT_MAP,
    SNAPSHOT_SEGMENT_UNMAP, SNAPSHOT_OOM, SNAPSHOT_OTHER, SNAPSHOT_OTHER,
    SNAPSHOT_OTHER
};

/* ---- numbers ------------------------------------------------------------ */

void reading_type(const struct pickle *v, const char *want, char *why,
                  size_t n_why)
{
    snprintf(why, n_why, "must be %s, is %s", want,
             v == NULL ? "missing" : pickle_type_name(v));
}

bool reading_uint(const struct pickle *v, uint64_t *out, char *why,
                  size_t n_why)
{
    if (v != NULL && v->type == PICKLE_INT && !v->negative) {
        *out = v->v.u;
        return true;
    }
    reading_type(v, "an integer from 0", why, n_why);
    return false;
}

/* Bytes and addresses stay far from where sums wrap. */
bool reading_bytes(const struct pickle *v, uint64_t *out, char *why,
                   size_t n_why)
{
    if (!reading_uint(v, out, why, n_why)) return false;
    if (*out <= UINT64_C(1) << 50) return true;
    snprintf(why, n_why, "is over 1 PiB");
    return false;
}

bool reading_address(const struct pickle *v, uint64_t *out, char *why,
                     size_t n_why)
{
    if (!reading_uint(v, out, why, n_why)) return false;
    if (*out != 0 && *out % 512 == 0 && *out <= UINT64_C(1) << 62)
        return true;
    snprintf(why, n_why, "is no block's address");
    return false;
}

void *reading_room(void *array, int64_t n, size_t size)
{
    if (array != NULL && (n == 0 || (n & (n - 1)) != 0)) return array;
    return realloc(array, (n > 0 ? 2 * (size_t)n : 1) * size);
}

/* ---- lanes -------------------------------------------------------------- */

static bool pool_of(const struct pickle *v, uint32_t pool[2],
                    const char **why)
{
    pool[0] = pool[1] = 0;
    if (v == NULL) return true;
    if (pickle_held(v) != HELD_PAIR) {
        *why = "must be a pair of numbers";
        return false;
    }
    pool[0] = (uint32_t)(v->v.items->u.made >> 32);
    pool[1] = (uint32_t)v->v.items->u.made;
    return true;
}

static bool same_lane(const struct snapshot_lane *a,
                      const struct snapshot_lane *b)
{
    return a->stream == b->stream && a->pool[0] == b->pool[0]
        && a->pool[1] == b->pool[1];
}

bool reading_lane(struct reading *r, uint64_t stream,
                  const struct pickle *pool, uint16_t *out, const char **why)
{
    struct snapshot *s = r->s;
    struct snapshot_lane want = {.stream = stream}, *p;
    int64_t i;

    if (!pool_of(pool, want.pool, why)) return false;
    if (r->lane < s->n_lane && same_lane(&s->lane[r->lane], &want)) {
        *out = (uint16_t)r->lane;
        return true;
    }
    for (i = 0; i < s->n_lane && !same_lane(&s->lane[i], &want); i++) {}
    if (i == LANES_MOST) {
        *why = "more than 4096 streams and pools";
        return false;
    }
    if (i == s->n_lane) {
        *why = NULL;
        p = reading_room(s->lane, s->n_lane, sizeof *p);
        if (p == NULL) return false;
        s->lane = p;
        p[s->n_lane++] = want;
    }
    r->lane = i;
    *out = (uint16_t)i;
    return true;
}

/* ---- events ------------------------------------------------------------- */

/* The members of a dict that have a word, the last of each. */
struct members {
    const struct pickle *of[W_MEMBERS];
    uint32_t have;          /* bit: word */
};

static const struct pickle *member(const struct members *m, enum word w)
{
    return (m->have >> w & 1) != 0 ? m->of[w] : NULL;
}

static void bad_event(struct reading *r, const char *key, const char *why)
{
    r->bad = true;
    if (r->bad_event >= 0) return;
    r->bad_event = r->s->n_event;
    snprintf(r->bad_why, sizeof r->bad_why, "%s: %s", key, why);
}

/* Text that outlives the reading; NULL: no host memory. */
static const char *keep(struct reading *r, const struct pickle *v, size_t most)
{
    size_t n = v->len < most ? v->len : most;
    char *p = ARENA_TAKE(r->s->text, (int64_t)n + 1, char);

    if (p == NULL) return NULL;
    memcpy(p, v->v.s, n);
    text_clean(p);
    return p;
}

static bool same(const char *name, const struct pickle *v, size_t most)
{
    size_t n = v->len < most ? v->len : most;

    return strncmp(name, v->v.s, n) == 0 && name[n] == '\0';
}

/* Counts an action that nobody knows; the first few are named. */
static int count_unknown(struct reading *r, const struct pickle *v,
                         struct err *e)
{
    struct snapshot *s = r->s;
    struct snapshot_unknown *p;
    int64_t i;

    for (i = 0; i < s->n_unknown && !same(s->unknown[i].action, v, 40); i++) {}
    if (i == s->n_unknown && i < UNKNOWN_MOST) {
        p = reading_room(s->unknown, i, sizeof *p);
        if (p == NULL) return err_nomem(e);
        s->unknown = p;
        p[i] = (struct snapshot_unknown){keep(r, v, 40), 0};
        if (p[i].action == NULL) return err_nomem(e);
        s->n_unknown++;
    }
    if (i < s->n_unknown) s->unknown[i].events++;
    return ERR_OK;
}

static int take_action(struct reading *r, const struct pickle *v,
                       uint8_t *out, struct err *e)
{
    char why[96];

    *out = SNAPSHOT_OTHER;
    if (v == NULL || v->type != PICKLE_STRING) {
        reading_type(v, "a string", why, sizeof why);
        bad_event(r, "action", why);
        return ERR_OK;
    }
    if (v->word >= W_ACTIONS && v->word < W_ACTIONS + ACTIONS) {
        *out = actions[v->word - W_ACTIONS];
        return ERR_OK;
    }
    return count_unknown(r, v, e);
}

/* Few names, many events: an event holds a number. */
static int take_category(struct reading *r, const struct pickle *v,
                         uint8_t *out, struct err *e)
{
    struct snapshot *s = r->s;
    const char **p;
    int64_t i;

    if (v == NULL || v->type != PICKLE_STRING) return ERR_OK;
    for (i = 0; i < s->n_category && !same(s->category[i], v, 80); i++) {}
    if (i == CATEGORIES_MOST) return ERR_OK;
    if (i == s->n_category) {
        p = reading_room(s->category, i, sizeof *p);
        if (p == NULL) return err_nomem(e);
        s->category = p;
        p[i] = keep(r, v, 80);
        if (p[i] == NULL) return err_nomem(e);
        s->n_category++;
    }
    *out = (uint8_t)(i + 1);
    return ERR_OK;
}

/* What every event has that moves memory. */
static int take_place(struct reading *r, const struct members *m,
                      struct snapshot_event *out, struct err *e)
{
    const char *lane_why = "";
    uint64_t stream;
    char why[96];

    if (!reading_address(member(m, W_ADDR), &out->addr, why, sizeof why)) {
        bad_event(r, "addr", why);
    } else if (!reading_bytes(member(m, W_SIZE), &out->bytes, why,
                              sizeof why)) {
        bad_event(r, "size", why);
    } else if (out->bytes == 0) {
        bad_event(r, "size", "is 0");
    } else if (!reading_uint(member(m, W_STREAM), &stream, why, sizeof why)) {
        bad_event(r, "stream", why);
    } else if (!reading_lane(r, stream, member(m, W_POOL), &out->lane,
                             &lane_why)) {
        if (lane_why == NULL) return err_nomem(e);
        bad_event(r, "pool_id", lane_why);
    }
    return ERR_OK;
}

/* What was asked for, and what the device had; a file may tell neither. */
static int take_oom(struct reading *r, const struct members *m,
                    struct snapshot_event *out, struct err *e)
{
    const char *lane_why = "";
    uint64_t stream = 0;
    char why[96];

    if (!reading_bytes(member(m, W_SIZE), &out->bytes, why, sizeof why))
        out->bytes = 0;
    if (!reading_uint(member(m, W_FREE), &out->addr, why, sizeof why))
        out->addr = UINT64_MAX;
    (void)reading_uint(member(m, W_STREAM), &stream, why, sizeof why);
    if (!reading_lane(r, stream, member(m, W_POOL), &out->lane, &lane_why)
        && lane_why == NULL)
        return err_nomem(e);
    return ERR_OK;
}

static int64_t time_of(const struct pickle *v)
{
    return v != NULL && v->type == PICKLE_INT && !v->negative
        && v->v.u <= INT64_MAX ? v->v.i : 0;
}

static int take_event(struct reading *r, const struct members *m,
                      struct snapshot_event *out, struct err *e)
{
    const struct pickle *frames = member(m, W_FRAMES);
    int rc = take_action(r, member(m, W_ACTION), &out->action, e);

    out->time_us = time_of(member(m, W_TIME));
    if (frames != NULL && pickle_held(frames) == HELD_STACK)
        out->stack = (uint32_t)frames->v.items->u.made;
    if (rc == ERR_OK && (m->have >> W_CATEGORY & 1) != 0)
        rc = take_category(r, member(m, W_CATEGORY), &out->category, e);
    if (rc != ERR_OK || out->action == SNAPSHOT_OTHER) return rc;
    if (out->action != SNAPSHOT_OOM) return take_place(r, m, out, e);
    return take_oom(r, m, out, e);
}

static int more_events(struct reading *r, struct err *e)
{
    int64_t cap = r->cap_event > 0 ? 2 * r->cap_event : 1024;
    struct snapshot_event *p = realloc(r->s->event, (size_t)cap * sizeof *p);

    if (p == NULL) return err_nomem(e);
    r->s->event = p;
    r->cap_event = cap;
    return ERR_OK;
}

static int add_event(struct reading *r, const struct members *m,
                     struct pickle_items *to, struct err *e)
{
    struct snapshot *s = r->s;
    struct snapshot_event v = {0};
    int rc;

    r->bad = false;
    rc = take_event(r, m, &v, e);
    if (r->bad) v.action = SNAPSHOT_BAD;
    if (rc == ERR_OK && s->n_event == r->cap_event) rc = more_events(r, e);
    if (rc != ERR_OK) return rc;
    to->held = HELD_EVENT;
    to->u.made = (uint64_t)s->n_event;
    s->event[s->n_event++] = v;
    return ERR_OK;
}

/* ---- frames and stacks -------------------------------------------------- */

static struct stacks_key text_of(const struct pickle *v)
{
    if (v == NULL || v->type != PICKLE_STRING)
        return (struct stacks_key){"", 0};
    return (struct stacks_key){v->v.s, v->len};
}

static int add_frame(struct reading *r, const struct members *m,
                     struct pickle_items *to, struct err *e)
{
    const struct pickle *line = member(m, W_LINE);
    uint64_t n = line != NULL && line->type == PICKLE_INT && !line->negative
               ? line->v.u : 0;
    uint32_t id;

    if (!stacks_frame(&r->s->stacks, text_of(member(m, W_NAME)),
                      text_of(member(m, W_FILE)), n, &id))
        return err_nomem(e);
    to->held = HELD_FRAME;
    to->u.made = id;
    return ERR_OK;
}

static int on_dict(void *ctx, const struct pickle *pair, size_t n,
                   struct pickle_items *to, struct err *e)
{
    struct reading *r = ctx;
    struct members m;

    m.have = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned w = pair[2 * i].type == PICKLE_STRING ? pair[2 * i].word : 0;

        if (w == W_NONE || w >= W_MEMBERS) continue;
        m.of[w] = &pair[2 * i + 1];
        m.have |= UINT32_C(1) << w;
    }
    if ((m.have >> W_ACTION & 1) != 0) return add_event(r, &m, to, e);
    if ((m.have >> W_FILE & 1) != 0 && (m.have >> W_NAME & 1) != 0)
        return add_frame(r, &m, to, e);
    return ERR_OK;
}

static bool id_room(struct reading *r, size_t n)
{
    size_t cap = r->cap_id > 0 ? r->cap_id : 256;
    uint32_t *p;

    if (n <= r->cap_id) return true;
    while (cap < n) cap *= 2;
    p = realloc(r->id, cap * sizeof *p);
    if (p == NULL) return false;
    r->id = p;
    r->cap_id = cap;
    return true;
}

/* A list of frames, also one that grows. */
static int add_stack(struct reading *r, const struct pickle *v, size_t n,
                     struct pickle_items *to, struct err *e)
{
    const struct stacks *s = &r->s->stacks;
    uint32_t old = to->held != 0 ? (uint32_t)to->u.made : 0, out;
    size_t depth = stacks_depth(s, old);

    if (!id_room(r, depth + n)) return err_nomem(e);
    if (depth > 0)
        memcpy(r->id, s->id + s->start[old], depth * sizeof *r->id);
    for (size_t i = 0; i < n; i++) {
        if (v[i].type != PICKLE_DICT || v[i].v.items->held != HELD_FRAME) {
            if (old == 0) return ERR_OK;
            return err_set(e, ERR_INPUT, "frames: something that is none");
        }
        r->id[depth + i] = (uint32_t)v[i].v.items->u.made;
    }
    if (!stacks_add(&r->s->stacks, r->id, depth + n, &out))
        return err_nomem(e);
    to->held = HELD_STACK;
    to->u.made = out;
    return ERR_OK;
}

/* ---- traces ------------------------------------------------------------- */

static int new_trace(struct reading *r, struct pickle_items *to,
                     struct err *e)
{
    struct trace_range *p;

    p = reading_room(r->trace, r->n_trace, sizeof *p);
    if (p == NULL) return err_nomem(e);
    r->trace = p;
    p[r->n_trace] = (struct trace_range){r->s->n_event, 0};
    to->held = HELD_EVENTS;
    to->u.made = (uint64_t)r->n_trace++;
    return ERR_OK;
}

/* One more event at the end of a trace: the next that was read or, where a
** file names an event again, a copy. */
static int append_event(struct reading *r, struct trace_range *t,
                        int64_t index, struct err *e)
{
    struct snapshot *s = r->s;
    int rc = ERR_OK;

    if (t->n == 0) t->first = index;
    if (index != t->first + t->n) {
        if (t->first + t->n != s->n_event)
            return err_set(e, ERR_INPUT, "device_traces: events of two traces "
                           "are mixed");
        if (s->n_event == r->cap_event) rc = more_events(r, e);
        if (rc != ERR_OK) return rc;
        s->event[s->n_event++] = s->event[index];
    }
    t->n++;
    return ERR_OK;
}

static int add_events(struct reading *r, const struct pickle *v, size_t n,
                      struct pickle_items *to, struct err *e)
{
    int rc = to->held == 0 ? new_trace(r, to, e) : ERR_OK;
    struct trace_range *t = &r->trace[to->u.made];

    for (size_t i = 0; i < n && rc == ERR_OK; i++) {
        if (v[i].type != PICKLE_DICT || v[i].v.items->held != HELD_EVENT)
            return err_set(e, ERR_INPUT, "device_traces: event %lld: action: "
                           "must be a string, is missing", (long long)t->n);
        rc = append_event(r, t, (int64_t)v[i].v.items->u.made, e);
    }
    return rc;
}

static bool small(const struct pickle *v)
{
    return v->type == PICKLE_INT && !v->negative && v->v.u <= UINT32_MAX;
}

static int on_list(void *ctx, unsigned type, const struct pickle *v,
                   size_t n, struct pickle_items *to, struct err *e)
{
    struct reading *r = ctx;
    unsigned first = to->held != 0 ? 0 : pickle_held(&v[0]);

    if (type == PICKLE_TUPLE) {
        if (n != 2 || !small(&v[0]) || !small(&v[1])) return ERR_OK;
        to->held = HELD_PAIR;
        to->u.made = v[0].v.u << 32 | v[1].v.u;
        return ERR_OK;
    }
    if (to->held == HELD_STACK || first == HELD_FRAME)
        return add_stack(r, v, n, to, e);
    if (to->held == HELD_EVENTS || first == HELD_EVENT)
        return add_events(r, v, n, to, e);
    return ERR_OK;
}

struct pickle_hooks reading_hooks(struct reading *r)
{
    return (struct pickle_hooks){r, words, on_dict, on_list};
}
