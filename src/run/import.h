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
};

int import_new(const struct record_found *found, const char *from,
               struct import *out, struct err *e) MUST_CHECK;
void import_free(struct import *m);

/* A CSV file with the columns rank, allocated_bytes, requested_bytes,
** reserved_bytes, and wave where it is not 0: peaks as
** torch.cuda.memory_stats() gives them, less what was there when the wave
** began (reserved as it is). ERR_INPUT names line and column. */
int import_csv(struct import *m, const char *path, struct err *e) MUST_CHECK;
/* A PyTorch memory snapshot that begins where the wave does and ends with
** it, or before the next. */
int import_snapshot(struct import *m, const char *path, int64_t wave,
                    int64_t rank, struct err *e) MUST_CHECK;
/* Appends the case to the run in dir as device "import", with the raw and
** admitted bytes and the terms of the estimates that stand there. */
int import_write(const struct import *m, const char *dir, struct err *e)
    MUST_CHECK;

#endif
