/*
** alarm.h - how the ranks of a crew hear of a failure beside the exchanges
** themselves: a rank that waits for a GPU polls it. For threads of one
** process it is shared memory (alarm_threads), for processes the line that
** they met on (line.h).
**
** The first cause counts and stays. It names the rank that failed.
*/
#ifndef COMM_ALARM_H
#define COMM_ALARM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define ALARM_CAUSE 512

struct alarm;

struct alarm_ops {
    /* cause is whole: "rank 1 failed: out of memory". Quick, never waits
    ** long. */
    void (*raise)(struct alarm *a, const char *cause);
    bool (*raised)(struct alarm *a, char cause[ALARM_CAUSE]);
    /* This rank has come to its exchange number turn. */
    void (*came)(struct alarm *a, int rank, uint64_t turn);
    /* Whether all have that this process's GPU work may wait for: a rank of
    ** another process is none of them. */
    bool (*here)(struct alarm *a, uint64_t turn);
    /* The ranks that have not come to it, "1, 3", or "" where that cannot be
    ** told. */
    void (*late)(struct alarm *a, uint64_t turn, char *who, size_t n);
};

struct alarm { const struct alarm_ops *ops; };

/* One for size (1 to 64) threads; free it when no rank uses it any more. */
int alarm_threads(int size, struct alarm **out, struct err *e) MUST_CHECK;
void alarm_free(struct alarm *a);       /* NULL is fine */

#endif
