/*
** addr_map.h - from addresses to indices (internal to snapshot): open
** addressing, at most half full.
*/
#ifndef SNAPSHOT_ADDR_MAP_H
#define SNAPSHOT_ADDR_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct addr_map {           /* zeroed: empty */
    struct addr_slot { uint64_t addr; int64_t index; } *slot;
    size_t cap, n;          /* cap: 0 or a power of two */
};

/* addr must not be 0. False: no host memory, and nothing has changed. */
bool addr_map_put(struct addr_map *m, uint64_t addr, int64_t index);
int64_t addr_map_get(const struct addr_map *m, uint64_t addr);  /* -1: none */
void addr_map_remove(struct addr_map *m, uint64_t addr);
void addr_map_free(struct addr_map *m);

#endif
