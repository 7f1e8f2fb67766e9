/*
** snapshot_write.c - our own traces as PyTorch memory snapshots, for the
** viewer at pytorch.org/memory_viz, see snapshot.h.
**
** Protocol 4, which is the newest that the viewer reads. Strings and frames
** are written once and referred to afterwards.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "snapshot/snapshot.h"
#include "mem/state.h"

/* Distinct frames: few dozen operators in some phases and layers. */
struct frames {
    struct frame_slot { const char *op; uint32_t place, memo; } *slot;
    size_t cap, n;          /* cap: a power of two; memo 0: empty slot */
};

enum text {
    T_ACTION, T_ADDR, T_SIZE, T_STREAM, T_FRAMES, T_ALLOC, T_REQUESTED,
    T_COMPLETED, T_SEGMENT_ALLOC, T_SEGMENT_FREE, T_NAME, T_FILENAME, T_LINE,
    T_ADDRESS, T_STATE, T_ACTIVE, T_INACTIVE, T_REQUESTED_SIZE, T_TIME,
    T_STAGE, T_DEVICE, T_START, T_END, T_COUNT
};

static const char *const texts[T_COUNT] = {
    "action", "addr", "size", "stream", "frames", "alloc", "free_requested",
    "free_completed", "segment_alloc", "segment_free", "name", "filename",
    "line", "address", "state", "active_allocated", "inactive",
    "requested_size", "time_us", "stage", "device", "START", "END"
};

struct writer {
    struct buf *b;
    uint32_t memo[T_COUNT];     /* memo entry plus 1; 0: not yet written */
    uint32_t n_memo;
    struct frames frames;
    uint64_t time;              /* of the last event: they are counted */
};

/* ---- opcodes ------------------------------------------------------------ */

static void put_le(struct writer *w, uint64_t v, int width)
{
    for (int i = 0; i < width; i++) buf_putc(w->b, (char)(v >> 8 * i & 0xff));
}

static void put_op(struct writer *w, unsigned char op)
{
    buf_putc(w->b, (char)op);
}

/* The shortest opcode, as Python's own pickler does. */
static void put_uint(struct writer *w, uint64_t v)
{
    int width = 1;

    if (v < 0x100) {
        put_op(w, 'K');
        put_le(w, v, 1);
    } else if (v < 0x10000) {
        put_op(w, 'M');
        put_le(w, v, 2);
    } else if (v < 0x80000000) {
        put_op(w, 'J');
        put_le(w, v, 4);
    } else {
        while (width < 9 && v >> (8 * width - 1) != 0) width++;
        put_op(w, 0x8a);
        put_le(w, (uint64_t)width, 1);
        put_le(w, v, width < 9 ? width : 8);
        if (width == 9) put_le(w, 0, 1);
    }
}

static void put_string(struct writer *w, const char *s)
{
    size_t n = strlen(s);

    put_op(w, n < 256 ? 0x8c : 'X');
    put_le(w, n, n < 256 ? 1 : 4);
    buf_put(w->b, s, n);
}

static uint32_t memoize(struct writer *w)
{
    put_op(w, 0x94);
    return w->n_memo++;
}

static void put_memo(struct writer *w, uint32_t index)
{
    put_op(w, index < 256 ? 'h' : 'j');
    put_le(w, index, index < 256 ? 1 : 4);
}

static void put_text(struct writer *w, enum text t)
{
    if (w->memo[t] != 0) {
        put_memo(w, w->memo[t] - 1);
        return;
    }
    put_string(w, texts[t]);
    w->memo[t] = memoize(w) + 1;
}

static void put_pair(struct writer *w, enum text key, uint64_t v)
{
    put_text(w, key);
    put_uint(w, v);
}

/* ---- frames ------------------------------------------------------------- */

static size_t frame_hash(const char *op, uint32_t place)
{
    uint64_t h = hash_text(HASH_START ^ place, op);

    return (size_t)(h ^ h >> 32);
}

/* Where the frame stands, or the empty slot where it belongs. */
static struct frame_slot *frame_slot(const struct frames *f, const char *op,
                                     uint32_t place)
{
    size_t i = frame_hash(op, place) & (f->cap - 1);

    while (f->slot[i].memo != 0 && (f->slot[i].place != place
                                    || strcmp(f->slot[i].op, op) != 0))
        i = (i + 1) & (f->cap - 1);
    return &f->slot[i];
}

