/* as_lua.c - see run.h: a case as the text of a scenario */
#include <inttypes.h>

#include "run/run.h"

static void put_ints(struct buf *out, const char *key, const int64_t *v,
                     int64_t n, int64_t step)
{
    int64_t i;

    buf_printf(out, "%s = {", key);
    for (i = 0; i < n; i++)
        buf_printf(out, "%s%" PRId64, i > 0 ? ", " : "",
                   *(const int64_t *)(const void *)((const char *)v
                                                    + i * step));
    buf_puts(out, "}");
}

static void put_batch(const struct batch *b, struct buf *out)
{
    const int64_t step = sizeof *b->seg;

    buf_puts(out, "   batch = batch.tree{");
    put_ints(out, "parents", &b->seg->parent, b->n_seg, step);
    buf_puts(out, ",\n     ");
    put_ints(out, "lengths", &b->seg->tokens, b->n_seg, step);
    buf_puts(out, "},\n");
}

static void put_routing(const struct routing *r, struct buf *out)
{
    switch (r->kind) {
    case ROUTING_CV:
        buf_printf(out, "{cv = %.17g, seed = %" PRIu64 ", drift = %.17g",
                   r->cv, r->seed, r->drift);
        if (r->burst > 0)
            buf_printf(out, ", burst = %.17g, factor = %.17g", r->burst,
                       r->factor);
        buf_puts(out, "}");
        return;
    case ROUTING_SHARE:
        buf_printf(out, "{share = %.17g, rank = %" PRId64 "}", r->share,
                   r->share_rank);
        return;
    case ROUTING_HOT:
        buf_printf(out, "{hot_expert = %" PRId64 ", factor = %.17g}",
                   r->expert, r->factor);
        return;
    case ROUTING_LIST:
        buf_puts(out, "{");
        for (int64_t i = 0; i < r->n_each; i++) {
            put_routing(&r->each[i], out);
            buf_puts(out, ", ");
        }
        buf_puts(out, "}");
        return;
    case ROUTING_HISTOGRAM:     /* whose file is not known any more */
    case ROUTING_BALANCED:
        buf_puts(out, "\"balanced\"");
    }
}

void run_as_lua(const struct scenario_case *c, struct buf *out)
{
    buf_printf(out, "  {name = \"%s\", model = \"%s\",\n", c->name,
               c->model_path);
    if (c->layers > 0) buf_printf(out, "   layers = %" PRId64 ",\n",
                                  c->layers);
    buf_printf(out, "   cp = %" PRId64 ", ep = %" PRId64 ", lora_rank = %"
               PRId64 ", waves = %" PRId64 ", load_cv = %.17g,\n", c->cp,
               c->ep, c->lora_rank, c->waves, c->load_cv);
    if (c->head_rows >= 0)
        buf_printf(out, "   head_rows = %" PRId64 ",\n", c->head_rows);
    put_batch(&c->batch, out);
    buf_puts(out, "   routing = ");
    put_routing(&c->routing, out);
    buf_puts(out, "},\n");
}
