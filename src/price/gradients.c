/*
** gradients.c - adapter gradients of the experts as the allocator sees them:
** per-rank-any's blocks that stay, layer after layer (pricing.md 13).
*/
#include "base/num.h"
#include "model/param.h"
#include "price/any.h"

/* What a layer's grouped adapters are wide: two H, one 2F, one F. */
int64_t price_adapter_widths(const struct model *m, int64_t width[3])
{
    width[0] = m->hidden;
    width[1] = 2 * m->expert_ffn;
    width[2] = m->expert_ffn;
    return 3;
}

/* All widths of adapters at ranks of whole blocks: nothing is rounded up. */
static bool gradients_round(const struct price_facts *f)
{
    const struct model *m = f->model;
    int64_t all = num_gcd(num_gcd(m->hidden, m->expert_ffn),
                          num_gcd(m->shared_ffn, model_q(m)));

    all = num_gcd(all, num_gcd(model_kv(m), model_value(m)));
    all = num_gcd(all, model_conv_channels(m));
    return num_smul(all, f->lora_rank * PRICE_ELEMENT) % SMALLEST_BLOCK != 0;
}

/* Gradients that are more than boundaries and logits, which are gone by then,
** have new segments: of these they keep what they leave. */
static int64_t packed_gradients(const struct price_facts *f, int64_t g,
                                int64_t r, const int64_t n[3],
                                const int64_t bytes[3])
{
    int64_t most = blocks_packed(n, bytes), all = 0, freed, l;

    if (most == 0) return 0;
    /* the head's three buffers */
    freed = num_smul(price_head_chunk(f, f->group[g].attention_rows[r]),
                     3 * f->model->vocab * PRICE_ELEMENT);
    for (l = 0; l < f->model->layers; l++) {
        all = num_sadd(all, n[0] * bytes[0] + n[1] * bytes[1]
                            + n[2] * bytes[2]);
        freed = num_sadd(freed, price_boundary(f, g, r, l));
    }
    return freed >= all ? 0 : (all - freed) / (all / 1024) * most / 1024;
}

/* Of one layer's adapter gradients those of the experts are the large. Layer
** after layer they are alike, and lie where boundaries were. */
struct blocks price_gradient_blocks(const struct price_facts *f, int64_t g,
                                    int64_t r)
{
    int64_t unit = f->model->experts / f->ep * f->lora_rank * PRICE_ELEMENT;
    int64_t row = f->model->hidden * PRICE_ELEMENT, width[3], i;
    int64_t n[3] = {LARGE_GRADIENTS - 2, 1, 1}, bytes[3];
    struct blocks b = {.tensors = 0};

    for (i = 0; i < price_adapter_widths(f->model, width); i++) {
        bytes[i] = num_smul(unit, width[i]);
        blocks_alike(&b, n[i], bytes[i]);
        blocks_in_hole(&b, n[i], bytes[i],
                       num_smul(f->group[g].attention_rows[r], row),
                       num_smul(f->group[g].gdn_rows[r], row));
    }
    b.packed = blocks_packed(n, bytes);
    blocks_least(&b, packed_gradients(f, g, r, n, bytes));
    b.tensors = gradients_round(f) ? 2 * SITE_COUNT : 0;
    blocks_repeat(&b);
    return b;
}