static bool frames_grow(struct frames *f)
{
    struct frames big = {.cap = f->cap > 0 ? 2 * f->cap : 256, .n = f->n};

    big.slot = calloc(big.cap, sizeof *big.slot);
    if (big.slot == NULL) return false;
    for (size_t i = 0; i < f->cap; i++) {
        struct frame_slot *s = &f->slot[i];

        if (s->memo != 0) *frame_slot(&big, s->op, s->place) = *s;
    }
    free(f->slot);
    *f = big;
    return true;
}

/* "frames": one, whose name is the operator, file the phase, category and
** layer, and line the layer once more. */
static bool put_frames(struct writer *w, const struct mem_tag *v)
{
    uint32_t place = (uint32_t)(uint16_t)v->layer << 16
                   | (uint32_t)v->phase << 8 | v->category;
    const char *op = v->op != NULL ? v->op : "unnamed";
    struct frame_slot *s;
    char file[80];
    int n;

    put_text(w, T_FRAMES);
    if (2 * (w->frames.n + 1) > w->frames.cap && !frames_grow(&w->frames))
        return false;
    s = frame_slot(&w->frames, op, place);
    if (s->memo != 0) {
        put_memo(w, s->memo - 1);
        return true;
    }
    n = snprintf(file, sizeof file, "%s/%s",
                 mem_phase_name((enum mem_phase)v->phase),
                 category_name((enum category)v->category));
    if (v->layer >= 0)
        snprintf(file + n, sizeof file - (size_t)n, "/layer %d", v->layer);
    put_op(w, ']');
    put_op(w, '}');
    put_op(w, '(');
    put_text(w, T_NAME);
    put_string(w, op);
    put_text(w, T_FILENAME);
    put_string(w, file);
    put_pair(w, T_LINE, v->layer < 0 ? 0 : (uint64_t)v->layer);
    put_op(w, 'u');
    put_op(w, 'a');
    *s = (struct frame_slot){op, place, memoize(w) + 1};
    w->frames.n++;
    return true;
}

/* ---- trace -------------------------------------------------------------- */

static void start_event(struct writer *w, enum text action, uint64_t addr,
                        uint64_t bytes)
{
    w->time++;
    put_op(w, '}');
    put_op(w, '(');
    put_text(w, T_ACTION);
    put_text(w, action);
    put_pair(w, T_ADDR, addr);
    put_pair(w, T_SIZE, bytes);
    put_pair(w, T_STREAM, 0);
    put_pair(w, T_TIME, w->time);
}

static bool put_event(struct writer *w, const struct mem_event *v,
                      enum text action)
{
    struct mem_tag t = {v->category, v->phase, v->layer, v->op};
    bool ok;

    start_event(w, action, v->addr, v->bytes);
    ok = put_frames(w, &t);
    put_op(w, 'u');
    return ok;
}

/* A free is told twice, as torch does. */
static bool put_trace(struct writer *w, const struct mem *m, uint64_t first)
{
    uint64_t n, n_segment, at = 0;
    const struct mem_event *v = mem_trace(m, &n);
    const struct mem_segment_event *s = mem_segment_trace(m, &n_segment);
    bool ok = true;

    put_op(w, ']');
    put_op(w, '(');
    while (at < n_segment && s[at].event < first) at++;
    for (uint64_t i = first; i <= n && ok; i++) {
        for (; at < n_segment && s[at].event == i; at++) {
            start_event(w, s[at].is_free ? T_SEGMENT_FREE : T_SEGMENT_ALLOC,
                        s[at].addr, s[at].bytes);
            put_op(w, 'u');
        }
        if (i == n) break;
        ok = put_event(w, &v[i], v[i].is_free ? T_REQUESTED : T_ALLOC);
        if (v[i].is_free && ok) ok = put_event(w, &v[i], T_COMPLETED);
    }
    put_op(w, 'e');
    return ok;
}

