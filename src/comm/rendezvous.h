/*
** rendezvous.h - how processes that a launcher started find each other once:
** rank 0 listens, the others connect, each says who it is and where it runs,
** and rank 0 answers all with the same bytes (NCCL's id) or with one error.
*/
#ifndef COMM_RENDEZVOUS_H
#define COMM_RENDEZVOUS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define RENDEZVOUS_PLACE 64     /* bytes of "host bus", NUL-padded */
#define RENDEZVOUS_DATA 512     /* most bytes that are shared */

struct rendezvous {
    int rank, size;
    const char *addr;           /* host of rank 0 */
    int port;
    int64_t deadline_ms;
    const char *place;          /* of this rank's GPU; ranks must differ */
    const char *version;        /* of the program; ranks must agree */
};

/* On rank 0 data goes out, on the others it comes in (n bytes, the same n
** everywhere). ERR_RUN names who is late, cannot be reached or differs;
** ERR_DEVICE names two ranks that share a place, on every rank. */
int rendezvous_share(const struct rendezvous *r, void *data, size_t n,
                     struct err *e) MUST_CHECK;

#endif
