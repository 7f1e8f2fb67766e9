/* Any bytes: a snapshot or an error. Whatever snapshot it is, each device is
** followed, replayed and composed or contradicts itself; what was live never
** exceeds the peak, and what made it sums to it. */
#include <stdint.h>
#include <stdlib.h>

#include "snapshot/account.h"
#include "snapshot/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_bytes(const struct replay_bytes *peak,
                        const struct replay_bytes *final)
{
    if (final->allocated > peak->allocated) abort();
    if (final->reserved > peak->reserved) abort();
    if (final->requested > final->active) abort();
    if (final->allocated > final->active) abort();
    if (final->active > final->reserved) abort();
    if (peak->allocated > peak->active) abort();
}

static void check_point(const struct composition *c)
{
    uint64_t sum = 0;

    for (int64_t i = 0; i < c->n_group; i++) sum += c->group[i].bytes;
    if (sum != c->allocated || c->before > sum) abort();
}

static void check(const struct account *a, const struct account_ask *ask)
{
    struct buf text = BUF_INIT;
    struct err e;

    check_bytes(&a->walk.peak, &a->walk.final);
    if (a->predicted) check_bytes(&a->replay.peak, &a->replay.final);
    if (a->predicted && a->replay.address_mismatches == 0
        && a->replay.segment_mismatches == 0
        && a->replay.peak.allocated != a->walk.peak.allocated)
        abort();
    for (int i = 0; i < a->n_point; i++) check_point(&a->point[i].is);
    if (a->i_peak >= 0
        && a->point[a->i_peak].is.allocated != a->walk.peak.allocated)
        abort();
    json_decref(account_json(a, ask));
    if (account_tell(a, ask, "f", &text, &e) != ERR_OK) abort();
    buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct account_ask ask = {.by = size > 0 ? data[size / 2] % BY_PATTERN
                                             : BY_FRAME};
    struct pickle_input in = {.data = (const char *)data, .len = size};
    struct snapshot s;
    struct account a;
    struct err e;

    if (snapshot_stream(&in, "f", &s, &e) != ERR_OK)
        return 0;
    for (int64_t d = 0; d < s.n_device; d++)
        if (account_device(&s, d, "f", &ask, &a, &e) == ERR_OK) {
            check(&a, &ask);
            account_free(&a);
        }
    snapshot_free(&s);
    return 0;
}
