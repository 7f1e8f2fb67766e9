/* find.c - a case by what people call it; see read.h */
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "record/read.h"

/* Takes "word/" off the front of *name. */
static bool takes(const char **name, const char *word)
{
    size_t n = strlen(word);

    if (strncmp(*name, word, n) != 0 || (*name)[n] != '/') return false;
    *name += n + 1;
    return true;
}

static bool matches(const struct record_case *c, const char *name)
{
    const char *rest = name;

    if (strcmp(name, c->name) == 0) return true;
    if (takes(&rest, c->scenario) && strcmp(rest, c->name) == 0) return true;
    rest = name;
    return takes(&rest, c->device) && takes(&rest, c->scenario) &&
           strcmp(rest, c->name) == 0;
}

static int not_found(const struct record_set *s, const char *name,
                     struct err *e)
{
    const char **list = malloc((size_t)(s->n_case + 1) * sizeof *list);
    const char *near;
    int64_t i;

    if (list == NULL) return err_nomem(e);
    for (i = 0; i < s->n_case; i++) list[i] = s->kase[i].shape.name;
    list[s->n_case] = NULL;
    near = suggest(name, list);
    free(list);
    return near ? err_set(e, ERR_USAGE, "%s: no case '%s' (did you mean "
                          "'%s'?)", s->dir, name, near)
                : err_set(e, ERR_USAGE, "%s: no case '%s' (cases.csv lists "
                          "them)", s->dir, name);
}

int record_find(const struct record_set *s, const char *name,
                const struct record_found **out, struct err *e)
{
    const struct record_found *found = NULL;
    int64_t i;

    for (i = 0; i < s->n_case; i++) {
        const struct record_case *c = &s->kase[i].shape;
        if (!matches(c, name)) continue;
        if (found != NULL)
            return err_set(e, ERR_USAGE, "%s: case '%s' stands in %s/%s and "
                           "in %s/%s (write DEVICE/SCENARIO/CASE)", s->dir,
                           name, found->shape.device, found->shape.scenario,
                           c->device, c->scenario);
        found = &s->kase[i];
    }
    *out = found;
    return found != NULL ? ERR_OK : not_found(s, name, e);
}
