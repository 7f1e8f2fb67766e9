/*
** snapshot.c - from a pickle's values to checked arrays, see snapshot.h.
**
** A hostile file can name one list many times, so that what it spells out is
** far longer than the file. Every element costs the file's writer at least a
** byte when it is honest; more elements than bytes are refused.
*/
#include "snapshot/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/pickle.h"

enum { STREAMS_MOST = 1024, DEVICES_MOST = 1024 };

/* A place in the file, for messages, and what may still be read. */
struct place {
    const char *origin;
    int64_t device;
    const char *kind;       /* "event"; NULL: the file itself */
    int64_t index;
    size_t left;            /* elements */
    struct err *e;
};

static int bad(const struct place *p, const char *key, const char *why)
{
    if (p->kind == NULL)
        return err_set(p->e, ERR_INPUT, "%s: %s: %s", p->origin, key, why);
    return err_set(p->e, ERR_INPUT, "%s: device %" PRId64 ", %s %" PRId64
                   ": %s: %s", p->origin, p->device, p->kind, p->index, key,
                   why);
}

static int bad_type(const struct place *p, const char *key,
                    const struct pickle *v, const char *want)
{
    char why[96];

    snprintf(why, sizeof why, "must be %s, is %s", want,
             v == NULL ? "missing" : pickle_type_name(v));
    return bad(p, key, why);
}

/* ---- members ------------------------------------------------------------ */

static int get_uint(const struct place *p, const struct pickle *d,
                    const char *key, uint64_t *out)
{
    const struct pickle *v = pickle_get(d, key);

    if (v == NULL || v->type != PICKLE_INT || v->negative)
        return bad_type(p, key, v, "an integer from 0");
    *out = v->v.u;
    return ERR_OK;
}

/* Bytes and addresses stay far from where sums wrap. */
static int get_bytes(const struct place *p, const struct pickle *d,
                     const char *key, uint64_t *out)
{
    int rc = get_uint(p, d, key, out);

    if (rc == ERR_OK && *out > UINT64_C(1) << 50)
        return bad(p, key, "is over 1 PiB");
    return rc;
}

static int get_address(const struct place *p, const struct pickle *d,
                       const char *key, uint64_t *out)
{
    int rc = get_uint(p, d, key, out);

    if (rc != ERR_OK) return rc;
    if (*out == 0 || *out % 512 != 0 || *out > UINT64_C(1) << 62)
        return bad(p, key, "is no block's address");
    return ERR_OK;
}

/* A list's items, counted against what the file may hold. */
static int get_list(struct place *p, const struct pickle *v, const char *key,
                    const struct pickle_items **out)
{
    if (v == NULL || v->type != PICKLE_LIST)
        return bad_type(p, key, v, "a list");
    if (v->v.items->n > p->left)
        return bad(p, key, "the file names more elements than it has bytes");
    p->left -= v->v.items->n;
    *out = v->v.items;
    return ERR_OK;
}

static void *new_array(int64_t n, size_t size)
{
    return calloc(n > 0 ? (size_t)n : 1, size);
}

/* An array of n items with room for one more: its size is the power of two
** that holds n. NULL: no host memory, and the array is as before. */
static void *room_for_one(void *array, int64_t n, size_t size)
{
    if (array != NULL && (n == 0 || (n & (n - 1)) != 0)) return array;
    return realloc(array, (n > 0 ? 2 * (size_t)n : 1) * size);
}

/* ---- streams ------------------------------------------------------------ */

static int get_stream(const struct place *p, const struct pickle *d,
                      struct snapshot_device *to, uint32_t *out)
{
    uint64_t handle = 0;
    int64_t i;
    int rc = get_uint(p, d, "stream", &handle);

    if (rc != ERR_OK) return rc;
    for (i = 0; i < to->n_stream && to->stream[i] != handle; i++) {}
    if (i == STREAMS_MOST) return bad(p, "stream", "more than 1024 streams");
    if (i == to->n_stream) {
        uint64_t *s = realloc(to->stream, (size_t)(i + 1) * sizeof *s);

        if (s == NULL) return err_nomem(p->e);
        to->stream = s;
        s[to->n_stream++] = handle;
    }
    *out = (uint32_t)i;
    return ERR_OK;
}

/* ---- trace -------------------------------------------------------------- */

