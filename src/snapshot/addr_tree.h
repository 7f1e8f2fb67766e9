/*
** addr_tree.h - addresses in order: a treap, whose nodes are the caller's
** indices. As deep as the logarithm of how many there are, unless someone
** chooses addresses against it; nothing recurses. Inside src/snapshot.
*/
#ifndef SNAPSHOT_ADDR_TREE_H
#define SNAPSHOT_ADDR_TREE_H

#include <stdbool.h>
#include <stdint.h>

struct addr_tree {          /* zeroed: empty */
    /* [cap] by index, owned; left, right and root are indices + 1, 0: none */
    struct addr_node { uint64_t addr; int64_t left, right; } *node;
    int64_t cap, root;
};

/* Neither the address nor the index may be there. False: no host memory, and
** nothing has changed. */
bool addr_tree_put(struct addr_tree *t, uint64_t addr, int64_t index);
/* Both must be there, together. */
void addr_tree_remove(struct addr_tree *t, uint64_t addr, int64_t index);
/* The index of the highest address up to addr; -1: there is none. */
int64_t addr_tree_up_to(const struct addr_tree *t, uint64_t addr);
void addr_tree_free(struct addr_tree *t);

#endif
