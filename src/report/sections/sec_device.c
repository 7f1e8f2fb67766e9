/* sec_device.c - what a device that computes reached: losses, every rank's
** peak, and whether dry says the same. */
#include <string.h>

#include "report/plots/plot.h"
#include "report/sections/sections.h"

static int64_t with_loss(const struct view *v)
{
    int64_t i, n = 0;

    for (i = 0; i < v->n_case; i++) n += v->kase[i]->n_loss > 0;
    return n;
}

void sec_losses(struct view *v)
{
    struct table *t;
    int64_t i;

    doc_heading(v->d, 2, "losses", "Losses");
    if (with_loss(v) == 0) {
        doc_para(v->d, "None: no case here has computed one.");
        return;
    }
    doc_para(v->d, "The loss of a case's first and last wave, summed over "
             "its ranks; a wave is a training step where the case has a "
             "learning rate. `losses.csv` has all.");
    t = doc_table(v->d, "losses", "case|dtype|>CP|>EP|>tokens|>waves|>first"
                  "|>last");
    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        char name[256];
        if (c->n_loss == 0) continue;
        doc_row(v->d, t);
        cell_code(v->d, t, view_name(c, name, sizeof name));
        cell_text(v->d, t, c->shape.dtype);
        cell_count(v->d, t, c->shape.cp);
        cell_count(v->d, t, c->shape.ep);
        cell_count(v->d, t, c->shape.tokens);
        cell_count(v->d, t, c->n_loss);
        cell_number(v->d, t, c->loss[0].loss, 6);
        cell_number(v->d, t, c->loss[c->n_loss - 1].loss, 6);
    }
    view_picture(v, PICTURE_LOSSES, "Loss by wave of the cases with three "
                 "waves and more");
}

/* The rank's peak in the first wave of a temperature. */
static void put_peak(struct view *v, struct table *t,
                     const struct record_found *c, bool cold, int64_t rank)
{
    int64_t w = view_wave(c, cold);
    const struct record_peak *p = w < 0 ? NULL : record_peak_of(c, w, rank);

    if (p == NULL) cell_none(v->d, t);
    else cell_bytes(v->d, t, p->allocated);
}

static void put_rows(struct view *v, struct table *t,
                     const struct record_found *c, int64_t rank)
{
    const struct record_case *s = &c->shape;

    if (s->attention_rows == NULL) cell_none(v->d, t);
    else cell_count(v->d, t, s->attention_rows[rank]);
    if (s->gdn_rows == NULL) cell_none(v->d, t);
    else cell_count(v->d, t, s->gdn_rows[rank]);
}

void sec_rank_peaks(struct view *v)
{
    struct table *t;
    char name[256];
    int64_t i, r;

    doc_heading(v->d, 2, "peaks", "Peak of every rank");
    if (!view_has_peak(v)) {
        doc_para(v->d, "None: no case here has one.");
        return;
    }
    t = doc_table(v->d, "peaks", "case|>rank|>attention rows|>GDN rows"
                  "|>cold peak, bytes|>warm peak, bytes");
    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        for (r = 0; r < c->shape.cp && c->n_peak > 0; r++) {
            doc_row(v->d, t);
            cell_code(v->d, t, view_name(c, name, sizeof name));
            cell_count(v->d, t, r);
            put_rows(v, t, c, r);
            put_peak(v, t, c, true, r);
            put_peak(v, t, c, false, r);
        }
    }
}

void sec_same_as_dry(struct view *v)
{
    int64_t i;

    for (i = 0; i < v->set->n_check; i++) {
        const struct record_check *c = &v->set->check[i];
        if (strcmp(c->check, "same-as-dry") != 0) continue;
        doc_heading(v->d, 2, "dry", "Held beside the dry device");
        if (c->cases == 0)
            doc_para(v->d, "No case ran to its end on this device, so none "
                     "was held beside dry.");
        else
            doc_para(v->d, "Each case that ran to its end ran once more on "
                     "dry with the routes that this device saw: in %lld of "
                     "%lld such cases every rank made the same sequence of "
                     "requests and frees (size and category), reached the "
                     "same peak in every wave, to the byte and at the same "
                     "event, and had finite losses.",
                     (long long)(c->cases - c->failed),
                     (long long)c->cases);
    }
}
