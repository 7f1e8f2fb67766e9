/*
** rendezvous.h - how processes that a launcher started find each other, and
** the line between them that stays.
**
** Rank 0 listens, the others connect, each says who it is and where it runs,
** and rank 0 answers all that they may go on, or with one error. The
** connections then stay for the run: for NCCL's id, for the results, and to
** tell each other of failures (comm/alarm.h). Every rank knows rank 0 alone,
** which passes on what it hears. One thread uses a line.
*/
#ifndef COMM_RENDEZVOUS_H
#define COMM_RENDEZVOUS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "comm/alarm.h"

#define RENDEZVOUS_PLACE 96     /* bytes of a place and of a version */

struct rendezvous {
    int rank, size;
    const char *addr;           /* host of rank 0 */
    int port;
    int64_t deadline_ms;        /* of this and of every later wait */
    const char *place;          /* of this rank's GPU; ranks must differ */
    const char *version;        /* of the program; ranks must agree */
    const char *token;          /* of the job: who has another is a stranger */
    /* May be NULL: ends the meeting with ERR_INTERRUPTED when not 0; is told
    ** now and then for whom the meeting waits. */
    const atomic_int *interrupt;
    void (*waiting)(const char *text);
};

struct line;

/* Rank 0 listens at the address addr alone. ERR_RUN names who is late, cannot
** be reached or differs; ERR_DEVICE names two ranks that share a place, on
** every rank. Strangers on the port are turned away, also those that say a
** whole hello with another token. */
int rendezvous(const struct rendezvous *r, struct line **out, struct err *e)
    MUST_CHECK;

/* On rank 0 data goes out, on the others it comes in (n bytes, the same n
** everywhere). An alarm ends the wait, unless data comes always. */
int line_share(struct line *l, void *data, size_t n, bool always,
               struct err *e) MUST_CHECK;
/* Every rank's bytes to all[size] of rank 0 (in the others all is not used;
** empty bufs, which the caller frees). Also after an alarm: a rank that failed
** says so in its bytes. */
int line_collect(struct line *l, const void *mine, size_t n, struct buf *all,
                 struct err *e) MUST_CHECK;
/* The line as an alarm; it lives as long as the line. */
struct alarm *line_alarm(struct line *l);
/* After a line_collect and a line_share by all ranks a failure has been told
** to all and is forgotten, unless a rank has ended. */
void line_calm(struct line *l);
/* Has a rank ended (the line does not reach all any more)? */
bool line_lost(const struct line *l);
/* An ended line is an alarm to the others unless they have all been through
** the same last line_collect. NULL is fine. */
void line_close(struct line *l);

#endif
