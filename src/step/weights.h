/*
** weights.h - base weights, adapters, GEMM workspaces: what a rank holds
** between waves.
*/
#ifndef STEP_WEIGHTS_H
#define STEP_WEIGHTS_H

#include "step/tensor.h"

enum weight {
    W_NORM1, W_NORM2,
    W_Q, W_K, W_V, W_O, W_Q_BIAS, W_K_BIAS, W_V_BIAS, W_Q_NORM, W_K_NORM,
    W_QKV, W_Z, W_B, W_A, W_CONV, W_A_LOG, W_DT_BIAS, W_GDN_NORM, W_GDN_OUT,
    W_ROUTER, W_EXPERT_UP, W_EXPERT_DOWN,
    W_SHARED_GATE, W_SHARED_UP, W_SHARED_DOWN, W_SHARED_SIGMA,
    W_MLP_GATE, W_MLP_UP, W_MLP_DOWN,
    W_COUNT
};

/* One adapter: A and B, their gradients (empty until a backward reaches
** them, then kept, zeroed between waves) and Adam's moments. */
struct adapter {
    struct tensor a, b;
    struct tensor grad_a, grad_b;
    struct tensor moment[4];    /* m, v of A; m, v of B; may be empty */
    bool grad_fresh;            /* allocated in this wave: write, not add */
};

struct layer_weights {
    struct tensor w[W_COUNT];
    struct adapter site[SITE_COUNT];
};

/* GEMM workspaces, taken at first use and kept: 32 MiB + 1 KiB for plain
** GEMMs, the same four times for grouped streams, 32 MiB for the general
** BLAS handle (router, adapters, head), and again for the one of the thread
** that runs the backward. */
enum workspace { WS_PLAIN, WS_GROUPED, WS_BLAS, WS_AUTOGRAD, WS_COUNT };

int weights_new(struct step *s);        /* baseline: base, LoRA, moments */
/* The first contents of a parameter, on devices that compute: numbers of the
** generator (weights_fill.c), or a checkpoint's (weights_load.c; base only).
** weights_name makes a tensor's full name, layer -1 outside the decoder. */
void weights_fill(struct step *s, const struct param *p, struct mat x);
void weights_load(struct step *s, const struct param *p, struct mat x);
/* An adapter tensor or a moment of one, from s->c.adapters (adapters.c). */
void adapters_load(struct step *s, const struct param *p,
                   enum peft_part part, struct mat x);
void weights_name(const struct step *s, int64_t layer, const char *tensor,
                  char *out, size_t cap);
void workspace_use(struct step *s, enum workspace w);
/* The gradient tensors of an adapter; allocated at the first call. */
void adapter_gradients(struct step *s, struct adapter *a);
void adapters_zero(struct step *s);     /* between waves */
void adapters_drop(struct step *s);     /* or let go of them */
void adapters_reduce(struct step *s);   /* sums over ranks, end of a wave */
void adapters_update(struct step *s, int64_t adam_step);

#endif
