/*
** busiest_rank.c - "before": every rank priced on the busiest rank's rows, with
** the wider mixer (pricing.md 4).
*/
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "price/internal.h"

/* The floor of the wave: its largest layer, and what is saved meanwhile. */
struct floor {
    int64_t boundaries;
    int64_t workspace;          /* without te */
    enum layer_kind mixer;
    int64_t term[CAT_COUNT];    /* of the layer, then boundaries too */
};

static enum layer_kind wider_mixer(const struct price_wave *w)
{
    const struct model *m = w->f->model;
    int64_t cp = w->f->cp;

    if (!w->has[LAYER_GDN]) return LAYER_ATTENTION;
    if (!w->has[LAYER_ATTENTION]) return LAYER_GDN;
    return price_mixer_width(m, LAYER_GDN, cp, true)
           > price_mixer_width(m, LAYER_ATTENTION, cp, true)
           ? LAYER_GDN : LAYER_ATTENTION;
}

/* A group's layer at its peak. Without gradients: the decoder's and the
** layer's input, the MLP's residual and the norm's output, beside the MoE. */
static int64_t group_stage(const struct price_wave *w, int64_t g,
                           enum layer_kind mixer, int64_t term[CAT_COUNT])
{
    const struct price_facts *f = w->f;
    int64_t rows = price_busiest_rows(f, g);
    int64_t routed = f->model->experts > 0 ? price_routed_rows(f, g) : rows;
    int64_t width = price_mixer_width(f->model, mixer, f->cp, false);
    int64_t buffers = mixer == LAYER_ATTENTION
        ? price_mixer_width(f->model, mixer, f->cp, true) - width : 0;

    if (f->group[g].grad)
        return price_stage(w, mixer, width, rows, routed,
                           num_smul(rows, buffers), term);
    price_moe_workspace(&w->moe[0], rows, routed, term);
    if (f->model->experts > 0)
        term[CAT_RESIDUAL_NORM] = num_smul(rows, 4 * w->row);
    return price_sum(term);
}

/* The published floor: the dearest group's stage on the wider mixer. */
static struct floor floor_of(const struct price_wave *w)
{
    const struct price_facts *f = w->f;
    struct floor out = {.mixer = wider_mixer(w)};
    int64_t g;

    for (g = 0; g < f->n_group; g++) {
        int64_t term[CAT_COUNT] = {0};
        int64_t stage = group_stage(w, g, out.mixer, term);

        if (stage > out.workspace || g == 0) {
            out.workspace = stage;
            memcpy(out.term, term, sizeof term);
        }
        if (f->group[g].grad)
            out.boundaries = num_sadd(
                out.boundaries, num_smul(price_boundary(f, g, -1, 0),
                                         f->model->layers));
    }
    out.term[CAT_BOUNDARIES] = out.boundaries;
    return out;
}

int price_busiest_rank_as(const struct price_facts *f, unsigned change,
                          struct estimate *out, struct err *e)
{
    struct adapter_walks adapters;
    struct price_parts parts;
    struct price_wave w;
    struct floor floor;
    int rc = price_check(f, e);

    if (rc != ERR_OK) return rc;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, PRICE_BUSIEST_RANK);
    out->binding_rank = -1;
    if (price_refuses(f, out->reason)) return ERR_OK;
    price_wave_make(f, change, &w);
    floor = floor_of(&w);
    adapters = price_walk_groups(f, -1);
    parts = (struct price_parts){
        .boundaries = floor.boundaries,
        .workspace = num_sadd(floor.workspace, w.te),
        .extra = adapters.extra, .at_head = adapters.at_head,
        .term = floor.term,
    };
    out->supported = out->priced = true;
    out->binding_mixer = floor.mixer;
    out->adapter_paired = out->adapter_unpaired = adapters.extra;
    return price_total(&w, &parts, out, e);
}

int price_busiest_rank(const struct price_facts *f, struct estimate *out,
                       struct err *e)
{
    return price_busiest_rank_as(f, PRICE_AS_IS, out, e);
}
