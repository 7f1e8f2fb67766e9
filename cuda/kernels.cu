/*
** kernels.cu - the table of the cuda device's kernels.
*/
#include "cu.cuh"

#define CU_ENTRY(name) cu_##name,
const struct kernels cu_kernels = {KERNELS(CU_ENTRY)};
