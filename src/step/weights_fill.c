/*
** weights_fill.c - first contents of weights and adapters: numbers of the
** counter-based generator by the convention of base/random.h, so that every
** device, rank and layout starts from the same model.
*/
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "model/weights_map.h"
#include "step/weights.h"

struct spread { double scale, offset; };

static bool ends_in(const char *s, const char *tail)
{
    size_t n = strlen(s), t = strlen(tail);

    return n >= t && strcmp(s + n - t, tail) == 0;
}

static bool is_routed(const struct param *p)
{
    return p->site == SITE_EXPERT_UP || p->site == SITE_EXPERT_DOWN;
}

/* The width that the tensor is multiplied with. */
static int64_t fan_in(const struct param *p, int64_t cols)
{
    return is_routed(p) && p->role != PARAM_BASE ? p->dim[1] : cols;
}

static struct spread spread_of(const struct step *s, const struct param *p,
                               int64_t cols)
{
    bool gdn_norm = strcmp(p->tensor, "linear_attn.norm.weight") == 0;

    if (p->role == PARAM_LORA_B) return (struct spread){0.02, 0};
    if (gdn_norm) return (struct spread){0.1, 1};
    if (ends_in(p->tensor, "norm.weight"))
        return (struct spread){0.1, s->m->norm_zero_centred ? 0 : 1};
    if (ends_in(p->tensor, ".bias")) return (struct spread){0.1, 0};
    if (ends_in(p->tensor, "A_log")) return (struct spread){1, 0};
    if (ends_in(p->tensor, "dt_bias")) return (struct spread){1, -2};
    if (ends_in(p->tensor, "embed_tokens.weight"))
        return (struct spread){1, 0};
    return (struct spread){sqrt(3.0 / (double)fan_in(p, cols)), 0};
}

void weights_name(const struct step *s, int64_t layer, const char *tensor,
                  char *out, size_t cap)
{
    weights_full_name(s->m, layer, tensor, out, cap);
}

void weights_fill(struct step *s, const struct param *p, struct mat x)
{
    struct spread z = spread_of(s, p, x.cols);
    char name[256];
    uint64_t first = 0;

    if (is_routed(p))
        first = (uint64_t)(s->c.rank % s->c.ep * p->count);
    weights_name(s, p->layer, p->tensor, name, sizeof name);
    RUN(s, random, .x = x, .seed = s->c.seed, .stream = random_stream(name),
        .first = first, .scale = z.scale, .offset = z.offset);
}
