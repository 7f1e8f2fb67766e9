/*
** step.h - one rank's training step: forward, loss, recomputing backward.
**
** The step is one program over a table of kernels (dev/kernel.h). It takes
** every tensor from its rank's allocator, names category, phase, layer and
** operator, and frees it after its last use; on a device that computes it
** also runs the kernels. It reads geometry, plan and parameter list, and
** never an estimate.
*/
#ifndef STEP_STEP_H
#define STEP_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include "dev/dev.h"
#include "mem/mem.h"
#include "model/checkpoint.h"
#include "model/init.h"
#include "model/mode.h"
#include "model/model.h"
#include "model/param.h"
#include "model/peft.h"
#include "plan/plan.h"
#include "batch/routing.h"

/* One more target of a row that has one: where a prefix forks, each of the
** tokens that follow it. */
struct step_label { int64_t row; int32_t target; double weight; };

/* What the rank is given to train on; computing devices only. */
struct step_data {
    const int32_t *ids;     /* [tokens] of the packed row */
    const int32_t *target;  /* [tokens] next token, -1 unlabelled */
    const double *weight;   /* [tokens] loss weights, normaliser inside */
    const int64_t *forced;  /* [layers][tokens][top_k] or NULL: replayed
                               routes */
    const struct step_label *more;  /* [n_more], rows ascending */
    int64_t n_more;
};

struct step_config {
    const struct model *model;
    const struct plan *plan;
    int64_t rank;           /* context-parallel rank */
    int64_t ep;             /* divides the plan's cp x tp: groups of ep ranks
                               in a row, tensor-parallel ones first, share
                               the experts among them */
    int64_t pp;             /* pipeline stages: 0 and 1 are what runs */
    struct mode mode;
    int64_t lora_rank;      /* 0: no adapters */
    double lora_alpha;      /* scale is alpha / r; 32 upstream */
    int64_t head_rows;      /* labelled rows on this rank (sizes only), */
    int64_t more_labels;    /* and further labels of theirs */
    int64_t q_block, k_block;   /* flex blocks: 128, 64 on H200 */
    const struct routing *routing;  /* devices without a router */
    uint64_t seed;          /* of random weights and adapters, */
    enum weight_init init;  /* and how they are drawn */
    bool stream;            /* a layer's weights exist while it runs, and none
                               of the head: a forward to hidden states without
                               gradients, in the memory of one layer */
    const struct checkpoint *checkpoint;    /* base weights, or NULL */
    const struct peft *adapters;    /* adapters and Adam's moments, or NULL:
                                       random ones */
    bool dump;              /* keep step_dumped's numbers of each wave */
    const int64_t *dump_rows;   /* [n_dump_rows] packed rows whose logits it */
    int64_t n_dump_rows;        /* holds, where they have a label */
    bool watch;             /* look for values that are not finite, from wave */
    int64_t watch_from;     /* watch_from on: watch.h; memory of the host */
    double learning_rate;   /* 0: no optimizer step */
    bool optimizer;         /* hold Adam state (outside the wave) */
    const struct step_base *base;   /* on dry, in place of allocating it: what
                                       step_keep kept of a step that differs
                                       in plan, rank, rows and routing at most,
                                       with the allocator as it was then; or
                                       NULL */
};

struct step;

/* Allocates weights, adapters and optimizer state (baseline of the wave).
** What c points to, the device, the allocator and the communicator must
** outlive the step. ERR_INPUT names the key that cannot be. comm may be NULL
** on one rank and where nothing is computed. A rank that fails, here or in a
** wave, ends the other ranks' waits with its error.
**
** Recorded layouts know no senders: with two ranks the rows that a rank sends
** in a fetch wave are the other's keys; with more, every peer is taken to
** send an even share. The send buffer is gone before a layer's peak. */
int step_new(const struct step_config *c, struct dev *d, struct mem *m,
             struct comm *comm, struct step **out, struct err *e) MUST_CHECK;
/* Frees the host side and the dispatch buffers; blocks go with the allocator
** (mem_free_all), which may be gone already. NULL is fine. */
void step_free(struct step *s);

/* Weights, adapters and moments of a step that has run no wave, on dry. Their
** blocks stay the allocator's. */
int step_keep(const struct step *s, struct step_base **out, struct err *e)
    MUST_CHECK;
void step_base_free(struct step_base *b);   /* NULL is fine */

/* The first output that was found not to be finite. */
struct step_found {
    int64_t wave, run;      /* which kernel of the rank's, counted from 1 */
    int64_t layer;          /* -1: in none */
    enum mem_phase phase;
    const char *op;         /* whose output it is, as in traces */
    const char *kernel;     /* NULL: nothing was found */
};

struct step_result {
    double loss;            /* summed over ranks; 0 where nothing computes */
    struct mem_peak peak;
    uint64_t start_bytes;   /* allocated when the wave began */
    int64_t retained_bytes; /* allocated when its forward was over, outputs
                               held, less start_bytes */
    /* where the peak lies, for the report */
    int64_t received_max;   /* pairs received in the most loaded layer */
    int64_t *received;      /* [layers], owned by the step */
    const int64_t *sent;    /* [layers][experts] pairs that this rank routed
                               to each expert, owned likewise; 0 where no
                               router ran, NULL on dry */
    int64_t records_bytes;  /* requested bytes of executor records held when
                               a recomputed attention layer's returned */
    uint64_t hybridep_bytes;    /* dispatch buffers outside the allocator */
    struct step_found found;    /* so far, where c.watch */
};

/* One wave. The first of a step is cold: workspaces, the rotary table and
** adapter gradients are allocated in it and stay. Data may be NULL on dry.
** After an error the step may only be freed. */
int step_wave(struct step *s, int64_t wave, const struct step_data *data,
              struct step_result *out, struct err *e) MUST_CHECK;

/* Numbers of a rank's last wave for comparison with others. Rows are packed
** rows; of each layer the routes of its layout's rows. */
struct step_dump {
    int64_t n_label;
    struct step_label *label;   /* [n_label] */
    double *label_loss;         /* [n_label] logsumexp less the target's
                                   logit, not weighted */
    int64_t n_logit;
    int64_t *logit_row;         /* [n_logit] */
    double *logit;              /* [n_logit][vocab] */
    int64_t n_row[LAYER_KINDS];
    int64_t *row[LAYER_KINDS];  /* [n_row] */
    int64_t route_rows;         /* the larger of n_row */
    int64_t *route;             /* [layers][route_rows][top_k] experts */
};
/* Owned by the step and overwritten by its next wave; NULL where c.dump is
** not set, and where nothing is computed. */
const struct step_dump *step_dumped(const struct step *s);

/* What can be had of an adapter tensor, on devices that compute. */
enum step_adapter { STEP_VALUE, STEP_MEAN, STEP_SQUARE, STEP_GRADIENT };
/* out[p->count] of p, an entry of this rank's list (param_list_make with the
** step's ep and lora_rank); zeros where there is no such tensor yet. */
int step_adapter_get(struct step *s, const struct param *p,
                     enum step_adapter what, double *out,
                     struct err *e) MUST_CHECK;
/* Adam's steps so far, those before the adapters were loaded included. */
int64_t step_adam_steps(const struct step *s);

#endif
