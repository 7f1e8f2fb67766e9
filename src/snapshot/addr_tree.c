/* addr_tree.c - see addr_tree.h */
#include "snapshot/addr_tree.h"

#include <assert.h>
#include <stdlib.h>

#include "base/random.h"

/* Whether a node is above another; drawn by the address, so that a trace is
** followed alike in every run. */
static bool is_above(const struct addr_node *a, const struct addr_node *b)
{
    return random_mix(a->addr) > random_mix(b->addr);
}

static struct addr_node *node(const struct addr_tree *t, int64_t link)
{
    return &t->node[link - 1];
}

/* The nodes of a tree below addr, and the others. */
static void split(struct addr_tree *t, int64_t from, uint64_t addr,
                  int64_t *low, int64_t *high)
{
    while (from != 0) {
        struct addr_node *x = node(t, from);

        if (x->addr < addr) {
            *low = from;
            low = &x->right;
            from = x->right;
        } else {
            *high = from;
            high = &x->left;
            from = x->left;
        }
    }
    *low = *high = 0;
}

/* One tree of two, the first of which is below the second. */
static int64_t merge(struct addr_tree *t, int64_t low, int64_t high)
{
    int64_t root = 0, *to = &root;

    while (low != 0 && high != 0) {
        if (is_above(node(t, low), node(t, high))) {
            *to = low;
            to = &node(t, low)->right;
            low = *to;
        } else {
            *to = high;
            to = &node(t, high)->left;
            high = *to;
        }
    }
    *to = low != 0 ? low : high;
    return root;
}

static bool reserve(struct addr_tree *t, int64_t n)
{
    int64_t cap = t->cap > 0 ? t->cap : 256;
    struct addr_node *p;

    if (n <= t->cap) return true;
    while (cap < n) cap *= 2;
    p = realloc(t->node, (size_t)cap * sizeof *p);
    if (p == NULL) return false;
    t->node = p;
    t->cap = cap;
    return true;
}

bool addr_tree_put(struct addr_tree *t, uint64_t addr, int64_t index)
{
    int64_t low, high;

    assert(index >= 0);
    if (!reserve(t, index + 1)) return false;
    split(t, t->root, addr, &low, &high);
    t->node[index] = (struct addr_node){addr, 0, 0};
    t->root = merge(t, merge(t, low, index + 1), high);
    return true;
}

void addr_tree_remove(struct addr_tree *t, uint64_t addr, int64_t index)
{
    int64_t *at = &t->root;

    while (*at != index + 1) {
        assert(*at != 0);
        at = addr < node(t, *at)->addr ? &node(t, *at)->left
                                       : &node(t, *at)->right;
    }
    *at = merge(t, node(t, *at)->left, node(t, *at)->right);
}

int64_t addr_tree_up_to(const struct addr_tree *t, uint64_t addr)
{
    int64_t at = t->root, best = 0;

    while (at != 0) {
        if (node(t, at)->addr > addr) {
            at = node(t, at)->left;
        } else {
            best = at;
            at = node(t, at)->right;
        }
    }
    return best - 1;
}

void addr_tree_free(struct addr_tree *t)
{
    free(t->node);
    *t = (struct addr_tree){0};
}
