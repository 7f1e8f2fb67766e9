/*
** per_rank.c - "after": each context-parallel rank priced on its own rows in
** each layer's layout, the largest rank taken (pricing.md 5, 8).
*/
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "price/internal.h"

/* ---- one rank ------------------------------------------------------------ */

static int64_t rank_boundaries(const struct price_facts *f, int64_t r)
{
    int64_t g, i, sum = 0;

    for (g = 0; g < f->n_group; g++)
        for (i = 0; i < f->model->layers; i++)
            sum = num_sadd(sum, price_boundary(f, g, r, i));
    return sum;
}

static int64_t records_of(const struct price_wave *w, int64_t g, int64_t r)
{
    const struct price_facts *f = w->f;
    const struct price_group *p = &f->group[g];

    if (p->attention_retained != NULL) return p->attention_retained[r];
    return price_records_lse(f->model, p->stage[r], p->n_stage[r],
                             p->attention_rows[r], f->q_block, f->k_block,
                             w->change & PRICE_ONE_LSE ? 1 : 2, NULL);
}

/* The largest stage of a kind over the groups; its terms into the rank's. */
static int64_t rank_stage(const struct price_wave *w, int64_t r,
                          enum layer_kind kind, struct price_rank *out)
{
    const struct price_facts *f = w->f;
    int64_t width = price_mixer_width(f->model, kind, f->cp, false);
    int64_t g, most = -1;

    for (g = 0; g < f->n_group; g++) {
        const struct price_group *p = &f->group[g];
        int64_t held = kind == LAYER_GDN ? p->gdn_rows[r]
                                         : p->attention_rows[r];
        int64_t rows = num_max(1, held);
        int64_t routed = f->model->experts > 0 ? price_routed_rows(f, g)
                                               : rows;
        int64_t records = kind == LAYER_GDN ? 0 : records_of(w, g, r);
        int64_t term[CAT_COUNT] = {0}, moe[CAT_COUNT] = {0};
        int64_t stage = price_stage(w, kind, width, rows, routed, records,
                                    term);

        if (stage <= most) continue;
        most = stage;
        memcpy(out->term[kind], term, sizeof term);
        out->moe_workspace[kind] = price_moe_workspace(&w->moe[1], rows, routed,
                                                       moe);
        if (kind == LAYER_ATTENTION) out->attention_retained = records;
    }
    out->term[kind][CAT_BOUNDARIES] = out->boundaries;
    return most;
}

static void price_one_rank(const struct price_wave *w, int64_t r,
                           struct price_rank *out)
{
    out->boundaries = rank_boundaries(w->f, r);
    out->staged = true;
    if (w->has[LAYER_ATTENTION])
        out->attention_stage = rank_stage(w, r, LAYER_ATTENTION, out);
    if (w->has[LAYER_GDN])
        out->gdn_stage = rank_stage(w, r, LAYER_GDN, out);
    out->total = num_sadd(out->boundaries, num_max(out->attention_stage,
                                                   out->gdn_stage));
}

/* ---- all ranks ----------------------------------------------------------- */

/* The floor: its sum is the largest rank's total, not a sum of maxima. */
struct floor { int64_t boundaries, workspace; };

static struct floor floor_of(const struct price_wave *w, struct estimate *est)
{
    struct floor floor = {0, 0};
    int64_t r, most = -1;

    for (r = 0; r < w->f->cp; r++) {
        struct price_rank *p = &est->rank[r];
        price_one_rank(w, r, p);
        floor.boundaries = num_max(floor.boundaries, p->boundaries);
        if (p->total <= most) continue;
        most = p->total;
        est->binding_rank = r;
        est->binding_mixer = p->gdn_stage > p->attention_stage
                             ? LAYER_GDN : LAYER_ATTENTION;
    }
    floor.workspace = num_sadd(most - floor.boundaries, w->te);
    return floor;
}

/* A rank with few rows has much extra but a low floor, so its extra counts
** from its own floor: the largest sum, less the wave's floor. */
static int64_t paired_extra(const struct price_wave *w,
                            const struct floor *floor,
                            const struct estimate *est)
{
    int64_t r, most = 0, any = 0;

    for (r = 0; r < w->f->cp; r++) {
        const struct price_rank *p = &est->rank[r];
        int64_t work = num_max(p->total - p->boundaries, floor->workspace);
        int64_t sum = num_sadd(num_sadd(p->boundaries, work),
                               p->adapter_extra);
        most = num_max(most, sum);
        any = num_max(any, p->adapter_extra);
    }
    if (any == 0) return 0;
    return num_max(0, most - floor->boundaries - floor->workspace);
}

bool price_lacks_stages(const struct price_wave *w, struct err *e)
{
    const struct price_facts *f = w->f;
    int64_t g;

    for (g = 0; g < f->n_group; g++) {
        const struct price_group *p = &f->group[g];
        if (p->attention_retained != NULL || !w->has[LAYER_ATTENTION])
            continue;
        if (p->stage != NULL) continue;
        err_set(e, ERR_INPUT, "groups[%lld].stages: missing (per-rank prices "
                "attention by its stages; or give attention_retained)",
                (long long)g);
        return true;
    }
    return false;
}

/* Each rank's gradients beside its own floor (pricing.md 8). */
static int price_ranks(const struct price_wave *w, struct estimate *out,
                       struct err *e)
{
    struct price_parts parts = {0};
    struct floor floor;
    int64_t r, at_head = 0;

    out->n_rank = w->f->cp;
    floor = floor_of(w, out);
    for (r = 0; r < w->f->cp; r++) {
        struct adapter_walks a = price_walk_groups(w->f, r);
        out->rank[r].adapter_extra = a.extra;
        out->adapter_unpaired = num_max(out->adapter_unpaired, a.extra);
        at_head = num_max(at_head, a.at_head);
        if (out->rank[r].total == INT64_MAX) return price_too_big(w->f, e);
    }
    out->adapter_paired = paired_extra(w, &floor, out);
    parts.boundaries = floor.boundaries;
    parts.workspace = floor.workspace;
    parts.extra = w->change & PRICE_UNPAIRED ? out->adapter_unpaired
                                             : out->adapter_paired;
    parts.at_head = at_head;
    parts.term = out->rank[out->binding_rank].term[out->binding_mixer];
    return price_total(w, &parts, out, e);
}

int price_per_rank_as(const struct price_facts *f, unsigned change,
                      struct estimate *out, struct err *e)
{
    struct price_wave w;
    int rc = price_busiest_rank_as(f, change, out, e);

    if (rc != ERR_OK) return rc;
    snprintf(out->name, sizeof out->name, PRICE_PER_RANK);
    if (!out->priced) return ERR_OK;
    if (price_refuses_ranks(f, out->reason)) {
        out->supported = false;     /* and keeps the busiest rank's bytes */
        return ERR_OK;
    }
    price_wave_make(f, change, &w);
    if (price_lacks_stages(&w, e)) return ERR_INPUT;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, PRICE_PER_RANK);
    out->supported = out->priced = true;
    return price_ranks(&w, out, e);
}

int price_per_rank(const struct price_facts *f, struct estimate *out,
                   struct err *e)
{
    return price_per_rank_as(f, PRICE_AS_IS, out, e);
}