/* ---- segments ----------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const struct mem_block *x = *(const struct mem_block *const *)a;
    const struct mem_block *y = *(const struct mem_block *const *)b;

    return (x->addr > y->addr) - (x->addr < y->addr);
}

/* The first blocks of all segments by address; *out is malloc'ed. */
static bool list_segments(const struct mem *m, const struct mem_block ***out,
                          size_t *n)
{
    size_t most = (size_t)(m->segment_gets - m->segment_puts);
    const struct mem_block **list = malloc((most + 1) * sizeof *list);

    if (list == NULL) return false;
    *n = 0;
    for (const struct block_chunk *c = m->store.chunks; c; c = c->next)
        for (int i = 0; i < BLOCK_CHUNK; i++)
            if (block_is_first(&c->block[i]))
                list[(*n)++] = &c->block[i];
    qsort(list, *n, sizeof *list, by_address);
    *out = list;
    return true;
}

static bool put_block(struct writer *w, const struct mem_block *b)
{
    bool live = b->state == BLOCK_LIVE, ok = true;

    put_op(w, '}');
    put_op(w, '(');
    put_pair(w, T_ADDRESS, b->addr);
    put_pair(w, T_SIZE, b->size);
    put_pair(w, T_REQUESTED_SIZE, live ? b->u.live.requested : 0);
    put_text(w, T_STATE);
    put_text(w, live ? T_ACTIVE : T_INACTIVE);
    if (live) ok = put_frames(w, &b->u.live.tag);
    put_op(w, 'u');
    return ok;
}

static void put_named(struct writer *w, const char *key, uint64_t v)
{
    put_string(w, key);
    put_uint(w, v);
}

/* Sums come before the blocks in the format, so blocks are walked twice. */
static bool put_segment(struct writer *w, const struct mem_block *first)
{
    uint64_t total = 0, allocated = 0, requested = 0;
    bool ok = true;

    for (const struct mem_block *b = first; b->state != BLOCK_EDGE;
         b = b->next) {
        total += b->size;
        if (b->state != BLOCK_LIVE) continue;
        allocated += b->size;
        requested += b->u.live.requested;
    }
    put_op(w, '}');
    put_op(w, '(');
    put_named(w, "device", 0);
    put_pair(w, T_ADDRESS, first->addr);
    put_named(w, "total_size", total);
    put_named(w, "allocated_size", allocated);
    put_named(w, "active_size", allocated);
    put_pair(w, T_REQUESTED_SIZE, requested);
    put_pair(w, T_STREAM, 0);
    put_string(w, "segment_type");
    put_string(w, first->pool == 0 ? "small" : "large");
    put_string(w, "blocks");
    put_op(w, ']');
    put_op(w, '(');
    for (const struct mem_block *b = first; b->state != BLOCK_EDGE && ok;
         b = b->next)
        ok = put_block(w, b);
    put_op(w, 'e');
    put_op(w, 'u');
    return ok;
}

static bool put_segments(struct writer *w, const struct mem *m)
{
    const struct mem_block **list;
    bool ok = true;
    size_t n;

    if (!list_segments(m, &list, &n)) return false;
    put_op(w, ']');
    put_op(w, '(');
    for (size_t i = 0; i < n && ok; i++) ok = put_segment(w, list[i]);
    put_op(w, 'e');
    free(list);
    return ok;
}

/* ---- annotations -------------------------------------------------------- */

static void put_note(struct writer *w, const char *name, enum text stage,
                     uint64_t time)
{
    put_op(w, '}');
    put_op(w, '(');
    put_text(w, T_STAGE);
    put_text(w, stage);
    put_text(w, T_NAME);
    put_string(w, name);
    put_pair(w, T_DEVICE, 0);
    put_pair(w, T_TIME, time);
    put_op(w, 'u');
}

/* What was going on at an allocation, as the name of an annotation. */
static void phase_name(const struct mem_event *v, bool layer, char *name,
                       size_t n)
{
    const char *phase = mem_phase_name((enum mem_phase)v->phase);

    if (layer)
        snprintf(name, n, "%s, layer %d", phase, v->layer);
    else
        snprintf(name, n, "%s", phase);
}

/* Begins a phase or layer where allocations begin to say so, and ends the one
** before. open is its name, "" when there is none. */
static void turn(struct writer *w, char *open, size_t n, const char *next,
                 uint64_t time)
{
    if (strcmp(open, next) == 0) return;
    if (open[0] != '\0') put_note(w, open, T_END, time - 1);
    if (next[0] != '\0') put_note(w, next, T_START, time);
    snprintf(open, n, "%s", next);
}

