/*
** batch.h - the tokens of one wave as a forest of segments.
**
** A segment is a run of tokens that all its sequences share; a sequence is a
** path from a root to a segment where it ends. Segments stand in depth-first
** order, so a parent comes before its children and a packed row is the
** segments back to back: segment i occupies [start, start + tokens).
** Recorded layouts have no segments at all (batch_layout): only rows and
** stages are known, and devices that compute refuse them.
*/
#ifndef BATCH_BATCH_H
#define BATCH_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct segment {
    int64_t parent;         /* index of the parent, -1 for a root */
    int64_t tokens;         /* >= 1 */
    int64_t start;          /* first row in the packed row */
    int32_t depth;          /* 0 for a root */
    int32_t root;           /* number of the root it descends from */
    int64_t position;       /* position of its first token in a sequence */
};

struct batch {
    struct segment *seg;    /* owned */
    int64_t n_seg;
    int64_t tokens;         /* sum over segments: packed rows */
    int64_t n_seq;          /* sequences that were packed */
    int64_t longest;        /* longest sequence, in tokens */
};

/* n independent sequences: every one its own root. Lengths >= 1. */
int batch_from_lengths(const int64_t *lengths, int64_t n, struct batch *out,
                       struct err *e) MUST_CHECK;
/* A forest given by parents and lengths (parent before child). */
int batch_from_tree(const int64_t *parent, const int64_t *tokens, int64_t n,
                    struct batch *out, struct err *e) MUST_CHECK;
/* CSV "segment,parent,tokens": the whole tree. */
int batch_load_tree(const char *path, struct batch *out, struct err *e)
    MUST_CHECK;
void batch_free(struct batch *b);

/*
** A corpus: a tree file and the sequences that end in it, from which waves
** are packed. Subsets become their own radix tree: the segments on the
** chosen leaves' paths, an only child joined to its parent unless a sequence
** ends there, depth-first order kept, no depth limit (planner.md 9.7).
*/
struct corpus;
/* tree_path may be NULL: sequences are then independent roots. */
int corpus_load(const char *sequences_path, const char *tree_path,
                struct corpus **out, struct err *e) MUST_CHECK;
void corpus_free(struct corpus *c);
int64_t corpus_count(const struct corpus *c);
int64_t corpus_tokens(const struct corpus *c, int64_t sequence);
/* The batch of n chosen sequences (indices ascending or not; each once). */
int corpus_batch(const struct corpus *c, const int64_t *pick, int64_t n,
                 struct batch *out, struct err *e) MUST_CHECK;

#endif
