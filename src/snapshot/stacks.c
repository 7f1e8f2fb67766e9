/* stacks.c - see stacks.h */
#include "snapshot/stacks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS_MOST (UINT32_C(1) << 31)
#define TEXT_CHUNK ((size_t)1 << 16)

struct stacks_text {        /* strings, in chunks */
    struct stacks_text *next;
    size_t used, cap;
    char at[];
};

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t mix_text(uint64_t h, struct stacks_key k)
{
    for (size_t i = 0; i < k.n; i++) h = mix(h, (unsigned char)k.s[i]);
    return mix(h, k.n);
}

/* The array with room for n items of size bytes; NULL: no host memory, and
** the array is as before. */
static void *room(void *at, uint64_t *cap, uint64_t n, size_t size)
{
    uint64_t want = *cap > 0 ? *cap : 64;
    void *p;

    if (n <= *cap) return at;
    while (want < n) want *= 2;
    p = realloc(at, (size_t)want * size);
    if (p != NULL) *cap = want;
    return p;
}

/* Texts lie in chunks: a pointer stays good when more come. */
static const char *keep_text(struct stacks *s, struct stacks_key k)
{
    struct stacks_text *t = s->text;
    char *p;

    if (t == NULL || t->cap - t->used < k.n + 1) {
        size_t cap = k.n + 1 > TEXT_CHUNK ? k.n + 1 : TEXT_CHUNK;

        t = malloc(sizeof *t + cap);
        if (t == NULL) return NULL;
        t->next = s->text;
        t->used = 0;
        t->cap = cap;
        s->text = t;
    }
    p = t->at + t->used;
    if (k.n > 0) memcpy(p, k.s, k.n);
    p[k.n] = '\0';
    for (size_t i = 0; i < k.n; i++)    /* a NUL would end it */
        if (p[i] == '\0') p[i] = '?';
    t->used += k.n + 1;
    return p;
}

/* ---- frames ------------------------------------------------------------- */

static uint64_t frame_hash(struct stacks_key name, struct stacks_key file,
                           uint64_t line)
{
    return mix(mix_text(mix_text(1, name), file), line);
}

static struct stacks_key key_of(const char *s)
{
    return (struct stacks_key){s, strlen(s)};
}

static bool same(const char *a, struct stacks_key k)
{
    return strncmp(a, k.s, k.n) == 0 && a[k.n] == '\0';
}

static bool more_frame_slots(struct stacks *s)
{
    uint64_t cap = s->cap_frame_slot > 0 ? 2 * s->cap_frame_slot : 256;
    uint32_t *slot = calloc((size_t)cap, sizeof *slot);

    if (slot == NULL) return false;
    for (uint32_t i = 0; i < s->n_frame; i++) {
        const struct stack_frame *f = &s->frame[i];
        uint64_t at = frame_hash(key_of(f->name), key_of(f->file), f->line);

        for (at &= cap - 1; slot[at] != 0; at = (at + 1) & (cap - 1)) {}
        slot[at] = i + 1;
    }
    free(s->frame_slot);
    s->frame_slot = slot;
    s->cap_frame_slot = cap;
    return true;
}

bool stacks_frame(struct stacks *s, struct stacks_key name,
                  struct stacks_key file, uint64_t line, uint32_t *out)
{
    uint64_t at;
    struct stack_frame f = {NULL, NULL, line}, *p;

