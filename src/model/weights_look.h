/*
** weights_look.h - what a folder of weights holds, for people.
*/
#ifndef MODEL_WEIGHTS_LOOK_H
#define MODEL_WEIGHTS_LOOK_H

#include "base/buf.h"
#include "base/err.h"

struct stored_look {
    struct buf held;        /* one line: family, layers, tensors, bytes */
    struct buf trouble;     /* a line for each thing that does not load, the
                               first few; "" when all does */
    struct buf beside;      /* a line for tensors that are not used, by the
                               beginning of their names; "" without any */
};

/* Reads folder/config.json and the headers of its safetensors files. An error
** is one of reading them; what the model misses is trouble. Free with
** stored_look_free in any case. */
int stored_look(const char *folder, struct stored_look *out, struct err *e)
    MUST_CHECK;
void stored_look_free(struct stored_look *w);

#endif
