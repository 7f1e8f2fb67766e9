/*
** head.c - final norm, logits, loss and their backward, in chunks of 512
** labelled rows (model.md 2.5, 3.16).
**
** A row with several labels is a labelled row once for each; its gradients
** add up. A chunk holds three buffers of logits' size, as the traced
** framework's backward does: the logits, the gradient that the loss sends
** into them, and the dense gradient that indexing the picked logits sends
** back. Ours comes whole from one kernel, so the third is held and not
** written. Everything is freed before the first layer is recomputed.
*/
#include "base/num.h"
#include "step/dump.h"
#include "step/layers.h"

#define HEAD_CHUNK 512

/* Where the next chunk's labelled rows begin. */
struct cursor { int64_t range, used; };

/* The next n labelled rows as ranges of attention rows in s->label_part;
** returns how many ranges. */
static int64_t label_next(struct step *s, struct cursor *c, int64_t n)
{
    int64_t parts = 0;

    while (n > 0 && c->range < s->n_label) {
        struct range r = s->label[c->range];
        int64_t len = num_min(n, r.len - c->used);

        s->label_part[parts++] = (struct range){r.start + c->used, len};
        n -= len;
        c->used += len;
        if (c->used < r.len) continue;
        c->range++;
        c->used = 0;
    }
    return parts;
}

static int64_t label_count(const struct step *s)
{
    return s->c.head_rows + s->c.more_labels;
}

static bool every_row_once(const struct step *s, int64_t rows)
{
    return s->c.head_rows == rows && s->c.more_labels == 0;
}

/* Loss and gradient of n labelled rows x [n, H], already gathered: dx
** [n, H]. */
static void chunk_loss(struct step *s, struct mat x, struct mat dx,
                       int64_t first)
{
    struct mat w = s->m->tied ? s->embedding.m : s->head.m;
    int64_t n = x.rows, v = s->m->vocab;
    struct tensor logits, dlogits, index;

    if (!(s->c.mode.otherwise & OTHERWISE_BLAS_LATE))
        workspace_use(s, WS_BLAS);
    logits = ten_act(s, CAT_HEAD, "head.logits", n, v);
    RUN(s, gemm, .c = logits.m, .a = x, .b = w, .trans_b = true, .alpha = 1);
    dump_logits(s, logits.m, first);
    dlogits = ten_act(s, CAT_HEAD, "head.loss_gradient", n, v);
    index = ten_act(s, CAT_HEAD, "head.index_gradient", n, v);
    RUN(s, cross_entropy, .dlogits = dlogits.m, .logits = logits.m,
        .target = mat_rows(s->target.m, first, n).p,
        .weight = mat_rows(s->loss_weight.m, first, n).p,
        .loss_sum = s->loss.m.p);
    ten_free(s, &index);
    ten_free(s, &logits);
    RUN(s, gemm, .c = dx, .a = dlogits.m, .b = w, .alpha = 1);
    ten_free(s, &dlogits);
}

/* The chunk from labelled row first on of the normed rows x; dx takes the
** gradients of its rows. */
static void chunk_run(struct step *s, struct mat x, struct mat dx,
                      int64_t first, struct cursor *c)
{
    int64_t n = num_min(HEAD_CHUNK, label_count(s) - first);
    bool all = every_row_once(s, x.rows);
    int64_t parts = label_next(s, c, n);
    struct tensor rows = {NULL, {0}}, d;

    if (all) {
        rows.m = mat_rows(x, first, n);
    } else {
        rows = ten_act(s, CAT_HEAD, "head.rows", n, x.cols);
        RUN(s, gather, .out = rows.m, .x = x, .r = s->label_part, .n = parts);
    }
    d = ten_act(s, CAT_HEAD, "head.rows_bwd", n, x.cols);
    chunk_loss(s, rows.m, d.m, first);
    RUN(s, scatter, .out = dx, .x = d.m, .r = s->label_part, .n = parts,
        .add = s->c.more_labels > 0);
    ten_free(s, &d);
    ten_free(s, &rows);
}

struct tensor head_run(struct step *s, struct tensor *x)
{
    struct norm_saved n = {{NULL, {0}}, {NULL, {0}}, {NULL, {0}}};
    struct cursor c = {0, 0};
    struct tensor dn, dx;
    int64_t rows, first;

    norm_forward(s, CAT_HEAD, "head.norm", x->m, s->final_norm.m, true, &n);
    rows = n.out.m.rows;
    dn = ten_act(s, CAT_HEAD, "head.norm_gradient", rows, x->m.cols);
    if (!every_row_once(s, rows)) RUN(s, fill, .x = dn.m, .value = 0);
    for (first = 0; first < label_count(s); first += HEAD_CHUNK)
        chunk_run(s, n.out.m, dn.m, first, &c);
    ten_free(s, &n.out);
    dx = norm_backward(s, "head.norm_bwd", &dn, x->m, s->final_norm.m, &n);
    ten_free(s, x);
    return dx;
}