static const struct { const char *name; enum snapshot_action action; }
actions[] = {
    {"alloc", SNAPSHOT_ALLOC},
    {"free_requested", SNAPSHOT_FREE_REQUESTED},
    {"free_completed", SNAPSHOT_FREE_COMPLETED},
    {"segment_alloc", SNAPSHOT_SEGMENT_ALLOC},
    {"segment_free", SNAPSHOT_SEGMENT_FREE},
    {"oom", SNAPSHOT_OOM},
    {"snapshot", SNAPSHOT_OTHER},
    {"annotate", SNAPSHOT_OTHER},
    {"user_defined", SNAPSHOT_OTHER},
};

static int get_action(const struct place *p, const struct pickle *d,
                      uint8_t *out)
{
    const struct pickle *v = pickle_get(d, "action");

    if (v == NULL || v->type != PICKLE_STRING)
        return bad_type(p, "action", v, "a string");
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (!pickle_is(v, actions[i].name)) continue;
        *out = (uint8_t)actions[i].action;
        return ERR_OK;
    }
    if (pickle_is(v, "segment_map") || pickle_is(v, "segment_unmap"))
        return bad(p, "action", "expandable segments cannot be replayed");
    return bad(p, "action", "is none that is known");
}

static int check_private(const struct place *p, const struct pickle *d,
                         const char *key)
{
    const struct pickle *id = pickle_get(d, key);

    if (id == NULL) return ERR_OK;
    if (id->type != PICKLE_TUPLE || id->v.items->n != 2)
        return bad_type(p, key, id, "a pair");
    for (int i = 0; i < 2; i++) {
        const struct pickle *v = &id->v.items->at[i];

        if (v->type != PICKLE_INT || v->v.u != 0)
            return bad(p, key, "private pools (graphs) cannot be replayed");
    }
    return ERR_OK;
}

static int read_event(const struct place *p, const struct pickle *d,
                      struct snapshot_device *to, struct snapshot_event *out)
{
    int rc = get_action(p, d, &out->action);

    if (rc != ERR_OK) return rc;
    if (out->action == SNAPSHOT_OOM || out->action == SNAPSHOT_OTHER)
        return ERR_OK;
    rc = get_address(p, d, "addr", &out->addr);
    if (rc == ERR_OK) rc = get_bytes(p, d, "size", &out->bytes);
    if (rc == ERR_OK && out->bytes == 0) rc = bad(p, "size", "is 0");
    if (rc == ERR_OK) rc = get_stream(p, d, to, &out->stream);
    if (rc == ERR_OK) rc = check_private(p, d, "pool_id");
    return rc;
}

static int read_trace(struct place *p, const struct pickle *trace,
                      struct snapshot_device *to)
{
    const struct pickle_items *items = NULL;
    int rc = get_list(p, trace, "device_traces", &items);

    if (rc != ERR_OK) return rc;
    to->event = new_array((int64_t)items->n, sizeof *to->event);
    if (to->event == NULL) return err_nomem(p->e);
    p->kind = "event";
    for (size_t i = 0; i < items->n && rc == ERR_OK; i++) {
        p->index = (int64_t)i;
        rc = read_event(p, &items->at[i], to, &to->event[i]);
        to->n_event++;
    }
    p->kind = NULL;
    return rc;
}

/* ---- segments ----------------------------------------------------------- */

static int get_state(const struct place *p, const struct pickle *d,
                     bool *in_use, bool *pending)
{
    const struct pickle *v = pickle_get(d, "state");

    if (v == NULL || v->type != PICKLE_STRING)
        return bad_type(p, "state", v, "a string");
    *pending = pickle_is(v, "active_pending_free")
            || pickle_is(v, "active_awaiting_free");
    *in_use = *pending || pickle_is(v, "active_allocated");
    if (!*in_use && !pickle_is(v, "inactive"))
        return bad(p, "state", "is none that is known");
    return ERR_OK;
}

/* Reads a block that must start at *at, and moves *at to its end. The address
** of its own that newer files give must agree. */
static int read_block(const struct place *p, const struct pickle *d,
                      struct snapshot_device *to, uint64_t *at, uint64_t end)
{
    struct snapshot_block b = {.addr = *at}, *room;
    uint64_t addr = *at;
    bool in_use = false;
    int rc = get_state(p, d, &in_use, &b.pending);

