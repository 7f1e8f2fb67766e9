/* plot_names.c - names of cases where a picture has little room; see plot.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clean.h"
#include "report/plots/plot.h"

/* Bytes that all names begin with, up to a sign between words. */
static size_t shared(const struct record_found *const *c, int n)
{
    const char *first = c[0]->shape.name;
    size_t k = n > 1 ? strlen(first) : 0;
    int i;

    for (i = 1; i < n; i++)
        while (k > 0 && strncmp(first, c[i]->shape.name, k) != 0) k--;
    while (k > 0 && strchr(".-_+=@/ ", first[k - 1]) == NULL) k--;
    return k;
}

size_t plot_names(const struct record_found *const *c, int n, size_t most,
                  char (*out)[PLOT_NAME])
{
    size_t longest = 0, cut;
    int i;

    assert(n > 0 && most >= 8 && most < PLOT_NAME);
    for (i = 0; i < n; i++)
        if (strlen(c[i]->shape.name) > longest)
            longest = strlen(c[i]->shape.name);
    cut = longest > most ? shared(c, n) : 0;
    for (i = 0, longest = 0; i < n; i++) {
        const char *name = c[i]->shape.name + cut;
        size_t len = strlen(name), room = most - (cut > 0 ? 2 : 0);
        bool whole = len <= room;
        size_t head = whole ? len : (room - 2) / 2;
        size_t tail = whole ? 0 : room - 2 - head;

        snprintf(out[i], PLOT_NAME, "%s%.*s%s%.*s", cut > 0 ? ".." : "",
                 (int)head, name, whole ? "" : "..", (int)tail,
                 name + len - tail);
        text_clean(out[i]);     /* a letter may have been cut */
        if (strlen(out[i]) > longest) longest = strlen(out[i]);
    }
    return longest;
}
