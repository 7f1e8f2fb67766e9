/* Any bytes: a snapshot or an error. Whatever snapshot it is, each device
** replays or contradicts itself, and what was live never exceeds the peak. */
#include <stdint.h>
#include <stdlib.h>

#include "snapshot/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct replay *r)
{
    if (r->final.allocated > r->peak.allocated) abort();
    if (r->final.reserved > r->peak.reserved) abort();
    if (r->final.requested > r->final.active) abort();
    if (r->final.allocated > r->final.active) abort();
    if (r->final.active > r->final.reserved) abort();
    if (r->peak.allocated > r->peak.active) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snapshot s;
    struct replay r;
    struct err e;

    if (snapshot_read((const char *)data, size, "f", &s, &e) != ERR_OK)
        return 0;
    for (int64_t d = 0; d < s.n_device; d++)
        if (replay_device(&s, d, "f", &s.config, &r, &e) == ERR_OK)
            check(&r);
    snapshot_free(&s);
    return 0;
}
