/*
** control.h - what tests, C or C++, tell the emulator; see emu.h.
*/
#ifndef EMU_CONTROL_H
#define EMU_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum emu_order { EMU_FORWARD, EMU_REVERSE, EMU_SHUFFLED };

/* For all launches of this thread; seed matters for EMU_SHUFFLED. */
void emu_set_order(enum emu_order order, uint64_t seed);

/* The n-th API call from now on (1-based) fails; 0: none. Returns how many
** calls were made since the last emu_fail_at. Per process. */
long emu_fail_at(long n);
bool emu_api_fails(void);

/* Bytes that cudaMalloc and cudaMallocHost have given out and not taken
** back, streams, events and handles that are open. Per process. */
long emu_held_bytes(void);
long emu_open_handles(void);

#ifdef __cplusplus
}
#endif

#endif
