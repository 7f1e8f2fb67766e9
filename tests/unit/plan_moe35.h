/*
** plan_moe35.h - the 35B mixture, loaded once for all tests of a program:
** setup and teardown of its group.
*/
#ifndef PLAN_MOE35_H
#define PLAN_MOE35_H

#include "model/model.h"

static struct model moe35;

static inline int moe35_load(void **state)
{
    struct err e;

    (void)state;
    return model_load("lua/models/Qwen3.6-35B-A3B.json", 0, &moe35, &e);
}

static inline int moe35_free(void **state)
{
    (void)state;
    model_free(&moe35);
    return 0;
}

#endif
