/*
** category.h - the one fixed list of names under which bytes are counted,
** so that an estimate and a peak can be subtracted term by term.
*/
#ifndef BASE_CATEGORY_H
#define BASE_CATEGORY_H

#include "base/err.h"

enum category {
    CAT_BOUNDARIES,         /* saved layer inputs */
    CAT_ATTENTION,          /* a recomputed attention mixer's tensors */
    CAT_ATTENTION_RECORDS,  /* what the CP executor keeps for backward */
    CAT_GDN,                /* a recomputed GDN mixer's tensors */
    CAT_RESIDUAL_NORM,      /* the 2H beside the mixer */
    CAT_MOE_ROUTING,
    CAT_MOE_DISPATCH,       /* the D x H inputs */
    CAT_MOE_EXPERTS,        /* the rest of the routed part */
    CAT_SHARED_EXPERT,      /* also the dense MLP of dense members */
    CAT_INPUT_GRADIENT,
    CAT_ADAPTER_GRADIENTS,
    CAT_HEAD,
    CAT_WORKSPACE,          /* GEMM workspaces and cold transients */
    CAT_OUTPUTS,
    CAT_HYBRIDEP,
    CAT_ROUNDING,           /* peaks only: block bytes minus requested */
    CAT_OTHER,
    CAT_COUNT
};

/* "boundaries", "attention", ... in the order above. */
const char *category_name(enum category c);

#endif
