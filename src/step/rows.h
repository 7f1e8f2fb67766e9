/*
** rows.h - layout conversion and exchanges of rows between ranks.
** Inside src/step.
*/
#ifndef STEP_ROWS_H
#define STEP_ROWS_H

#include "step/tensor.h"

/* One collective exchange of all ranks: send[r] goes to rank r. Nothing on
** devices that compute nothing. what names it in errors. */
void step_exchange(struct step *s, const char *what,
                   const struct comm_part *send,
                   const struct comm_part *recv);
/* Rows first[r] to first[r + 1] of a packed matrix for every rank r, as the
** parts of an exchange; parts [cp]. */
void step_parts(const struct step *s, struct mat m, const int64_t *first,
                struct comm_part *parts);
/* Copies host data to the device; bytes of 0 and dry devices do nothing. */
void step_upload(struct step *s, struct mat dst, const void *src);

/* Rows of x from the layout it is in to the other one: [rows of the target
** layout, cols]. Send and receive buffers hold all rows, own ones too. The
** inverse conversion is also the backward. */
struct tensor rows_convert(struct step *s, enum category c, const char *op,
                           struct mat x, enum layer_kind to);

/* Sequence parallelism, tp > 1 (dry alone): the rows of all tensor-parallel
** ranks, [tp * rows, cols]; and the sum over ranks of *x, of which this rank
** keeps its share of the rows, [rows / tp, cols], in place of *x. */
struct tensor tp_gather(struct step *s, enum category c, const char *op,
                        struct mat x);
void tp_scatter(struct step *s, enum category c, const char *op,
                struct tensor *x);

#endif
