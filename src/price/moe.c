/*
** moe.c - what a recomputed MoE stage holds at its peak (pricing.md 3).
**
** Widths are elements a routed pair. A routed row is top_k pairs, times the
** allowance for ranks that receive more than their share.
*/
#include <assert.h>

#include "base/num.h"
#include "price/internal.h"

/* ---- the EP allowance ---------------------------------------------------- */

struct ratio { int64_t num, den; };

#define LOG_BITS 24

/* log2(x) in units of 2^-LOG_BITS, exact for powers of two, else rounded up
** by less than two units: the squared mantissa's digits, rounded up too. */
static int64_t log2_up(int64_t x)
{
    const uint64_t one = (uint64_t)1 << 31;
    int64_t whole = 63 - __builtin_clzll((unsigned long long)x), digits = 0;
    uint64_t m = (((uint64_t)x << 31) + ((uint64_t)1 << whole) - 1) >> whole;
    int i;

    if ((x & (x - 1)) == 0) return whole << LOG_BITS;
    for (i = 0; i < LOG_BITS; i++) {
        m = (m * m + one - 1) >> 31;
        digits *= 2;
        if (m >= 2 * one) {
            m = (m + 1) / 2;
            digits++;
        }
    }
    return (whole << LOG_BITS) + digits + 1;
}

/* 1, 1.4, 1.6, 2, then 2 + 0.4 log2(ep / 8): exact at every power of two,
** elsewhere never below and above by less than 2^-23. */
static struct ratio allowance(int64_t ep)
{
    const int64_t unit = (int64_t)1 << LOG_BITS;

    if (ep <= 1) return (struct ratio){1, 1};
    if (ep <= 2) return (struct ratio){14, 10};
    if (ep <= 4) return (struct ratio){16, 10};
    if (ep <= 8) return (struct ratio){20, 10};
    return (struct ratio){20 * unit + 4 * (log2_up(ep) - 3 * unit),
                          10 * unit};
}

/* ---- what a routed row costs --------------------------------------------- */

/* Bytes of a routed row: top_k pairs, the allowance, bf16. */
struct pairs { int64_t num, den; };

static int64_t cost_up(struct pairs c, int64_t width)
{
    int64_t all = num_smul(c.num, width);
    return all == INT64_MAX ? all : num_ceil_div(all, c.den);
}

static int64_t cost_down(struct pairs c, int64_t width)
{
    int64_t all = num_smul(c.num, width);
    return all == INT64_MAX ? all : all / c.den;
}

/* per_row = base + what width more (or fewer) elements a pair cost. */
static int64_t cost_from(struct pairs c, int64_t base, int64_t width)
{
    if (width >= 0) return num_sadd(base, cost_up(c, width));
    return num_max(0, base - cost_down(c, -width));
}

/* Sizes of the converted weights of one grouped adapter: transposes, and
** padding to the narrowest rank that the grouped GEMM takes. */
struct converted { int64_t transposes, padding; };

#define LEAST_RANK 8

static struct converted converted_of(const struct moe_shape *s, int64_t in,
                                     int64_t out)
{
    int64_t e = num_max(LEAST_RANK, s->rank);
    int64_t t = num_smul(num_smul(s->local_experts, e),
                         num_smul(in + out, PRICE_ELEMENT));
    return (struct converted){t, s->rank < LEAST_RANK ? t : 0};
}

/* Grouped adapters convert ranks below 8, and multiples of it; no other. */
static bool converts(const struct moe_shape *s)
{
    return s->stages && s->rank > 0
           && (s->rank < LEAST_RANK || s->rank % LEAST_RANK == 0)
           && s->hidden > 1 && s->ffn > 1;
}

static void add_peak(struct moe *m, int64_t per_row, int64_t dispatch,
                     int64_t shared, int64_t fixed)
{
    m->peak[m->n++] = (struct moe_peak){per_row, dispatch, shared, fixed};
}

/* The backward of FC2 with padded weights: gradients of the unpadded ones
** are copied out, and the offsets of the experts stand twice (int32). */
static int64_t backward_copies(const struct moe_shape *s)
{
    int64_t el = s->local_experts;
    int64_t wide = s->ffn + (el > 1 ? s->hidden : 0);
    return num_sadd(num_smul(num_smul(el, s->rank),
                             num_smul(PRICE_ELEMENT, wide)),
                    2 * (el + 1) * 4);
}

