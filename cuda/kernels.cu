/*
** kernels.cu - the table of the cuda device's kernels.
*/
#include "cu.cuh"

const struct kernels cu_kernels = {
    cu_fill, cu_copy, cu_add, cu_scale, cu_random, cu_gemm, cu_group_gemm,
    cu_embed, cu_gather, cu_scatter, cu_permute, cu_combine, cu_heads,
    cu_transpose, cu_rms_norm, cu_rms_norm_bwd, cu_l2_norm, cu_l2_norm_bwd,
    cu_rotary_table, cu_rotary, cu_sigmoid_gate, cu_sigmoid_gate_bwd,
    cu_attention, cu_attention_bwd, cu_merge, cu_merge_bwd, cu_conv,
    cu_conv_bwd, cu_gdn_gates, cu_gdn_gates_bwd, cu_repeat_heads,
    cu_sum_heads, cu_delta, cu_delta_bwd, cu_silu_gate, cu_silu_gate_bwd,
    cu_swiglu, cu_swiglu_bwd, cu_row_gate, cu_row_gate_bwd, cu_router,
    cu_router_bwd, cu_route_sort, cu_route_unsort, cu_cross_entropy, cu_adam,
};
