/* free_set.c - see free_set.h */
#include "mem/free_set.h"

#include "base/random.h"

/* Bins grow with size: one for each of the first 32 multiples of 512, then 16
** for each power of two. */
static unsigned bin_of(uint64_t size)
{
    uint64_t units = size / 512;
    unsigned e;

    if (units < 16) return (unsigned)units;
    e = 59 - (unsigned)__builtin_clzll(units);
    return (e << 4) + (unsigned)(units >> e);
}

static bool is_before(const struct mem_block *a, uint64_t size, uint64_t addr)
{
    return a->size != size ? a->size < size : a->addr < addr;
}

/* Scatters an address over 64 bits: equal inputs give equal trees, and no
** stride of addresses gives a tall one. */
static uint64_t rank_of(uint64_t x)
{
    return random_mix(x);
}

/* ---- treap: parents outrank their children ------------------------------ */

/* Goes down to the first node that b outranks and splits that subtree into
** the nodes before b and those after. */
static void tree_insert(struct mem_block **link, struct mem_block *b)
{
    struct mem_block **left = &b->u.tree.left, **right = &b->u.tree.right;
    struct mem_block *t;

    while ((t = *link) != NULL && t->u.tree.rank > b->u.tree.rank)
        link = is_before(t, b->size, b->addr) ? &t->u.tree.right
                                              : &t->u.tree.left;
    *link = b;
    while (t != NULL) {
        if (is_before(t, b->size, b->addr)) {
            *left = t;
            left = &t->u.tree.right;
            t = *left;
        } else {
            *right = t;
            right = &t->u.tree.left;
            t = *right;
        }
    }
    *left = *right = NULL;
}

/* Puts the merge of b's two subtrees in its place. */
static void tree_remove(struct mem_block **link, const struct mem_block *b)
{
    struct mem_block *l = b->u.tree.left, *r = b->u.tree.right;

    while (*link != b)
        link = is_before(*link, b->size, b->addr) ? &(*link)->u.tree.right
                                                  : &(*link)->u.tree.left;
    while (l != NULL && r != NULL) {
        if (l->u.tree.rank > r->u.tree.rank) {
            *link = l;
            link = &l->u.tree.right;
            l = *link;
        } else {
            *link = r;
            link = &r->u.tree.left;
            r = *link;
        }
    }
    *link = l != NULL ? l : r;
}

/* The first node that is not before (size, addr). */
static struct mem_block *tree_lower_bound(struct mem_block *t, uint64_t size,
                                          uint64_t addr)
{
    struct mem_block *best = NULL;

    while (t != NULL) {
        if (is_before(t, size, addr)) {
            t = t->u.tree.right;
        } else {
            best = t;
            t = t->u.tree.left;
        }
    }
    return best;
}

/* ---- set ---------------------------------------------------------------- */

void free_set_insert(struct free_set *s, struct mem_block *b)
{
    unsigned bin = bin_of(b->size);

    b->state = BLOCK_FREE;
    b->u.tree.rank = rank_of(b->addr);
    s->map[bin / 64] |= UINT64_C(1) << bin % 64;
    s->words |= UINT64_C(1) << bin / 64;
    tree_insert(&s->root[bin], b);
}

void free_set_remove(struct free_set *s, struct mem_block *b)
{
    unsigned bin = bin_of(b->size);

    tree_remove(&s->root[bin], b);
    if (s->root[bin] != NULL) return;
    s->map[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    if (s->map[bin / 64] == 0) s->words &= ~(UINT64_C(1) << bin / 64);
}

/* The first bin in use at or above bin; SET_BINS: none. */
static unsigned next_bin(const struct free_set *s, unsigned bin)
{
    unsigned word = bin / 64;
    uint64_t bits, words;

    if (bin >= SET_BINS) return SET_BINS;
    bits = s->map[word] & ~UINT64_C(0) << bin % 64;
    if (bits == 0) {
        words = s->words & ~UINT64_C(0) << (word + 1);
        if (words == 0) return SET_BINS;
        word = (unsigned)__builtin_ctzll(words);
        bits = s->map[word];
    }
    return word * 64 + (unsigned)__builtin_ctzll(bits);
}

/* The first block not before (size, addr). A higher bin holds only larger
** sizes, so its least block is the answer. */
static struct mem_block *lower_bound(const struct free_set *s, uint64_t size,
                                     uint64_t addr)
{
    unsigned bin = bin_of(size);
    struct mem_block *b = tree_lower_bound(s->root[bin], size, addr);

    if (b != NULL) return b;
    bin = next_bin(s, bin + 1);
    if (bin == SET_BINS) return NULL;
    for (b = s->root[bin]; b->u.tree.left != NULL; b = b->u.tree.left) {}
    return b;
}

struct mem_block *free_set_fit(const struct free_set *s, uint64_t size)
{
    return lower_bound(s, size, 0);
}

struct mem_block *free_set_find(const struct free_set *s, uint64_t size,
                                uint64_t addr)
{
    struct mem_block *b = lower_bound(s, size, addr);

    return b != NULL && b->size == size && b->addr == addr ? b : NULL;
}

struct mem_block *free_set_next(const struct free_set *s,
                                const struct mem_block *b)
{
    return lower_bound(s, b->size, b->addr + 1);
}

/* The last block of the highest bin in use below bin; NULL: none. */
static struct mem_block *last_below(const struct free_set *s, unsigned bin)
{
    unsigned word = bin / 64;
    uint64_t bits = s->map[word] & ((UINT64_C(1) << bin % 64) - 1);
    struct mem_block *b;

    if (bits == 0) {
        uint64_t words = s->words & ((UINT64_C(1) << word) - 1);

        if (words == 0) return NULL;
        word = 63 - (unsigned)__builtin_clzll(words);
        bits = s->map[word];
    }
    b = s->root[word * 64 + 63 - (unsigned)__builtin_clzll(bits)];
    while (b->u.tree.right != NULL) b = b->u.tree.right;
    return b;
}

struct mem_block *free_set_previous(const struct free_set *s,
                                    const struct mem_block *b)
{
    unsigned bin = bin_of(b->size);
    struct mem_block *t = s->root[bin], *best = NULL;

    while (t != NULL) {
        if (is_before(t, b->size, b->addr)) {
            best = t;
            t = t->u.tree.right;
        } else {
            t = t->u.tree.left;
        }
    }
    return best != NULL ? best : last_below(s, bin);
}

struct mem_block *free_set_last(const struct free_set *s)
{
    return last_below(s, SET_BINS - 1);     /* which no size reaches */
}
