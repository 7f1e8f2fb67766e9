/*
** move.h - the bytes of an exchange between ranks of one process.
**
** Ranks share an address space, so the receiver pulls: on the cpu device with
** memcpy, on a device that computes elsewhere with its own copy, or without
** one through host memory by download and upload, on one that computes
** nothing not at all. Own copies are in the device's order of things, and
** marks order one rank's behind another's, so that no host thread waits for
** a GPU; other ways return when done.
** Inside src/comm.
*/
#ifndef COMM_MOVE_H
#define COMM_MOVE_H

#include "dev/dev.h"

/* Waits until the device has done what was asked of it so far. */
int move_sync(struct dev *d, struct err *e) MUST_CHECK;

/* Whether its copies are ordered by marks. */
bool move_has_marks(const struct dev *d);
/* What the device was asked so far is mark i; without marks it is waited
** for. What d is asked from here on comes after other's mark i. */
int move_mark(struct dev *d, int i, struct err *e) MUST_CHECK;
int move_after(struct dev *d, struct dev *other, int i, struct err *e)
    MUST_CHECK;

/* Copies bytes (>= 0) of device memory, also another rank's. */
int move_pull(struct dev *d, void *dst, const void *src, int64_t bytes,
              struct err *e) MUST_CHECK;

/* Whether move_sum_all sums n matrices of type t as all_reduce must: rounded
** once. */
bool move_can_sum(const struct dev *d, enum dtype t, int n);
/* Elements [first, first + count) of n packed matrices become their sum, in
** their order, on the device, which has marks. */
int move_sum_all(struct dev *d, void *const *x, int n, enum dtype t,
                 int64_t first, int64_t count, struct err *e) MUST_CHECK;

/* A sum under way: the elements so far, in f32 (for bf16 and f32) or f64, in
** host memory. n elements of type t; owned, end with move_sum_free. */
struct move_sum {
    void *acc, *buffer;
    int64_t n;
    enum dtype t;
};
int move_sum_start(struct dev *d, int64_t n, enum dtype t,
                   struct move_sum *out, struct err *e) MUST_CHECK;
/* Adds n elements of device memory; the first call sets them. */
int move_sum_add(struct move_sum *s, struct dev *d, const void *src,
                 bool first, struct err *e) MUST_CHECK;
/* Rounds the sum once to t and writes it to device memory. */
int move_sum_store(struct move_sum *s, struct dev *d, void *dst,
                   struct err *e) MUST_CHECK;
void move_sum_free(struct move_sum *s);

#endif
