/*
** wave.c - one wave: embedding, layers forward, head, layers recomputed and
** backward from the last to the first, gradients summed over ranks.
*/
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "step/layers.h"
#include "step/weights.h"

/* A boundary a layer; without gradients the one before goes at once. */
static void forward(struct step *s)
{
    struct mode_keep keep = mode_keep(&s->c.mode);
    struct tensor whole;
    int64_t l;

    s->phase = PHASE_FORWARD;
    s->layer = -1;
    whole = otherwise_embedding(s);
    s->boundary[0] = ten_act(s, CAT_BOUNDARIES, "embedding",
                             step_rows(s, LAYER_ATTENTION) / s->tp,
                             s->m->hidden);
    RUN(s, embed, .out = s->boundary[0].m, .table = s->embedding.m,
        .ids = s->ids.m.p);
    ten_free(s, &whole);
    for (l = 0; l < s->m->layers && s->rc == ERR_OK; l++) {
        s->layer = l;
        s->saved[l] = (struct layer_saved){.entry = {NULL, {0}}};
        if (s->c.stream) weights_layer(s);
        s->boundary[l + 1] = layer_forward(s, s->boundary[l].m, &s->saved[l],
                                           keep);
        if (s->c.stream) weights_layer_drop(s);
        otherwise_forward(s, &s->saved[l]);
        if (s->c.mode.no_grad) ten_free(s, &s->boundary[l]);
    }
    s->layer = -1;
    if (s->hidden != NULL) hidden_forward(s, &s->boundary[s->m->layers]);
}

/* The loss and its gradient in the last layer's output. */
static struct tensor head(struct step *s, double *loss)
{
    struct tensor *x = &s->boundary[s->m->layers], dx;

    s->phase = PHASE_HEAD;
    otherwise_head(s);
    dx = s->hidden != NULL ? hidden_loss(s, x, loss) : head_run(s, x);
    otherwise_headed(s);
    return dx;
}

static void backward(struct step *s, struct tensor dy)
{
    int64_t l;

    otherwise_backward(s);
    for (l = s->m->layers - 1; l >= 0 && s->rc == ERR_OK; l--) {
        struct tensor *x = &s->boundary[l];

        s->layer = l;
        s->phase = PHASE_RECOMPUTE;
        layer_restore(s, x->m, &s->saved[l]);
        s->phase = PHASE_BACKWARD;
        dy = layer_backward(s, x->m, &s->saved[l], &dy);
        otherwise_done(s, &s->saved[l]);
        ten_free(s, x);
    }
    s->layer = -1;
    ten_free(s, &dy);
}

/* What a forward without a backward has kept. */
static void drop(struct step *s)
{
    int64_t l;

    for (l = 0; l < s->m->layers; l++) {
        s->layer = l;
        layer_drop(s, &s->saved[l]);
    }
    s->layer = -1;
    for (l = 0; l <= s->m->layers; l++) ten_free(s, &s->boundary[l]);
}

/* Sums over ranks, the optimizer's step, the loss on the host. */
static void finish(struct step *s, double *loss)
{
    s->phase = PHASE_OPTIMIZER;
    adapters_reduce(s);
    if (s->hidden != NULL) return;
    if (s->comm != NULL && s->rc == ERR_OK)
        s->rc = s->comm->ops->all_reduce(s->comm, s->dev, "loss", s->loss.m, 1,
                                         s->e);
    if (s->k != NULL && s->rc == ERR_OK)
        s->rc = s->dev->ops->download(s->dev, loss, s->loss.m.p,
                                      sizeof *loss, s->e);
    if (s->c.learning_rate > 0) adapters_update(s, ++s->adam_step);
}

static void wave_result(struct step *s, struct step_result *out)
{
    int64_t l;

    mem_peak(s->mem, &out->peak);
    out->received = s->received;
    out->sent = s->sent;
    for (l = 0; l < s->m->layers; l++)
        if (s->received[l] > out->received_max)
            out->received_max = s->received[l];
    out->records_bytes = s->records_bytes;
    out->hybridep_bytes = s->hybridep_traced;
    out->found = s->found;
}

static uint64_t allocated(const struct step *s)
{
    struct mem_stats now;

    mem_stats(s->mem, &now);
    return now.allocated;
}

static int check_data(const struct step *s, const struct step_data *data,
                      struct err *e)
{
    if (s->k == NULL || data != NULL) return ERR_OK;
    return err_set(e, ERR_INPUT, "batch: a device that computes needs tokens "
                   "(use --device dry for sizes alone)");
}

/* Dispatch buffers take the device's memory too, outside the allocator whose
** bytes the error tells. */
static void tell_buffers(struct step *s)
{
    size_t n = s->e != NULL ? strlen(s->e->text) : 0;

    if (s->e == NULL || s->hybridep_bytes == 0) return;
    snprintf(s->e->text + n, sizeof s->e->text - n, "; dispatch buffers beside "
             "the allocator hold %llu B",
             (unsigned long long)s->hybridep_bytes);
}

int step_wave(struct step *s, int64_t wave, const struct step_data *data,
              struct step_result *out, struct err *e)
{
    assert(wave >= 0);
    *out = (struct step_result){0};
    s->e = e;
    s->rc = check_data(s, data, e);
    s->wave = wave;
    s->data = data;
    s->phase = PHASE_FORWARD;
    s->watching = s->watch != NULL && wave >= s->c.watch_from &&
                  s->found.kernel == NULL;
    /* the measuring program begins without gradients and cached segments */
    if (s->hidden != NULL) {
        adapters_drop(s);
        mem_empty_cache(s->mem);
    }
    mem_mark_peak(s->mem);
    out->start_bytes = allocated(s);
    inputs_make(s);
    if (s->rc == ERR_OK) forward(s);
    out->retained_bytes = (int64_t)(allocated(s) - out->start_bytes);
    if (s->c.mode.wave == WAVE_HIDDEN) {
        drop(s);
    } else {
        if (s->rc == ERR_OK) backward(s, head(s, &out->loss));
        if (s->rc == ERR_OK) finish(s, &out->loss);
    }
    if (s->rc == ERR_OOM) tell_buffers(s);
    if (s->rc != ERR_OK && s->comm != NULL)
        s->comm->ops->abort(s->comm, e != NULL ? e->text : "failed");
    if (s->rc != ERR_OK) return s->rc;
    if (s->hidden != NULL) hidden_drop(s);
    inputs_free(s);
    s->phase = PHASE_NONE;
    wave_result(s, out);
    return ERR_OK;
}
