/*
** time.h - how long a block takes when it has an SM for itself: what cannot
** be hidden but by other blocks.
**
** A warp's instruction starts when its operands are there; between two
** branches or barriers instructions overtake each other freely (ptxas orders
** them as well as it can), but what a branch or a barrier stands behind has
** started before it, and no warp issues two at once. A barrier waits for the
** last warp, cp.async.wait for its groups. Nothing else is in the way: no
** queue, no bank conflict, no other warp's instruction. So this is a lower
** bound of a block's time for the order of instructions in PTX, which a real
** schedule, ordered by ptxas, may meet in other places.
**
** Latencies are published measurements, none is fitted:
**   [1] Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU
**       Architecture via Microbenchmarking, 2024 (arXiv 2402.13499): cycles of
**       an H100 for shared memory, L2, global memory and mma.sync
**   [2] Jia et al., Dissecting the NVIDIA Volta GPU Architecture via
**       Microbenchmarking, 2018 (arXiv 1804.06826): dependent issue of
**       arithmetic 4 cycles
*/
#ifndef PTX_TIME_H
#define PTX_TIME_H

#include "run.h"

enum {
    TIME_ALU = 4,               /* [2] */
    TIME_SPECIAL = 18,          /* exponentials, reciprocals; [2] */
    TIME_SHUFFLE = 23,          /* through the shared memory's crossbar; [2] */
    TIME_SHARED = 29,           /* [1] */
    TIME_MMA = 33,              /* m16n8k16 with sums in f32; [1] */
    TIME_L2 = 263,              /* [1] */
    TIME_GLOBAL = 479           /* [1] */
};

struct ptx_clock;               /* of a warp, or what is known of a code */
void ptx_time_start(ptx_machine &m);            /* of a block */
/* The instruction of w that has just been executed; issued: a GPU would have
** one for it. */
void ptx_time(ptx_warp &w, const ptx_ins &i, bool issued);
void ptx_time_barrier(ptx_machine &m);
void ptx_time_end(ptx_machine &m);              /* of a block: its time */

#endif
