/*
** routing.h - how many (token, expert) pairs each rank receives, for devices
** that compute no router. Stated in the scenario, never fitted.
**
** ROUTING_CV draws, for every layer anew, the load of each expert from a
** gamma distribution with mean 1 and standard deviation cv (shape 1 / cv^2).
** A rank's share is the sum over its experts, which lie on the ranks in
** order, experts / ep on each. Gamma, because loads of independent gamma
** variables divided by their sum follow a Dirichlet distribution: the loads
** are positive, their spread is exactly the one asked for, and the law of a
** rank's share is known in closed form, so that the generator can be tested
** against it. With A = experts / cv^2, received / even share has mean 1 and
** variance (ep - 1) / (A + 1): at 256 experts and EP2 a standard deviation
** of 0.0625 cv. A wave does not change the draw, as waves that run the same
** batch through the same frozen router do not, unless it is told to: with a
** drift d every wave's loads are (1 - d) times the last wave's and d times
** fresh ones; with a burst p a wave has, by that chance and in every layer by
** itself, one expert at factor times its load.
**
** The same numbers come out on every machine: random bits are those of
** base/random.h, and real arithmetic uses + - * / and sqrt alone, which IEEE
** 754 defines to the last bit, each operation rounded to double by itself
** (routing.c says how); shares become rows in integers.
*/
#ifndef BATCH_ROUTING_H
#define BATCH_ROUTING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum routing_kind {
    ROUTING_BALANCED,       /* every rank of an EP group its even share */
    ROUTING_CV,             /* expert loads with a coefficient of variation,
                               drawn per layer from a seed */
    ROUTING_SHARE,          /* rank share_rank gets share x its even share in
                               every layer, the others the rest evenly */
    ROUTING_HISTOGRAM,      /* recorded: CSV wave,layer,rank,expert,rows */
    ROUTING_HOT,            /* one expert has factor times each other's load */
    ROUTING_LIST            /* a routing for every wave; the last one stays */
};

#define ROUTING_MAX_CV 16
#define ROUTING_MAX_FACTOR 1000
/* Below it loads differ by less than the steps they are counted in; 0 is even.
*/
#define ROUTING_MIN_CV 1e-9

struct routing {
    enum routing_kind kind;
    double cv;              /* ROUTING_CV, 0, or in
                               [ROUTING_MIN_CV, ROUTING_MAX_CV] */
    uint64_t seed;
    double drift, burst;    /* ROUTING_CV, each in [0, 1] */
    double factor;          /* of a burst's expert, or of the hot one; 0 to
                               ROUTING_MAX_FACTOR */
    int64_t expert;         /* ROUTING_HOT */
    struct routing *each;   /* ROUTING_LIST: [n_each], owned */
    int64_t n_each;
    double share;           /* ROUTING_SHARE, in [1, ep]; six decimals count */
    int64_t share_rank;
    /* ROUTING_HISTOGRAM: rows[((wave * layers + layer) * ranks + rank) *
    ** experts + expert] pairs that rank sends to that expert; owned. With
    ** one wave it holds for every wave. */
    int64_t *rows;
    int64_t waves, layers, ranks, experts;
    bool scaled;            /* rows of any total: the loads of experts, by
                               which what the batch routes is shared out */
};

static inline bool routing_cv_fits(double cv)
{
    return cv == 0 || (cv >= ROUTING_MIN_CV && cv <= ROUTING_MAX_CV);
}

/* Pairs that each rank of an EP group receives in this layer and wave, when
** the group's ranks, first and those after it, route total pairs in all:
** out[ep], summing to total. Every group has the same experts' loads; of a
** histogram it takes what its own ranks send; of one that is scaled, what all
** its ranks send, as loads.
** Equal shares are as even as integers allow, low ranks first. ep must divide
** experts. With ep 1 the rank receives what it routes, total, whatever is
** stated. ERR_INPUT: a share that ep ranks cannot have, a histogram without
** this wave or layer, of more experts, or of another total (one that is scaled:
** a layer of zeros). */
int routing_received(const struct routing *r, int64_t wave, int64_t layer,
                     int64_t experts, int64_t ep, int64_t first,
                     int64_t total, int64_t *out, struct err *e) MUST_CHECK;

/* Can two waves of the same batch have different counts? NULL: no. */
bool routing_changes(const struct routing *r);

/* Loads drawn once, for whoever asks many times: *out, a histogram that is
** scaled, or what there was to begin with where nothing is drawn (its memory is
** r's then), answers routing_received as r does, for these waves and layers.
** Free with routing_drawn_free. */
int routing_draw(const struct routing *r, int64_t waves, int64_t layers,
                 int64_t experts, struct routing *out, struct err *e)
    MUST_CHECK;
void routing_drawn_free(const struct routing *r, struct routing *drawn);

/* What routing it is, short and the same for the same: "balanced", "cv 1 seed
** 7", "share 1.3 rank 0". */
enum { ROUTING_WORDS = 128 };
void routing_words(const struct routing *r, char out[ROUTING_WORDS]);

/* Reads a histogram: any order of rows, each once; those left out are 0. The
** largest numbers found say how many waves, layers, ranks and experts there
** are. ERR_INPUT names file and line. */
int routing_load(const char *path, struct routing *out, struct err *e)
    MUST_CHECK;
void routing_free(struct routing *r);   /* an all-zero one is fine */

#endif
