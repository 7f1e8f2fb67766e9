/*
** dry.c - the device that only counts: segments from made-up addresses, no
** kernels, nothing touched.
*/
#include <stdlib.h>

#include "dev/dev.h"

struct dry {
    struct dev dev;
    struct mem_dry_source source;
};

static int dry_open(const struct dev_options *o, struct dev **out,
                    struct err *e)
{
    struct dry *d = calloc(1, sizeof *d);

    if (d == NULL) return err_nomem(e);
    d->dev.ops = &dev_dry;
    d->dev.act = o->act;
    d->dev.acc = o->act == DT_F64 ? DT_F64 : DT_F32;
    d->dev.source = mem_dry_source(&d->source, o->limit_bytes);
    *out = &d->dev;
    return ERR_OK;
}

static void dry_close(struct dev *d)
{
    free(d);
}

const struct dev_ops dev_dry = {
    .name = "dry",
    .computes = false,
    .open = dry_open,
    .close = dry_close,
};
