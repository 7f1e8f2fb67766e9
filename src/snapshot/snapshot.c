/* snapshot.c - what events.c leaves of a pickle, checked; see snapshot.h and
** reading.h. */
#include "snapshot/snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "snapshot/reading.h"

enum { DEVICES_MOST = 1024, NOTES_MOST = 1 << 20, NESTED_MOST = 4096 };

static int bad(const struct reading *p, const char *key, const char *why)
{
    if (p->kind == NULL)
        return err_set(p->e, ERR_INPUT, "%s: %s: %s", p->origin, key, why);
    return err_set(p->e, ERR_INPUT, "%s: device %" PRId64 ", %s %" PRId64
                   ": %s: %s", p->origin, p->device, p->kind, p->index, key,
                   why);
}

static int bad_type(const struct reading *p, const char *key,
                    const struct pickle *v, const char *want)
{
    char why[96];

    reading_type(v, want, why, sizeof why);
    return bad(p, key, why);
}

/* ---- members ------------------------------------------------------------ */

static int get_uint(const struct reading *p, const struct pickle *d,
                    const char *key, uint64_t *out)
{
    char why[96];

    return reading_uint(pickle_get(d, key), out, why, sizeof why)
         ? ERR_OK : bad(p, key, why);
}

static int get_bytes(const struct reading *p, const struct pickle *d,
                     const char *key, uint64_t *out)
{
    char why[96];

    return reading_bytes(pickle_get(d, key), out, why, sizeof why)
         ? ERR_OK : bad(p, key, why);
}

static int get_address(const struct reading *p, const struct pickle *d,
                       const char *key, uint64_t *out)
{
    char why[96];

    return reading_address(pickle_get(d, key), out, why, sizeof why)
         ? ERR_OK : bad(p, key, why);
}

/* Counts n elements against what the file may hold. */
static int count(struct reading *p, const char *key, uint64_t n)
{
    if (n > p->left)
        return bad(p, key, "the file names more elements than it has bytes");
    p->left -= n;
    return ERR_OK;
}

/* A list's items. */
static int get_list(struct reading *p, const struct pickle *v,
                    const char *key, const struct pickle_items **out)
{
    if (v == NULL || v->type != PICKLE_LIST)
        return bad_type(p, key, v, "a list");
    if (v->v.items->held != HELD_NOTHING)
        return bad(p, key, "holds what does not belong there");
    *out = v->v.items;
    return count(p, key, v->v.items->n);
}

/* ---- traces ------------------------------------------------------------- */

/* A bad event is told when it is known to which device it belongs; why only of
** the file's first, which may stand where nobody looks. */
static int check_trace(struct reading *p, int64_t first, int64_t n)
{
    for (int64_t i = first; i < first + n; i++)
        if (p->s->event[i].action == SNAPSHOT_BAD)
            return err_set(p->e, ERR_INPUT, "%s: device %" PRId64 ", event %"
                           PRId64 ": %s", p->origin, p->device, i - first,
                           i == p->bad_event ? p->bad_why
                           : "addr, size or stream is not right");
    return ERR_OK;
}

/* Events were taken as they went by; here their device gets them. */
static int read_trace(struct reading *p, const struct pickle *trace,
                      struct snapshot_device *to)
{
    const struct trace_range *t;
    int rc;

    if (trace->type != PICKLE_LIST)
        return bad_type(p, "device_traces", trace, "a list");
    if (trace->v.items->held == HELD_NOTHING && trace->v.items->n == 0)
        return ERR_OK;
    if (trace->v.items->held != HELD_EVENTS) {
        p->kind = "event";
        p->index = 0;
        return bad(p, "action", "must be a string, is missing");
    }
    t = &p->trace[trace->v.items->u.made];
    rc = count(p, "device_traces", (uint64_t)t->n);
    if (rc != ERR_OK) return rc;
    to->event = p->s->event + t->first;
    to->n_event = t->n;
    return check_trace(p, t->first, t->n);
}

static int new_devices(struct reading *p, int64_t n)
{
    struct snapshot *s = p->s;

    if (n > DEVICES_MOST)
        return bad(p, "device_traces", "more than 1024 devices");
    s->device = calloc((size_t)n + 1, sizeof *s->device);
    if (s->device == NULL) return err_nomem(p->e);
    s->n_device = n;
    return ERR_OK;
}

