/*
** recover.h - what of a folder's files counts after a run that ended early.
** Internal to record.
**
** Works on the raw text: rows were written by this program, so a case's key
** is the text before a row's third comma, the same bytes in every file.
** Inside src/record.
*/
#ifndef RECORD_RECOVER_H
#define RECORD_RECOVER_H

#include "base/buf.h"
#include "base/err.h"
#include "base/keyset.h"
#include "record/record.h"

/* The committed cases: key text (without a comma at its end) to status. */
struct recovered {
    struct keyset cases;
    size_t keep[RECORD_CASE_FILES];     /* bytes of each file that count */
    char *altered;      /* the key of a case whose rows are all there, but not
                           those that its checksum is of; owned, or NULL */
};

/* A case's checksum in cases.csv: FNV-1a of its rows, file by file, in the
** files that are the same for the same input (those before RECORD_SUMMED),
** then of its own row with sixteen zeros for the checksum. */

/* text[f] is the content of each case file, header included. Without
** failed, cases count up to the first that the machine failed (RECORD_EXIT).
*/
int recover(const struct buf text[RECORD_CASE_FILES], bool failed,
            struct recovered *out, struct err *e) MUST_CHECK;
void recovered_free(struct recovered *r);

/* The key of the first row of rendered text; false when there is no row. */
bool recover_key(const struct buf *rows, const char **key, size_t *len);

#endif
