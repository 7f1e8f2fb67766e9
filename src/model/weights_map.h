/*
** weights_map.h - which tensors of a folder a base parameter is made of.
**
** What lies under the parameter's own name and shape is taken; else the form
** that the family's names (family.h) give: GDN projections fused by key head,
** experts one by one, the router under another name.
*/
#ifndef MODEL_WEIGHTS_MAP_H
#define MODEL_WEIGHTS_MAP_H

#include <stddef.h>

#include "model/checkpoint.h"
#include "model/param.h"

/* The full name of a tensor of the list; layer -1 outside the decoder. */
void stored_full_name(const struct model *m, int64_t layer,
                      const char *tensor, char *out, size_t cap);

/* The form in which the folder has p; PACK_NONE: under its own name. Errors
** (ERR_INPUT) name folder and every name that was looked for. */
int stored_form(const struct checkpoint *c, const struct model *m,
                const struct param *p, enum param_pack *out, struct err *e)
    MUST_CHECK;

/* Tensors of p in that form, all experts: one, or of experts one by one the
** gate and up (2 e, 2 e + 1), or the down (e), of each expert e. */
int64_t stored_tensors(const struct model *m, const struct param *p,
                       enum param_pack form);
/* The i-th of them, found by full name and shape. Borrowed. */
int stored_find(const struct checkpoint *c, const struct model *m,
                const struct param *p, enum param_pack form, int64_t i,
                const struct checkpoint_tensor **out, struct err *e)
    MUST_CHECK;

#endif