static int read_traces(struct reading *p, const struct pickle *top)
{
    const struct pickle_items *items = NULL;
    int rc = get_list(p, pickle_get(top, "device_traces"), "device_traces",
                      &items);

    if (rc == ERR_OK) rc = new_devices(p, items->n);
    for (int64_t d = 0; rc == ERR_OK && d < p->s->n_device; d++) {
        p->device = d;
        rc = read_trace(p, &items->u.at[d], &p->s->device[d]);
    }
    return rc;
}

/* ---- segments ----------------------------------------------------------- */

static int get_state(const struct reading *p, const struct pickle *d,
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

static uint32_t stack_of(const struct pickle *frames)
{
    return frames != NULL && pickle_held(frames) == HELD_STACK
         ? (uint32_t)frames->v.items->u.made : 0;
}

/* PyTorch up to 2.0: a block's last user is the first of its history. */
static const struct pickle *last_user(const struct pickle *d)
{
    const struct pickle *v = pickle_get(d, "history");

    if (v == NULL || v->type != PICKLE_LIST || v->v.items->n == 0
        || v->v.items->held != HELD_NOTHING)
        return NULL;
    return &v->v.items->u.at[0];
}

/* What was asked for in a block in use, and where. */
static int read_user(const struct reading *p, const struct pickle *d,
                     struct snapshot_block *b)
{
    const struct pickle *user = last_user(d);
    int rc = ERR_OK;

    b->requested = b->size;
    b->stack = stack_of(pickle_get(d, "frames"));
    if (pickle_get(d, "requested_size") != NULL)
        rc = get_bytes(p, d, "requested_size", &b->requested);
    else if (user != NULL && pickle_get(user, "real_size") != NULL)
        rc = get_bytes(p, user, "real_size", &b->requested);
    if (user != NULL && b->stack == 0)
        b->stack = stack_of(pickle_get(user, "frames"));
    if (rc == ERR_OK && (b->requested > b->size || b->requested == 0))
        rc = bad(p, "requested_size", "is not that of a block in use");
    return rc;
}

/* Reads a block that must start at *at, and moves *at to its end. The address
** of its own that newer files give must agree. */
static int read_block(const struct reading *p, const struct pickle *d,
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
    rc = read_user(p, d, &b);
    if (rc != ERR_OK) return rc;
    room = reading_room(to->block, to->n_block, sizeof *room);
    if (room == NULL) return err_nomem(p->e);
    to->block = room;
    room[to->n_block++] = b;
    return ERR_OK;
}

static int read_blocks(struct reading *p, const struct pickle *d,
                       struct snapshot_device *to, struct snapshot_segment *s)
{
    const struct pickle_items *items = NULL;
    uint64_t at = s->addr, end = s->addr + s->size;
    int rc = get_list(p, pickle_get(d, "blocks"), "blocks", &items);

    if (rc != ERR_OK) return rc;
    s->block = to->n_block;
    for (size_t i = 0; i < items->n && rc == ERR_OK; i++)
        rc = read_block(p, &items->u.at[i], to, &at, end);
    if (rc == ERR_OK && at != end)
        rc = bad(p, "blocks", "do not tile the segment");
    s->n_block = to->n_block - s->block;
    return rc;
}

static int get_lane(struct reading *p, const struct pickle *d, uint16_t *out)
{
    const char *why = NULL;
    uint64_t stream = 0;
    int rc = get_uint(p, d, "stream", &stream);

    if (rc != ERR_OK
        || reading_lane(p, stream, pickle_get(d, "segment_pool_id"), out,
                        &why))
        return rc;
    return why != NULL ? bad(p, "segment_pool_id", why) : err_nomem(p->e);
}

/* One segment, then its blocks, which must tile it. */
static int read_segment(struct reading *p, const struct pickle *d,
                        struct snapshot_device *to)
{
    const struct pickle *type = pickle_get(d, "segment_type");
    struct snapshot_segment s = {0}, *room;
    int rc = get_address(p, d, "address", &s.addr);

    if (rc == ERR_OK) rc = get_bytes(p, d, "total_size", &s.size);
    if (rc == ERR_OK) rc = get_lane(p, d, &s.lane);
    if (rc != ERR_OK) return rc;
    if (s.size == 0 || s.size % 512 != 0)
        return bad(p, "total_size", "is no segment's");
    s.expandable = reading_true(d, "is_expandable");
    s.small = type != NULL ? pickle_is(type, "small") : s.size == 2 << 20;
    rc = read_blocks(p, d, to, &s);
    if (rc != ERR_OK) return rc;
    room = reading_room(to->segment, to->n_segment, sizeof *room);
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
static int sort_segments(const struct reading *p, struct snapshot_device *d)
{
    if (d->n_segment == 0) return ERR_OK;
    qsort(d->segment, (size_t)d->n_segment, sizeof *d->segment, by_address);
    for (int64_t i = 1; i < d->n_segment; i++)
        if (d->segment[i - 1].addr + d->segment[i - 1].size
            > d->segment[i].addr)
            return bad(p, "segments", "overlap");
    return ERR_OK;
}

static int device_of(const struct reading *p, const struct pickle *d,
                     int64_t n, int64_t *out)
{
    uint64_t device = 0;
    int rc = get_uint(p, d, "device", &device);

    if (rc == ERR_OK && device >= (uint64_t)n)
        return bad(p, "device", "has no trace");
    *out = (int64_t)device;
    return rc;
}

static int read_segments(struct reading *p, const struct pickle *segments)
{
    const struct pickle_items *items = NULL;
    struct snapshot *s = p->s;
    int rc = get_list(p, segments, "segments", &items);

    p->kind = "segment";
    for (size_t i = 0; rc == ERR_OK && i < items->n; i++) {
        p->device = 0;
        p->index = (int64_t)i;
        rc = device_of(p, &items->u.at[i], s->n_device, &p->device);
        if (rc == ERR_OK)
            rc = read_segment(p, &items->u.at[i], &s->device[p->device]);
    }
    p->kind = NULL;
    for (int64_t d = 0; d < s->n_device && rc == ERR_OK; d++)
        rc = sort_segments(p, &s->device[d]);
    return rc;
}

/* Segments alone: as many devices as they name. */
static int read_alone(struct reading *p, const struct pickle *top)
{
    const struct pickle_items *items = NULL;
    uint64_t most = 0, d;
    int rc = get_list(p, top, "segments", &items);

    for (size_t i = 0; rc == ERR_OK && i < items->n; i++) {
        rc = get_uint(p, &items->u.at[i], "device", &d);
        if (rc == ERR_OK && d >= DEVICES_MOST)
            rc = bad(p, "device", "more than 1024 devices");
        if (rc == ERR_OK && d + 1 > most) most = d + 1;
    }
    if (rc == ERR_OK) rc = new_devices(p, (int64_t)most);
    p->s->segments_alone = true;
    if (rc == ERR_OK) p->left += items->n;
    return rc == ERR_OK ? read_segments(p, top) : rc;
}

/* ---- annotations -------------------------------------------------------- */

/* The open one of this name and device that began last, among the last few
** thousand; -1: none. */
static int64_t find_open(const struct snapshot *s, const char *name,
                         int64_t device)
{
    int64_t least = s->n_note > NESTED_MOST ? s->n_note - NESTED_MOST : 0;

    for (int64_t i = s->n_note; i-- > least;)
        if (s->note[i].end_us == INT64_MAX && s->note[i].device == device
            && strcmp(s->note[i].name, name) == 0)
            return i;
    return -1;
}

/* START opens an annotation, END closes the last open one of its name. */
static int read_note(struct reading *p, const struct pickle *d)
{
    const struct pickle *name = pickle_get(d, "name");
    const struct pickle *stage = pickle_get(d, "stage");
    const struct pickle *time = pickle_get(d, "time_us");
    const struct pickle *device = pickle_get(d, "device");
    struct snapshot *s = p->s;
    struct snapshot_note n = {.end_us = INT64_MAX, .device = -1}, *room;
    int64_t open;

    if (name == NULL || name->type != PICKLE_STRING || stage == NULL
        || time == NULL || time->type != PICKLE_INT || time->negative
        || s->n_note == NOTES_MOST)
        return ERR_OK;
    n.name = reading_keep(p, name);
    if (n.name == NULL) return err_nomem(p->e);
    n.start_us = time->v.i;
    if (device != NULL && device->type == PICKLE_INT && !device->negative)
        n.device = device->v.i;
    if (pickle_is(stage, "END")) {
        open = find_open(s, n.name, n.device);
        if (open >= 0) s->note[open].end_us = n.start_us;
        return ERR_OK;
    }
    room = reading_room(s->note, s->n_note, sizeof *room);
    if (room == NULL) return err_nomem(p->e);
    s->note = room;
    room[s->n_note++] = n;
    return ERR_OK;
}

static int read_notes(struct reading *p, const struct pickle *top)
{
    const struct pickle *v = pickle_get(top, "external_annotations");
    const struct pickle_items *items = NULL;
    int rc;

    if (v == NULL || v->type != PICKLE_LIST) return ERR_OK;
    rc = get_list(p, v, "external_annotations", &items);
    for (size_t i = 0; rc == ERR_OK && i < items->n; i++)
        rc = read_note(p, &items->u.at[i]);
    return rc;
}

/* ---- the file ----------------------------------------------------------- */

/* Files without settings show by what was mapped. */
static void infer_expandable(struct snapshot *s)
{
    for (int64_t i = 0; i < s->n_event && !s->config.expandable; i++)
        s->config.expandable = s->event[i].action == SNAPSHOT_SEGMENT_MAP;
}

static int read_top(struct reading *p, const struct pickle *top)
{
    int rc;

    if (top->type == PICKLE_LIST && top->v.items->held == HELD_NOTHING)
        return read_alone(p, top);
    if (top->type != PICKLE_DICT || top->v.items->held != HELD_NOTHING)
        return bad_type(p, "snapshot", top, "a dict");
    rc = reading_settings(p, top);
    if (rc == ERR_OK) rc = read_traces(p, top);
    if (rc == ERR_OK) rc = read_segments(p, pickle_get(top, "segments"));
    if (rc == ERR_OK) rc = read_notes(p, top);
    if (p->s->settings == NULL) infer_expandable(p->s);
    return rc;
}

static int new_text(struct snapshot *s, struct err *e)
{
    s->text = calloc(1, sizeof *s->text);
    return s->text != NULL ? ERR_OK : err_nomem(e);
}

int snapshot_stream(const struct pickle_input *in, const char *origin,
                    struct snapshot *out, struct err *e)
{
    struct err own;
    struct snapshot s = {0};
    struct reading p = {.s = &s, .origin = origin, .bad_event = -1,
                        .e = e ? e : &own};
    struct pickle_hooks hooks = reading_hooks(&p);
    struct arena a = ARENA_INIT;
    struct pickle top = {0};
    int rc = new_text(&s, p.e);

    if (rc == ERR_OK)
        rc = pickle_stream(in, origin, &hooks, &a, &top, &p.left, p.e);
    if (rc == ERR_OK) rc = read_top(&p, &top);
    arena_free(&a);
    free(p.trace);
    free(p.id);
    if (rc != ERR_OK) {
        snapshot_free(&s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

struct file { FILE *f; const char *path; };

static int fill(void *ctx, char *to, size_t room, size_t *n, struct err *e)
{
    struct file *f = ctx;

    errno = 0;
    *n = fread(to, 1, room, f->f);
    if (*n > 0 || !ferror(f->f)) return ERR_OK;
    return file_error(e, f->path, errno != 0 ? errno : EIO);
}

int snapshot_load(const char *path, struct snapshot *out, struct err *e)
{
    bool std = strcmp(path, "-") == 0;
    struct file f = {stdin, path};
    struct pickle_input in = {.fill = fill, .ctx = &f};
    int rc = std ? ERR_OK : file_stream(path, &f.f, e);

    if (rc != ERR_OK) return rc;
    setvbuf(f.f, NULL, _IONBF, 0);
    rc = snapshot_stream(&in, path, out, e);
    if (!std) fclose(f.f);
    return rc;
}

void snapshot_free(struct snapshot *s)
{
    for (int64_t d = 0; d < s->n_device; d++) {
        free(s->device[d].segment);
        free(s->device[d].block);
    }
    free(s->device);
    free(s->event);
    free(s->lane);
    free(s->note);
    free(s->unknown);
    free(s->category);
    stacks_free(&s->stacks);
    if (s->text != NULL) arena_free(s->text);
    free(s->text);
    *s = (struct snapshot){0};
}
