/* f64.c - the kernels in double, for tests that look at exact gradients. */
#define CPU_F64
#include "dev/cpu/kernels.h"

const struct kernels cpu_kernels_f64 = CPU_KERNELS;
