/* source.c - segments from made-up addresses, see mem.h */
#include <inttypes.h>

#include "mem/mem.h"

/* Segments start on 2 MiB, as a driver's do. */
#define DRY_ALIGN (UINT64_C(2) << 20)
#define DRY_FIRST (UINT64_C(1) << 40)

static int dry_get(void *ctx, uint64_t bytes, uint64_t *addr, struct err *e)
{
    struct mem_dry_source *s = ctx;
    uint64_t span = (bytes + DRY_ALIGN - 1) / DRY_ALIGN * DRY_ALIGN;

    if (s->limit != 0 && bytes > s->limit - s->used)
        return err_set(e, ERR_OOM, "the dry device has %" PRIu64 " B, %"
                       PRIu64 " B of them taken", s->limit, s->used);
    if (span > UINT64_MAX - s->next)
        return err_set(e, ERR_OOM, "the dry device is out of addresses");
    *addr = s->next;
    s->next += span;
    s->used += bytes;
    return ERR_OK;
}

static void dry_put(void *ctx, uint64_t addr, uint64_t bytes)
{
    struct mem_dry_source *s = ctx;

    (void)addr;
    s->used -= bytes;
}

struct mem_source mem_dry_source(struct mem_dry_source *s, uint64_t limit)
{
    *s = (struct mem_dry_source){DRY_FIRST, 0, limit};
    return (struct mem_source){s, dry_get, dry_put};
}
