/*
** slack.h - what the caching allocator adds to tensors that are alive
** together (pricing.md 13). From their sizes alone: which hole a tensor falls
** into depends on everything that came before it, and nobody who plans a wave
** knows that.
** Inside src/price.
*/
#ifndef PRICE_SLACK_H
#define PRICE_SLACK_H

#include <stdint.h>

/* The allocator's sizes (mem/allocator.md A.1): all blocks are multiples of the
** smallest, and one of OWN_SEGMENT or more has a segment of its own, a multiple
** of OWN_STEP. */
#define SMALLEST_BLOCK 512
#define OWN_SEGMENT (INT64_C(10) << 20)
#define OWN_STEP (INT64_C(2) << 20)

/* A block of more than this keeps what is left of the piece that it was cut
** from when that is no more than this (mem/allocator.md A.5, A.7); others are
** rounded up to 512 bytes. */
#define LARGE_BLOCK (INT64_C(1) << 20)

/* GEMM workspaces of 32 MiB and 1 KiB have 34 MiB of their own each, whose
** rest lies there for as long as they do. */
enum { WORKSPACES = 5 };

/* What blocks keep comes in few sizes where all of them are multiples of no
** less than this. */
#define LEAST_GRAIN (LARGE_BLOCK / 4)

/* Of the smallest blocks: bytes, and what of their variance is in the sum. */
struct least { int64_t bytes, square; };

enum { ROOMS = 4 };

/* Tensors that are alive together. All zero: none. */
struct blocks {
    int64_t tensors;        /* how many that are rounded up to 512 bytes, */
    int64_t large;          /* and how many of more than 1 MiB: of these */
    int64_t mean;           /* what they keep on average, */
    int64_t packed;         /* gradients: at most, in segments of their own; */
    int64_t alike;          /* deviations of those that repeat, */
    int64_t square;         /* and variances of the others, summed */
    int64_t grain;          /* what divides all their sizes */
    int64_t base, odd;      /* how many that base does not divide; 0: not
                               asked for */
    int64_t hole;           /* the size of all holes, but for those of segments
                               that fill; 0: holes have any size */
    int64_t room[ROOMS];    /* what segments have left that others fill */
    struct least least[WORKSPACES];     /* the smallest of more than 1 MiB
                                           behind workspaces, ascending */
};

/* n tensors of so many bytes: each falls into a hole of its own. */
void blocks_add(struct blocks *b, int64_t n, int64_t bytes);
/* n that are made one after another when the layers' are gone. */
void blocks_fresh(struct blocks *b, int64_t n, int64_t bytes);
/* n that what lies between them makes alike: what one keeps more may keep. */
void blocks_alike(struct blocks *b, int64_t n, int64_t bytes);
/* Those n lie where others of so many bytes, or so many, have been freed:
** the last of them keeps the rest as often as not, or, where it takes more than
** two in a row, once in as many. */
void blocks_in_hole(struct blocks *b, int64_t n, int64_t bytes, int64_t hole,
                    int64_t other);
/* What blocks of three sizes, n of each a layer, keep of segments that they
** share where there is no hole for them, at most, a layer: of the filling that
** leaves most, in as many segments as there are blocks for. */
int64_t blocks_packed(const int64_t n[3], const int64_t bytes[3]);
/* They keep no less than that. */
void blocks_least(struct blocks *b, int64_t bytes);
/* One that comes and goes beside them. */
void blocks_grain(struct blocks *b, int64_t bytes);
/* What was added so far stands for all of a kind, layer after layer, that are
** joined: they are alike. */
void blocks_repeat(struct blocks *b);
void blocks_join(struct blocks *b, const struct blocks *other);
/* Of n such. */
void blocks_join_all(struct blocks *b, int64_t n, const struct blocks *other);
/* Takes back what was joined, but for its grain and the smallest. */
void blocks_drop(struct blocks *b, const struct blocks *other);
/* Where no more than n of m lie in a hole that keeps something. */
void blocks_part(struct blocks *b, int64_t n, int64_t m);
/* Of gradients that lie in segments of their own. */
void blocks_pack(struct blocks *b);
/* What divides these and all segments that are shared; 0: less than LEAST_GRAIN
** does. What falls between blocks of more than 1 MiB of it keeps nothing. */
int64_t blocks_base(const struct blocks *b);

/* Bytes that are allocated beyond the bytes that are asked for in all: the
** means, and their spread; twice that while all of it is less than a fiftieth
** of those bytes, where being sure costs little. */
int64_t blocks_slack(const struct blocks *b, int64_t bytes);
/* It is never more. */
int64_t blocks_most(int64_t tensors, int64_t large);

#endif
