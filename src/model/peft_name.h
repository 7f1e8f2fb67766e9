/*
** peft_name.h - inside peft: what an adapter tensor is called there, and
** where its elements lie.
** Inside src/model.
*/
#ifndef MODEL_PEFT_NAME_H
#define MODEL_PEFT_NAME_H

#include "model/peft.h"

#define PEFT_NAME 256

/* A part of in_proj_qkvz, where the family fuses. */
bool peft_is_fused(const struct model *m, const struct param *p);
/* The tensor that holds p, the optimizer's of a part, and the module as
** target_modules ends in it. */
void peft_name(const struct model *m, const struct param *p, char *out);
void peft_state_name(const struct model *m, const struct param *p,
                     enum peft_part part, char *out);
void peft_module(const struct model *m, const struct param *p, char *out);

/* The tensor's shape: two dims. blocks: a fused one has rank 2 r. */
void peft_shape(const struct model *m, const struct param *p, int64_t r,
                bool blocks, int64_t dim[2]);
/* Where element i of p (of experts first on) lies in that tensor. */
int64_t peft_index(const struct model *m, const struct param *p, int64_t r,
                   int64_t first, bool blocks, int64_t i);

#endif
