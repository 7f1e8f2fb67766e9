/*
** gdn_table.h - rows in and out of the delta rule's buckets, and the tables of
** states and convolution halos that buckets leave to each other.
** Inside src/step.
*/
#ifndef STEP_GDN_TABLE_H
#define STEP_GDN_TABLE_H

#include "step/gdn_flow.h"

/* A bucket's rows of x; masked: zeros where another run writes them. A bucket
** of all rows as they lie takes x itself. */
struct tensor gdn_take_rows(struct step *s, const struct gdn_bucket *b,
                            const char *op, struct tensor *x, bool masked);
/* *whole with the bucket's rows written: a tensor of its own, as the traced
** scatter makes; the one before and *part are freed. */
void gdn_put_rows(struct step *s, const struct gdn_bucket *b,
                  struct tensor *whole, struct tensor *part);
/* Adds a bucket's gradients, freed, to those of all rows. */
void gdn_add_rows(struct step *s, const struct gdn_bucket *b,
                  struct tensor *whole, struct tensor *part);
/* Zeros of all rows for buckets to write or add to; nothing where one bucket
** makes them all. */
struct tensor gdn_all_rows(struct step *s, const char *op, int64_t rows,
                           int64_t cols, enum dtype t);

/* The kept part of a table as it begins: zeros, or what the parent's segments
** ended with. n rows make an item. */
void gdn_begin_table(struct step *s, const struct gdn_bucket *b,
                     struct mat kept, struct mat parent, int64_t n);
/* The whole table: kept itself where nothing follows its rows, else a copy
** with room behind. */
struct tensor gdn_whole_table(struct step *s, const struct gdn_bucket *b,
                              const char *op, struct tensor kept, int64_t n);
void gdn_free_copy(struct step *s, struct tensor *whole,
                   const struct tensor *kept);
/* Gradients of a table, with those that a child left of its final states,
** which are freed. */
struct tensor gdn_gradient_table(struct step *s, const struct gdn_bucket *b,
                                 const char *op, int64_t cols, int64_t n,
                                 struct tensor *left);
/* The gradients of initial states to the final ones they are copies of; d is
** freed. */
void gdn_leave_to_parent(struct step *s, const struct gdn_bucket *b,
                         const char *op, struct tensor *d, int64_t n,
                         struct tensor *left);

#endif
