/*
** import.h - peaks that a user measured, beside the estimates of a case.
*/
#ifndef RUN_IMPORT_H
#define RUN_IMPORT_H

#include "record/read.h"

/* What is known of one wave's ranks. */
struct import_wave {
    bool given;
    struct record_rank *rank;       /* [cp] owned; absent where not given */
};

struct import {
    const struct record_found *found;       /* the case they belong to */
    struct import_wave *wave;       /* [found->waves] owned */
    const char *from;               /* what they were read from; borrowed */
    struct buf warnings;            /* lines; owned */
};

int import_new(const struct record_found *found, const char *from,
               struct import *out, struct err *e) MUST_CHECK;
void import_free(struct import *m);

/* A CSV file with the columns rank, allocated_bytes, requested_bytes,
** reserved_bytes, and wave where it is not 0: peaks as
** torch.cuda.memory_stats() gives them, less what was there when the wave
** began (reserved as it is); a column tokens must be the case's, and others
** there are none. ERR_INPUT names line and column. */
int import_csv(struct import *m, const char *path, struct err *e) MUST_CHECK;
/* A PyTorch memory snapshot that begins where the wave does and ends with
** it, or before the next; or, when waves is not NULL, one of several waves,
** each an annotation whose name begins so, the first of them wave. */
int import_snapshot(struct import *m, const char *path, const char *waves,
                    int64_t wave, int64_t rank, struct err *e) MUST_CHECK;
/* import_check.c: holds what was read against the case. ERR_INPUT: a peak
** below what the case provably holds. Missing ranks, and peaks far from the
** simulated ones, are warnings. */
int import_check(struct import *m, struct err *e) MUST_CHECK;
void import_warn(struct import *m, const char *fmt, ...) ERR_PRINTF(2, 3);
/* Appends the case to the run in dir as device "import", with the raw and
** admitted bytes and the terms of the estimates that stand there. */
int import_write(const struct import *m, const char *dir, struct err *e)
    MUST_CHECK;

#endif
