/* sweep.c - see sweep.h. */
#include "report/sections/sweep.h"

#include <stdlib.h>
#include <string.h>

int sweep_find(struct view *v, struct sweep **found)
{
    struct sweep *out = calloc((size_t)v->n_case + 1, sizeof *out);
    int n = 0, i, kept = 0;
    int64_t c;

    *found = out;
    if (out == NULL) {
        v->d->failed = true;
        return 0;
    }
    for (c = 0; c < v->n_case; c++) {
        const struct record_case *s = &v->kase[c]->shape;
        for (i = 0; i < n; i++)
            if (out[i].ep == s->ep &&
                strcmp(out[i].scenario, s->scenario) == 0) break;
        if (i == n) out[n++] = (struct sweep){s->scenario, s->ep, 0, -1};
        out[i].sizes += s->tokens != out[i].tokens;
        out[i].tokens = s->tokens;
    }
    for (i = 0; i < n; i++)
        if (out[i].sizes >= MANY_SIZES) out[kept++] = out[i];
    for (i = 0, n = 0; i < kept; i++) {
        struct sweep g = out[i];
        if (strcmp(g.scenario, FULL_STACK) != 0) continue;
        memmove(&out[n + 1], &out[n], (size_t)(i - n) * sizeof *out);
        out[n++] = g;
    }
    if (kept == 0) {
        free(out);
        *found = NULL;
    }
    return kept;
}

bool sweep_has(const struct record_found *c, const struct sweep *g)
{
    return c->shape.ep == g->ep &&
           strcmp(c->shape.scenario, g->scenario) == 0;
}
