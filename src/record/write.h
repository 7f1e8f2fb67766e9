/*
** write.h - the inside of struct record, shared by write.c and run_json.c.
** Inside src/record.
*/
#ifndef RECORD_WRITE_H
#define RECORD_WRITE_H

#include <jansson.h>
#include <stdint.h>
#include <time.h>

#include "record/recover.h"
#include "record/record.h"

struct record {
    char *dir;
    int fd[RECORD_FILES];
    uint64_t len[RECORD_FILES];     /* bytes that count */
    struct recovered had;           /* the cases in the folder */
    json_t *run;                    /* what run.json says */
    json_t *owned;                  /* its "files", as the keys of an object */
    bool is_run;                    /* there was a run.json */
    struct timespec synced;
};

/* run.json: r->run from info; the one that is there against the mode (it is
** taken over by APPEND); writing it at the start; and at the end. */
int record_run_describe(struct record *r, const struct record_info *info,
                        struct err *e) MUST_CHECK;
int record_run_check(struct record *r, enum record_mode mode, struct err *e)
    MUST_CHECK;
int record_run_write(struct record *r, struct err *e) MUST_CHECK;
int record_run_end(struct record *r, bool finished, struct err *e) MUST_CHECK;
/* Whether path exists, and then is a plain file that no other name shares;
** anything else is ERR_USAGE. */
int record_look(const char *path, bool *there, struct err *e) MUST_CHECK;

#endif
