/*
** internal.h - what the files of the step share: tensors, weights, adapters
** and the state of one rank.
**
** Errors are sticky. A failed allocation or kernel sets s->rc (and *s->e);
** from then on allocations return empty tensors and kernels are skipped, so
** the layer code reads straight down and the wave checks once. Nothing is
** unwound on failure: the allocator's owner returns every segment at once.
**
** A tensor is freed by ten_free after its last use, in the order in which
** the traced framework lets go of it: saved tensors when their own backward
** operator has run, temporaries when the expression that made them ends.
*/
#ifndef STEP_INTERNAL_H
#define STEP_INTERNAL_H

#include "step/step.h"

/* ---- tensors (tensor.c) ------------------------------------------------- */

/* A block of the rank's allocator seen as a matrix. Empty: b NULL, m.p NULL
** (also for zero rows). */
struct tensor {
    struct mem_block *b;
    struct mat m;
};

struct step;

/* Uninitialised [rows, cols] in the activation type, the accumulator type,
** or the given one. op is a static string and names the operator. */
struct tensor ten_act(struct step *s, enum category c, const char *op,
                      int64_t rows, int64_t cols);
struct tensor ten_acc(struct step *s, enum category c, const char *op,
                      int64_t rows, int64_t cols);
struct tensor ten_of(struct step *s, enum category c, const char *op,
                     int64_t rows, int64_t cols, enum dtype t);
void ten_free(struct step *s, struct tensor *t);
/* Columns [first, first + n) of every row. */
struct mat mat_cols(struct mat m, int64_t first, int64_t n);
/* Rows [first, first + n). */
struct mat mat_rows(struct mat m, int64_t first, int64_t n);
/* The same elements with other rows and columns; m must be packed. */
struct mat mat_shape(struct mat m, int64_t rows, int64_t cols);

