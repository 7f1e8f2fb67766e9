/*
** weights_fill.c - first contents of weights and adapters: numbers of the
** counter-based generator by the convention of base/random.h, so that every
** device, rank and layout starts from the same model; or spread as others
** spread theirs (model/init.h).
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "model/weights_map.h"
#include "step/numbers.h"
#include "step/weights.h"

struct spread { double scale, offset; };

static bool ends_in(const char *s, const char *tail)
{
    size_t n = strlen(s), t = strlen(tail);

    return n >= t && strcmp(s + n - t, tail) == 0;
}

/* The width that the tensor is multiplied with. */
static int64_t fan_in(const struct param *p, int64_t cols)
{
    return site_is_routed(p->site) && p->role != PARAM_BASE ? p->dim[1] : cols;
}

/* Uniform numbers of this standard deviation. */
static struct spread deviation(double x)
{
    return (struct spread){sqrt(3) * x, 0};
}

/* What a mixer, the experts or an MLP add to the residual. */
static bool is_output(const struct param *p)
{
    return ends_in(p->tensor, "o_proj.weight") ||
           ends_in(p->tensor, "out_proj.weight") ||
           ends_in(p->tensor, "down_proj") ||
           ends_in(p->tensor, "down_proj.weight");
}

/* As init.h says. */
static struct spread spread_as(const struct step *s, const struct param *p,
                               int64_t cols)
{
    bool megatron = s->c.init == INIT_MEGATRON;
    bool gdn_norm = strcmp(p->tensor, "linear_attn.norm.weight") == 0;

    if (p->role == PARAM_LORA_A) return deviation(1);
    if (p->role == PARAM_LORA_B) return deviation(1e-3);
    if (ends_in(p->tensor, "norm.weight"))
        return (struct spread){0, gdn_norm || !s->m->norm_zero_centred};
    if (ends_in(p->tensor, ".bias")) return (struct spread){0, 0};
    if (ends_in(p->tensor, "dt_bias")) return (struct spread){0, 1};
    if (megatron && ends_in(p->tensor, "conv1d.weight"))
        return (struct spread){1 / sqrt((double)cols), 0};
    if (megatron && is_output(p))
        return deviation(0.02 / sqrt(2 * (double)s->m->layers));
    return deviation(0.02);
}

static struct spread spread_of(const struct step *s, const struct param *p,
                               int64_t cols)
{
    bool gdn_norm = strcmp(p->tensor, "linear_attn.norm.weight") == 0;

    if (s->c.init != INIT_OWN) return spread_as(s, p, cols);
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

/* The logarithm of A, which is uniform: made on the host, a number a head. */
static void fill_a_log(struct step *s, const char *name, struct mat x)
{
    double low = s->c.init == INIT_MEGATRON ? 1 : 0;
    int64_t n = x.rows * x.cols, i;
    double *v = malloc((size_t)(n + 1) * sizeof *v);

    if (s->rc == ERR_OK && v == NULL) s->rc = err_nomem(s->e);
    for (i = 0; v != NULL && i < n; i++) {
        double u = random_value(s->c.seed, random_stream(name), (uint64_t)i,
                                0.5, 0.5);
        v[i] = log(low + (16 - low) * (u > 0 ? u : 0x1p-24));
    }
    if (s->rc == ERR_OK)
        s->rc = numbers_up(s->dev, x.p, x.t, v, n, s->e);
    free(v);
}

void weights_fill(struct step *s, const struct param *p, struct mat x)
{
    struct spread z = spread_of(s, p, x.cols);
    char name[256];
    uint64_t first = 0;

    if (site_is_routed(p->site))
        first = (uint64_t)(s->c.rank % s->c.ep * p->count);
    stored_full_name(s->m, p->layer, p->tensor, name, sizeof name);
    if (s->c.init != INIT_OWN && ends_in(p->tensor, "A_log")) {
        fill_a_log(s, name, x);
        return;
    }
    RUN(s, random, .x = x, .seed = s->c.seed, .stream = random_stream(name),
        .first = first, .scale = z.scale, .offset = z.offset);
}
