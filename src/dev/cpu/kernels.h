/*
** kernels.h - all kernels of the cpu device for one "real", and their table.
** Included once each by f32.c and f64.c.
** Inside src/dev.
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

#define HAS(name) .name = k_##name,
#define CPU_KERNELS {KERNELS(HAS)}

#endif
