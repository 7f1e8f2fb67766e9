/*
** kernels.h - all kernels of the cpu device for one "real", and their table.
** Included once each by f32.c and f64.c.
*/
#ifndef DEV_CPU_KERNELS_H
#define DEV_CPU_KERNELS_H

#include "dev/cpu/attention.h"
#include "dev/cpu/attention_bwd.h"
#include "dev/cpu/conv.h"
#include "dev/cpu/delta.h"
#include "dev/cpu/delta_bwd.h"
#include "dev/cpu/gates.h"
#include "dev/cpu/gemm.h"
#include "dev/cpu/loss.h"
#include "dev/cpu/merge.h"
#include "dev/cpu/norm.h"
#include "dev/cpu/plain.h"
#include "dev/cpu/rotary.h"
#include "dev/cpu/route.h"
#include "dev/cpu/rows.h"

#define HAS(name) .name = k_##name

#define CPU_KERNELS {                                                       \
    HAS(fill), HAS(copy), HAS(add), HAS(scale), HAS(random), HAS(gemm),     \
    HAS(group_gemm), HAS(embed), HAS(gather), HAS(scatter), HAS(permute),   \
    HAS(combine), HAS(heads), HAS(transpose), HAS(rms_norm),                \
    HAS(rms_norm_bwd), HAS(l2_norm), HAS(l2_norm_bwd), HAS(rotary_table),   \
    HAS(rotary), HAS(sigmoid_gate), HAS(sigmoid_gate_bwd), HAS(attention),  \
    HAS(attention_bwd), HAS(merge), HAS(merge_bwd), HAS(conv),              \
    HAS(conv_bwd), HAS(gdn_gates), HAS(gdn_gates_bwd), HAS(repeat_heads),   \
    HAS(sum_heads), HAS(delta), HAS(delta_bwd), HAS(silu_gate),             \
    HAS(silu_gate_bwd), HAS(swiglu), HAS(swiglu_bwd), HAS(row_gate),        \
    HAS(row_gate_bwd), HAS(router), HAS(router_bwd), HAS(route_sort),       \
    HAS(route_unsort), HAS(cross_entropy), HAS(adam),                       \
}

#endif
