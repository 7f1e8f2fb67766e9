/*
** sec_knowledge.c - what a price is worth that knows the wave's routing, the
** last wave's, only how far loads spread, or nothing, beside the published
** allowance.
*/
#include <stdio.h>
#include <string.h>

#include "report/sections/errors.h"
#include "report/sections/sections.h"

/* Of some waves of an estimator: how many are under, and how far over on
** average. */
struct tally {
    int64_t waves, under, admitted;
    double least, over;
};

static void count(struct tally *t, const struct record_error *x)
{
    t->under += x->raw < x->peak;
    t->admitted += x->admitted < x->peak;
    if (t->waves == 0 || x->percent < t->least) t->least = x->percent;
    t->over += x->percent;
    t->waves++;
}

static void put_tally(struct view *v, struct table *t, const struct tally *x)
{
    cell_count(v->d, t, x->under);
    cell_percent(v->d, t, x->least, x->least < 0);
    cell_count(v->d, t, x->admitted);
    cell_percent(v->d, t, x->over / (double)x->waves, false);
}

/* The waves of a variant that knows less, or (exact) the same waves as
** those of the one that knows nothing. */
static void put_variant(struct view *v, struct table *t,
                        const struct record_errors *all, const char *knows,
                        const char *source, const char *waves_of)
{
    struct tally own = {0}, published = {0};
    const struct record_error *x;
    int64_t n, i;
    int k = 0;

    while (k < all->n_source && strcmp(all->source[k], waves_of) != 0) k++;
    if (k == all->n_source) return;
    n = record_errors_part(all, k, &x);
    for (i = 0; i < n; i++) {
        struct record_error o, p;
        if (!record_error_at(x[i].c, x[i].wave, source, &o) ||
            !record_error_at(x[i].c, x[i].wave, BEFORE, &p)) continue;
        count(&own, &o);
        count(&published, &p);
    }
    if (own.waves == 0) return;
    doc_row(v->d, t);
    cell_text(v->d, t, knows);
    cell_count(v->d, t, own.waves);
    put_tally(v, t, &own);
    put_tally(v, t, &published);
}

static bool knows_less(const struct record_errors *all)
{
    int k;

    for (k = 0; k < all->n_source; k++)
        if (strncmp(all->source[k], EVERYWHERE "/",
                    strlen(EVERYWHERE "/")) == 0) return true;
    return false;
}

/* What knowing of routing is worth in a scenario whose routing changes. */
static void put_scenario(struct view *v, const char *scenario, bool *begun)
{
    struct record_errors all;
    struct table *t;
    char id[100];

    errors_of(v, scenario, &all);
    if (knows_less(&all)) {
        if (!*begun)
            doc_heading(v->d, 2, "knowledge", "What knowing of routing is "
                        "worth");
        *begun = true;
        doc_para(v->d, "`%s`: `" EVERYWHERE "` on the waves whose experts are "
                 "on several ranks, by what it is told of their routing, and "
                 "on the same waves the published allowance (`" BEFORE "`). "
                 "Over is the mean raw error. The last wave's histogram is "
                 "there from a case's second wave on.", scenario);
        snprintf(id, sizeof id, "knowledge-%.80s", scenario);
        t = doc_table(v->d, id, "knows|>waves|>raw under|>least|>admitted "
                      "under|>over|>allowance: raw under|>least|>admitted "
                      "under|>over");
        put_variant(v, t, &all, "nothing: even shares",
                    EVERYWHERE "/no-allowance", EVERYWHERE "/no-allowance");
        put_variant(v, t, &all, "how far loads spread",
                    EVERYWHERE "/quantile", EVERYWHERE "/quantile");
        put_variant(v, t, &all, "the last wave",
                    EVERYWHERE "/last-histogram",
                    EVERYWHERE "/last-histogram");
        put_variant(v, t, &all, "the wave, exactly", EVERYWHERE,
                    EVERYWHERE "/no-allowance");
    }
    record_errors_free(&all);
}

void sec_knowledge(struct view *v)
{
    const char *last = "";
    bool begun = false;
    int64_t c;

    for (c = 0; c < v->n_case; c++) {
        if (strcmp(v->kase[c]->shape.scenario, last) == 0) continue;
        last = v->kase[c]->shape.scenario;
        put_scenario(v, last, &begun);
    }
}
