/*
** window.h - bytes that come in order, some at hand.
** Inside src/snapshot.
*/
#ifndef SNAPSHOT_WINDOW_H
#define SNAPSHOT_WINDOW_H

#include <assert.h>

#include "snapshot/pickle.h"

struct window {
    const unsigned char *data;  /* what is at hand */
    size_t len, at;
    uint64_t gone;              /* bytes that came before it */
    unsigned char *own;         /* data, when it is filled; owned */
    size_t cap;
    bool ended;                 /* nothing comes after it */
    const struct pickle_input *in;
};

#define WINDOW_INIT(input) \
    {.data = (const unsigned char *)(input)->data, .len = (input)->len, \
     .ended = (input)->fill == NULL, .in = (input)}

/* Reads on until n bytes are at hand. On false *why says that there are fewer,
** or is NULL and e is set. */
bool window_fill(struct window *w, uint64_t n, const char **why,
                 struct err *e);
/* *p is where n bytes are, and stay to be taken; NULL: there are fewer. */
int window_peek(struct window *w, uint64_t n, const unsigned char **p,
                struct err *e) MUST_CHECK;

/* The next n bytes, until more are taken. NULL: see window_fill. */
static inline const unsigned char *window_take(struct window *w, uint64_t n,
                                               const char **why,
                                               struct err *e)
{
    const unsigned char *p;

    assert(w->at <= w->len);
    if (n > w->len - w->at && !window_fill(w, n, why, e)) return NULL;
    p = w->data + w->at;
    w->at += (size_t)n;
    return p;
}

#endif
