/*
** failing_source.h - a device's memory that ends at the n-th segment, and
** counts those that were not given back.
*/
#ifndef FAILING_SOURCE_H
#define FAILING_SOURCE_H

#include "mem/mem.h"

struct failing {
    struct mem_source inner;
    int64_t left, live;     /* left: segments until none is given */
};

static inline int failing_get(void *ctx, uint64_t bytes, uint64_t *addr,
                              struct err *e)
{
    struct failing *f = ctx;
    int rc;

    if (f->left == 0) return err_set(e, ERR_OOM, "planted");
    f->left--;
    rc = f->inner.get(f->inner.ctx, bytes, addr, e);
    if (rc == ERR_OK) f->live++;
    return rc;
}

static inline void failing_put(void *ctx, uint64_t addr, uint64_t bytes)
{
    struct failing *f = ctx;

    f->live--;
    f->inner.put(f->inner.ctx, addr, bytes);
}

#endif
