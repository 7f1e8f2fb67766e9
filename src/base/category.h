/*
** category.h - the one fixed list of names under which bytes are counted,
** so that an estimate and a peak can be subtracted term by term.
*/
#ifndef BASE_CATEGORY_H
#define BASE_CATEGORY_H

#include "base/err.h"

/* X(constant, name, which bar of a picture it is part of, what it is). Every
** list of categories is made of this one; an estimate's terms bear the same
** names. Names are words of the contract: they stand in records.csv. */
#define CATEGORIES(X) \
    X(BOUNDARIES, "boundaries", BOUNDARIES, "saved layer inputs") \
    X(ATTENTION, "attention", ATTENTION, \
      "a recomputed attention mixer's tensors") \
    X(ATTENTION_RECORDS, "attention_records", RECORDS, \
      "what the context-parallel executor keeps") \
    X(GDN, "gdn", GDN, "a recomputed gated delta net mixer's tensors") \
    X(RESIDUAL_NORM, "residual_norm", NORM, \
      "residual and norm beside the mixer (2H a row)") \
    X(MOE_ROUTING, "moe_routing", DISPATCH, \
      "router and permutation state") \
    X(MOE_DISPATCH, "moe_dispatch", DISPATCH, \
      "dispatched inputs (D x H)") \
    X(MOE_EXPERTS, "moe_experts", EXPERTS, \
      "the rest of the routed experts") \
    X(SHARED_EXPERT, "shared_expert", SHARED, \
      "shared expert, or the dense MLP") \
    X(INPUT_GRADIENT, "input_gradient", GRADIENTS, \
      "gradient that enters a layer's backward") \
    X(ADAPTER_GRADIENTS, "adapter_gradients", GRADIENTS, \
      "LoRA gradients, which stay once allocated") \
    X(HEAD, "head", WORKSPACE, \
      "final norm, logits and loss in 512-row chunks") \
    X(WORKSPACE, "workspace", WORKSPACE, \
      "GEMM workspaces and what only a first wave holds") \
    X(OUTPUTS, "outputs", OTHER, "outputs kept for the caller") \
    X(HYBRIDEP, "hybridep", OTHER, "growth of expert dispatch buffers") \
    X(ROUNDING, "rounding", OTHER, \
      "peaks only: block sizes minus requested bytes") \
    X(OTHER, "other", OTHER, "everything else")

enum category {
#define CATEGORY(constant, name, bar, help) CAT_##constant,
    CATEGORIES(CATEGORY)
#undef CATEGORY
    CAT_COUNT
};

/* X(constant, name, colour): the bars of a picture, from the bottom up. */
#define CATEGORY_BARS(X) \
    X(BOUNDARIES, "boundaries", "#332288") \
    X(ATTENTION, "attention", "#88ccee") \
    X(RECORDS, "attention records", "#44aa99") \
    X(GDN, "GDN", "#117733") \
    X(NORM, "residual, norm", "#999933") \
    X(DISPATCH, "MoE dispatch, routing", "#ddcc77") \
    X(EXPERTS, "MoE experts", "#cc6677") \
    X(SHARED, "shared expert", "#882255") \
    X(GRADIENTS, "gradients", "#aa4499") \
    X(WORKSPACE, "workspace, head", "#777777") \
    X(OTHER, "other", "#bbbbbb")

enum category_bar {
#define CATEGORY_BAR(constant, name, colour) BAR_##constant,
    CATEGORY_BARS(CATEGORY_BAR)
#undef CATEGORY_BAR
    BAR_COUNT
};

/* "boundaries", "attention", ... */
const char *category_name(enum category c);
/* One line for people. */
const char *category_help(enum category c);
enum category_bar category_bar(enum category c);
const char *category_bar_name(enum category_bar b);
const char *category_bar_colour(enum category_bar b);   /* "#rrggbb" */

#endif