    if (2 * ((uint64_t)s->n_frame + 1) > s->cap_frame_slot
        && !more_frame_slots(s))
        return false;
    at = frame_hash(name, file, line) & (s->cap_frame_slot - 1);
    for (; s->frame_slot[at] != 0; at = (at + 1) & (s->cap_frame_slot - 1)) {
        const struct stack_frame *have = &s->frame[s->frame_slot[at] - 1];

        if (have->line != line || !same(have->name, name)
            || !same(have->file, file))
            continue;
        *out = s->frame_slot[at] - 1;
        return true;
    }
    if (s->n_frame == NUMBERS_MOST) return false;
    p = room(s->frame, &s->cap_frame, s->n_frame + 1u, sizeof *p);
    if (p == NULL) return false;
    s->frame = p;
    f.name = keep_text(s, name);
    f.file = f.name != NULL ? keep_text(s, file) : NULL;
    if (f.file == NULL) return false;
    s->frame[s->n_frame] = f;
    *out = s->n_frame++;
    s->frame_slot[at] = s->n_frame;
    return true;
}

/* ---- stacks ------------------------------------------------------------- */

static uint64_t stack_hash(const uint32_t *id, size_t n)
{
    uint64_t h = n;

    for (size_t i = 0; i < n; i++)
        h = (h ^ id[i]) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

static bool more_stack_slots(struct stacks *s)
{
    uint64_t cap = s->cap_stack_slot > 0 ? 2 * s->cap_stack_slot : 256;
    uint32_t *slot = calloc((size_t)cap, sizeof *slot);

    if (slot == NULL) return false;
    for (uint32_t i = 1; i < s->n_stack; i++) {
        uint64_t at = stack_hash(s->id + s->start[i], stacks_depth(s, i));

        for (at &= cap - 1; slot[at] != 0; at = (at + 1) & (cap - 1)) {}
        slot[at] = i + 1;
    }
    free(s->stack_slot);
    s->stack_slot = slot;
    s->cap_stack_slot = cap;
    return true;
}

/* Stack 0, which is empty and in no table. */
static bool first_stack(struct stacks *s)
{
    uint32_t *p = room(s->start, &s->cap_stack, 2, sizeof *p);

    if (p == NULL) return false;
    s->start = p;
    s->start[0] = s->start[1] = 0;
    s->n_stack = 1;
    return true;
}

/* Room for one more stack of n frames. */
static bool stack_room(struct stacks *s, size_t n)
{
    uint32_t *p;

    if (s->n_stack == NUMBERS_MOST || s->n_id + n > UINT32_MAX) return false;
    p = room(s->start, &s->cap_stack, s->n_stack + 2u, sizeof *p);
    if (p == NULL) return false;
    s->start = p;
    p = room(s->id, &s->cap_id, s->n_id + n, sizeof *p);
    if (p == NULL) return false;
    s->id = p;
    return true;
}

bool stacks_add(struct stacks *s, const uint32_t *id, size_t n, uint32_t *out)
{
    uint64_t at;

    assert(n == 0 || id != NULL);
    *out = 0;
    if (s->n_stack == 0 && !first_stack(s)) return false;
    if (n == 0) return true;
    if (2 * ((uint64_t)s->n_stack + 1) > s->cap_stack_slot
        && !more_stack_slots(s))
        return false;
    at = stack_hash(id, n) & (s->cap_stack_slot - 1);
    for (; s->stack_slot[at] != 0; at = (at + 1) & (s->cap_stack_slot - 1)) {
        uint32_t k = s->stack_slot[at] - 1;

        if (stacks_depth(s, k) != n
            || memcmp(s->id + s->start[k], id, n * sizeof *id) != 0)
            continue;
        *out = k;
        return true;
    }
    if (!stack_room(s, n)) return false;
    memcpy(s->id + s->n_id, id, n * sizeof *id);
    s->n_id += n;
    s->start[s->n_stack + 1] = (uint32_t)s->n_id;
    *out = s->n_stack++;
    s->stack_slot[at] = s->n_stack;
    return true;
}

void stacks_free(struct stacks *s)
{
    while (s->text != NULL) {
        struct stacks_text *next = s->text->next;

        free(s->text);
        s->text = next;
    }
    free(s->frame);
    free(s->start);
    free(s->id);
    free(s->frame_slot);
    free(s->stack_slot);
    *s = (struct stacks){0};
}
