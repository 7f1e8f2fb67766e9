/* dry.c - see dry.h */
#include "fit/dry.h"

#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "fit/simulate.h"

/* A case of a scenario that nobody wrote: training, with an optimizer. */
static struct scenario_case case_of(const struct shape *s,
                                    const struct batch *b, int64_t limit)
{
    struct scenario_case c = {
        .cp = s->options.cp, .ep = s->options.ep,
        .tp = mode_tp(&s->mode), .pp = s->pp > 0 ? s->pp : 1,
        .mode = s->mode,
        .lora_rank = s->lora_rank, .lora_alpha = 32,
        .waves = SIMULATE_WAVES, .head_rows = s->head_rows,
        .price_head_rows = -1, .hybridep_held_rows = -1,
        .routing = s->routing, .cp_attention = true,
        .learning_rate = 1e-3, .device_bytes = (uint64_t)limit,
    };

    c.dtype = (char *)(uintptr_t)(s->dtype != NULL ? s->dtype : "bf16");
    c.batch_kind = b != NULL ? BATCH_LENGTHS : BATCH_LAYOUT;
    if (b != NULL) c.batch = *b;
    return c;
}

void dry_fill(struct dry *d, const struct shape *s, const struct batch *b,
              const struct plan *p, int64_t limit)
{
    static const atomic_int never;

    memset(d, 0, sizeof *d);
    d->c = case_of(s, b, limit);
    d->x = (struct run_context){.device = "dry", .ops = &dev_dry,
                                .interrupt = &never};
    d->w = (struct run_work){.x = &d->x, .c = &d->c, .model = s->model,
                             .plan = p};
    d->r.w = &d->w;
    d->r.ops = &dev_dry;
    d->r.routing = &d->c.routing;
    d->r.waves = SIMULATE_WAVES;
    d->r.brief = true;
    d->r.threads = (int)num_min(sysconf(_SC_NPROCESSORS_ONLN),
                                PLAN_MAX_RANKS);
}

int64_t dry_dispatch(const struct ranks_one *o)
{
    return o->good > 0 ? (int64_t)o->wave[o->good - 1].got.hybridep_bytes : 0;
}

int64_t dry_taken(const struct ranks_one *o)
{
    return num_sadd((int64_t)o->stats.reserved_peak, dry_dispatch(o));
}
