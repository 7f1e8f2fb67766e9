/* free_set.c - see free_set.h */
#include "mem/free_set.h"

#include <string.h>

#include "base/random.h"

/* A list that is walked further becomes a treap. */
enum { LIST_WALK = 24 };

/* Scatters an address over 32 bits, never 0: equal inputs give equal trees,
** and no stride of addresses gives a tall one. */
static uint32_t rank_of(const struct mem_block *b)
{
    return (uint32_t)random_mix(b->addr) | 1;
}

/* ---- treap: parents outrank their children ------------------------------ */

/* Goes down to the first node that b outranks and splits that subtree into
** the nodes before b and those after. */
static void tree_insert(struct mem_block **link, struct mem_block *b)
{
    struct mem_block **left = &b->u.set.left, **right = &b->u.set.right;
    struct mem_block *t;

    b->u.set.rank = rank_of(b);
    while ((t = *link) != NULL && t->u.set.rank > b->u.set.rank)
        link = free_set_is_before(t, b->size, b->addr) ? &t->u.set.right
                                                       : &t->u.set.left;
    *link = b;
    while (t != NULL) {
        if (free_set_is_before(t, b->size, b->addr)) {
            *left = t;
            left = &t->u.set.right;
            t = *left;
        } else {
            *right = t;
            right = &t->u.set.left;
            t = *right;
        }
    }
    *left = *right = NULL;
}

/* Puts the merge of b's two subtrees in its place. */
static void tree_remove(struct mem_block **link, const struct mem_block *b)
{
    struct mem_block *l = b->u.set.left, *r = b->u.set.right;

    while (*link != b)
        link = free_set_is_before(*link, b->size, b->addr)
             ? &(*link)->u.set.right : &(*link)->u.set.left;
    while (l != NULL && r != NULL) {
        if (l->u.set.rank > r->u.set.rank) {
            *link = l;
            link = &l->u.set.right;
            l = *link;
        } else {
            *link = r;
            link = &r->u.set.left;
            r = *link;
        }
    }
    *link = l != NULL ? l : r;
}

/* The first node that is not before (size, addr), and the last that is. */
static struct mem_block *tree_bound(struct mem_block *t, uint64_t size,
                                    uint64_t addr, struct mem_block **before)
{
    struct mem_block *best = NULL;

    *before = NULL;
    while (t != NULL) {
        if (free_set_is_before(t, size, addr)) {
            *before = t;
            t = t->u.set.right;
        } else {
            best = t;
            t = t->u.set.left;
        }
    }
    return best;
}

/* ---- bins --------------------------------------------------------------- */

static bool is_tree(const struct mem_block *first)
{
    return first->u.set.rank != 0;
}

static void to_tree(struct free_set *s, struct mem_block **root)
{
    struct mem_block *b = *root, *next;

    for (*root = NULL; b != &s->end; b = next) {
        next = b->u.set.right;
        tree_insert(root, b);
    }
}

/* Where in a bin's list a block of (size, addr) belongs. NULL: the bin is a
** treap, or has become one. */
static inline struct mem_block **list_place(struct free_set *s, unsigned bin,
                                            uint64_t size, uint64_t addr)
{
    struct mem_block **link = &s->first[bin];
    int walk = LIST_WALK;

    if (is_tree(*link)) return NULL;
    for (; free_set_is_before(*link, size, addr);
         link = &(*link)->u.set.right) {
        if (walk-- > 0) continue;
        to_tree(s, &s->first[bin]);
        return NULL;
    }
    return link;
}

/* The first block of a bin that is not before (size, addr); NULL: none. */
static inline struct mem_block *bin_bound(struct free_set *s, unsigned bin,
                                          uint64_t size, uint64_t addr)
{
    struct mem_block **link = list_place(s, bin, size, addr), *before;

    if (link == NULL) return tree_bound(s->first[bin], size, addr, &before);
    return *link != &s->end ? *link : NULL;
}

/* The last that is before; NULL: none. */
static struct mem_block *bin_before(struct free_set *s, unsigned bin,
                                    uint64_t size, uint64_t addr)
{
    struct mem_block **link = list_place(s, bin, size, addr), *before = NULL;

    if (link == NULL) {
        (void)tree_bound(s->first[bin], size, addr, &before);
        return before;
    }
    for (struct mem_block *b = s->first[bin]; b != *link; b = b->u.set.right)
        before = b;
    return before;
}

static struct mem_block *bin_first(struct mem_block *b)
{
    while (is_tree(b) && b->u.set.left != NULL) b = b->u.set.left;
    return b;
}

void free_set_insert_among(struct free_set *s, struct mem_block *b)
{
    unsigned bin = b->u.set.bin;
    struct mem_block **link = list_place(s, bin, b->size, b->addr), *right;

    if (link == NULL) {
        tree_insert(&s->first[bin], b);
        return;
    }
    right = *link;
    b->u.set.link = link;
    b->u.set.right = right;
    right->u.set.link = &b->u.set.right;
    *link = b;
}

void free_set_remove_ranked(struct free_set *s, struct mem_block *b)
{
    unsigned bin = b->u.set.bin;

    tree_remove(&s->first[bin], b);
    if (s->first[bin] != NULL) return;
    s->first[bin] = &s->end;
    s->map[bin / 64] &= ~(UINT64_C(1) << bin % 64);
}

void free_set_init(struct free_set *s)
{
    memset(s, 0, sizeof *s);
    s->end.size = s->end.addr = UINT64_MAX;
    for (unsigned i = 0; i < SET_BINS; i++) s->first[i] = &s->end;
}

/* ---- set ---------------------------------------------------------------- */

/* The first block not before (size, addr), from the bin of that size on. A
** higher bin holds only larger sizes, so its least block is the answer. */
static inline struct mem_block *lower_bound(struct free_set *s, unsigned bin,
                                            uint64_t size, uint64_t addr)
{
    struct mem_block *b = bin_bound(s, bin, size, addr);

    if (b != NULL) return b;
    bin = free_set_bin_from(s, bin + 1);
    return bin < SET_BINS ? bin_first(s->first[bin]) : NULL;
}

struct mem_block *free_set_fit_among(struct free_set *s, unsigned bin,
                                     uint64_t size)
{
    return lower_bound(s, bin, size, 0);
}

struct mem_block *free_set_find(struct free_set *s, uint64_t size,
                                uint64_t addr)
{
    struct mem_block *b = lower_bound(s, free_set_bin(size), size,
                                      addr);

    return b != NULL && b->size == size && b->addr == addr ? b : NULL;
}

struct mem_block *free_set_next(struct free_set *s, const struct mem_block *b)
{
    return lower_bound(s, free_set_bin(b->size), b->size, b->addr + 1);
}

/* The last block of the highest bin in use below bin; NULL: none. */
static struct mem_block *last_below(struct free_set *s, unsigned bin)
{
    unsigned word = bin / 64;
    uint64_t bits = s->map[word] & ((UINT64_C(1) << bin % 64) - 1);

    while (bits == 0) {
        if (word == 0) return NULL;
        bits = s->map[--word];
    }
    bin = word * 64 + 63 - (unsigned)__builtin_clzll(bits);
    return bin_before(s, bin, UINT64_MAX, 0);
}

struct mem_block *free_set_previous(struct free_set *s,
                                    const struct mem_block *b)
{
    unsigned bin = free_set_bin(b->size);
    struct mem_block *before = bin_before(s, bin, b->size, b->addr);

    return before != NULL ? before : last_below(s, bin);
}

struct mem_block *free_set_last(struct free_set *s)
{
    return last_below(s, SET_BINS - 1);     /* which no size reaches */
}
