/* config.c - the planner's constants and cost formulas; see config.h */
#include "plan/config.h"

#include <assert.h>
#include <math.h>

#include "base/num.h"

static const struct attention_config old_attention = {
    .block = PLAN_STAGE_BLOCK, .chunk = PLAN_CHUNK_ROWS, .budget_base = 128,
    .budget_per_rank = 16,
    .stage = 0.287151, .comm = 0.143576, .range = 0.11486,
    .merge = 0.00011486,
    .fetch = 0.000287151, .reduce = 0.000287151,
    .forward = {4.5944e-8, 4.8816e-8},
    .backward = {1.37832e-7, 1.49318e-7},
    .floor_rows = 4096, .floor_pairs = 4e6, .underfill = 0.287151,
    .probe_gain = 1.0,
};

/* ms of the dense part of a layer per row held: projections (8 h^2) and the
** MLP, forward and twice that backward, at 400 TFLOP/s. Undetermined
** upstream: the factor 8 and the shared expert's 6 are planner.md's best
** reading. Routed experts count only where they are not spread over ranks
** (an expert TP equal to tp is taken). */
static double owned_from_shape(const struct model *m, int64_t ep, int64_t tp)
{
    double h = (double)m->hidden, mlp;

    if (m->experts == 0)
        mlp = 6 * h * (double)m->ffn;
    else
        mlp = ep == 1 ? 6 * h * (double)m->expert_ffn * (double)m->top_k : 0;
    mlp += 6 * h * (double)m->shared_ffn;
    return 3 * (8 * h * h + mlp) / 400e12 * 1e3 / (double)tp;
}

static void configure_attention(const struct model *m,
                                const struct plan_options *o,
                                struct attention_config *c)
{
    *c = old_attention;
    if (o->profile == PLAN_NEW) {
        c->fetch = c->reduce = 0.00003;
        c->host = 1.2;
        c->owned = owned_from_shape(m, o->ep, o->tp);
        c->start_by_rows = true;
        c->adjacent = true;
    }
    if (o->owned_ms >= 0) c->owned = o->owned_ms;
}

/* Rates were measured at 32 value heads of 128 x 128 and scale with the
** state's size to the power 3/4. */
static double scaled(double reference, double size)
{
    return pow(reference / size, 0.75);
}

/* The planner's constants, scaled from the shape that they were measured at. */
static void configure_gdn(const struct model *m, const struct plan_options *o,
                          struct gdn_config *c)
{
    bool new = o->profile == PLAN_NEW;
    double h = (double)m->hidden, kd = (double)m->k_dim, vd = (double)m->v_dim;
    double kh = (double)m->k_heads / (double)o->tp;
    double vh = (double)m->v_heads / (double)o->tp;
    double rs = scaled(32.0 * 128 * 128, vh * kd * vd);
    double ss = scaled(32.0 * 128 * 256, vh * kd * (vd + kd));
    double state = vh * kd * vd * 4
                 + (2 * kh * kd + vh * vd) * (double)(m->conv - 1) * 2;
    double flops = 6 * h * (2 * kh * kd + 2 * vh * vd + 2 * vh + vh * vd);

    *c = (struct gdn_config){
        .present = true, .chunk = 64,
        .beam = 2, .branch = 4, .candidates = 16, .steps = 4,
        .gate = new ? 2.0 : 4.0,
        .exchange = h * 2 * 4 / 448e6,
        .local_rate = 1500 * rs, .chain_rate = 1400 * rs,
        .local_launch = new ? 2.2 : 0.2, .chain_launch = new ? 2.2 : 0.2,
        .segment_launch = 0.005,
        .summary = new ? 0 : 4 * vh * kd * (vd + kd) * 8 / 80e6,
        .summary_rate = 320 * ss, .scan_rate = (new ? 3.5 : 15) * ss,
        .scan = new ? 2.8 : 2.0,
        .parent_state = state / (56e6 * 2146304 / 262144),
        .dense_rate = new ? 156e9 / flops : 0,
    };
}

void plan_configure(const struct model *m, const struct plan_options *o,
                    struct plan_config *out)
{
    assert(o->cp >= 1 && o->ep >= 1 && o->tp >= 1);
    *out = (struct plan_config){0};
    configure_attention(m, o, &out->attention);
    if (model_count(m, LAYER_GDN) > 0) configure_gdn(m, o, &out->gdn);
}

/* ---- cost of attention -------------------------------------------------- */

static double underfill(const struct attention_config *c,
                        const struct stage_load *l)
{
    double rows = (double)num_min(l->q, l->k);
    double by_rows = fmax(0, c->floor_rows - rows) / c->floor_rows;
    double by_pairs = fmax(0, c->floor_pairs - l->pairs) / c->floor_pairs;

    if (l->pairs <= 0 && l->q <= 0 && l->k <= 0) return 0;
    return c->underfill * fmax(by_rows, by_pairs);
}

double plan_stage_cost(const struct attention_config *c, bool backward,
                       bool remote, const struct stage_load *l)
{
    const struct pair_cost *pair = backward ? &c->backward : &c->forward;
    double t = c->stage + l->pairs * (remote ? pair->remote : pair->local)
             + (double)l->q * c->merge
             + (double)(l->q_ranges + l->k_ranges) * c->range;

    assert(l->q >= 0 && l->k >= 0);
    if (remote) t += underfill(c, l) + c->host;
    return t;
}

double plan_comm_cost(const struct attention_config *c, double per_row,
                      int64_t rows, int64_t ranges)
{
    assert(rows >= 0 && ranges >= 0);
    if (rows <= 0 && ranges <= 0) return 0;
    return c->comm + (double)rows * per_row + (double)ranges * c->range;
}