    if (rc == ERR_OK) rc = get_bytes(p, d, "size", &b.size);
    if (rc == ERR_OK && pickle_get(d, "address") != NULL)
        rc = get_address(p, d, "address", &addr);
    if (rc != ERR_OK) return rc;
    if (addr != *at || b.size == 0 || b.size > end - *at || b.size % 512 != 0)
        return bad(p, "blocks", "do not tile the segment");
    *at += b.size;
    if (!in_use) return ERR_OK;
    b.requested = b.size;
    if (pickle_get(d, "requested_size") != NULL)
        rc = get_bytes(p, d, "requested_size", &b.requested);
    if (rc == ERR_OK && (b.requested > b.size || b.requested == 0))
        rc = bad(p, "requested_size", "is not that of a block in use");
    if (rc != ERR_OK) return rc;
    room = room_for_one(to->block, to->n_block, sizeof *room);
    if (room == NULL) return err_nomem(p->e);
    to->block = room;
    room[to->n_block++] = b;
    return ERR_OK;
}

static int read_blocks(struct place *p, const struct pickle *d,
                       struct snapshot_device *to, struct snapshot_segment *s)
{
    const struct pickle_items *items = NULL;
    uint64_t at = s->addr, end = s->addr + s->size;
    int rc = get_list(p, pickle_get(d, "blocks"), "blocks", &items);

    if (rc != ERR_OK) return rc;
    s->block = to->n_block;
    for (size_t i = 0; i < items->n && rc == ERR_OK; i++)
        rc = read_block(p, &items->at[i], to, &at, end);
    if (rc == ERR_OK && at != end)
        rc = bad(p, "blocks", "do not tile the segment");
    s->n_block = to->n_block - s->block;
    return rc;
}

static int read_segment(struct place *p, const struct pickle *d,
                        struct snapshot_device *to)
{
    const struct pickle *expandable = pickle_get(d, "is_expandable");
    const struct pickle *type = pickle_get(d, "segment_type");
    struct snapshot_segment s = {0}, *room;
    int rc = get_address(p, d, "address", &s.addr);

    if (rc == ERR_OK) rc = get_bytes(p, d, "total_size", &s.size);
    if (rc == ERR_OK) rc = get_stream(p, d, to, &s.stream);
    if (rc == ERR_OK) rc = check_private(p, d, "segment_pool_id");
    if (rc != ERR_OK) return rc;
    if (s.size == 0 || s.size % 512 != 0)
        return bad(p, "total_size", "is no segment's");
    if (expandable != NULL && expandable->type == PICKLE_BOOL
        && expandable->v.b)
        return bad(p, "is_expandable", "expandable segments cannot be "
                   "replayed");
    s.small = type != NULL ? pickle_is(type, "small") : s.size == 2 << 20;
    rc = read_blocks(p, d, to, &s);
    if (rc != ERR_OK) return rc;
    room = room_for_one(to->segment, to->n_segment, sizeof *room);
    if (room == NULL) return err_nomem(p->e);
    to->segment = room;
    room[to->n_segment++] = s;
    return ERR_OK;
}

