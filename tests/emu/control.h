/*
** control.h - what tests, C or C++, tell the emulator; see emu.h.
*/
#ifndef EMU_CONTROL_H
#define EMU_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum emu_order { EMU_FORWARD, EMU_REVERSE, EMU_SHUFFLED };

/* For all launches from now on: of a launch's blocks, and of the threads (or
** warps) of a block; EMU_SHUFFLED: also of streams, whose work then waits
** (streams.cpp). seed matters for EMU_SHUFFLED alone. Per process; before the
** first call EMU_SHUFFLED with the seed in the environment's EMU_SEED, or
** EMU_FORWARD. */
void emu_set_order(enum emu_order order, uint64_t seed);

/* For those that run launches: the order of n things; the i-th of n things
** where n may be large. */
void emu_order_of(size_t *order, size_t n);
struct emu_walk { uint64_t n, step, start; };
struct emu_walk emu_walk_of(uint64_t n);
uint64_t emu_walk_at(struct emu_walk w, uint64_t i);
uint64_t emu_random(void);
bool emu_shuffled(void);

/* n bytes of zeros, of which only what is touched takes memory; NULL where
** the system does not have them, or kernels cannot reach them. */
void *emu_sparse_new(size_t n);
void emu_sparse_free(void *p, size_t n);

/* The n-th API call from now on (1-based) fails; 0: none. Returns how many
** calls were made since the last emu_fail_at. Per process. */
long emu_fail_at(long n);
bool emu_api_fails(void);

/* Grouped products are not supported, as before CUDA 12.5. */
void emu_grouped_missing(bool is);

/* Bytes that cudaMalloc and cudaMallocHost have given out and not taken
** back, streams, events and handles that are open. Per process. */
long emu_held_bytes(void);
long emu_open_handles(void);

#ifdef __cplusplus
}
#endif

#endif