/* S1..S5 of pricing.md 3.2. 1 is FC1 (hidden to 2 ffn), 2 is FC2. */
static void add_stages(const struct moe_shape *s, struct pairs c,
                       int64_t inputs, struct moe *m)
{
    const struct moe_peak whole = m->peak[0];
    struct converted w1 = converted_of(s, s->hidden, 2 * s->ffn);
    struct converted w2 = converted_of(s, s->ffn, s->hidden);
    int64_t h = s->hidden, f = s->ffn, e = num_max(LEAST_RANK, s->rank);
    /* FC1's rank-wide intermediate and padding are kept for backward only
    ** where FC1 encloses the stage */
    bool kept = s->grad && m->covered;
    int64_t e1 = kept ? e : 0, p1 = kept ? w1.padding : 0;
    int64_t d = cost_down(c, inputs);

    add_peak(m, num_sadd(cost_up(c, inputs + 4 * f + e), s->shared), d,
             s->shared, num_sadd(w1.padding, w1.transposes));
    add_peak(m, num_sadd(cost_up(c, inputs + 6 * f + e1), s->shared), d,
             s->shared, p1);
    add_peak(m, cost_from(c, whole.per_row, e + e1 - h), whole.dispatch,
             s->shared, num_sadd(num_sadd(w2.padding, w2.transposes), p1));
    if (!s->grad) return;
    add_peak(m, cost_from(c, whole.per_row, e + e1), whole.dispatch,
             s->shared, num_sadd(w2.padding, p1));
    if (s->rank >= LEAST_RANK) return;
    add_peak(m, cost_up(c, 2 * f + 2 * h + 2 * e + e1), 0, 0,
             num_sadd(num_sadd(num_sadd(w2.padding, w2.transposes), p1),
                      backward_copies(s)));
}

/* A dense MLP, one stage (pricing.md 3.5): elements a row in quarters. */
static struct moe dense_make(const struct moe_shape *s)
{
    int64_t quarters = s->grad
        ? num_sadd(num_smul(28, s->ffn), s->hidden)
        : num_sadd(num_smul(24, s->ffn), num_smul(17, s->hidden));
    int64_t row = num_smul(num_sadd(quarters, num_smul(24, s->rank)),
                           PRICE_ELEMENT) / 4;

    return (struct moe){.peak = {{row, 0, row, 0}}, .n = 1, .covered = true};
}

void price_moe_make(const struct moe_shape *s, struct moe *out)
{
    struct ratio a = s->allowance ? allowance(s->ep) : (struct ratio){1, 1};
    struct pairs c = {num_smul(num_smul(s->top_k, PRICE_ELEMENT), a.num),
                      a.den};
    /* permuted rows and their expert-sorted copy; HybridEP's live outside
    ** the caching allocator but for the sorted copy */
    int64_t inputs = (s->ep > 1 ? 1 : 2) * s->hidden;
    int64_t width = s->ffn + 3 * s->hidden;
    bool covered = s->local_experts > 1;

    if (s->top_k == 0) {
        *out = dense_make(s);
        return;
    }
    *out = (struct moe){.shared = s->shared, .covered = covered};
    if (covered) width += inputs + 2 * s->ffn;
    add_peak(out, num_sadd(cost_up(c, width), s->shared),
             covered ? cost_down(c, inputs) : 0, s->shared, 0);
    if (converts(s)) add_stages(s, c, inputs, out);
}

/* The shared expert's returned output; with a gate, and gradients, also the
** value before it. */
static int64_t shared_output(const struct model *m, bool grad)
{
    int64_t row = m->hidden * PRICE_ELEMENT;

    if (m->shared_ffn == 0) return 0;
    return grad && m->shared_gate ? 2 * row : row;
}

struct moe_shape price_moe_shape(const struct price_facts *f, bool grad,
                                 unsigned change)
{
    const struct model *m = f->model;
    return (struct moe_shape){
        .hidden = m->hidden, .top_k = m->top_k,
        .ffn = m->experts > 0 ? m->expert_ffn : m->ffn,
        .local_experts = m->experts / f->ep, .rank = f->lora_rank,
        .ep = f->ep, .shared = shared_output(m, grad), .grad = grad,
        .stages = f->moe_stages, .allowance = !(change & PRICE_NO_ALLOWANCE),
    };
}

/* ---- the workspace of a layer -------------------------------------------- */

int64_t price_moe_workspace(const struct moe *m, int64_t rows, int64_t routed,
                            int64_t term[CAT_COUNT])
{
    int64_t local = num_smul(num_max(0, rows - routed), m->shared);
    int64_t most = -1, shared, dispatch, rest;
    const struct moe_peak *at = NULL;
    int i;

    assert(rows >= 0 && routed >= 0);
    for (i = 0; i < m->n; i++) {
        const struct moe_peak *p = &m->peak[i];
        int64_t b = num_sadd(num_smul(routed, p->per_row), p->fixed);
        if (b > most && (i == 0 || rows > 0)) {
            most = b;
            at = p;
        }
    }
    if (at == NULL) return 0;
    dispatch = num_smul(routed, at->dispatch);
    shared = num_smul(routed, at->shared);
    term[CAT_MOE_DISPATCH] = num_sadd(term[CAT_MOE_DISPATCH], dispatch);
    term[CAT_SHARED_EXPERT] = num_sadd(term[CAT_SHARED_EXPERT],
                                       num_sadd(shared, local));
    rest = most == INT64_MAX ? most : most - dispatch - shared;
    term[CAT_MOE_EXPERTS] = num_sadd(term[CAT_MOE_EXPERTS], rest);
    return num_sadd(local, most);
}
