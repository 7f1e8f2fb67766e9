/*
** differ.h - two devices of snapshots side by side: what their peaks differ
** by, in bytes and by group.
*/
#ifndef SNAPSHOT_DIFFER_H
#define SNAPSHOT_DIFFER_H

#include "snapshot/account.h"

/* Accounts must have been made with the same ask. Where one has no history
** its state stands for its peak. ERR_RUN: no host memory. */
int differ_tell(const struct account *a, const char *a_name,
                const struct account *b, const char *b_name,
                const struct account_ask *ask, struct buf *text,
                struct err *e) MUST_CHECK;
/* NULL: no host memory. */
json_t *differ_json(const struct account *a, const struct account *b,
                    const struct account_ask *ask);
/* Whether bytes or groups at the peaks differ; -1: no host memory. */
int differ_any(const struct account *a, const struct account *b);

#endif
