/* rows.c - exchanges of rows between ranks: see rows.h */
#include "step/rows.h"

#include <assert.h>

void step_exchange(struct step *s, const char *what,
                   const struct comm_part *send,
                   const struct comm_part *recv)
{
    if (s->comm == NULL || s->rc != ERR_OK) return;
    s->rc = s->comm->ops->all_to_all(s->comm, s->dev, what, send, recv, s->e);
}

void step_parts(const struct step *s, struct mat m, const int64_t *first,
                struct comm_part *parts)
{
    int64_t r;

    for (r = 0; r < s->cp; r++) {
        int64_t n = first[r + 1] - first[r];

        parts[r].p = mat_rows(m, first[r], n).p;
        parts[r].bytes = n * m.cols * dtype_bytes(m.t);
    }
}

void step_upload(struct step *s, struct mat dst, const void *src)
{
    int64_t bytes = dst.rows * dst.cols * dtype_bytes(dst.t);

    if (s->k == NULL || bytes == 0 || s->rc != ERR_OK) return;
    s->rc = s->dev->ops->upload(s->dev, dst.p, src, (size_t)bytes, s->e);
}

/* Ranges by peer counted in rows: out[r] rows lie before those of rank r,
** out has cp + 1 entries. */
static void row_counts(const struct step *s, const struct range *range,
                       const int64_t *first, int64_t *out)
{
    int64_t r, i;

    out[0] = 0;
    for (r = 0; r < s->cp; r++) {
        out[r + 1] = out[r];
        for (i = first[r]; i < first[r + 1]; i++) out[r + 1] += range[i].len;
    }
}

static void convert_exchange(struct step *s, const struct exchange *x,
                             struct mat send, struct mat recv)
{
    struct comm_part out[PLAN_MAX_RANKS], in[PLAN_MAX_RANKS];
    int64_t first[PLAN_MAX_RANKS + 1];

    if (s->comm == NULL) return;
    row_counts(s, x->send, x->send_first, first);
    step_parts(s, send, first, out);
    row_counts(s, x->recv, x->recv_first, first);
    step_parts(s, recv, first, in);
    step_exchange(s, "layout conversion", out, in);
}

struct tensor rows_convert(struct step *s, enum category c, const char *op,
                           struct mat x, enum layer_kind to)
{
    const struct exchange *e = to == LAYER_GDN ? &s->rp->to_gdn
                                               : &s->rp->to_attention;
    int64_t rows = step_rows(s, to) / s->tp;
    struct tensor send, recv, out;

    assert(x.rows == step_rows(s, to == LAYER_GDN ? LAYER_ATTENTION
                                                  : LAYER_GDN) / s->tp);
    send = ten_act(s, c, op, x.rows, x.cols);
    RUN(s, gather, .out = send.m, .x = x, .r = e->send,
        .n = e->send_first[s->cp]);
    recv = ten_act(s, c, op, rows, x.cols);
    convert_exchange(s, e, send.m, recv.m);
    ten_free(s, &send);
    out = ten_act(s, c, op, rows, x.cols);
    RUN(s, scatter, .out = out.m, .x = recv.m, .r = e->recv,
        .n = e->recv_first[s->cp]);
    ten_free(s, &recv);
    return out;
}

struct tensor tp_gather(struct step *s, enum category c, const char *op,
                        struct mat x)
{
    return ten_act(s, c, op, x.rows * s->tp, x.cols);
}

void tp_scatter(struct step *s, enum category c, const char *op,
                struct tensor *x)
{
    struct tensor part = ten_act(s, c, op, x->m.rows / s->tp, x->m.cols);

    ten_free(s, x);
    *x = part;
}
