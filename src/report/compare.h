/*
** compare.h - two runs side by side: what changed from one folder of records
** to another. Records are exact, so there is no noise to allow for: every
** differing byte counts.
*/
#ifndef REPORT_COMPARE_H
#define REPORT_COMPARE_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct comparison {
    int64_t same;           /* cases with the same figures in both */
    int64_t changed;        /* cases with at least one other figure */
    int64_t only_old, only_new;     /* cases that one folder alone has */
};

/* Markdown into text, or JSON when json is not NULL (the caller owns it). */
int report_compare(const char *old_dir, const char *new_dir,
                   struct buf *text, json_t **json, struct comparison *out,
                   struct err *e) MUST_CHECK;

#endif
