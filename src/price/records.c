/*
** records.c - bytes that the CP attention executor keeps for backward, from
** sizes alone (pricing.md 5). Written from the executor's description, not
** from the step's code: a test holds the two against each other.
*/
#include "base/num.h"
#include "price/internal.h"
#include "price/slack.h"

/* Bytes of one row of the executor's tensors. */
struct row_bytes {
    int64_t q, kv, out, lse, tape;
};

static struct row_bytes row_bytes_of(const struct model *m)
{
    return (struct row_bytes){
        .q = model_q(m) * PRICE_ELEMENT,
        .kv = model_kv(m) * PRICE_ELEMENT,     /* each */
        .out = model_q(m) * PRICE_ELEMENT,
        .lse = m->q_heads * 4,
        .tape = m->q_heads * (m->head_dim + 1) * 4,     /* f32 accumulator */
    };
}

/* Bytes of tensors, and, where they are asked for, the tensors. */
struct kept { int64_t bytes; struct blocks *blocks; };

static void add(struct kept *k, int64_t n, int64_t rows, int64_t width)
{
    int64_t bytes = num_smul(rows, width);

    k->bytes = num_sadd(k->bytes, num_smul(n, bytes));
    if (k->blocks != NULL) blocks_add(k->blocks, n, bytes);
}

static bool runs(const struct stage *s) { return s->q > 0 && s->k > 0; }

/* What a stage keeps without its merge tape. */
static void add_stage(struct kept *k, const struct row_bytes *b,
                      const struct stage *s, int64_t q_block, int64_t k_block,
                      int lses)
{
    int64_t q_pad = price_padded(s->q_len, q_block);
    int64_t k_pad = price_padded(s->k_len, k_block);

    if (!s->q_full) add(k, 1, s->q, b->q);          /* gathered queries */
    if (q_pad != s->q)
        add(k, 1, q_pad, b->q);                     /* padded copy */
    else if (s->q_full)
        add(k, 1, s->q, b->q);                      /* contiguous copy */
    if (!s->k_full) add(k, 1, s->k, 2 * b->kv);     /* gathered or fetched */
    if (k_pad != s->k)
        add(k, 2, k_pad, b->kv);
    else if (s->k_full)
        add(k, 2, s->k, b->kv);
    /* the kernel's output and LSE, and the LSE's normalised copy */
    add(k, 1, q_pad, b->out);
    add(k, lses, q_pad, b->lse);
    if (q_pad == s->q) return;
    add(k, 1, s->q, b->out);
    add(k, 1, s->q, b->lse);
}

/* What merging the stage into the accumulator keeps. */
static int64_t tape_bytes(const struct row_bytes *b, const struct stage *s,
                          int64_t own)
{
    /* a partial merge also keeps the row indices (int64) */
    return s->q_full ? num_smul(own, b->tape) : num_smul(s->q, b->tape + 8);
}

int64_t price_records_lse(const struct model *m, const struct stage *s,
                          int64_t n, int64_t own, int64_t q_block,
                          int64_t k_block, int lses, struct blocks *blocks)
{
    struct row_bytes b = row_bytes_of(m);
    int64_t i, tapes = 0, least = INT64_MAX;
    struct kept k = {0, blocks};
    bool local = false;

    for (i = 0; i < n; i++) {
        if (!runs(&s[i])) continue;
        add_stage(&k, &b, &s[i], q_block, k_block, lses);
        if (s[i].local) {
            local = true;       /* it is the first: nothing to merge into */
        } else {
            int64_t tape = tape_bytes(&b, &s[i], own);
            if (blocks != NULL) blocks_add(blocks, 1, tape);
            tapes = num_sadd(tapes, tape);
            least = num_min(least, tape);
        }
    }
    /* whichever remote stage is ready first records no tape: count on the
    ** one that saves least */
    if (!local && least != INT64_MAX && tapes != INT64_MAX) tapes -= least;
    return num_sadd(k.bytes, tapes);
}

int64_t price_stage_records(const struct model *m, const struct stage *s,
                            int64_t n, int64_t own, int64_t q_block,
                            int64_t k_block)
{
    return price_records_lse(m, s, n, own, q_block, k_block, 2, NULL);
}

/* A single head needs no copy to become contiguous. */
int64_t price_least_record_row(const struct model *m)
{
    struct row_bytes b = row_bytes_of(m);
    return (m->q_heads > 1 ? b.q : 0) + (m->kv_heads > 1 ? 2 * b.kv : 0) + b.out
           + 2 * b.lse;
}
