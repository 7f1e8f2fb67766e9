/*
** stacks.h - the call stacks of a snapshot, each kept once (internal to
** snapshot and to what reports on it).
*/
#ifndef SNAPSHOT_STACKS_H
#define SNAPSHOT_STACKS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stack_frame {
    const char *name, *file;    /* NUL-terminated; in stacks.text */
    uint64_t line;
};

/* Stack 0 has no frames: nothing was recorded. */
struct stacks {
    struct stack_frame *frame;
    uint32_t *start;            /* [n_stack + 1]: where each begins in id */
    uint32_t *id;               /* frames, innermost first */
    uint32_t n_frame, n_stack;
    uint64_t n_id;
    uint64_t cap_frame, cap_stack, cap_id;
    uint32_t *frame_slot, *stack_slot;      /* hash tables: number plus 1 */
    uint64_t cap_frame_slot, cap_stack_slot;
    struct stacks_text *text;
};

struct stacks_key { const char *s; size_t n; };

/* The number of a frame or stack, new or known, in *out. False: no host
** memory (or over 2^31 of them). */
bool stacks_frame(struct stacks *s, struct stacks_key name,
                  struct stacks_key file, uint64_t line, uint32_t *out);
bool stacks_add(struct stacks *s, const uint32_t *id, size_t n,
                uint32_t *out);
void stacks_free(struct stacks *s);

static inline uint32_t stacks_depth(const struct stacks *s, uint32_t stack)
{
    return stack == 0 || stack >= s->n_stack
         ? 0 : s->start[stack + 1] - s->start[stack];
}

/* The i-th frame of a stack, innermost first. */
static inline const struct stack_frame *stacks_at(const struct stacks *s,
                                                  uint32_t stack, uint32_t i)
{
    assert(i < stacks_depth(s, stack));
    return &s->frame[s->id[s->start[stack] + i]];
}

#endif
