/* errors.c - see errors.h. */
#include "report/sections/errors.h"

#include <string.h>

void errors_of(struct view *v, const char *scenario,
               struct record_errors *out)
{
    int64_t c;

    *out = (struct record_errors){.n = 0};
    for (c = 0; c < v->n_case; c++) {
        if (scenario != NULL &&
            strcmp(v->kase[c]->shape.scenario, scenario) != 0) continue;
        if (record_errors_add(out, v->kase[c])) continue;
        v->d->failed = true;
        out->n = 0;
        break;
    }
    record_errors_sort(out);
}