/* Waves, phases and layers, by the tags of what is allocated. Times are those
** that put_trace gave. */
static void put_notes(struct writer *w, const struct mem *m, uint64_t first,
                      const char *wave)
{
    uint64_t n, n_segment, at = 0, time = 0;
    const struct mem_event *v = mem_trace(m, &n);
    const struct mem_segment_event *s = mem_segment_trace(m, &n_segment);
    char phase[48] = "", layer[48] = "", next[48];

    put_op(w, ']');
    put_op(w, '(');
    if (wave != NULL) put_note(w, wave, T_START, 1);
    while (at < n_segment && s[at].event < first) at++;
    for (uint64_t i = first; i < n; i++) {
        for (; at < n_segment && s[at].event == i; at++) time++;
        time += v[i].is_free ? 2 : 1;
        if (v[i].is_free || v[i].phase == PHASE_NONE) continue;
        phase_name(&v[i], false, next, sizeof next);
        if (strcmp(phase, next) != 0) turn(w, layer, sizeof layer, "", time);
        turn(w, phase, sizeof phase, next, time);
        next[0] = '\0';
        if (v[i].layer >= 0) phase_name(&v[i], true, next, sizeof next);
        turn(w, layer, sizeof layer, next, time);
    }
    turn(w, layer, sizeof layer, "", w->time + 1);
    turn(w, phase, sizeof phase, "", w->time + 1);
    if (wave != NULL) put_note(w, wave, T_END, w->time);
    put_op(w, 'e');
}

/* ---- settings ----------------------------------------------------------- */

static void put_bool(struct writer *w, const char *key, bool v)
{
    put_string(w, key);
    put_op(w, v ? 0x88 : 0x89);
}

/* As PYTORCH_CUDA_ALLOC_CONF would spell them. */
static void conf_text(const struct mem_config *c, char *text, size_t n)
{
    text[0] = '\0';
    if (c->max_split_bytes < UINT64_C(1) << 50)
        snprintf(text, n, "max_split_size_mb:%llu",
                 (unsigned long long)(c->max_split_bytes >> 20));
    if (c->large_segment_bytes != UINT64_C(20) << 20) {
        size_t at = strlen(text);

        snprintf(text + at, n - at, "%slarge_segment_size_mb:%llu",
                 at > 0 ? "," : "",
                 (unsigned long long)(c->large_segment_bytes >> 20));
    }
}

static void put_settings(struct writer *w, const struct mem_config *c)
{
    char text[128];

    conf_text(c, text, sizeof text);
    put_op(w, '}');
    put_op(w, '(');
    put_string(w, "PYTORCH_CUDA_ALLOC_CONF");
    put_string(w, text);
    put_bool(w, "expandable_segments", false);
    put_string(w, "roundup_power2_divisions");
    put_op(w, '}');
    put_op(w, '(');
    for (int i = 0; i < 16; i++) {
        snprintf(text, sizeof text, "%d", 1 << i);
        put_named(w, text, c->roundup_divisions[i]);
    }
    put_op(w, 'u');
    put_op(w, 'u');
}

int snapshot_write(const struct mem *m, uint64_t first, const char *wave,
                   struct buf *b, struct err *e)
{
    struct writer w = {.b = b};
    bool ok;

    if (!m->config.trace)
        return err_set(e, ERR_RUN, "a snapshot needs a trace");
    put_op(&w, 0x80);
    put_op(&w, 4);
    put_op(&w, '}');
    put_op(&w, '(');
    put_string(&w, "segments");
    ok = put_segments(&w, m);
    put_string(&w, "device_traces");
    put_op(&w, ']');
    ok = ok && put_trace(&w, m, first);
    put_op(&w, 'a');
    put_string(&w, "allocator_settings");
    put_settings(&w, &m->config);
    put_string(&w, "external_annotations");
    put_notes(&w, m, first, wave);
    put_op(&w, 'u');
    put_op(&w, '.');
    free(w.frames.slot);
    return ok && !b->failed ? ERR_OK : err_nomem(e);
}
