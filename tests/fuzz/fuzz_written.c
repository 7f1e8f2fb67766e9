/* Any bytes are a program for the allocator: what it did is written as a
** snapshot, read back, and must be followed and predicted without a
** difference, with the allocator's own peaks. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/account.h"
#include "snapshot/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SLOTS = 64 };

static struct mem *work(const uint8_t *data, size_t size,
                        struct mem_dry_source *dry)
{
    static const char *const op[] = {"a", "moe.fc1", "b;<\"", NULL};
    struct mem_config c = {.trace = true};
    struct mem_block *b[SLOTS] = {NULL};
    struct mem *m;
    struct err e;

    if (size > 0 && (data[0] & 1) != 0) c.max_split_bytes = 20 << 20;
    if (size > 0 && (data[0] & 2) != 0) c.roundup_divisions[2] = 4;
    if (mem_new(&c, mem_dry_source(dry, 0), &m, &e) != ERR_OK) abort();
    for (size_t i = 1; i + 3 <= size; i += 3) {
        struct mem_block **at = &b[data[i] % SLOTS];
        struct mem_tag tag = {(uint8_t)(data[i + 2] % CAT_ROUNDING),
                              (uint8_t)(data[i + 1] % PHASE_COUNT),
                              (int16_t)(data[i] % 5 - 1), op[data[i] % 4]};
        uint64_t bytes = (uint64_t)data[i + 1] << data[i + 2] % 20;

        if (data[i] == 255) mem_empty_cache(m);
        mem_release(m, *at);
        *at = NULL;
        if (bytes != 0 && mem_alloc(m, bytes, tag, at, &e) != ERR_OK) abort();
    }
    return m;
}

static void check(const struct mem *m, const struct account *a)
{
    struct mem_stats t;

    mem_stats(m, &t);
    if (a->walk.peak.allocated != t.allocated_peak) abort();
    if (a->walk.peak.requested != t.requested_peak) abort();
    if (a->walk.peak.reserved != t.reserved_peak) abort();
    if (memcmp(&a->walk.final, &a->walk.recorded, sizeof a->walk.final) != 0)
        abort();
    if (!a->history) return;
    if (!a->predicted || a->replay.address_mismatches != 0
        || a->replay.segment_mismatches != 0)
        abort();
    if (memcmp(&a->walk.peak, &a->replay.peak, sizeof a->walk.peak) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct account_ask ask = {.by = BY_CATEGORY};
    struct mem_dry_source dry;
    struct mem *m = work(data, size, &dry);
    struct pickle_input in;
    struct snapshot s;
    struct account a;
    struct buf b = BUF_INIT;
    struct err e;

    if (snapshot_write(m, 0, "wave 0", &b, &e) != ERR_OK) abort();
    in = (struct pickle_input){.data = b.data, .len = b.len};
    if (snapshot_stream(&in, "f", &s, &e) != ERR_OK) abort();
    if (account_device(&s, 0, "f", &ask, &a, &e) != ERR_OK) abort();
    check(m, &a);
    account_free(&a);
    snapshot_free(&s);
    buf_free(&b);
    mem_free_all(m);
    return 0;
}
