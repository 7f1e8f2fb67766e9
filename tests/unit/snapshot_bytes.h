/*
** snapshot_bytes.h - snapshots that lie in memory, read and replayed as files
** are: for tests.
*/
#ifndef TESTS_UNIT_SNAPSHOT_BYTES_H
#define TESTS_UNIT_SNAPSHOT_BYTES_H

#include "snapshot/pickle.h"
#include "snapshot/replay.h"

static inline int bytes_read(const char *data, size_t len,
                             struct snapshot *out, struct err *e)
{
    struct pickle_input in = {.data = data, .len = len};

    return snapshot_stream(&in, "f", out, e);
}

/* One device from the state that its trace implies. */
static inline int bytes_replay(const struct snapshot *s, int64_t device,
                               const struct mem_config *c,
                               struct replay *out, struct err *e)
{
    struct rewind from = {0};
    int rc = rewind_device(s, device, "f", &from, e);

    if (rc == ERR_OK) rc = replay_settle(s, device, &from, e);
    if (rc == ERR_OK)
        rc = replay_from(s, device, &from, c, NULL, NULL, out, e);
    rewind_free(&from);
    return rc;
}

#endif