/* Runs a kernel on devices that compute: RUN(s, add, .out = y, ...). */
#define RUN(s, name, ...)                                                     \
    do {                                                                      \
        if ((s)->k != NULL && (s)->rc == ERR_OK)                              \
            (s)->rc = (s)->k->name((s)->dev, &(struct k_##name){__VA_ARGS__}, \
                                   (s)->e);                                   \
    } while (0)

/* ---- weights and adapters (weights.c) ----------------------------------- */

enum weight {
    W_NORM1, W_NORM2,
    W_Q, W_K, W_V, W_O, W_Q_NORM, W_K_NORM,
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

/* ---- the rank's state --------------------------------------------------- */

/* GEMM workspaces, taken at first use and kept: 32 MiB + 1 KiB for plain
** GEMMs, the same four times for grouped streams, 32 MiB for the general
** BLAS handle (router, adapters, head). */
enum workspace { WS_PLAIN, WS_GROUPED, WS_BLAS, WS_COUNT };

/* The routed part's host side, one layer at a time (moe_route.c). */
struct moe_route {
    int64_t *counts;            /* [ep][experts] pairs rank r sends to e */
    int64_t *own;               /* [experts] of this rank; apart, because the
                                   others read it while counts is written */
    int64_t *offset;            /* [local experts + 1] rows per own expert */
    struct range *block;        /* [local experts * ep] received rows, in the
                                   order (expert, source) */
    int64_t *forced;            /* host copy of replayed routes; may be NULL */
    int64_t received;           /* pairs on this rank */
};

struct step {
    struct step_config c;       /* copy */
    const struct model *m;
    const struct rank_plan *rp; /* of this rank */
    struct dev *dev;
    const struct kernels *k;    /* NULL on dry */
    struct mem *mem;
    struct comm *comm;          /* NULL on dry and for a single rank */
    int64_t cp;
    int64_t local_experts;
    double lora_scale;          /* alpha / r */
    int64_t lora_pad;           /* e = max(8, r): rank of expert tensors */

    struct layer_weights *lw;   /* [layers] */
    struct tensor embedding, head, final_norm;
    struct tensor rotary;       /* angles, made in the first wave, kept */
    struct tensor ws[WS_COUNT][4];

    /* current place, for tags */
    enum mem_phase phase;
    int64_t layer, wave;
    int64_t adam_step;          /* taken so far */

    /* Inputs of the wave on attention rows, for as long as it runs: i32 ids
    ** and positions [rows]; of the labelled rows i32 target and f32
    ** loss_weight; f64 loss [1]. */
    struct tensor ids, positions, target, loss_weight, loss;
    const struct step_data *data;
    struct range *label;        /* labelled attention rows; computing only */
    int64_t n_label;
    struct range *label_part;   /* [n_label] those of one chunk */

    /* Boundaries of the wave [layers + 1]; the last is the head's input. */
    struct tensor *boundary;
    struct executor *exec;      /* executor.h */

    /* dispatch buffers outside the allocator, grow only (dispatch.c) */
    uint64_t hybridep_addr, hybridep_bytes;
    struct moe_route route;

    struct gdn_flow *flow;      /* how GDN states move; gdn_flow.c */
    int64_t *received;          /* [layers] pairs received this wave */
    int64_t *sent;              /* [layers][experts] pairs routed, likewise;
                                   computing devices */
    int64_t records_bytes;
    enum err_code rc;
    struct err *e;
};

/* Rows of this rank in a layout. */
static inline int64_t step_rows(const struct step *s, enum layer_kind layout)
{
    return layout == LAYER_GDN ? s->rp->gdn_rows : s->rp->attention_rows;
}
static inline struct mat weight_of(const struct step *s, enum weight w)
{
    return s->lw[s->layer].w[w].m;
}
static inline struct adapter *adapter_of(struct step *s, enum site site)
{
    return &s->lw[s->layer].site[site];
}

int weights_new(struct step *s);        /* baseline: base, LoRA, moments */
/* The first contents of a parameter, on devices that compute: numbers of the
** generator (weights_fill.c), or a checkpoint's (weights_load.c; base only).
** weights_name makes a tensor's full name, layer -1 outside the decoder. */
void weights_fill(struct step *s, const struct param *p, struct mat x);
void weights_load(struct step *s, const struct param *p, struct mat x);
void weights_name(const struct step *s, int64_t layer, const char *tensor,
                  char *out, size_t cap);
void workspace_use(struct step *s, enum workspace w);
/* The gradient tensors of an adapter; allocated at the first call. */
void adapter_gradients(struct step *s, struct adapter *a);
void adapters_zero(struct step *s);     /* between waves */
void adapters_reduce(struct step *s);   /* sums over ranks, end of a wave */
void adapters_update(struct step *s, int64_t adam_step);

/* ---- adapted linear layers (linear.c) ----------------------------------- */

/* One projection of a joined group: weight, adapter site (SITE_COUNT: none)
** and its columns in the joined output. */
struct projection {
    enum weight w;
    enum site site;
    int64_t out;
};
#define PROJECTIONS 4

/* sum = x W^T + scale (x A^T) B^T for n projections of one input, outputs
** side by side. Returns [rows, sum of out]. h[i] receives x A^T (kept for
** backward) or is freed when h is NULL. Temporaries as traced: base, adapter
** outputs, scaled, their join. */
struct tensor linear_forward(struct step *s, enum category c, const char *op,
                             struct mat x, const struct projection *p, int n,
                             struct tensor *h);
/* dx [rows, in] of such a group; adapters first (gradients appear), then
** the frozen base, sums in place. h is freed. */
struct tensor linear_backward(struct step *s, enum category c, const char *op,
                              struct mat dy, struct mat x,
                              const struct projection *p, int n,
                              struct tensor *h);

/* ---- layout conversion and exchanges (rows.c) --------------------------- */

/* One collective exchange of all ranks: send[r] goes to rank r. Nothing on
** devices that compute nothing. what names it in errors. */
void step_exchange(struct step *s, const char *what,
                   const struct comm_part *send,
                   const struct comm_part *recv);
/* Rows first[r] to first[r + 1] of a packed matrix for every rank r, as the
** parts of an exchange; parts [cp]. */
void step_parts(const struct step *s, struct mat m, const int64_t *first,
                struct comm_part *parts);
/* Copies host data to the device; bytes of 0 and dry devices do nothing. */
void step_upload(struct step *s, struct mat dst, const void *src);

/* Rows of x from the layout it is in to the other one: [rows of the target
** layout, cols]. Send and receive buffers hold all rows, own ones too. The
** inverse conversion is also the backward. */
struct tensor rows_convert(struct step *s, enum category c, const char *op,
                           struct mat x, enum layer_kind to);

/* ---- mixers and MLP ----------------------------------------------------- */

/* What a recomputed mixer or MLP keeps for its backward. */
struct attention_saved;
struct gdn_saved;
struct mlp_saved;

/* Mixer of the current layer on normed rows n [T, H]: returns [T, H].
** saved NULL: nothing is kept. The backward takes the gradient of the
** output, frees what was saved and *n when it is done with them, and returns
** the gradient of n. */
struct tensor attention_forward(struct step *s, struct mat n,
                                struct attention_saved *saved);
struct tensor attention_backward(struct step *s, struct attention_saved *saved,
                                 struct tensor *n, struct mat dout);
struct tensor gdn_forward(struct step *s, struct mat n,
                          struct gdn_saved *saved);
struct tensor gdn_backward(struct step *s, struct gdn_saved *saved,
                           struct tensor *n, struct mat dout);
/* MoE with shared expert, or the dense MLP of dense members. */
struct tensor mlp_forward(struct step *s, struct mat n,
                          struct mlp_saved *saved);
struct tensor mlp_backward(struct step *s, struct mlp_saved *saved,
                           struct tensor *n, struct mat dout);

struct attention_saved {
    struct tensor joined;       /* q|gate interleaved, k, v; v is used here */
    struct tensor q, k;         /* inputs of the head norms */
    struct tensor q_rstd, k_rstd;
    struct tensor gate;
    struct tensor q_rot, k_rot;
    struct tensor out, gated;
    struct tensor h[PROJECTIONS], h_out;
};  /* and the executor's stage records, one layer's at a time, in s->exec */

struct gdn_saved {
    struct tensor m;            /* q|k|v before the convolution */
    struct tensor z, a;
    struct tensor qn, kn, v;    /* normed and repeated q, k; v */
    struct tensor q_rnorm, k_rnorm;
    struct tensor g, beta, g_cum, x;
    struct tensor o, o_rstd, normed, gated;
    struct tensor states, halo;
    struct tensor h[PROJECTIONS], h_out;
};

/* Padded copies of one expert adapter (r < 8), kept for its backward. */
struct expert_pad { struct tensor a, b; };

struct mlp_saved {
    struct tensor scores, map, idx, weight;     /* router */
    struct tensor row_map;      /* holds the row and slot arrays */
    int32_t *row, *slot;        /* device, within row_map */
    int64_t pairs;              /* received on this rank */
    struct tensor permuted;     /* ep 1, until the MoE forward returns */
    struct tensor sorted, weight_permuted, weight_sorted;
    struct tensor fc1, act, h1, h2;
    struct expert_pad pad1, pad2;
    /* shared expert, or the dense MLP */
    struct tensor s_fc1, s_act, s_pre, s_logit, s_h[PROJECTIONS], s_h_down;
};

/* ---- the MoE's parts ---------------------------------------------------- */

int moe_route_new(struct step *s);          /* host arrays; moe_route.c */
void moe_route_free(struct step *s);
/* Router and sort: who gets which pairs. Fills the router's part of v and
** s->route. */
void moe_route(struct step *s, struct mat n, struct mlp_saved *v);
/* Gradient of the router's input from the pairs' weight gradients, added to
** dn; frees the router's part of v. dweight [T, K] acc is freed. */
void moe_route_backward(struct step *s, struct mlp_saved *v,
                        struct tensor *dweight, struct mat dn);

/* Rows to their experts: v->sorted and v->weight_sorted (dispatch.c). */
void dispatch_forward(struct step *s, struct mat n, struct mlp_saved *v);
/* And back: [T, H], the sum over each token's pairs; frees *y. */
struct tensor combine_forward(struct step *s, struct mlp_saved *v,
                              struct tensor *y);
/* Gradient of the combine: [pairs, H] in expert order. */
struct tensor combine_backward(struct step *s, struct mlp_saved *v,
                               struct mat dy);
/* Gradient of the dispatch: [T, H] from d_sorted, freed; the pair weights'
** gradients [pairs, 1] acc, freed, come back as [T, K]. */
struct tensor dispatch_backward(struct step *s, struct mlp_saved *v,
                                struct tensor *d_sorted,
                                struct tensor *d_pair,
                                struct tensor *dweight);
void dispatch_free(struct step *s);

/* Grouped FC1, SwiGLU and FC2 with adapters on v->sorted: [pairs, H]
** (experts.c). The backward frees *dy and what was saved, v->sorted and the
** weights included. */
struct tensor experts_forward(struct step *s, struct mlp_saved *v, bool save);
struct tensor experts_backward(struct step *s, struct mlp_saved *v,
                               struct tensor *dy, struct tensor *d_pair);

/* Shared expert, or the dense MLP (shared.c): [T, H]. The backward returns
** the gradient of n. */
struct tensor shared_forward(struct step *s, struct mat n,
                             struct mlp_saved *v, bool save);
struct tensor shared_backward(struct step *s, struct mlp_saved *v,
                              struct mat n, struct mat dy);

/* ---- layers and head (layer.c, head.c) ---------------------------------- */

/* What a recomputed layer keeps, beside its boundary. */
struct layer_saved {
    struct tensor entry;        /* GDN rows at an island's entry, else empty */
    struct tensor n1, n1_rstd, x1, n2, n2_rstd;
    struct attention_saved attention;
    struct gdn_saved gdn;
    struct mlp_saved mlp;
    struct tensor y;            /* the recomputed output */
};

/* The current layer on its boundary x: the next boundary, or the head's
** input after the last layer. Nothing is kept. */
struct tensor layer_forward(struct step *s, struct mat x);
/* The same, keeping what the backward needs. */
void layer_recompute(struct step *s, struct mat x, struct layer_saved *l);
/* Gradient of x from the gradient of the output; frees what l holds and dy
** when done with them. */
struct tensor layer_backward(struct step *s, struct mat x,
                             struct layer_saved *l, struct tensor *dy);

/* The wave's inputs (inputs.c). */
void inputs_make(struct step *s);
void inputs_free(struct step *s);

/* Final norm, logits and loss of the labelled rows in chunks, and back: the
** gradient of x, which is freed. Loss is added to s->loss. */
struct tensor head_run(struct step *s, struct tensor *x);

/* How many states a rank holds, and which crosses where (gdn_flow.c). */
int gdn_flow_new(struct step *s);
void gdn_flow_free(struct gdn_flow *f);

#endif
