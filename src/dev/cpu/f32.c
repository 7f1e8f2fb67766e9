/* f32.c - the kernels in float; activations are bf16 or f32. */
#include "dev/cpu/kernels.h"

const struct kernels cpu_kernels_f32 = CPU_KERNELS;
