/*
** peft.h - adapters as the peft library stores them: a folder of
** adapter_config.json and adapter_model.safetensors, and beside them, of
** ours, optimizer.safetensors with Adam's moments.
**
** Names are "base_model.model.", the module's full name and
** ".lora_A.weight", [r, in], or ".lora_B.weight", [out, r]. Two of our
** adapters have another form there:
**
**   routed experts    peft adapts the stacked parameters (target_parameters).
**                     mlp.experts.base_layer.lora_* belongs to gate_up_proj,
**                     mlp.experts.lora_* to down_proj; A is [E r, in] with
**                     row e r + j for rank j of expert e, B is [out, r E]
**                     with column j E + e. Ours are [E, in, r], [E, r, out].
**   in_proj_qkvz      of qwen3_next is one module where we have two adapters
**                     (qkv and z): one of rank 2 r, A the two over each
**                     other, B with zeros where a row is not the adapter's;
**                     rank_pattern and alpha_pattern say so. One of rank r is
**                     read as an A that both share.
**
** optimizer.safetensors holds, under our own names and in our own shapes
** (param.h), exp_avg.NAME and exp_avg_sq.NAME, and "step", the number of
** steps taken.
*/
#ifndef MODEL_PEFT_H
#define MODEL_PEFT_H

#include "model/checkpoint.h"
#include "model/param.h"

#define PEFT_CONFIG "adapter_config.json"

/* What is read and written of an adapter tensor. */
enum peft_part { PEFT_VALUE, PEFT_MEAN, PEFT_SQUARE };
#define PEFT_PARTS 3

struct peft;

/* Opens a folder for a model whose adapters have this rank and alpha.
** ERR_INPUT names file and key or tensor: another rank or alpha, a kind of
** adapter that the step does not compute, a tensor that belongs to no
** projection of the model. What m points to must outlive it. */
int peft_open(const char *folder, const struct model *m, int64_t rank,
              double alpha, struct peft **out, struct err *e) MUST_CHECK;
void peft_close(struct peft *f);

/* One adapter tensor of a rank, whose experts begin with first (0 for
** others): out[p->count] in p's own shape. A projection that the folder does
** not adapt is zero, A and B: so it stays, since then neither has a
** gradient. Thread-safe. */
int peft_read(const struct peft *f, const struct param *p, int64_t first,
              enum peft_part part, double *out, struct err *e) MUST_CHECK;
bool peft_has_moments(const struct peft *f);
int64_t peft_step(const struct peft *f);

/* What is saved: every adapter tensor of the list (all experts: ep 1) in its
** order, [PEFT_PARTS][list entries] of numbers; those of base tensors are
** NULL, and so may all moments be. */
struct peft_source {
    const struct model *m;
    const struct param_list *list;
    int64_t rank;
    double alpha;
    const char *base;               /* of base_model_name_or_path */
    enum checkpoint_type type;      /* of the adapters */
    enum checkpoint_type moments;
    double *const *value[PEFT_PARTS];
    int64_t step;
};
/* Writes the folder, which is made where it is not there. */
int peft_save(const char *folder, const struct peft_source *s, struct err *e)
    MUST_CHECK;

#endif
