/* window.c - see window.h */
#include "snapshot/window.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW ((size_t)1 << 19)

/* Moves what is left to the front and makes room behind. */
static bool make_room(struct window *w)
{
    size_t left = w->len - w->at, cap = w->cap;
    unsigned char *p = w->own;

    if (p == NULL || 2 * left > cap) {
        cap = left > WINDOW / 4 ? 4 * left : WINDOW;
        p = malloc(cap);
        if (p == NULL) return false;
    }
    if (left > 0) memmove(p, w->data + w->at, left);
    if (p != w->own) free(w->own);
    w->own = p;
    w->cap = cap;
    w->gone += w->at;
    w->data = p;
    w->len = left;
    w->at = 0;
    return true;
}

/* The window grows as bytes come, whatever length a file claims. */
bool window_fill(struct window *w, uint64_t n, const char **why,
                 struct err *e)
{
    while (n > w->len - w->at) {
        size_t got = 0;

        *why = "the file ends too early";
        if (w->ended) return false;
        *why = NULL;
        if ((w->own == NULL || w->len == w->cap || w->len == w->at)
            && !make_room(w)) {
            (void)err_nomem(e);
            return false;
        }
        if (w->in->fill(w->in->ctx, (char *)w->own + w->len, w->cap - w->len,
                        &got, e) != ERR_OK)
            return false;
        w->len += got;
        w->ended = got == 0;
    }
    return true;
}

int window_peek(struct window *w, uint64_t n, const unsigned char **p,
                struct err *e)
{
    const char *why = NULL;

    *p = NULL;
    if (window_fill(w, n, &why, e))
        *p = w->data + w->at;
    else if (why == NULL)
        return e->code;
    return ERR_OK;
}
