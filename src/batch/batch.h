/*
** batch.h - the tokens of one wave as a forest of segments.
**
** A segment is a run of tokens that all its sequences share; a sequence is a
** path from a root to a segment where it ends. Segments stand in depth-first
** order, so a parent comes before its children, the segments below one are
** contiguous, and a packed row is the segments back to back: segment i
** occupies rows [start, start + tokens), and its descendants the rows from
** there to the end of its subtree. Recorded layouts have no segments at all:
** only rows and stages are known, and devices that compute refuse them.
*/
#ifndef BATCH_BATCH_H
#define BATCH_BATCH_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Rows of a packed row: products of two row counts then fit 64 bits, and a
** row or position fits int32_t. */
#define BATCH_MAX_TOKENS INT64_C(2147483647)

struct segment {
    int64_t parent;         /* index of the parent, -1 for a root */
    int64_t tokens;         /* >= 1 */
    int64_t start;          /* first row in the packed row */
    int64_t next;           /* index after the last segment of its subtree */
    int64_t position;       /* position of its first token in a sequence */
    int32_t depth;          /* 0 for a root */
    int32_t root;           /* number of the root it descends from */
};

struct batch {
    struct segment *seg;    /* owned */
    int64_t n_seg;
    int64_t tokens;         /* sum over segments: packed rows */
    int64_t n_seq;          /* sequences that were packed; of a tree without
                               sequences its leaves */
    int64_t longest;        /* longest sequence, in tokens */
};

/* Rows of the packed row that end segment i's subtree. */
static inline int64_t batch_subtree_end(const struct batch *b, int64_t i)
{
    int64_t next = b->seg[i].next;

    assert(i >= 0 && i < b->n_seg);
    return next < b->n_seg ? b->seg[next].start : b->tokens;
}

/* n independent sequences: every one its own root, in the order given.
** ERR_INPUT: n < 1, a length outside [1, BATCH_MAX_TOKENS], a sum over it;
** the message counts sequences from 0. */
int batch_from_lengths(const int64_t *lengths, int64_t n, struct batch *out,
                       struct err *e) MUST_CHECK;
/* A forest given by parents and lengths. A parent must stand before its
** children; segments that are not in depth-first order are laid out so,
** roots and siblings in the order given (tree segment 5 may then be batch
** segment 7). Errors as above; an orphan (no such parent), a parent after
** its child and a cycle are told apart. */
int batch_from_tree(const int64_t *parent, const int64_t *tokens, int64_t n,
                    struct batch *out, struct err *e) MUST_CHECK;
/* CSV with the columns segment, parent, tokens (others are ignored), segments
** numbered 0, 1, 2 ... as they stand: the whole tree. Errors name file and
** line. */
int batch_load_tree(const char *path, struct batch *out, struct err *e)
    MUST_CHECK;
void batch_free(struct batch *b);   /* an all-zero batch is fine */

/*
** A corpus: the sequences of a CSV file and, if given, the tree of segments
** in which they end, from which waves are packed. Subsets become their own
** radix tree: the segments on the chosen leaves' paths, an only child joined
** to its parent unless a sequence ends there, depth-first order kept, no
** depth limit (planner.md 9.7).
*/
struct corpus;
/* Columns of the sequence file: tokens, and leaf_segment with a tree; others
** are ignored. tree_path may be NULL: sequences are then independent roots.
** A sequence whose tokens differ from the length of its path is an error. */
int corpus_load(const char *sequences_path, const char *tree_path,
                struct corpus **out, struct err *e) MUST_CHECK;
void corpus_free(struct corpus *c);     /* NULL is fine */
int64_t corpus_count(const struct corpus *c);
/* The batch of n chosen sequences, each once. The order of pick matters
** where sequences are independent roots; a tree keeps its own order. */
int corpus_batch(const struct corpus *c, const int64_t *pick, int64_t n,
                 struct batch *out, struct err *e) MUST_CHECK;
/* Cuts pick[0..n), each once, into waves in the order given: a wave takes
** sequences while its packed tokens, shared prefixes counted once, stay
** within budget. Wave w is pick[first[w] .. first[w + 1]); *first is
** malloc'ed, [*waves + 1]. A sequence longer than the budget is ERR_INPUT
** naming it. */
int corpus_pack(const struct corpus *c, const int64_t *pick, int64_t n,
                int64_t budget, int64_t **first, int64_t *waves,
                struct err *e) MUST_CHECK;

/* The sequence file has a column leaf_segment, but no tree was given. */
bool corpus_lacks_tree(const struct corpus *c);
/* Where the tree of a sequence file is by its name: of NAME-sequences.csv it
** is NAME-prefix-tree.csv. *out is malloc'ed, NULL when the name is another
** or no such file can be read. */
int corpus_find_tree(const char *sequences_path, char **out, struct err *e)
    MUST_CHECK;

#endif