static int by_address(const void *a, const void *b)
{
    const struct snapshot_segment *x = a, *y = b;

    return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Orders segments by address. Block lists stay as they are: each segment
** knows where its own begin. */
static int sort_segments(const struct place *p, struct snapshot_device *d)
{
    if (d->n_segment == 0) return ERR_OK;
    qsort(d->segment, (size_t)d->n_segment, sizeof *d->segment, by_address);
    for (int64_t i = 1; i < d->n_segment; i++)
        if (d->segment[i - 1].addr + d->segment[i - 1].size
            > d->segment[i].addr)
            return bad(p, "segments", "overlap");
    return ERR_OK;
}

static int device_of(const struct place *p, const struct pickle *d,
                     int64_t n, int64_t *out)
{
    uint64_t device = 0;
    int rc = get_uint(p, d, "device", &device);

    if (rc == ERR_OK && device >= (uint64_t)n)
        return bad(p, "device", "has no trace");
    *out = (int64_t)device;
    return rc;
}

static int read_segments(struct place *p, const struct pickle *top,
                         struct snapshot *s)
{
    const struct pickle_items *items = NULL;
    int rc = get_list(p, pickle_get(top, "segments"), "segments", &items);

    p->kind = "segment";
    for (size_t i = 0; rc == ERR_OK && i < items->n; i++) {
        p->device = 0;
        p->index = (int64_t)i;
        rc = device_of(p, &items->at[i], s->n_device, &p->device);
        if (rc == ERR_OK)
            rc = read_segment(p, &items->at[i], &s->device[p->device]);
    }
    p->kind = NULL;
    for (int64_t d = 0; d < s->n_device && rc == ERR_OK; d++)
        rc = sort_segments(p, &s->device[d]);
    return rc;
}

/* ---- settings ----------------------------------------------------------- */

/* Slot i belongs to 2^i MiB, which is its key. */
static int read_divisions(const struct place *p, const struct pickle *d,
                          struct mem_config *c)
{
    for (int i = 0; i < 16; i++) {
        uint64_t v = 0;
        char key[8];
        int rc;

        snprintf(key, sizeof key, "%d", 1 << i);
        if (pickle_get(d, key) == NULL) continue;
        rc = get_uint(p, d, key, &v);
        if (rc != ERR_OK) return rc;
        if (v > UINT64_C(1) << 31 || (v & (v - 1)) != 0)
            return bad(p, "roundup_power2_divisions", "not a power of two");
        c->roundup_divisions[i] = (uint32_t)v;
    }
    return ERR_OK;
}

static int read_conf(const struct place *p, const struct pickle *v,
                     struct mem_config *c)
{
    char text[1024];
    int rc;

    if (v == NULL || v->type != PICKLE_STRING) return ERR_OK;
    if (v->len >= sizeof text)
        return bad(p, "PYTORCH_CUDA_ALLOC_CONF", "is too long");
    memcpy(text, v->v.s, v->len);
    text[v->len] = '\0';
    rc = mem_config_parse(c, text, p->e);
    if (rc == ERR_OK) return ERR_OK;
    if (p->e != NULL) p->e->code = ERR_INPUT;
    (void)err_wrap(p->e, "%.200s: PYTORCH_CUDA_ALLOC_CONF", p->origin);
    return ERR_INPUT;
}

static int read_settings(const struct place *p, const struct pickle *top,
                         struct mem_config *c)
{
    const struct pickle *d = pickle_get(top, "allocator_settings"), *v;
    int rc;

    if (d == NULL || d->type != PICKLE_DICT) return ERR_OK;
    rc = read_conf(p, pickle_get(d, "PYTORCH_CUDA_ALLOC_CONF"), c);
    if (rc != ERR_OK) return rc;
    v = pickle_get(d, "expandable_segments");
    if (v != NULL && v->type == PICKLE_BOOL && v->v.b)
        return bad(p, "expandable_segments", "True cannot be replayed");
    v = pickle_get(d, "max_split_size");
    if (v != NULL && v->type == PICKLE_INT && !v->negative)
        c->max_split_bytes = v->v.u;
    v = pickle_get(d, "roundup_power2_divisions");
    return v != NULL ? read_divisions(p, v, c) : ERR_OK;
}

/* ---- the file ----------------------------------------------------------- */

static int read_traces(struct place *p, const struct pickle *top,
                       struct snapshot *s)
{
    const struct pickle_items *items = NULL;
    int rc = get_list(p, pickle_get(top, "device_traces"), "device_traces",
                      &items);

    if (rc != ERR_OK) return rc;
    if (items->n > DEVICES_MOST)
        return bad(p, "device_traces", "more than 1024 devices");
    s->device = new_array((int64_t)items->n, sizeof *s->device);
    if (s->device == NULL) return err_nomem(p->e);
    s->n_device = (int64_t)items->n;
    for (int64_t d = 0; d < s->n_device && rc == ERR_OK; d++) {
        p->device = d;
        rc = read_trace(p, &items->at[d], &s->device[d]);
    }
    return rc;
}

int snapshot_read(const char *data, size_t len, const char *origin,
                  struct snapshot *out, struct err *e)
{
    struct err own;
    struct place p = {.origin = origin, .left = len, .e = e ? e : &own};
    struct arena a = ARENA_INIT;
    struct snapshot s = {0};
    struct pickle top = {0};
    int rc = pickle_read(data, len, origin, &a, &top, p.e);

    if (rc == ERR_OK && top.type == PICKLE_LIST)
        rc = err_set(p.e, ERR_INPUT, "%s: segments alone, without a trace: "
                     "write it with torch.cuda.memory._dump_snapshot", origin);
    if (rc == ERR_OK && top.type != PICKLE_DICT)
        rc = bad_type(&p, "snapshot", &top, "a dict");
    if (rc == ERR_OK) rc = read_settings(&p, &top, &s.config);
    if (rc == ERR_OK) rc = read_traces(&p, &top, &s);
    if (rc == ERR_OK) rc = read_segments(&p, &top, &s);
    arena_free(&a);
    if (rc != ERR_OK) {
        snapshot_free(&s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

void snapshot_free(struct snapshot *s)
{
    for (int64_t d = 0; d < s->n_device; d++) {
        free(s->device[d].event);
        free(s->device[d].segment);
        free(s->device[d].block);
        free(s->device[d].stream);
    }
    free(s->device);
    *s = (struct snapshot){0};
}
