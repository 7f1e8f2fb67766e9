/*
** bound.c - what every split of a wave costs at least: even shares at the
** least attention state (pricing.md 5).
*/
#include <stdlib.h>

#include "base/num.h"
#include "price/internal.h"

/* rows[cp] and retained[cp] are filled for the group. */
static void even_group(const struct price_facts *f, int64_t g, int64_t *rows,
                       int64_t *retained, struct price_group *out)
{
    const struct price_group *p = &f->group[g];
    int64_t row = price_least_record_row(f->model), sum = 0, r;

    for (r = 0; r < f->cp; r++) sum = num_sadd(sum, p->attention_rows[r]);
    for (r = 0; r < f->cp; r++) {
        rows[r] = num_max(1, sum / f->cp);
        retained[r] = num_smul(rows[r], row);
    }
    *out = *p;
    out->stage = NULL;
    out->n_stage = NULL;
    out->attention_rows = out->gdn_rows = rows;
    out->attention_retained = retained;
}

/* The same facts with even shares, priced as any others are. */
static int price_even(const struct price_facts *f, struct price_group *group,
                      int64_t *numbers, int64_t *raw, struct err *e)
{
    struct price_facts even = *f;
    struct estimate *est;
    int64_t g;
    int rc;

    for (g = 0; g < f->n_group; g++)
        even_group(f, g, numbers + 2 * f->cp * g,
                   numbers + 2 * f->cp * g + f->cp, &group[g]);
    even.group = group;
    est = malloc(sizeof *est);
    if (est == NULL) return err_nomem(e);
    rc = price_per_rank(&even, est, e);
    if (rc == ERR_OK && !est->supported)
        rc = err_set(e, ERR_INPUT, "no lower bound: %s", est->reason);
    if (rc == ERR_OK) *raw = est->raw;
    free(est);
    return rc;
}

int price_lower_bound(const struct price_facts *f, int64_t *raw,
                      struct err *e)
{
    struct price_group *group;
    int64_t *numbers;
    int rc = price_check(f, e);

    if (rc != ERR_OK) return rc;
    group = calloc((size_t)f->n_group, sizeof *group);
    numbers = calloc((size_t)(2 * f->cp * f->n_group), sizeof *numbers);
    if (group == NULL || numbers == NULL)
        rc = err_nomem(e);
    else
        rc = price_even(f, group, numbers, raw, e);
    free(group);
    free(numbers);
    return rc;
}
