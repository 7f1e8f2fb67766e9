/* addr_map.c - see addr_map.h */
#include "snapshot/addr_map.h"

#include <assert.h>
#include <stdlib.h>

static size_t home(const struct addr_map *m, uint64_t addr)
{
    addr = (addr ^ addr >> 32) * 0x9e3779b97f4a7c15u;
    return (size_t)(addr ^ addr >> 29) & (m->cap - 1);
}

/* Where addr is, or the empty slot where it belongs. */
static size_t find(const struct addr_map *m, uint64_t addr)
{
    size_t i = home(m, addr);

    while (m->slot[i].addr != 0 && m->slot[i].addr != addr)
        i = (i + 1) & (m->cap - 1);
    return i;
}

static bool grow(struct addr_map *m)
{
    struct addr_map big = {.cap = m->cap > 0 ? 2 * m->cap : 64, .n = m->n};

    big.slot = calloc(big.cap, sizeof *big.slot);
    if (big.slot == NULL) return false;
    for (size_t i = 0; i < m->cap; i++)
        if (m->slot[i].addr != 0)
            big.slot[find(&big, m->slot[i].addr)] = m->slot[i];
    free(m->slot);
    *m = big;
    return true;
}

bool addr_map_put(struct addr_map *m, uint64_t addr, int64_t index)
{
    size_t i;

    assert(addr != 0 && index >= 0);
    if (2 * (m->n + 1) > m->cap && !grow(m)) return false;
    i = find(m, addr);
    if (m->slot[i].addr == 0) m->n++;
    m->slot[i] = (struct addr_slot){addr, index};
    return true;
}

int64_t addr_map_get(const struct addr_map *m, uint64_t addr)
{
    size_t i;

    if (m->cap == 0) return -1;
    i = find(m, addr);
    return m->slot[i].addr == addr ? m->slot[i].index : -1;
}

/* Closes the gap: a later slot moves into it unless that would put it before
** its home. */
void addr_map_remove(struct addr_map *m, uint64_t addr)
{
    size_t mask = m->cap - 1, gap, i;

    if (m->cap == 0) return;
    gap = find(m, addr);
    if (m->slot[gap].addr == 0) return;
    for (i = (gap + 1) & mask; m->slot[i].addr != 0; i = (i + 1) & mask) {
        if (((i - home(m, m->slot[i].addr)) & mask) < ((i - gap) & mask))
            continue;
        m->slot[gap] = m->slot[i];
        gap = i;
    }
    m->slot[gap] = (struct addr_slot){0, 0};
    m->n--;
}

void addr_map_free(struct addr_map *m)
{
    free(m->slot);
    *m = (struct addr_map){0};
}
