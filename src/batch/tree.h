/*
** tree.h - forests of segments as they come from files: checked, then laid
** out depth first.
** Inside src/batch.
*/
#ifndef BATCH_TREE_H
#define BATCH_TREE_H

#include "batch/batch.h"
#include "base/csv.h"

/* As found in a file, any order in which parents come first. */
struct tree {
    int64_t *parent, *tokens;   /* [n] owned */
    int64_t n;
    struct csv_table *table;    /* rows are the segments; owned */
};

int tree_load(const char *path, struct tree *out, struct err *e) MUST_CHECK;
/* The same from a table, which it takes over, also when it fails. */
int tree_read(struct csv_table *table, struct tree *out, struct err *e)
    MUST_CHECK;
void tree_free(struct tree *t);
/* Puts the file, and the line of segment bad (-1: none), before e's text. */
int tree_blame(const struct tree *t, int64_t bad, struct err *e);

/* As batch_from_tree. On failure *bad is the segment at fault, or -1. where,
** when not NULL, is [n] and gets each segment's index in the batch. */
int tree_to_batch(const int64_t *parent, const int64_t *tokens, int64_t n,
                  int64_t *where, int64_t *bad, struct batch *out,
                  struct err *e) MUST_CHECK;

#endif
