/*
** route.h - how routers of random weights distribute rows: a forward of a
** model at full width on the cpu device, with one layer's weights in memory
** at a time.
*/
#ifndef RUN_ROUTE_H
#define RUN_ROUTE_H

#include "model/init.h"
#include "run/run.h"

struct route {
    const char *model;      /* path of its config */
    int64_t layers;         /* 0: all */
    enum weight_init init;
    int64_t lora_rank;      /* of random adapters; 0: none */
    int64_t rows;           /* of one sequence of random tokens */
    uint64_t seed;
};

/* Pairs (rows x top-k a layer) by expert into out, a histogram of one wave and
** rank; free with routing_free. They are those of `run --device cpu
** --histograms` on the same case, to the last pair. ERR_INPUT: a model without
** experts, or more rows than it has positions. */
int run_route(const struct route *r, struct routing *out, struct err *e)
    MUST_CHECK;

#endif
