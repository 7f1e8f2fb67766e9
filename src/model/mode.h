/*
** mode.h - how a step runs a model: what its backward recomputes, what a wave
** is made of, over how many tensor-parallel ranks.
**
** The zero value is the traced executor's: full recompute, one layer at a
** time, one rank, a training wave.
*/
#ifndef MODEL_MODE_H
#define MODEL_MODE_H

#include "model/model.h"

/* What a layer keeps for its backward: nothing but its input, all that its
** operators save, or all less what the modules below save inside. */
enum recompute {
    RECOMPUTE_FULL, RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_COUNT
};

/* Modules of selective recompute; a set of them is a sum. */
enum {
    MODULE_CORE_ATTN = 1,   /* scores and their sum: keeps q, k, v, output */
    MODULE_MLP = 2,         /* a dense MLP with its norm: keeps its input */
    MODULE_MOE = 4          /* a mixture of experts behind its norm, of which
                               input and output stay */
};

/* Labels, logits and their loss; or forward to the hidden states of every
** sequence, which the caller holds; or these with the mean of their squares
** as the loss, and backward. */
enum wave_kind { WAVE_TRAIN, WAVE_HIDDEN, WAVE_HIDDEN_LOSS, WAVE_COUNT };

/* Choices made the other way, so that a report can show what that changes:
** first those that measured peaks decide between; on the dry device alone. A
** set of them is a sum. */
enum {
    OTHERWISE_NORM_FREED = 1,   /* a norm's local output goes after the base
                                   product: nothing asks to return it */
    OTHERWISE_V_COPIED = 2,     /* v is no view of the joined projection */
    OTHERWISE_FUSED = 4,        /* SwiGLU of eager attention models and of
                                   eager experts too */
    /* and those that no measured peak decides, for mixtures of experts */
    OTHERWISE_AUTOGRAD = 8,     /* the differentiating thread's own 32 MiB
                                   BLAS workspace from the first backward on */
    OTHERWISE_ROUNDED = 16,     /* blocks are requests rounded to 512 B, as
                                   with expandable segments */
    OTHERWISE_TABLE_LATE = 32,  /* the rotary table is not there in the head */
    OTHERWISE_BLAS_LATE = 64,   /* nor is the BLAS workspace */
    OTHERWISE_WIDE_LAST = 128,  /* three hidden-wide tensors are alive in the
                                   last layer's backward */
    OTHERWISE_ROUTER_STATE = 256,   /* each layer keeps its router's map and
                                   choices from forward to backward */
    /* further ones that measured peaks decide, over tensor-parallel ranks */
    OTHERWISE_QKV_SLICED = 512, /* of a gathered joined projection each rank
                                   keeps a copy of its columns */
    OTHERWISE_EMBEDDING_WHOLE = 1024,   /* the embedding's output stands whole
                                   before a rank has its share */
    OTHERWISE_ADAPTER_SCALED = 2048,    /* a compiled row-parallel adapter's
                                   scale makes a copy, as an eager one's */
    OTHERWISE_RESIDUAL_FUSED = 4096,    /* a compiled row-parallel sum is one
                                   kernel with the residual's */
    OTHERWISE_WEIGHTS_APART = 8192  /* q, k and v and the like are no joined
                                   weight, but a block each */
};

struct mode {
    int64_t tp;             /* tensor-parallel ranks; 0 is 1 */
    enum recompute recompute;
    unsigned modules;       /* selective: a set of MODULE_* */
    bool no_grad;           /* forward alone, nothing kept */
    bool eager;             /* operators that a compiler fuses stay apart */
    enum wave_kind wave;
    unsigned otherwise;     /* a set of OTHERWISE_* */
};

#define MODE_MAX_TP 64

/* What a pass over a layer keeps. core goes with mixer; the sum behind the
** mixer is kept when mixer is. */
struct mode_keep { bool mixer, core, mlp; };
/* What the forward keeps: nothing of full recompute and without gradients,
** everything of none. The passes that run again keep all. */
struct mode_keep mode_keep(const struct mode *o);

static inline int64_t mode_tp(const struct mode *o)
{
    return o->tp > 0 ? o->tp : 1;
}

/* The words of scenarios and records: "full", "core_attn+mlp",
** "hidden-loss". Lists end with NULL and go by the enum's values, modules by
** bit. out of mode_modules holds MODE_MODULES_SIZE bytes; "" for none. */
extern const char *const mode_recompute_words[];
extern const char *const mode_module_words[];
extern const char *const mode_wave_words[];
extern const char *const mode_otherwise_words[];
#define MODE_MODULES_SIZE 192
void mode_modules(unsigned modules, char out[MODE_MODULES_SIZE]);
void mode_otherwise(unsigned otherwise, char out[MODE_MODULES_SIZE]);

/* Refuses what cannot be of this model (ERR_INPUT naming the key): modules
** without selective recompute or selective without any, moe of a dense model
** and mlp of one with experts alone, a tp that divides neither heads nor
** widths, a loss without gradients. */
int mode_check(const struct mode *o, const struct model *m, struct err *e)
    MUST_CHECK;

#endif
