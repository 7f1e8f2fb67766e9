/*
** routing.h - how many (token, expert) pairs each rank receives, for devices
** that compute no router. Stated in the scenario, never fitted.
*/
#ifndef STEP_ROUTING_H
#define STEP_ROUTING_H

#include <stdint.h>

#include "base/err.h"

enum routing_kind {
    ROUTING_BALANCED,       /* every rank of an EP group its even share */
    ROUTING_CV,             /* expert loads with a coefficient of variation,
                               drawn per layer from a seed */
    ROUTING_SHARE,          /* the most-loaded rank gets share x its even
                               share in every layer (rank 0 unless said) */
    ROUTING_HISTOGRAM       /* recorded: CSV wave,layer,rank,expert,rows */
};

struct routing {
    enum routing_kind kind;
    double cv;              /* ROUTING_CV, >= 0 */
    uint64_t seed;
    double share;           /* ROUTING_SHARE, in [1, ep] */
    int64_t share_rank;
    /* ROUTING_HISTOGRAM: rows[((wave * layers + layer) * ranks + rank) *
    ** experts + expert] pairs that rank sends to that expert; owned */
    int64_t *rows;
    int64_t waves, layers, ranks, experts;
};

/* Pairs that each rank of the EP group receives in this layer and wave, when
** the group's ranks route total pairs in all: out[ep], summing to total.
** Equal shares are as even as integers allow, low ranks first. */
int routing_received(const struct routing *r, int64_t wave, int64_t layer,
                     int64_t experts, int64_t ep, int64_t total, int64_t *out,
                     struct err *e) MUST_CHECK;
int routing_load(const char *path, struct routing *out, struct err *e)
    MUST_CHECK;
void routing_free(struct routing *r);

#endif
