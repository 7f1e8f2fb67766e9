/* arena.c - see arena.h */
#include "base/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BLOCK ((size_t)1 << 12)
#define LARGEST_STEP ((size_t)1 << 24)

struct arena_block {
    struct arena_block *next;
    size_t cap;
    alignas(max_align_t) unsigned char data[];
};

static struct arena_block *add_block(struct arena *a, size_t need)
{
    size_t cap = FIRST_BLOCK;
    struct arena_block *b;

    if (a->top != NULL) {
        cap = a->top->cap < LARGEST_STEP ? a->top->cap * 2 : LARGEST_STEP;
    }
    if (cap < need) cap = need;
    if (cap > PTRDIFF_MAX - sizeof *b) return NULL;
    b = malloc(sizeof *b + cap);
    if (b == NULL) return NULL;
    b->next = a->top;
    b->cap = cap;
    a->top = b;
    a->used = 0;
    a->blocks++;
    return b;
}

void *arena_take(struct arena *a, int64_t count, size_t size)
{
    void *p = arena_take_raw(a, count, size);

    return p == NULL ? NULL : memset(p, 0, (size_t)count * size);
}

void *arena_take_raw(struct arena *a, int64_t count, size_t size)
{
    const size_t mask = alignof(max_align_t) - 1;
    size_t need;
    void *p;

    assert(size > 0);
    if (count < 0 || __builtin_mul_overflow((size_t)count, size, &need) ||
        need > PTRDIFF_MAX - mask)
        return NULL;
    need = (need + mask) & ~mask;
    if (need == 0) need = mask + 1;
    if (a->top == NULL || a->top->cap - a->used < need) {
        if (add_block(a, need) == NULL) return NULL;
    }
    p = a->top->data + a->used;
    a->used += need;
    return p;
}

void arena_reset(struct arena *a)
{
    struct arena_block *b, *next;

    if (a->top == NULL) return;
    for (b = a->top->next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    a->top->next = NULL;
    a->used = 0;
}

void arena_free(struct arena *a)
{
    arena_reset(a);
    free(a->top);
    *a = (struct arena)ARENA_INIT;
}
